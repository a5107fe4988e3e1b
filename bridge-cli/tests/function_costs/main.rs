//! What a hit in a function of the kernel costs who calls it, by each way of ours, and beside others that print
//! or record the same.
//!
//! ```text
//! this process names itself, over and over: __set_task_comm(task, name, exec)
//!   alone ─▶ one of them sees it, three arguments, one of them text ─▶ alone ─▶ the next one ─▶ …
//! ```
//! That is a measurement, and the kernels of machines that people develop on often have no such probes: `cargo
//! xtask bench` runs it on other kernels, under emulation, and `cargo xtask vm function_costs` it alone. As a test
//! it holds each way of ours and the kernel's own to having seen every call with its values; how long one takes is
//! told, and nothing is expected of it. Of the calls of one run the best counts: what comes between is no hit's.

mod tracers;

#[path = "../support/mod.rs"]
mod support;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::{Duration, Instant};

use support::kprobe_test;
use tracers::{Seen, TRACERS, Tracer};

/// Calls of one run.
const CALLS: usize = 50;
/// Runs, of which the best counts.
const RUNS: usize = 60;
/// Between two runs.
const PAUSE: Duration = Duration::from_millis(10);
/// How often each is measured: the median counts.
const ROUNDS: usize = 3;

/// How often a round is tried in which calls were dropped.
const TRIES: usize = 6;

/// The name that the process gives itself.
const NAME: &str = "some name";

/// Nanoseconds a call, in the best of the runs.
fn best(comm: &mut File) -> f64 {
    let run = |comm: &mut File| {
        let begin = Instant::now();
        for _ in 0..CALLS {
            comm.write_all(NAME.as_bytes())
                .expect("a thread has a name");
        }
        let time = begin.elapsed().as_nanos() as f64 / CALLS as f64;
        // Whoever prints what it sees has to come to it.
        std::thread::sleep(PAUSE);
        time
    };
    (0..RUNS).map(|_| run(comm)).fold(f64::INFINITY, f64::min)
}

/// What came of one of them.
#[derive(Default)]
struct Came {
    /// Nanoseconds a call more than without it, by round.
    times: Vec<f64>,
    /// Why there are no more, or what is to be said of them.
    remark: String,
}

impl Came {
    fn median(&self) -> Option<f64> {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }
}

/// One round of one of them: how much longer a call takes, and what it saw.
fn one(tracer: &Tracer, comm: &mut File) -> Result<(f64, Seen), String> {
    let alone = best(comm);
    let tracing = tracer.start()?;
    let traced = best(comm);
    let seen = tracing.end(CALLS * RUNS)?;
    Ok((traced - alone, seen))
}

/// The same, where the kernel's guard against recursion kept no call from our program: that is dropped and counted,
/// and costs next to nothing. It happens on Linux 7.2 where somebody is preempted in the program.
fn undisturbed(tracer: &Tracer, comm: &mut File) -> Result<(f64, Seen), String> {
    let mut came = one(tracer, comm)?;
    for _ in 1..TRIES {
        if !came.1.said.contains("(recursion: ") {
            break;
        }
        came = one(tracer, comm)?;
    }
    Ok(came)
}

fn costs() {
    let mut comm = OpenOptions::new()
        .write(true)
        .open("/proc/self/comm")
        .expect("a process has a name");
    let mut all: Vec<Came> = TRACERS.iter().map(|_| Came::default()).collect();
    for round in 0..ROUNDS {
        for (tracer, came) in TRACERS.iter().zip(&mut all) {
            // What cannot be had cannot be had in the next round either.
            if came.times.len() < round {
                continue;
            }
            match undisturbed(tracer, &mut comm) {
                Ok((time, seen)) => {
                    println!("round {}: {}: {time:.0} ns", round + 1, tracer.name);
                    if seen.hits != CALLS * RUNS {
                        came.remark = format!("saw {} of {}", seen.hits, CALLS * RUNS);
                        let others = tracer.is_of_others() && seen.hits > 0;
                        assert!(others, "{}: {}: {}", tracer.name, came.remark, seen.said);
                    }
                    came.times.push(time);
                }
                Err(reason) if tracer.is_optional() => {
                    println!("round {}: {}: {reason}", round + 1, tracer.name);
                    came.remark = reason;
                }
                Err(reason) => panic!("{}: {reason}", tracer.name),
            }
        }
    }
    tell(&all);
}

/// The table, with a line of each measurement for whoever runs this on another kernel.
fn tell(all: &[Came]) {
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let clock = std::fs::read_to_string(clock).unwrap_or_default();
    println!(
        "\nns a call more than alone; the kernel's clock is {}",
        clock.trim()
    );
    for (tracer, came) in TRACERS.iter().zip(all) {
        let name = tracer.name;
        let remark = came.remark.replace('\n', " ");
        match came.median() {
            Some(time) => {
                println!("{name:<24} {time:>9.0}  {:.0?} {remark}", came.times);
                println!("@@ measured {name} {time:.0}");
            }
            None => println!("{name:<24} {:>9}  {remark}", "-"),
        }
    }
}

fn main() {
    support::run(vec![kprobe_test(
        "each_way_to_see_a_kernel_function_sees_every_call_and_its_cost_is_told",
        costs,
    )]);
}
