//! What a field may be.
//!
//! A field's expression is taken by reference, *lowered* to a few plain words where it stands, and
//! only these words travel:
//!
//! ```text
//! &expr ──Value::lower──▶ Lowered (Copy, 'static) ──put──▶ slots (u64 words)
//! ```
//! [`Value`] is what applications see and may implement for types of their own, in terms of a type
//! that has it already. [`Lowered`] is closed: one type a [`Kind`](tracebraid_wire::kind::Kind).

mod impls;
mod lowered;

pub use lowered::{
    Bits, Formatted, Formatter, Fraction, Halves, Lowered, OptionalFormatted, OptionalText,
    OptionalWord, Presence, Span, Text,
};

/// A type that a tracepoint's field may have.
///
/// Implemented for integers, `bool`, `char`, floats, `str` and `String`, `Cow<str>`, byte slices,
/// `Vec<u8>` and `[u8; N]`, raw pointers, [`Duration`](core::time::Duration), non-zero integers, atomics (loaded
/// relaxed), `Option` of most of these, and references and boxes of any. Anything else can be given
/// through `%` (Display) or `?` (Debug).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a tracepoint",
    label = "not a field kind",
    note = "leave the argument out with `skip(…)` or `skip_all`",
    note = "or format it: `fields(name = %value)` for Display, `fields(name = ?value)` for Debug"
)]
pub trait Value {
    /// The words it becomes.
    type Lowered: Lowered;
    /// Takes what is needed of the value. The words may point into `self`: they are used before the
    /// borrow of the field ends.
    fn lower(&self) -> Self::Lowered;
}
