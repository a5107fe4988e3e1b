//! Sites on platforms without static keys: nothing is left, but fields are type-checked all the same.

/// Defines the function that would emit.
#[cfg(not(tracebraid_keys))]
#[doc(hidden)]
#[macro_export]
macro_rules! __point {
    (
        emit: $emit:ident,
        point: $point:literal,
        provider: $provider:literal,
        name: $name:literal,
        print: $print:literal,
        names: $names:literal,
        flags: $flags:literal,
        count: $count:literal,
        kinds: $kinds:ty,
        codes: [$($code:ident $chunk:literal)*],
        fields: [$({ $index:tt $lowered:ident $value:ident $of:ident $shift:literal })*]
    ) => {
        #[inline(always)]
        fn $emit<$($lowered: $crate::__private::Lowered),*>(
            _: $crate::__private::Kinds<$kinds>,
            ($($value,)*): ($($lowered,)*),
        ) {
            $(let _ = $value;)*
        }
    };
}

/// Defines the function that says no.
#[cfg(not(tracebraid_keys))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_key {
    (
        gate: $gate:ident,
        file: $file:literal,
        file_symbol: $file_symbol:literal,
        line: $line:literal,
        points: [$({ $kinds:ident $tuple:ty, $point:literal [$($lowered:ident)*] [$($code:ident $chunk:literal)*] })*]
    ) => {
        #[inline(always)]
        fn $gate<$($($lowered: $crate::__private::Lowered,)*)*>(
            $($kinds: $crate::__private::Kinds<$tuple>),*
        ) -> bool {
            $(let _ = $kinds;)*
            false
        }
    };
}

/// Defines the function that says no.
#[cfg(not(tracebraid_keys))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_semaphore {
    ($($site:tt)*) => { $crate::__gate_key! { $($site)* } };
}
