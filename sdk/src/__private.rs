//! What expansions call. Not part of the API: it changes without notice.

pub use tracebraid_wire::kind::MAX_SLOTS;

#[cfg(tracebraid_keys)]
pub use crate::emit::fire;
pub use crate::fields::{HEADER_WORDS, Kinds, code, kinds, lower, put};
pub use crate::held::{Copied, Hold, HoldCopy, HoldReborrow, Place, debug, display};
pub use crate::stamp::Entry;
pub use crate::traced::{
    Frame, Return, ReturnPoint, Returned, ReturnedDebug, ReturnedValue, Task, call0, call1, call2,
    call3, call4, call5, call6, call7, call8, err, never, ok, optional, read0, read1, read2, read3,
    read4, read5, read6, read7, read8,
};
pub use crate::value::{Lowered, Value};

/// Its address says which copy of the SDK an object's tracepoints call.
pub static OWNER: u8 = 0;

/// Evaluates a site's fields. `Fn`: a field cannot move what it captures. The compiler shows the line to
/// whoever writes one that does.
#[inline(always)]
#[rustfmt::skip]
pub fn fields<R, F: Fn() -> R>(fields: F) -> R { // a field of a tracepoint only reads: clone what it would move
    fields()
}
