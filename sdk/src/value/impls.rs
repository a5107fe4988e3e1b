//! Which Rust types are fields, and of which kind.

use core::num::NonZero;
use core::ptr::NonNull;
use core::sync::atomic;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use tracebraid_wire::kind::Kind;

use super::{Bits, Halves, OptionalText, OptionalWord, Presence, Span, Text, Value};

/// A type of one word and its `Option`.
macro_rules! word {
    ($($type:ty => $kind:ident, |$value:ident| $word:expr;)*) => {$(
        impl Value for $type {
            type Lowered = Bits<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                let $value = self;
                Bits($word)
            }
        }
        impl Value for Option<$type> {
            type Lowered = OptionalWord<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                OptionalWord(self.as_ref().map(|$value| $word))
            }
        }
    )*};
}

word! {
    u8 => U8, |value| u64::from(*value);
    u16 => U16, |value| u64::from(*value);
    u32 => U32, |value| u64::from(*value);
    u64 => U64, |value| *value;
    usize => U64, |value| *value as u64;
    i8 => I8, |value| *value as i64 as u64;
    i16 => I16, |value| *value as i64 as u64;
    i32 => I32, |value| *value as i64 as u64;
    i64 => I64, |value| *value as u64;
    isize => I64, |value| *value as u64;
    bool => Bool, |value| u64::from(*value);
    char => Char, |value| u64::from(*value);
    f32 => F32, |value| u64::from(value.to_bits());
    f64 => F64, |value| value.to_bits();
    NonZero<u8> => U8, |value| u64::from(value.get());
    NonZero<u16> => U16, |value| u64::from(value.get());
    NonZero<u32> => U32, |value| u64::from(value.get());
    NonZero<u64> => U64, |value| value.get();
    NonZero<usize> => U64, |value| value.get() as u64;
    NonZero<i8> => I8, |value| value.get() as i64 as u64;
    NonZero<i16> => I16, |value| value.get() as i64 as u64;
    NonZero<i32> => I32, |value| value.get() as i64 as u64;
    NonZero<i64> => I64, |value| value.get() as u64;
    NonZero<isize> => I64, |value| value.get() as u64;
}

macro_rules! atomics {
    ($($type:ident => $kind:ident, |$value:ident| $word:expr;)*) => {$(
        impl Value for atomic::$type {
            type Lowered = Bits<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                let $value = self.load(Relaxed);
                Bits($word)
            }
        }
    )*};
}

atomics! {
    AtomicU8 => U8, |value| u64::from(value);
    AtomicU16 => U16, |value| u64::from(value);
    AtomicU32 => U32, |value| u64::from(value);
    AtomicU64 => U64, |value| value;
    AtomicUsize => U64, |value| value as u64;
    AtomicI8 => I8, |value| value as i64 as u64;
    AtomicI16 => I16, |value| value as i64 as u64;
    AtomicI32 => I32, |value| value as i64 as u64;
    AtomicI64 => I64, |value| value as u64;
    AtomicIsize => I64, |value| value as u64;
    AtomicBool => Bool, |value| u64::from(value);
}

impl<T> Value for atomic::AtomicPtr<T> {
    type Lowered = Bits<{ Kind::Pointer as u8 }>;
    #[inline(always)]
    fn lower(&self) -> Self::Lowered {
        Bits(self.load(Relaxed).addr() as u64)
    }
}

/// A type of two words and its `Option`: low half and high half.
macro_rules! halves {
    ($($type:ty => $kind:ident, |$value:ident| $word:expr;)*) => {$(
        impl Value for $type {
            type Lowered = Halves<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                let $value = self;
                Halves($word)
            }
        }
        impl Value for Option<$type> {
            type Lowered = Presence<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                Presence(self.as_ref().map(|$value| ($word as u64, ($word >> 64) as u64)))
            }
        }
    )*};
}

halves! {
    u128 => U128, |value| *value;
    i128 => I128, |value| *value as u128;
    NonZero<u128> => U128, |value| value.get();
    NonZero<i128> => I128, |value| value.get() as u128;
}

impl Value for Duration {
    type Lowered = Span;
    #[inline(always)]
    fn lower(&self) -> Span {
        Span(self.as_secs(), self.subsec_nanos())
    }
}

impl Value for Option<Duration> {
    type Lowered = Presence<{ Kind::Duration as u8 }>;
    #[inline(always)]
    fn lower(&self) -> Self::Lowered {
        Presence(self.map(|span| (span.as_secs(), u64::from(span.subsec_nanos()))))
    }
}

/// Text and bytes, owned or borrowed, and their `Option`.
macro_rules! texts {
    ($({$($generics:tt)*} $type:ty => $kind:ident;)*) => {$(
        impl<$($generics)*> Value for $type {
            type Lowered = Text<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                Text(self.as_ptr(), self.len())
            }
        }
    )*};
}

texts! {
    {} str => Str;
    {} String => Str;
    {} Cow<'_, str> => Str;
    {} [u8] => Bytes;
    {} Vec<u8> => Bytes;
    {} Cow<'_, [u8]> => Bytes;
    {const N: usize} [u8; N] => Bytes;
}

macro_rules! optional_texts {
    ($({$($generics:tt)*} $type:ty => $kind:ident;)*) => {$(
        impl<$($generics)*> Value for Option<$type> {
            type Lowered = OptionalText<{ Kind::$kind as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                match self {
                    Some(text) => OptionalText(text.as_ptr(), text.len()),
                    None => OptionalText(core::ptr::null(), 0),
                }
            }
        }
    )*};
}

optional_texts! {
    {} &str => Str;
    {} &String => Str;
    {} String => Str;
    {} Box<str> => Str;
    {} Arc<str> => Str;
    {} Cow<'_, str> => Str;
    {} &[u8] => Bytes;
    {} Vec<u8> => Bytes;
    {} Cow<'_, [u8]> => Bytes;
    {const N: usize} &[u8; N] => Bytes;
}

macro_rules! pointers {
    ($($type:ty, |$value:ident| $address:expr;)*) => {$(
        impl<T: ?Sized> Value for $type {
            type Lowered = Bits<{ Kind::Pointer as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                let $value = self;
                Bits($address as u64)
            }
        }
        impl<T: ?Sized> Value for Option<$type> {
            type Lowered = OptionalWord<{ Kind::Pointer as u8 }>;
            #[inline(always)]
            fn lower(&self) -> Self::Lowered {
                OptionalWord(self.as_ref().map(|$value| $address as u64))
            }
        }
    )*};
}

pointers! {
    *const T, |value| value.addr();
    *mut T, |value| value.addr();
    NonNull<T>, |value| value.addr().get();
}

/// Whatever leads to a value is that value.
macro_rules! through {
    ($($type:ty;)*) => {$(
        impl<T: Value + ?Sized> Value for $type {
            type Lowered = T::Lowered;
            #[inline(always)]
            fn lower(&self) -> T::Lowered {
                (**self).lower()
            }
        }
    )*};
}

through! {
    &T;
    &mut T;
    Box<T>;
    Rc<T>;
    Arc<T>;
}
