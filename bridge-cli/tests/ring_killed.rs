//! Death at any moment: of the bridge, whose program has to be as it was before, and of the program, whose
//! bridge has to give what was committed. `TRACEBRAID_SOAK=1`: two hundred times each.

mod ring_program;
mod support;

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use ring_program::{Program, seq};
use support::{Attached, bridge, test};

/// How long a program may stay on without its bridge, on a machine that does other things as well.
const OFF: Duration = Duration::from_secs(5);
/// A bridge is killed within this time of its start: it takes some ten milliseconds to attach.
const MOMENTS: Duration = Duration::from_millis(250);
/// A program is killed within this time of its first events.
const RUN: Duration = Duration::from_millis(80);

fn times(short: u32) -> u32 {
    match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 200,
        None => short,
    }
}

/// Moments without order.
struct Moments(u64);

impl Moments {
    fn new() -> Moments {
        let seed = u64::from(std::process::id());
        println!("seed {seed}");
        Moments(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A time below `limit`.
    fn next(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_nanos(self.0 % limit.as_nanos() as u64)
    }
}

/// How many events a busy program has had by now, and whether they are on.
fn how(program: &mut Program) -> (u64, bool) {
    let answer = program.ask("how");
    let (hits, on) = answer.split_once(' ').unwrap();
    (hits.parse().unwrap(), on == "true")
}

/// What the program has had of the CPUs: a busy machine gives it less a second. See `schedstat` in the
/// kernel's `Documentation/scheduler/sched-stats.rst`.
fn cpu_time(program: &Program) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", program.pid)).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

/// Events a second of the CPU, over some time.
fn rate(program: &mut Program) -> f64 {
    let (start, before) = (cpu_time(program), how(program).0);
    thread::sleep(Duration::from_millis(60));
    let hits = how(program).0 - before;
    let took = (cpu_time(program) - start).max(Duration::from_nanos(1));
    hits as f64 / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn bridge_dies() {
    let mut program = Program::start("busy");
    let pid = program.pid.to_string();
    let mut moments = Moments::new();
    let attach = ["attach", "-p", &pid, "-e", "app:*", "--via", "ring"];
    let before: Vec<f64> = (0..5).map(|_| rate(&mut program)).collect();
    let (mut after, mut longest, mut were_on) = (Vec::new(), Duration::ZERO, 0);
    for round in 0..times(6) {
        let mut child = bridge()
            .args(attach)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(moments.next(MOMENTS));
        child.kill().unwrap();
        child.wait().unwrap();
        let death = Instant::now();
        were_on += u32::from(how(&mut program).1);
        while how(&mut program).1 {
            assert!(death.elapsed() < OFF, "round {round}: it is still on");
            thread::sleep(Duration::from_millis(2));
        }
        longest = longest.max(death.elapsed());
        after.push(rate(&mut program));
        let next = Attached::start(&[&attach[1..], &["--count"]].concat());
        let (hits, on) = how(&mut program);
        assert!(on, "round {round}");
        // It may have to wait for a CPU.
        while how(&mut program).0 < hits + 5000 {
            thread::sleep(Duration::from_millis(1));
        }
        let next = next.stop(Signal::SIGINT);
        assert_eq!(next.status, 0, "round {round}: {}", next.err);
        assert_ne!(next.row("app:words")[0], "0", "round {round}: {}", next.err);
    }
    let (before, after) = (median(before), median(after));
    println!(
        "{were_on} died while events were on; off after {longest:?} at most; {before:.3e} events/s \
         before, {after:.3e} after"
    );
    // A site that stayed on would cost several times what one costs that is off.
    assert!(after > before / 3.0);
    program.finish();
}

fn program_dies() {
    let mut moments = Moments::new();
    for round in 0..times(8) {
        let mut program = Program::start("forever");
        let pid = program.pid.to_string();
        let attached = Attached::start(&["-p", &pid, "-e", "app:words", "--via", "ring"]);
        assert_eq!(program.ask("go"), "begun");
        thread::sleep(moments.next(RUN));
        program.kill();
        let death = Instant::now();
        let ran = attached.finish();
        assert!(death.elapsed() < OFF, "round {round}");
        assert_eq!(ran.status, 0, "{}", ran.err);
        let seqs: Vec<u64> = ran.bodies("app:words").iter().map(|it| seq(it)).collect();
        assert!(seqs.len() > 640, "{}", seqs.len());
        let expected: Vec<u64> = (0..seqs.len() as u64).collect();
        assert_eq!(seqs, expected, "{}", ran.err);
        assert!(!ran.err.contains("damaged"), "{}", ran.err);
    }
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "a_bridge_that_is_killed_at_any_moment_leaves_its_program_as_it_was",
            bridge_dies,
        ),
        test(
            "a_program_that_is_killed_at_any_moment_gives_what_it_had_committed",
            program_dies,
        ),
    ]);
}
