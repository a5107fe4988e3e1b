//! The traced side of a function: what runs between its entry and its return while it is on.
//!
//! ```text
//! call(on, body, arguments, leave):   off   body(arguments)                      in place
//!                                     on    start; body(arguments); leave(…)     out of line
//! ```
//! `leave(ns, end, result)` emits the return event: the body's duration in nanoseconds, why it ended
//! if not by returning, and the result if there is one. A panic in a body leaves through a guard.

use core::marker::PhantomData;
use core::mem;

use crate::__private::now;
use crate::fields::lower;
use crate::held::debug;
use crate::value::{Formatted, Lowered, Value};

/// How a function ended that did not return.
type End = Option<&'static str>;

const UNWIND: End = Some("unwind");
const DROPPED: End = Some("dropped");

/// The return of a body that a panic leaves.
struct Unwinding<'a, R, L: Fn(u64, End, Option<&R>)> {
    start: u64,
    leave: &'a L,
    result: PhantomData<fn(&R)>,
}

impl<R, L: Fn(u64, End, Option<&R>)> Drop for Unwinding<'_, R, L> {
    fn drop(&mut self) {
        (self.leave)(now() - self.start, UNWIND, None);
    }
}

#[inline]
fn timed<R>(body: impl FnOnce() -> R, leave: impl Fn(u64, End, Option<&R>)) -> R {
    let guard = Unwinding {
        start: now(),
        leave: &leave,
        result: PhantomData,
    };
    let result = body();
    let ns = now() - guard.start;
    mem::forget(guard);
    leave(ns, None, Some(&result));
    result
}

/// One function for each number of arguments. The traced side is a tail call that passes on the
/// registers in which the arguments came: the body stands first, since it may hold `self`.
macro_rules! calls {
    ($($call:ident $traced:ident($($argument:ident: $type:ident),*);)*) => {$(
        /// Runs a body, and emits its return where its entry was emitted.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "as many as a function has")]
        pub fn $call<$($type,)* R>(
            on: bool,
            body: impl FnOnce($($type),*) -> R,
            $($argument: $type,)*
            leave: impl Fn(u64, End, Option<&R>),
        ) -> R {
            if on { $traced(body, $($argument,)* leave) } else { body($($argument),*) }
        }

        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "as many as a function has")]
        fn $traced<$($type,)* R>(
            body: impl FnOnce($($type),*) -> R,
            $($argument: $type,)*
            leave: impl Fn(u64, End, Option<&R>),
        ) -> R {
            timed(|| body($($argument),*), leave)
        }
    )*};
}

calls! {
    call0 traced0();
    call1 traced1(a: A);
    call2 traced2(a: A, b: B);
    call3 traced3(a: A, b: B, c: C);
    call4 traced4(a: A, b: B, c: C, d: D);
    call5 traced5(a: A, b: B, c: C, d: D, e: E);
    call6 traced6(a: A, b: B, c: C, d: D, e: E, f: F);
    call7 traced7(a: A, b: B, c: C, d: D, e: E, f: F, g: G);
    call8 traced8(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H);
}

/// The return of a body that stands in place: it is where this is dropped.
pub struct Frame<L: Fn(u64, End, Option<&()>)> {
    /// 0 while off.
    start: u64,
    /// Whether a panic was under way before: the body is then run by a destructor.
    panicking: bool,
    leave: L,
}

impl<L: Fn(u64, End, Option<&()>)> Frame<L> {
    /// Begins the body.
    #[inline(always)]
    pub fn new(on: bool, leave: L) -> Frame<L> {
        let (start, panicking) = if on { begin() } else { (0, false) };
        Frame {
            start,
            panicking,
            leave,
        }
    }

    #[cold]
    #[inline(never)]
    fn leave(&self) {
        let unwinding = !self.panicking && std::thread::panicking();
        (self.leave)(
            now() - self.start,
            if unwinding { UNWIND } else { None },
            None,
        );
    }
}

impl<L: Fn(u64, End, Option<&()>)> Drop for Frame<L> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.start != 0 {
            self.leave();
        }
    }
}

#[cold]
#[inline(never)]
fn begin() -> (u64, bool) {
    (now().max(1), std::thread::panicking())
}

/// The return of an `async fn`: where its result is there, or where its future is dropped before.
pub struct Task<R, L: Fn(u64, End, Option<&R>)> {
    /// 0 while off. One word, since every such future holds one.
    start: u64,
    leave: L,
    result: PhantomData<fn(&R)>,
}

impl<R, L: Fn(u64, End, Option<&R>)> Task<R, L> {
    /// Begins the body.
    #[inline(always)]
    pub fn new(on: bool, leave: L) -> Task<R, L> {
        Task {
            start: if on { begin().0 } else { 0 },
            leave,
            result: PhantomData,
        }
    }

    /// The body has this result.
    #[inline(always)]
    pub fn finish(self, result: &R) {
        if self.start != 0 {
            self.leave(None, Some(result));
        }
        mem::forget(self);
    }

    #[cold]
    #[inline(never)]
    fn leave(&self, end: End, result: Option<&R>) {
        (self.leave)(now() - self.start, end, result);
    }
}

impl<R, L: Fn(u64, End, Option<&R>)> Drop for Task<R, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.start != 0 {
            self.leave(
                if std::thread::panicking() {
                    UNWIND
                } else {
                    DROPPED
                },
                None,
            );
        }
    }
}

/// A value of any type, for code that is never reached.
pub fn never<R>() -> R {
    unreachable!("only tells the compiler a type")
}

/// The value of an `Ok`.
#[inline]
pub fn ok<T, E>(result: Option<&Result<T, E>>) -> Option<&T> {
    result?.as_ref().ok()
}

/// The error of an `Err`.
#[inline]
pub fn err<T, E>(result: Option<&Result<T, E>>) -> Option<&E> {
    result?.as_ref().err()
}

/// Words that may be absent.
#[inline]
pub fn optional<L: Lowered>(words: Option<L>) -> L::Optional {
    L::optional(words)
}

/// A result whose type says how it is lowered: by [`Value`] if it has that, else by `Debug`.
///
/// `(&&Returned(_)).lower_returned()` finds [`ReturnedValue`] before [`ReturnedDebug`], which is one
/// reference further away.
pub struct Returned<'a, T: ?Sized>(pub &'a &'a T);

/// Lowers by [`Value`].
pub trait ReturnedValue {
    /// The words.
    type Lowered: Lowered;
    /// Lowers it.
    fn lower_returned(&self) -> Self::Lowered;
}

impl<T: Value + ?Sized> ReturnedValue for &Returned<'_, T> {
    type Lowered = T::Lowered;
    #[inline]
    fn lower_returned(&self) -> T::Lowered {
        lower(*self.0)
    }
}

/// Lowers by `Debug`.
pub trait ReturnedDebug {
    /// Lowers it.
    fn lower_returned(&self) -> Formatted;
}

impl<T: core::fmt::Debug + ?Sized> ReturnedDebug for Returned<'_, T> {
    #[inline]
    fn lower_returned(&self) -> Formatted {
        debug(self.0)
    }
}
