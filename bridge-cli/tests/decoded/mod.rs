//! A record as a ring carries it, and the line that an event becomes.

use bridge::event::{Event, What};
use bridge::print;
use tracebraid_bpf::record::{Body, Record};
use tracebraid_bpf::spec::ProbeId;

pub(crate) fn record(body: Body) -> Record {
    let mut comm = [0; 16];
    comm[..6].copy_from_slice(b"orders");
    Record {
        time: 5_000,
        cpu: 1,
        tgid: 4242,
        tid: 4243,
        comm,
        probe: ProbeId(7),
        body,
        stack: None,
    }
}

pub(crate) fn body(event: &Event) -> String {
    let What::Hit { probe, values } = &event.what else {
        panic!("not a hit: {event:?}");
    };
    let mut out = Vec::new();
    print::body(probe, values, &mut out);
    String::from_utf8(out).unwrap()
}
