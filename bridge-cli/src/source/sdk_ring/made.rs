//! The tracepoints that a process has made at run time, for those who only want to know of them.
//!
//! A program makes those that it comes across, and comes across no more than somebody wants. So whoever
//! asks wants to know of all for a moment, if nobody else has the rings.

use std::thread;
use std::time::Duration;

use tracebraid_wire::region::{self, PATTERN_OF_NONE};

use super::point::Listed;
use super::shared::Shared;
use super::taken::ANSWER;
use super::{find, header};

/// How long a program is given to come across what it has.
const LOOK: Duration = Duration::from_millis(500);

/// What a process has made at run time, after a moment in which it makes what it comes across.
pub fn made_in(pid: u32) -> Vec<Listed> {
    let mut made = Vec::new();
    for (path, _) in find::of_process(pid) {
        // A child of fork has its parent's region too.
        let owner = header::owner(&path);
        if owner.is_some() && owner != find::numbers(pid).last().copied() {
            continue;
        }
        let Ok(shared) = Shared::open(&path, pid) else {
            continue;
        };
        if let Ok(taken) = Shared::take(&path, pid) {
            taken.want_later(&[PATTERN_OF_NONE.to_owned()]);
            if taken.ask(ANSWER) {
                thread::sleep(LOOK);
            }
            taken.want_later(&[]);
        }
        let directory = shared.directory(0);
        let listed = region::listed(&directory).filter_map(|point| Listed::read(pid, &point));
        made.extend(listed.filter(|listed| listed.is_made));
    }
    made
}
