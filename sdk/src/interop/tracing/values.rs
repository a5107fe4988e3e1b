//! The fields of an event or a span, from `tracing`'s visitor to a hit's values.
//!
//! A value is only lent for the moment it is shown, so that text is copied, and what has a `Debug` is
//! formatted: as far as the bounds of `emit` go, and in its way.

use std::error::Error;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing_core::field::Visit;
use tracing_core::span::{Attributes, Record};
use tracing_core::{Event, Field};

use crate::emit::Buffer;
use crate::made::{Number, Source, Texts, Values};

/// Hands values on to a hit.
pub(super) struct Shown<'v, V>(pub(super) &'v mut V);

impl<V: Values> Visit for Shown<'_, V> {
    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.number(field.index(), Number::Unsigned(value));
    }

    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.number(field.index(), Number::Signed(value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.0.number(field.index(), Number::Unsigned128(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.0.number(field.index(), Number::Signed128(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.number(field.index(), Number::Bool(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.number(field.index(), Number::Float(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.text(field.index(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.0.write(field.index(), |out| write!(out, "{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.write(field.index(), |out| write!(out, "{value:?}"));
    }
}

impl Source for Event<'_> {
    fn show(&self, values: &mut impl Values) {
        self.record(&mut Shown(values));
    }
}

impl Source for Attributes<'_> {
    fn show(&self, values: &mut impl Values) {
        self.record(&mut Shown(values));
    }
}

impl Source for Record<'_> {
    fn show(&self, values: &mut impl Values) {
        self.record(&mut Shown(values));
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
