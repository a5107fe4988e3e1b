//! What the consumers of both kinds of ring have in common: waiting for a record that is begun, and what is said of a
//! ring that makes no sense.

use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

/// How long a drain waits for a record that is reserved and not yet submitted. Programs neither fault
/// nor sleep in between, but before 6.10 one can be preempted there.
const PATIENCE: Duration = Duration::from_millis(20);
/// Looks before a wait gives its CPU away.
const LOOKS: u32 = 100;

/// What `look` sees at last; `None` where that takes too long.
pub(crate) fn await_some<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut since = None;
    for round in 0u32.. {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if round < LOOKS {
            std::hint::spin_loop();
            continue;
        }
        // The writer may be waiting for this very CPU.
        if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    None
}

/// A ring that no program of ours wrote.
pub(crate) fn damaged(cpu: u32, what: &str) -> Error {
    Error::new(
        ErrorKind::Damaged,
        format!("the ring of CPU {cpu} is damaged: {what}"),
    )
}
