//! How a `%` or `?` field is held while it is formatted.
//!
//! A formatter needs an address. That of the user's own variable would force the variable into memory,
//! in the hot path and for as long as it lives. So what can be copied is copied in the cold block, and
//! the copy's address is given out:
//!
//! ```text
//! T: Copy     Copied<T>   the value if it is small, else where it is
//! &mut T      &T          where it leads
//! else        &T          where it is
//! ```
//! Which of them holds for a type, generic code included, is found by how methods are looked up:
//! `(&&&Place(&value)).held()` takes the first that applies.

#![allow(unsafe_code)]

use core::fmt::{self, Debug, Display, Write};
use core::marker::PhantomData;
use core::mem::{MaybeUninit, align_of, size_of};

use crate::value::Formatted;

/// A field's value, before it is known how it is held.
pub struct Place<'a, T: ?Sized>(pub &'a T);

/// For what can be copied.
pub trait HoldCopy<'a> {
    /// What is copied.
    type Target: Copy + 'a;
    /// Takes a copy.
    fn held(&self) -> Copied<'a, Self::Target>;
}

impl<'a, T: Copy> HoldCopy<'a> for &&Place<'a, T> {
    type Target = T;
    #[inline(always)]
    fn held(&self) -> Copied<'a, T> {
        Copied::new(self.0)
    }
}

/// For what is borrowed mutably.
pub trait HoldReborrow<'a> {
    /// What it leads to.
    type Target: ?Sized + 'a;
    /// Borrows what it leads to.
    fn held(&self) -> &'a Self::Target;
}

impl<'a, T: ?Sized> HoldReborrow<'a> for &Place<'a, &mut T> {
    type Target = T;
    #[inline(always)]
    fn held(&self) -> &'a T {
        self.0
    }
}

/// For everything.
pub trait Hold<'a> {
    /// What is borrowed.
    type Target: ?Sized + 'a;
    /// Borrows it.
    fn held(&self) -> &'a Self::Target;
}

impl<'a, T: ?Sized> Hold<'a> for Place<'a, T> {
    type Target = T;
    #[inline(always)]
    fn held(&self) -> &'a T {
        self.0
    }
}

/// Bytes that are copied at most: more are left where they are, to keep frames small.
const WORDS: usize = 4;

/// A small value, or a reference to one.
#[derive(Clone, Copy)]
pub struct Copied<'a, T> {
    words: [MaybeUninit<u64>; WORDS],
    borrow: PhantomData<&'a T>,
}

impl<'a, T: Copy> Copied<'a, T> {
    const SMALL: bool =
        size_of::<T>() <= size_of::<[u64; WORDS]>() && align_of::<T>() <= align_of::<u64>();

    #[inline(always)]
    fn new(value: &'a T) -> Copied<'a, T> {
        let mut words = [MaybeUninit::uninit(); WORDS];
        if Self::SMALL {
            // SAFETY: `SMALL` says that it fits and is aligned.
            unsafe { words.as_mut_ptr().cast::<T>().write(*value) };
        } else {
            // SAFETY: a thin reference is one word.
            unsafe { words.as_mut_ptr().cast::<&T>().write(value) };
        }
        Copied {
            words,
            borrow: PhantomData,
        }
    }
}

/// What a formatter finds at the address that it is given.
pub trait Held {
    /// What is formatted.
    type Target: ?Sized;
    /// The value.
    fn get(&self) -> &Self::Target;
}

impl<T: ?Sized> Held for &T {
    type Target = T;
    fn get(&self) -> &T {
        self
    }
}

impl<T: Copy> Held for Copied<'_, T> {
    type Target = T;
    fn get(&self) -> &T {
        let words = self.words.as_ptr();
        if Self::SMALL {
            // SAFETY: `new` has written a `T` there.
            unsafe { &*words.cast::<T>() }
        } else {
            // SAFETY: `new` has written a reference there, to what is borrowed for longer than `self`.
            unsafe { *words.cast::<&T>() }
        }
    }
}

/// Lowers a `%` field: the value is used until the end of its borrow.
#[inline(always)]
pub fn display<H: Held>(held: &H) -> Formatted
where
    H::Target: Display,
{
    Formatted((&raw const *held).cast(), format_display::<H>)
}

/// Lowers a `?` field: the value is used until the end of its borrow.
#[inline(always)]
pub fn debug<H: Held>(held: &H) -> Formatted
where
    H::Target: Debug,
{
    Formatted((&raw const *held).cast(), format_debug::<H>)
}

/// # Safety
/// `at` is the address of an `H` that is still borrowed.
unsafe fn format_display<H: Held>(at: *const (), out: &mut dyn Write) -> fmt::Result
where
    H::Target: Display,
{
    // SAFETY: the caller's promise.
    let held = unsafe { &*at.cast::<H>() };
    write!(out, "{}", held.get())
}

/// # Safety
/// `at` is the address of an `H` that is still borrowed.
unsafe fn format_debug<H: Held>(at: *const (), out: &mut dyn Write) -> fmt::Result
where
    H::Target: Debug,
{
    // SAFETY: the caller's promise.
    let held = unsafe { &*at.cast::<H>() };
    write!(out, "{:?}", held.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As expansions do it.
    macro_rules! held {
        ($value:expr) => {
            &(&&&Place(&$value)).held()
        };
    }

    fn text(words: Formatted) -> String {
        let mut out = String::new();
        // SAFETY: the words are of a value that the caller still holds.
        unsafe { (words.1)(words.0, &mut out) }.unwrap();
        out
    }

    #[derive(Debug)]
    struct Owned(u8);

    fn generic<T: Debug>(value: T) -> String {
        text(debug(held!(value)))
    }

    #[test]
    fn values_are_formatted_however_they_are_held() {
        let mut owned = Owned(3);
        assert_eq!(text(debug(held!(owned))), "Owned(3)");
        let borrowed = &mut owned;
        borrowed.0 = 4;
        assert_eq!(text(debug(held!(borrowed))), "Owned(4)");
        assert_eq!(text(display(held!(7_u8))), "7");
        assert_eq!(text(display(held!("text"))), "text");
        assert_eq!(text(display(held!(*"unsized"))), "unsized");
        assert_eq!(text(debug(held!([5_u64; 4]))), "[5, 5, 5, 5]");
        assert_eq!(text(debug(held!([5_u64; 5]))), "[5, 5, 5, 5, 5]");
        assert_eq!(text(debug(held!(1_u128))), "1");
        assert_eq!(
            (generic(1_u8), generic(Owned(2)), generic([1])),
            ("1".into(), "Owned(2)".into(), "[1]".into())
        );
    }

    #[test]
    fn only_what_is_small_is_copied() {
        let (small, large) = ([1_u64; 4], [1_u64; 5]);
        assert!(!core::ptr::eq(held!(small).get(), &small));
        assert!(core::ptr::eq(held!(large).get(), &large));
    }
}
