//! Sites on platforms without static keys: nothing is left, but fields are type-checked all the same.

/// Defines the function that would emit.
#[cfg(not(tracebraid_keys))]
#[doc(hidden)]
#[macro_export]
macro_rules! __point {
    (
        emit: $emit:ident,
        kinds: $kinds:ty,
        count: $count:literal,
        fields: [$({ $index:tt $lowered:ident $value:ident })*],
        text: $text:tt
    ) => {
        #[inline(always)]
        fn $emit<$($lowered: $crate::__private::Lowered),*>(
            _: $crate::__private::Kinds<$kinds>,
            ($($value,)*): ($($lowered,)*),
        ) -> $crate::__private::Entry {
            $(let _ = $value;)*
            $crate::__private::Entry::OFF
        }
    };
}

/// Defines the function that would know a return's point.
#[cfg(not(tracebraid_keys))]
#[doc(hidden)]
#[macro_export]
macro_rules! __return_point {
    (address: $address:ident, text: $text:tt) => {
        #[inline(always)]
        fn $address() -> $crate::__private::ReturnPoint {
            $crate::__private::ReturnPoint::none()
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
