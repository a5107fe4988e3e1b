//! What is wrong with a filter, and where.
//!
//! The kernel answers a bad filter with an error number, a sentence and a column. All three are kept
//! word for word, so that a filter can be looked up in what the kernel's documentation and other
//! tools say about it. The kernel's column is one too far, or stands behind what it complains
//! about, so the caret is put by a place of our own.

use alloc::string::String;
use core::fmt;
use core::ops::Range;

/// How much of the text is shown on each side of the caret, in characters.
const SHOWN: usize = 60;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $errno:expr, $kernel:expr, $ours:literal;)*) => {
        /// What is wrong with a filter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $name,)* }

        impl ErrorKind {
            /// The error number that the kernel answers, positive (`EINVAL` is 22).
            pub const fn errno(self) -> i32 {
                match self { $(ErrorKind::$name => $errno,)* }
            }

            /// The kernel's sentence in its `error_log`, where it has one.
            pub const fn kernel_wording(self) -> Option<&'static str> {
                match self { $(ErrorKind::$name => $kernel,)* }
            }

            /// The sentence that [`Error`] prints: the kernel's, unless that says nothing.
            pub const fn wording(self) -> &'static str {
                match self { $(ErrorKind::$name => $ours,)* }
            }
        }
    };
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EINVAL: i32 = 22;

kinds! {
    /// More than [`MAX_TEXT`](crate::MAX_TEXT) bytes.
    TextTooLong = EINVAL, None, "The filter is longer than 4095 bytes";
    /// Nothing is compared anywhere.
    NoFilter = EINVAL, Some("No filter found"), "No filter found";
    /// A `(` that nothing closes.
    TooManyOpen = ENOENT, Some("Too many '('"), "Too many '('";
    /// A `)` that nothing opened.
    TooFewOpen = EPERM, Some("Too few '('"), "Too few '('";
    /// A string that does not end.
    MissingQuote = ESRCH, Some("Missing matching quote"), "Missing matching quote";
    /// Something else stands where a field is to be named.
    FieldExpected = EPERM, Some("Error"), "The name of a field is expected";
    /// The event has no such field.
    FieldNotFound = EINVAL, Some("Field not found"), "Field not found";
    /// No operator after the field, or an unknown one.
    InvalidOperator = EINVAL, Some("Invalid operator"), "Invalid operator";
    /// Neither a number nor a quoted string after the operator.
    InvalidValue = EINVAL, Some("Invalid value (did you forget quotes)?"),
        "Invalid value (did you forget quotes)?";
    /// Not a number, or one out of range.
    IllegalInteger = EINVAL, Some("Illegal integer value"), "Illegal integer value";
    /// A string of more than 255 bytes, or a number of too many digits.
    OperandTooLong = EINVAL, Some("Operand too long"), "Operand too long";
    /// A number is compared with text.
    ExpectString = EINVAL, Some("Expecting string field"), "Expecting string field";
    /// Text is compared with a number.
    ExpectNumber = EINVAL, Some("Expecting numeric field"), "Expecting numeric field";
    /// A `char` is compared with no or several characters. The kernel has no such fields.
    ExpectCharacter = EINVAL, None, "Expecting a single character";
    /// The operator makes no sense for the field.
    IllegalOperation = EINVAL, Some("Illegal operation for field type"),
        "Illegal operation for field type";
    /// `.function` with a name or an address that is in no function.
    FunctionNotFound = EINVAL, Some("Function not found"), "Function not found";
    /// `CPUS` without `{`.
    MissingBraceOpen = EINVAL, Some("Missing '{'"), "Missing '{'";
    /// `CPUS{` without `}`.
    MissingBraceClose = EINVAL, Some("Missing '}'"), "Missing '}'";
    /// What stands between the braces is no list of CPUs of this machine.
    InvalidCpuList = EINVAL, Some("Invalid cpulist"), "Invalid cpulist";
    /// Something other than `&&`, `||` or `)` after a comparison.
    TooManyTerms = EPERM, Some("Too many terms in predicate expression"),
        "Too many terms in predicate expression";
    /// The text ends behind an operator.
    Unfinished = EINVAL, Some("Meaningless filter expression"), "Meaningless filter expression";
}

/// A filter that could not be used: it never stands for "no filter".
///
/// Printed, it is a sentence, the text, and a caret under the place:
///
/// ```text
/// Field not found
///   PREV_PID == 0
///   ^^^^^^^^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    place: Range<usize>,
    kernel_column: usize,
    text: String,
}

impl Error {
    pub(crate) fn new(fault: Fault, text: &str) -> Error {
        Error {
            kind: fault.kind,
            place: fault.place,
            kernel_column: fault.kernel_column,
            // Of a text that is too long, no more than is shown.
            text: text[..floor(text, crate::MAX_TEXT + 4 * SHOWN)].into(),
        }
    }

    /// What is wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where it is: the byte, counted from 0, that the caret stands under.
    pub fn column(&self) -> usize {
        self.place.start
    }

    /// The column, counted from 0, that the kernel's `error_log` would put its caret under.
    pub fn kernel_column(&self) -> usize {
        self.kernel_column
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, rest) = self.text.split_at(floor(&self.text, self.place.start));
        let marked = floor(rest, self.place.len());
        let skipped = before.chars().count().saturating_sub(SHOWN);
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        write!(f, "{}\n  ", self.kind.wording())?;
        if skipped > 0 {
            f.write_str("…")?;
        }
        for c in before.chars().skip(skipped).chain(rest.chars().take(SHOWN)) {
            fmt::Write::write_char(f, shown(c))?;
        }
        if rest.chars().nth(SHOWN).is_some() {
            f.write_str("…")?;
        }
        let indent = before.chars().count() - skipped + usize::from(skipped > 0);
        let carets = rest[..marked].chars().count().clamp(1, SHOWN);
        write!(f, "\n  {:indent$}{:^<carets$}", "", "")
    }
}

/// The character boundary at or before byte `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl core::error::Error for Error {}

/// An error while the text is still being read; [`Error`] owns a copy of the text as well.
#[derive(Debug)]
pub(crate) struct Fault {
    kind: ErrorKind,
    place: Range<usize>,
    kernel_column: usize,
}

impl Fault {
    /// At `place`, which is also where the kernel says it is.
    pub(crate) fn at(kind: ErrorKind, place: Range<usize>) -> Fault {
        let kernel_column = place.start;
        Fault::seen_at(kind, place, kernel_column)
    }

    /// At `place`, where the kernel says `kernel_column`.
    pub(crate) fn seen_at(kind: ErrorKind, place: Range<usize>, kernel_column: usize) -> Fault {
        Fault {
            kind,
            place,
            kernel_column,
        }
    }
}
