//! What tracepoints cost, beside what else there is.
//!
//! ```text
//! benches/off           time of a site that is off, beside its peers     paired, statistics
//! benches/instructions  what a site adds to a function                   functions, callgrind
//! benches/compile_cost  what a thousand cost the compiler, and in bytes  generated, callgrind
//! benches/on            time of an event that is on, beside its peers    paired, statistics
//! benches/in_process    an event that goes to a callback                    (criterion)
//! benches/drain         what reading the rings takes, and up to which rate
//! benches/bridge        attaching to a thousand, and how old their lines are  generated
//! benches/probes        probes anywhere: what a hit costs, beside other tools; idle ones; many at once
//! benches/orders        the example service's requests, beside other tools  product, statistics
//!           └─▶ part: entries for target/bench/summary.json, and the bars they are held against
//! ```
//! Machines that measure are shared and change their clock rate. So no two runs are compared: what is
//! compared runs in one process, a fraction of a millisecond apart, many times, and the ratio is
//! taken pair by pair.

pub mod callgrind;
pub mod children;
pub mod functions;
pub mod generated;
pub mod paired;
pub mod part;
pub mod product;
pub mod statistics;
