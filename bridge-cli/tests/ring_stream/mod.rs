//! A bridge that is attached to the rings of a program of ours, and what it prints.

#![allow(dead_code, reason = "each test binary uses a part")]

use crate::ring_program::{Program, seq};
use crate::support::{Attached, Ran};

/// Attached to all its tracepoints.
pub(crate) fn attach(program: &Program, more: &[&str]) -> Attached {
    let pid = program.pid.to_string();
    let mut args = vec!["-p", &pid, "-e", "app:*", "--via", "ring"];
    args.extend(more);
    Attached::start(&args)
}

/// The `seq` of each event of this name.
pub(crate) fn seqs(ran: &Ran, event: &str) -> Vec<u64> {
    ran.bodies(event).iter().map(|body| seq(body)).collect()
}

pub(crate) fn times_are_in_order(ran: &Ran) {
    let time = |line: &str| {
        let text = line.split("] ").nth(1).unwrap().trim();
        let text = text.split(':').next().unwrap();
        text.replace('.', "").parse::<u64>().unwrap()
    };
    let times: Vec<u64> = ran.out.lines().map(time).collect();
    assert!(times.is_sorted(), "{}", ran.out);
}
