//! Asking for a snapshot from inside the program.

use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use tracebraid_wire::region::{self, control};

use super::directory::word;
use super::{page, service};

/// Bytes of a reason that are kept.
const REASON: usize = 60;

/// Asks the bridge that is attached as a flight recorder (`bridge-cli attach --flight-recorder`) to print
/// what led up to this moment: the events in the rings, and the kernel's of the last seconds. `reason` is
/// printed with them, cut to 60 bytes.
///
/// Returns whether there is a bridge. The call does not wait for it, and costs some system calls: it is
/// for the rare moment, and not for signal handlers.
pub fn snapshot(reason: &str) -> bool {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(rings) = page::current() else {
        return false;
    };
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = beginning(reason, REASON);
    let length = word(rings.region, control::SNAPSHOT_REASON);
    // SAFETY: the control word is followed by 60 bytes for the reason; a reader copies them and takes any
    // bytes.
    unsafe {
        let text = rings
            .region
            .header()
            .add(region::CONTROL + control::SNAPSHOT_REASON + 4);
        ptr::copy_nonoverlapping(kept.as_ptr(), text, kept.len());
    }
    length.store(kept.len() as u32, Ordering::Relaxed);
    word(rings.region, control::SNAPSHOT).fetch_add(1, Ordering::Release);
    service::is_attended(rings)
}

/// The longest beginning of at most so many bytes that is whole characters.
fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
