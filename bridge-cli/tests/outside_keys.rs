//! Programs in which nobody switches keys: the bridge does it from outside, and undoes it, by itself or,
//! when it is killed, by its janitor.

mod ring_program;
mod ring_stream;
mod support;

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bridge::keys::{Files, Keys, Rule, Way};
use bridge::target::{Process, Semaphore, Site, Tracepoint};
use nix::sys::signal::Signal;
use ring_program::Program;
use ring_stream::seqs;
use support::{Attached, LONG, Ran, bpf_test, is_running, kill};

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        bpf_test(
            "hits_of_a_program_that_never_called_init_come_with_their_values",
            || {
                for (program, via) in [
                    ("outsider", "auto"),
                    ("outsider", "usdt"),
                    ("threadless", "auto"),
                    ("threadless", "usdt"),
                ] {
                    let mut program = Program::start(program);
                    let attached = attach(&program, &["--via", via]);
                    assert_eq!(program.ask("go 200"), "done");
                    let ran = attached.stop(Signal::SIGINT);
                    expect(&ran, 0..200);
                    assert!(
                        ran.bodies("app:words")[7].ends_with("seq=7 a=1 b=2"),
                        "{}",
                        ran.out
                    );
                    assert_eq!(program.ask("sites_on"), "0");
                    assert_eq!(state(&program), (0, 0));
                    program.finish();
                }
            },
        ),
        bpf_test(
            "a_killed_bridge_leaves_no_key_on_no_semaphore_raised_and_no_process",
            || {
                let mut program = Program::start("outsider");
                for _ in 0..if is_soak() { 100 } else { 5 } {
                    let attached = attach(&program, &[]);
                    program.ask("go 10");
                    assert_eq!(janitors_of(attached.pid).len(), 1);
                    let janitor = janitors_of(attached.pid)[0];
                    assert_ne!(state(&program).0, 0);
                    kill(attached.pid, Signal::SIGKILL);
                    let start = Instant::now();
                    while state(&program) != (0, 0) {
                        assert!(start.elapsed() < LONG, "{:?}", state(&program));
                        thread::sleep(Duration::from_millis(1));
                    }
                    while is_running(janitor) {
                        assert!(start.elapsed() < LONG);
                        thread::sleep(Duration::from_millis(1));
                    }
                    drop(attached);
                    assert_eq!(program.ask("go 10"), "done");
                }
                let attached = attach(&program, &[]);
                program.ask("go 10");
                expect(
                    &attached.stop(Signal::SIGINT),
                    if is_soak() { 2000..2010 } else { 100..110 },
                );
                program.finish();
            },
        ),
        bpf_test(
            "the_janitor_ends_with_the_bridge_and_with_the_target",
            || {
                let mut program = Program::start("outsider");
                let attached = attach(&program, &[]);
                let janitor = janitors_of(attached.pid)[0];
                attached.stop(Signal::SIGTERM);
                assert!(!is_running(janitor));
                let attached = attach(&program, &[]);
                let janitor = janitors_of(attached.pid)[0];
                program.kill();
                assert_eq!(attached.finish().status, 0);
                assert!(!is_running(janitor));
            },
        ),
        bpf_test(
            "a_program_that_calls_init_meanwhile_goes_on_by_itself",
            || {
                let mut program = Program::start("outsider");
                let attached = attach(&program, &[]);
                program.ask("go 50");
                program.ask("init");
                program.ask("go 50");
                let ran = attached.stop(Signal::SIGINT);
                expect(&ran, 0..100);
                eventually_off(&program);
                program.finish();
            },
        ),
        bpf_test("what_the_program_itself_wants_stays_on", || {
            let mut program = Program::start("outsider");
            assert_eq!(program.ask("enable app:tick"), "1");
            let attached = attach(&program, &[]);
            program.ask("go 10");
            assert_eq!(program.ask("enable app:words"), "1");
            expect(&attached.stop(Signal::SIGINT), 0..10);
            assert_eq!(program.ask("sites_on"), "2");
            program.ask("disable app:words");
            let attached = attach(&program, &[]);
            program.ask("disable app:tick");
            program.ask("go 10");
            expect(&attached.stop(Signal::SIGINT), 10..20);
            assert_eq!(program.ask("sites_on"), "0");
            program.finish();
        }),
        bpf_test(
            "a_program_that_may_not_be_dumped_is_attached_all_the_same",
            || {
                let mut program = Program::start("outsider");
                program.ask("undumpable");
                let attached = attach(&program, &[]);
                program.ask("go 20");
                expect(&attached.stop(Signal::SIGINT), 0..20);
                assert_eq!(state(&program), (0, 0));
                program.finish();
            },
        ),
        bpf_test(
            "nothing_is_written_for_tracepoints_that_test_their_semaphore",
            || {
                let mut program = Program::start("outsider");
                let attached =
                    Attached::start(&["-p", &program.pid.to_string(), "-e", "app:tested"]);
                program.ask("go 20");
                assert_eq!(janitors_of(attached.pid), []);
                // Twice where the probe is in a page of the file that is mapped twice (docs/testing.md).
                let (keys, semaphore) = state(&program);
                assert!(
                    keys == 0 && [1, 2].contains(&semaphore),
                    "{keys} {semaphore}"
                );
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(seqs(&ran, "app:tested"), (0..20).collect::<Vec<_>>());
                program.finish();
            },
        ),
        bpf_test("two_bridges_each_get_every_hit", || {
            let mut program = Program::start("outsider");
            let first = attach(&program, &[]);
            program.ask("go 10");
            let second = attach(&program, &[]);
            program.ask("go 10");
            expect(&first.stop(Signal::SIGINT), 0..20);
            program.ask("go 10");
            expect(&second.stop(Signal::SIGINT), 10..30);
            assert_eq!(state(&program), (0, 0));
            program.finish();
        }),
        bpf_test(
            "a_child_that_was_forked_meanwhile_is_off_afterwards",
            || {
                for how in [Signal::SIGINT, Signal::SIGKILL] {
                    let mut program = Program::start("outsider");
                    let attached = attach(&program, &[]);
                    program.ask("go 1");
                    let child: u32 = program.ask("leave").parse().unwrap();
                    assert_ne!(state_of(child).0, 0);
                    if how == Signal::SIGKILL {
                        kill(attached.pid, how);
                    } else {
                        attached.stop(how);
                    }
                    let start = Instant::now();
                    while state_of(child) != (0, 0) {
                        assert!(start.elapsed() < LONG, "{:?}", state_of(child));
                        thread::sleep(Duration::from_millis(1));
                    }
                    kill(child, Signal::SIGKILL);
                    program.kill();
                }
            },
        ),
        bpf_test(
            "keys_are_switched_under_running_threads_and_the_process_is_not_stopped",
            || {
                for way in [Way::Plain, Way::Traced] {
                    storm(way);
                }
            },
        ),
        bpf_test(
            "who_traces_a_process_is_named_where_only_a_tracer_may_write",
            || {
                let program = Program::start("outsider");
                let mut tracer = Program::start("tracer");
                assert_eq!(tracer.ask(&program.pid.to_string()), "done");
                Semaphores::of(&program).set("app:words", true);
                let mut keys = Keys::by(program.pid, Way::Traced).unwrap();
                let found = keys.look(&mut Files::new(), Rule::Equal).unwrap();
                assert_eq!(found.len(), 1);
                let error = keys.write(found).unwrap_err();
                let named = format!("process {} traces it", tracer.pid);
                assert!(error.to_string().contains(&named), "{error}");
                assert_eq!(state(&program).0, 0);
                // Where anybody may write, its tracer is in nobody's way.
                let attached = attach(&program, &[]);
                tracer.finish();
                drop(attached);
            },
        ),
    ]);
}

fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

fn attach(program: &Program, more: &[&str]) -> Attached {
    let pid = program.pid.to_string();
    let mut args = vec!["-p", &pid, "-e", "app:*"];
    args.extend(more);
    Attached::start(&args)
}

/// Each tracepoint was hit once with each of these numbers.
#[track_caller]
fn expect(ran: &Ran, expected: std::ops::Range<u64>) {
    let expected: Vec<u64> = expected.collect();
    assert_eq!(ran.status, 0, "{}", ran.err);
    for event in ["app:tick", "app:words", "app:tested"] {
        assert_eq!(seqs(ran, event), expected, "{event}\n{}", ran.err);
    }
}

/// The children of a bridge that wait for its end.
fn janitors_of(bridge: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{bridge}/task/{bridge}/children"));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
    pids.filter(|pid| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.trim() == "bridge-janitor"
    })
    .collect()
}

/// The program's own tracepoints and where its file is loaded.
fn tracepoints(pid: u32) -> (u64, Vec<Tracepoint>) {
    let process = Process::open(pid).unwrap();
    let scan = process.binaries().unwrap();
    let binary = &scan.binaries[0];
    let bias = process.load_bias(binary).unwrap().unwrap();
    (bias, binary.tracepoints().to_vec())
}

fn memory(pid: u32) -> std::fs::File {
    let path = format!("/proc/{pid}/mem");
    let options = std::fs::File::options().read(true).write(true).open(path);
    options.unwrap()
}

/// How many keys are on, and the sum of the semaphores, as the process's memory has them.
fn state(program: &Program) -> (usize, u64) {
    state_of(program.pid)
}

fn state_of(pid: u32) -> (usize, u64) {
    let (bias, points) = tracepoints(pid);
    let memory = memory(pid);
    let is_on = |site: &&Site| {
        let mut bytes = [0; 4];
        memory
            .read_exact_at(&mut bytes, site.address + bias)
            .unwrap();
        assert!(bytes[2] == 0xc0 || bytes[2] == 0x84, "{bytes:x?}");
        bytes[2] == 0xc0
    };
    let sites = points.iter().flat_map(|point| &point.sites);
    let on = sites.filter(|site| !site.tests_semaphore).filter(is_on);
    let semaphore = |address: u64| {
        let mut bytes = [0; 2];
        memory.read_exact_at(&mut bytes, address + bias).unwrap();
        u64::from(u16::from_le_bytes(bytes))
    };
    let semaphores = points.iter().flat_map(|point| &point.locations);
    let sum = semaphores.map(|location| match location.semaphore {
        Semaphore::InFile { address, .. } => semaphore(address),
        other => panic!("{other:?}"),
    });
    (on.count(), sum.sum())
}

#[track_caller]
fn eventually_off(program: &Program) {
    let start = Instant::now();
    while state(program) != (0, 0) {
        assert!(start.elapsed() < LONG, "{:?}", state(program));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Semaphores, to be set as the kernel does when readers come and go.
struct Semaphores {
    memory: std::fs::File,
    bias: u64,
    points: Vec<Tracepoint>,
}

impl Semaphores {
    fn of(program: &Program) -> Semaphores {
        let (bias, points) = tracepoints(program.pid);
        Semaphores {
            memory: memory(program.pid),
            bias,
            points,
        }
    }

    fn set(&self, name: &str, raised: bool) {
        let point = self.points.iter().find(|it| it.full_name() == name);
        let Semaphore::InFile { address, .. } = point.unwrap().locations[0].semaphore else {
            panic!("{name} has no semaphore")
        };
        let value = u16::from(raised).to_le_bytes();
        self.memory
            .write_all_at(&value, address + self.bias)
            .unwrap();
    }
}

/// The keys are switched again and again while threads run through them, and while signals come: of a
/// process that is traced every signal goes to its tracer first.
fn storm(way: Way) {
    let mut program = Program::start("outsider");
    program.ask("busy 4");
    let mut files = Files::new();
    let mut keys = Keys::by(program.pid, way).unwrap();
    let rounds = match (way, is_soak()) {
        (_, true) => 100_000,
        (Way::Plain, false) => 2_000,
        (Way::Traced, false) => 300,
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                kill(program.pid, Signal::SIGWINCH);
                thread::sleep(Duration::from_micros(50));
            }
        });
        let switch = Semaphores::of(&program);
        for round in 0..rounds {
            switch.set("app:words", round % 2 == 0);
            let found = keys.look(&mut files, Rule::Equal).unwrap();
            assert_eq!((found.len(), found.strange), (1, 0), "round {round}");
            assert_eq!(keys.write(found).unwrap(), 1);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(state(&program), (0, 0));
    // It runs, all threads of it.
    assert_eq!(program.ask("go 1"), "done");
    program.finish();
}
