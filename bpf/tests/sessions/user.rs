//! User probes.

use tracebraid_bpf::Options;
use tracebraid_bpf::record::{Body, Text};
use tracebraid_bpf::spec::{Fetch, ProbeId, Spec};

use crate::{Outcome, mine, same, stubs, under};

pub(crate) const TESTS: &[(&str, fn() -> Outcome)] =
    &[("the_slots_of_a_tracepoint_arrive_with_their_text", slots)];

fn slots() -> Outcome {
    let text = "grüße";
    let fetch = Fetch::Slots {
        count: 4,
        text: vec![(1, 2)],
    };
    let spec = Spec {
        user: vec![stubs::probe(7, stubs::slots_offset(), 0, fetch)],
        filter: mine(),
        ..Spec::default()
    };
    let words = [
        u64::MAX,
        text.as_ptr() as u64,
        text.len() as u64,
        i64::MIN as u64,
    ];
    let seen = under(&spec, &Options::default(), || stubs::hit_slots(&words))?;
    same("records", seen.records.len(), 1)?;
    let record = &seen.records[0];
    same("probe", record.probe, ProbeId(7))?;
    same(
        "thread",
        (record.tgid, record.tid),
        (std::process::id(), crate::tid()),
    )?;
    let texts = vec![Text::Bytes {
        bytes: text.into(),
        full_length: text.len() as u64,
    }];
    same(
        "body",
        &record.body,
        &Body::Slots {
            slots: Some(words.to_vec()),
            texts,
        },
    )
}
