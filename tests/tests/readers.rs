//! Tracepoints as other tools see them, without the bridge: they list each, switch it on through its
//! semaphore, and read the values that the program passed.

use libtest_mimic::Trial;
use tracebraid_tests::requirement::{self, Need, trial};

#[path = "readers/bpftrace.rs"]
mod bpftrace;
#[path = "readers/debugger.rs"]
mod debugger;
#[path = "readers/perf.rs"]
mod perf;
#[path = "readers/served.rs"]
mod served;
#[path = "readers/tplist.rs"]
mod tplist;

use served::Kind;

const BPFTRACE: &[Need] = &[Need::Root, Need::Uprobe, Need::Tool("bpftrace")];
const PERF: &[Need] = &[Need::Root, Need::Uprobe, Need::Tracefs, Need::Tool("perf")];
const GDB: &[Need] = &[Need::Tool("gdb")];
const TPLIST: &[Need] = &[Need::Tool("tplist-bpfcc")];

fn main() {
    let mut trials = vec![
        trial(
            "gdb_lists_every_tracepoint_with_its_semaphore",
            GDB,
            debugger::lists,
        ),
        trial(
            "gdb_stops_at_a_tracepoint_and_shows_its_arguments",
            GDB,
            debugger::stops,
        ),
        trial("bpftrace_lists_every_tracepoint", BPFTRACE, bpftrace::lists),
        trial(
            "bcc_lists_every_tracepoint_with_the_number_of_its_arguments",
            TPLIST,
            tplist::lists,
        ),
        trial("perf_lists_every_tracepoint", PERF, perf::lists),
        trial(
            "two_tools_at_one_tracepoint_both_receive_every_hit",
            BPFTRACE,
            bpftrace::two_at_once,
        ),
    ];
    for (kind, name) in [
        (Kind::Release, "a_release_build"),
        (Kind::FatLto, "a_fat_lto_build"),
        (Kind::Library, "a_cdylib"),
    ] {
        trials.push(hits("bpftrace", name, BPFTRACE, move || {
            bpftrace::receives(kind)
        }));
        trials.push(hits("perf", name, PERF, move || perf::receives(kind)));
    }
    requirement::run(trials);
}

fn hits(
    tool: &str,
    of: &str,
    needs: &'static [Need],
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    trial(
        format!("{tool}_receives_the_values_of_hits_in_{of}"),
        needs,
        run,
    )
}
