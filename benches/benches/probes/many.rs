//! Two thousand functions by one pattern.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::statistics::Median;

use crate::target::Program;
use crate::tracer::Ours;

/// How long it takes from the start of the bridge until all are attached, and from the interrupt until it has
/// ended.
pub(crate) fn measure(
    bridge: &Path,
    program: &Program,
    thoroughness: Thoroughness,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let repetitions = thoroughness.pick(10, 2, 1);
    let target = program.start()?;
    let pattern = format!("uprobe:{}:many_*", program.path.display());
    let (mut attached, mut detached) = (Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let begin = Instant::now();
        let ours = Ours::start(bridge, target.pid(), &pattern, None)?;
        attached.push(begin.elapsed().as_secs_f64() * 1e3);
        if ours.probes != 2000 {
            return Err(format!("{} probes are attached, not 2000", ours.probes).into());
        }
        let begin = Instant::now();
        ours.stop()?;
        detached.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    for (name, times) in [("attach", attached), ("detach", detached)] {
        if let Some(time) = Median::of(times) {
            part.bar(
                &format!("probes/many/{name}-2000-ms"),
                time,
                Bar::AtMost(2000.0),
            );
        }
    }
    Ok(())
}
