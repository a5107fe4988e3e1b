//! The traced side of a function: what runs between its entry and its return while it is on.
//!
//! ```text
//! call(entry, body, arguments, point):   off   body(arguments)                            in place
//!                                        on    stamp of the entry; body(arguments); return   out of line
//! ```
//! A return has `ns`, the nanoseconds since its entry, and `end`: why it ended, if not by returning.
//! That is all for most functions, and nothing of it depends on them but the address of the point, so
//! that the code stands here once. Where `ret` or `err` are asked for (`read…`), a closure of the
//! expansion emits: `leave(start, end, result)`. A panic in a body leaves through a guard.

#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::mem;

use tracebraid_wire::kind::Kind;

use crate::fields::lower;
use crate::held::debug;
use crate::stamp::{Entry, Stamp};
use crate::value::{Bits, Formatted, Lowered, OptionalText, Value};

/// How a function ended that did not return.
pub(crate) type End = Option<&'static str>;

const UNWIND: End = Some("unwind");
const DROPPED: End = Some("dropped");

/// The kinds of `ns` and `end`.
pub type Return = (
    Bits<{ Kind::Elapsed as u8 }>,
    OptionalText<{ Kind::Str as u8 }>,
);

/// The point of a return that has no other fields; on platforms without static keys, nothing.
#[derive(Clone, Copy)]
pub struct ReturnPoint(#[cfg(tracebraid_keys)] *const u8);

impl ReturnPoint {
    /// # Safety
    /// `point` is the address of a point's row whose fields are of the kinds [`Return`].
    #[cfg(tracebraid_keys)]
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(point: *const u8) -> ReturnPoint {
        ReturnPoint(point)
    }

    /// There is none.
    #[cfg(not(tracebraid_keys))]
    #[must_use]
    pub const fn none() -> ReturnPoint {
        ReturnPoint()
    }

    /// Emits the return of what began at `start`.
    #[inline(always)]
    fn leave(self, start: Stamp, end: End) {
        // SAFETY: the point is that of a return without other fields (`new`).
        #[cfg(tracebraid_keys)]
        unsafe {
            crate::emit::leave(self.0, start, end);
        }
        #[cfg(not(tracebraid_keys))]
        let _ = (start, end);
    }
}

/// The return of a body that a panic leaves.
struct Unwinding {
    start: Stamp,
    point: ReturnPoint,
}

impl Drop for Unwinding {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.point.leave(self.start, UNWIND);
    }
}

/// The same, where a closure emits it.
struct UnwindingRead<'a, R, L: Fn(Stamp, End, Option<&R>)> {
    start: Stamp,
    leave: &'a L,
    result: PhantomData<fn(&R)>,
}

impl<R, L: Fn(Stamp, End, Option<&R>)> Drop for UnwindingRead<'_, R, L> {
    fn drop(&mut self) {
        (self.leave)(self.start, UNWIND, None);
    }
}

/// Two functions for each number of arguments. The traced side is a tail call that passes on the
/// registers in which the arguments came: the body stands first, since it may hold `self`, and the entry's
/// stamp behind the arguments.
macro_rules! calls {
    ($($call:ident $traced:ident $read:ident $traced_read:ident($($argument:ident: $type:ident),*);)*) => {$(
        /// Runs a body, and emits its return where its entry was emitted.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "as many as a function has")]
        pub fn $call<$($type,)* R>(
            entry: Entry,
            body: impl FnOnce($($type),*) -> R,
            $($argument: $type,)*
            point: impl FnOnce() -> ReturnPoint,
        ) -> R {
            if entry.is_on() { $traced(body, $($argument,)* entry.stamp(), point) } else { body($($argument),*) }
        }

        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "as many as a function has")]
        fn $traced<$($type,)* R>(
            body: impl FnOnce($($type),*) -> R,
            $($argument: $type,)*
            stamp: Option<Stamp>,
            point: impl FnOnce() -> ReturnPoint,
        ) -> R {
            let guard = Unwinding { start: Stamp::or_now(stamp), point: point() };
            let result = body($($argument),*);
            guard.point.leave(guard.start, None);
            mem::forget(guard);
            result
        }

        /// The same with a return that says what the result was.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "as many as a function has")]
        pub fn $read<$($type,)* R>(
            entry: Entry,
            body: impl FnOnce($($type),*) -> R,
            $($argument: $type,)*
            leave: impl Fn(Stamp, End, Option<&R>),
        ) -> R {
            if entry.is_on() { $traced_read(body, $($argument,)* entry.stamp(), leave) } else { body($($argument),*) }
        }

        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "as many as a function has")]
        fn $traced_read<$($type,)* R>(
            body: impl FnOnce($($type),*) -> R,
            $($argument: $type,)*
            stamp: Option<Stamp>,
            leave: impl Fn(Stamp, End, Option<&R>),
        ) -> R {
            let guard = UnwindingRead { start: Stamp::or_now(stamp), leave: &leave, result: PhantomData };
            let result = body($($argument),*);
            let start = guard.start;
            mem::forget(guard);
            leave(start, None, Some(&result));
            result
        }
    )*};
}

calls! {
    call0 traced0 read0 traced_read0();
    call1 traced1 read1 traced_read1(a: A);
    call2 traced2 read2 traced_read2(a: A, b: B);
    call3 traced3 read3 traced_read3(a: A, b: B, c: C);
    call4 traced4 read4 traced_read4(a: A, b: B, c: C, d: D);
    call5 traced5 read5 traced_read5(a: A, b: B, c: C, d: D, e: E);
    call6 traced6 read6 traced_read6(a: A, b: B, c: C, d: D, e: E, f: F);
    call7 traced7 read7 traced_read7(a: A, b: B, c: C, d: D, e: E, f: F, g: G);
    call8 traced8 read8 traced_read8(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H);
}

/// The return of a body that stands in place: it is where this is dropped.
pub struct Frame<P: Fn() -> ReturnPoint> {
    /// None while off.
    start: Option<Stamp>,
    /// Whether a panic was under way before: the body is then run by a destructor.
    panicking: bool,
    point: P,
}

impl<P: Fn() -> ReturnPoint> Frame<P> {
    /// Begins the body.
    #[inline(always)]
    pub fn new(entry: Entry, point: P) -> Frame<P> {
        let (start, panicking) = match entry.is_on() {
            true => begin_frame(entry),
            false => (None, false),
        };
        Frame {
            start,
            panicking,
            point,
        }
    }
}

impl<P: Fn() -> ReturnPoint> Drop for Frame<P> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(start) = self.start {
            leave_frame((self.point)(), start, self.panicking);
        }
    }
}

#[cold]
#[inline(never)]
fn begin_frame(entry: Entry) -> (Option<Stamp>, bool) {
    (Some(Stamp::or_now(entry.stamp())), std::thread::panicking())
}

#[cold]
#[inline(never)]
fn leave_frame(point: ReturnPoint, start: Stamp, was_panicking: bool) {
    let unwinds = !was_panicking && std::thread::panicking();
    point.leave(start, if unwinds { UNWIND } else { None });
}

/// The return of an `async fn`: where its result is there, or where its future is dropped before.
pub struct Task<R, L: Leave<R>> {
    /// None while off. One word, since every such future holds one.
    start: Option<Stamp>,
    leave: L,
    result: PhantomData<fn(&R)>,
}

/// What emits the return of a future with this result.
pub trait Leave<R> {
    /// Emits it, for what began at `start`.
    fn leave(&self, start: Stamp, end: End, result: Option<&R>);
}

/// The return has no other fields.
pub struct Plain<P>(P);

impl<R, P: Fn() -> ReturnPoint> Leave<R> for Plain<P> {
    #[inline(always)]
    fn leave(&self, start: Stamp, end: End, _: Option<&R>) {
        (self.0)().leave(start, end);
    }
}

/// A closure emits it.
pub struct Read<L>(L);

impl<R, L: Fn(Stamp, End, Option<&R>)> Leave<R> for Read<L> {
    #[cold]
    #[inline(never)]
    fn leave(&self, start: Stamp, end: End, result: Option<&R>) {
        (self.0)(start, end, result);
    }
}

impl<R, P: Fn() -> ReturnPoint> Task<R, Plain<P>> {
    /// Begins the body.
    #[inline(always)]
    pub fn plain(entry: Entry, point: P) -> Self {
        Self::new(entry, Plain(point))
    }
}

impl<R, L: Fn(Stamp, End, Option<&R>)> Task<R, Read<L>> {
    /// Begins a body whose return says what the result was.
    #[inline(always)]
    pub fn read(entry: Entry, leave: L) -> Self {
        Self::new(entry, Read(leave))
    }
}

impl<R, L: Leave<R>> Task<R, L> {
    #[inline(always)]
    fn new(entry: Entry, leave: L) -> Self {
        Task {
            start: match entry.is_on() {
                true => Some(begin_task(entry)),
                false => None,
            },
            leave,
            result: PhantomData,
        }
    }

    /// The body has this result.
    #[inline(always)]
    pub fn finish(self, result: &R) {
        if let Some(start) = self.start {
            self.leave.leave(start, None, Some(result));
        }
        mem::forget(self);
    }
}

impl<R, L: Leave<R>> Drop for Task<R, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(start) = self.start {
            self.leave.leave(start, unfinished(), None);
        }
    }
}

#[cold]
#[inline(never)]
fn begin_task(entry: Entry) -> Stamp {
    Stamp::or_now(entry.stamp())
}

/// Why a future ends that has no result.
#[cold]
#[inline(never)]
fn unfinished() -> End {
    if std::thread::panicking() {
        UNWIND
    } else {
        DROPPED
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
