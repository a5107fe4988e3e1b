//! What a process may do to itself while it has tracepoints: fork, give up rights, forbid writable
//! code, be watched from outside. Each scenario is a process of its own.

use tracebraid::{Tracepoint, event};
use tracebraid_tests::requirement;
use tracebraid_tests::scenario;

#[path = "processes/enabling.rs"]
mod enabling;
#[path = "processes/forking.rs"]
mod forking;
#[path = "processes/patching.rs"]
mod patching;
#[path = "processes/semaphores.rs"]
mod semaphores;

fn main() {
    let groups = [
        enabling::SCENARIOS,
        forking::SCENARIOS,
        patching::SCENARIOS,
        semaphores::SCENARIOS,
    ];
    requirement::run(scenario::trials(&groups));
}

/// Hits the tracepoint `hit`; true when it was on, for the field is evaluated only then.
#[inline(never)]
fn hit(n: u64) -> bool {
    let on = std::cell::Cell::new(false);
    event!(hit, n = n, on = on.replace(true));
    on.get()
}

/// The same for a site that tests the semaphore.
#[inline(never)]
fn tested(n: u64) -> bool {
    let on = std::cell::Cell::new(false);
    event!(gate: "semaphore", tested, n = n, on = on.replace(true));
    on.get()
}

/// The tracepoint of a name in this binary.
fn tracepoint(name: &str) -> Tracepoint {
    tracebraid::tracepoints()
        .into_iter()
        .find(|point| point.name() == name)
        .unwrap_or_else(|| panic!("no tracepoint is named {name}"))
}
