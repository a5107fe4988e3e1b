//! What probes in a program cost it, beside those of other tools.
//!
//! ```text
//! idle   a program whose two processes bounce a byte, with 100 probes that nobody hits and without: pairs
//! many   2,000 probes by one pattern: until attached, until detached
//! list   all functions of the kernel, by ours and by others
//! cost   a function that is called, a tracepoint that is hit: three arguments, one of them text, printed or
//!        recorded by ours, bpftrace, perf and the kernel's own trace, one after the other in each round; and
//!        the same with a filter that refuses nearly all hits
//! ```
//! The program ([target.c](target.c)) stays on CPU 0 and says itself how long it took. Where the rights or the
//! kernel do not allow to attach, that is reported; with `TRACEBRAID_REQUIRE=bpf` it is an error.

mod cost;
mod idle;
mod listing;
mod many;
mod peers;
mod target;
mod tracer;

use std::error::Error;

use tracebraid_benches::part::{Part, Thoroughness};
use tracebraid_benches::product;

use crate::target::Program;

fn main() -> Result<(), Box<dyn Error>> {
    let thoroughness = Thoroughness::wanted();
    let mut part = Part::default();
    if thoroughness == Thoroughness::Smoke {
        part.skip("probes", "it takes a release build of bridge-cli");
        return Ok(());
    }
    // Where it is not mounted others need it too: in this process's own mount namespace.
    let _ = bridge::mount::ensure_tracefs();
    let bridge = product::build("bridge-cli", "bridge-cli")?;
    let program = Program::build()?;
    if let Err(reason) = tracer::try_ours(&bridge, &program)? {
        if is_required() {
            return Err(reason.into());
        }
        part.skip("probes", &reason);
        part.write("probes")?;
        return Ok(());
    }
    listing::measure(&bridge, thoroughness, &mut part)?;
    many::measure(&bridge, &program, thoroughness, &mut part)?;
    idle::measure(&program, thoroughness, &mut part)?;
    cost::measure(&bridge, &program, thoroughness, &mut part)?;
    part.write("probes")?;
    Ok(())
}

fn is_required() -> bool {
    let required = std::env::var("TRACEBRAID_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word == "bpf")
}
