//! A thousand tracepoints at once.

use std::collections::BTreeSet;

use super::bridge::{Attached, Via};
use super::target::Target;

/// Each is attached, hit once, and seen once.
pub(crate) fn all_seen(via: Via) {
    let mut target = Target::start(&["many"]);
    let attached = Attached::start(target.pid(), via, &["-e", "many*:*"]);
    target.say("go");
    let (status, text) = target.finish();
    assert!(status.success(), "{status}");
    assert_eq!(text, "1000\n");
    let ran = attached.finish();
    ran.assert_well();
    assert!(ran.err.contains("attached 1000 probes"), "{}", ran.err);
    let events: BTreeSet<&str> = ran.lines().map(|line| line.event).collect();
    assert_eq!((events.len(), ran.lines().count()), (1000, 1000));
    for (n, line) in ran.lines().enumerate() {
        assert_eq!(line.body, format!("n={n}"));
    }
}
