//! What expansions call. Not part of the API: it changes without notice.

pub use tracebraid_wire::kind::MAX_SLOTS;

pub use crate::clock::now;
pub use crate::emit::fire;
pub use crate::fields::{debug, display, kind, kinds, lower, note_slots, note_slots_of, offset, point_flags, put, width, Kinds};
pub use crate::value::{Lowered, Value};

/// Evaluates a site's fields. `Fn`: a field cannot move what it captures.
#[inline(always)]
pub fn fields<F: Fn()>(fields: F) {
    fields();
}
