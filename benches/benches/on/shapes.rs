//! What an event of the benches holds.

use std::ffi::CStr;
use std::hint::black_box;

/// An event, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Three `u64`.
    Three,
    /// A text of 16 bytes.
    Text16,
    /// A text of 200 bytes.
    Text200,
    /// Nothing.
    Empty,
    /// The entry into a function with one `u64`, and the return from it.
    Pair,
}

impl Shape {
    /// All of them.
    pub(crate) const ALL: [Shape; 5] = [
        Shape::Three,
        Shape::Text16,
        Shape::Text200,
        Shape::Empty,
        Shape::Pair,
    ];

    /// What it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Three => "3u64",
            Shape::Text16 => "str16",
            Shape::Text200 => "str200",
            Shape::Empty => "empty",
            Shape::Pair => "pair",
        }
    }
}

/// The text of [`Shape::Text16`].
pub(crate) const TEXT16: &CStr = c"order-0017-grace";
/// The text of [`Shape::Text200`].
pub(crate) const TEXT200: &CStr =
    c"SELECT id, user, cents FROM orders WHERE user = ?1 AND cents > ?2 \
      AND shipped IS NULL ORDER BY id DESC LIMIT 50 OFFSET 0 -- called by \
      the monthly report; see reports/monthly.sql, and its index: by_usr";

const _: () = assert!(TEXT16.count_bytes() == 16 && TEXT200.count_bytes() == 200);

/// The text, with a length that the compiler does not know.
pub(crate) fn hidden(text: &'static CStr) -> &'static str {
    black_box(text.to_str().unwrap_or_default())
}
