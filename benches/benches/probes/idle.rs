//! What probes that nobody hits do to a program that switches between its processes all the time.

use std::error::Error;

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::statistics::Median;
use tracebraid_bpf::spec::{Fetch, Filter, Location, ProbeId, Spec, UserProbe};
use tracebraid_bpf::{Options, Session};

use crate::target::{Program, Target};

/// Milliseconds that a byte is bounced before and after.
const WINDOW: u64 = 40;

/// A round trip with probes, as times of one without. There are two targets, bounced in turn; how they compare
/// is measured before one of them is probed, and after.
pub(crate) fn measure(
    program: &Program,
    thoroughness: Thoroughness,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let (pairs, times) = thoroughness.pick((40, 3), (10, 1), (1, 1));
    for (name, forced) in [("multi", false), ("perf", true)] {
        let mut ratios = Vec::new();
        let mut alone = Vec::new();
        for _ in 0..times {
            let (mut target, mut other) = (program.start()?, program.start()?);
            let spec = spec(program, &target.offsets()?[1..], target.pid());
            let mut options = Options::default();
            options.force_perf_uprobes = forced;
            let before = in_turn(&mut target, &mut other, pairs)?;
            let session = Session::start_with(&spec, &options)?;
            let after = in_turn(&mut target, &mut other, pairs)?;
            if forced && session.user_way() != Some("perf uprobes") {
                return Err("they are not attached the way they should be".into());
            }
            let usual = Median::of(before.iter().map(|pair| pair.0 / pair.1).collect());
            let usual = usual.ok_or("nothing was measured")?.value;
            ratios.extend(after.iter().map(|pair| pair.0 / pair.1 / usual));
            alone.extend(after.iter().map(|pair| pair.1));
        }
        if let Some(alone) = Median::of(alone) {
            part.time(format!("probes/idle/{name}/round-trip"), alone);
        }
        if let Some(ratio) = Median::of(ratios) {
            part.bar(&format!("probes/idle/{name}"), ratio, Bar::AtMost(1.02));
        }
    }
    Ok(())
}

/// Nanoseconds a round trip, of one and the other, a moment apart.
fn in_turn(
    one: &mut Target,
    other: &mut Target,
    pairs: usize,
) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    let mut times = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let first = pair % 2 == 0;
        let before = if first {
            one.ask("bounce", WINDOW)?
        } else {
            0.0
        };
        let theirs = other.ask("bounce", WINDOW)?;
        let ours = if first {
            before
        } else {
            one.ask("bounce", WINDOW)?
        };
        times.push((ours, theirs));
    }
    Ok(times)
}

/// A probe at each of these places.
fn spec(program: &Program, offsets: &[u64], pid: u32) -> Spec {
    let probe = |(index, &offset): (usize, &u64)| UserProbe {
        id: ProbeId(index as u32),
        binary: program.path.clone(),
        locations: vec![Location {
            offset,
            semaphore: 0,
            fetch: Fetch::Arguments(Vec::new()),
        }],
    };
    Spec {
        user: offsets.iter().enumerate().map(probe).collect(),
        filter: Filter {
            processes: vec![pid],
            ..Filter::default()
        },
        ..Spec::default()
    }
}
