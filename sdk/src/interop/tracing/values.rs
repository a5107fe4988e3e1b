//! The fields of an event or a span, from `tracing`'s visitor to a hit's values.
//!
//! A value is only lent for the moment it is shown, so that text is copied, and what has a `Debug` is
//! formatted, into a buffer on the stack: as far as the bounds of `emit` go, and in its way.

use std::error::Error;
use std::fmt::{self, Write};
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing_core::Field;
use tracing_core::field::Visit;

use crate::emit::{Buffer, TEXT_BYTES};
use crate::made::{Hit, Value};

/// Where texts are.
pub(super) type Texts = [MaybeUninit<u8>; TEXT_BYTES];

/// Room for texts.
#[inline]
pub(super) const fn texts() -> Texts {
    [MaybeUninit::uninit(); TEXT_BYTES]
}

/// Sets a hit's values.
pub(super) struct Values<'h, 'a> {
    hit: &'h mut Hit<'a>,
    free: &'a mut [MaybeUninit<u8>],
    /// Values still to come, at most.
    left: usize,
    pub(super) panics: u32,
}

impl<'h, 'a> Values<'h, 'a> {
    pub(super) fn new(hit: &'h mut Hit<'a>, texts: &'a mut Texts, values: usize) -> Values<'h, 'a> {
        Values {
            hit,
            free: texts,
            left: values,
            panics: 0,
        }
    }

    #[inline]
    fn set(&mut self, field: &Field, value: Value<'a>) {
        self.left = self.left.saturating_sub(1);
        self.hit.set(field.index(), value);
    }

    fn set_text(&mut self, field: &Field, write: impl FnOnce(&mut Buffer<'_>) -> fmt::Result) {
        let mut out = Buffer::new(mem::take(&mut self.free), self.left);
        // An error means that the buffer is full or that the type has nothing more to say.
        let panicked = catch_unwind(AssertUnwindSafe(|| write(&mut out))).is_err();
        self.panics += u32::from(panicked);
        let (text, free) = out.finish(panicked);
        self.free = free;
        self.set(field, Value::Text(text));
    }
}

impl Visit for Values<'_, '_> {
    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::Unsigned(value));
    }

    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Signed(value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.set(field, Value::Unsigned128(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.set(field, Value::Signed128(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::Bool(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::Float(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut out = Buffer::new(mem::take(&mut self.free), self.left);
        // It is cut where it is too long.
        let _ = out.write_str(value);
        let (text, free) = out.finish(false);
        self.free = free;
        self.set(field, Value::Text(text));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set_text(field, |out| write!(out, "{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set_text(field, |out| write!(out, "{value:?}"));
    }
}

/// The text of the field `message`, for those who see no other.
pub(super) struct Message<'a> {
    out: Option<Buffer<'a>>,
}

impl<'a> Message<'a> {
    pub(super) fn new(texts: &'a mut Texts) -> Message<'a> {
        Message {
            out: Some(Buffer::new(texts, 1)),
        }
    }

    pub(super) fn finish(self) -> &'a str {
        self.out.map_or("", |out| out.finish(false).0)
    }
}

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(out) = self.out.as_mut().filter(|_| field.name() == "message") {
            // It is cut where it panics, which was counted, if anybody asked, when it was a field.
            let _ = catch_unwind(AssertUnwindSafe(|| write!(out, "{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
