//! What the programs do.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::{Options, event, tracepoint};

use super::VARIABLE;
use super::outsider::outsider;

/// Names of threads that break formats.
pub(crate) const NAMES: [&std::ffi::CStr; 10] = [
    c"two words",
    c"a\nb",
    c"a;b",
    c"(a) [b]",
    c"x-1 [0] 9.9: e",
    c"\x1b[31m",
    c"\xc3\xa9t\xc3\xa9",
    c"\xff\xfe",
    c"%n%s\"'\\",
    c"",
];

/// A program that says what it does through `tracing`, under a filter that hides most of it.
mod shop {
    use tracing::{debug, instrument, trace, warn};
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::prelude::*;

    use super::{say, step};

    pub(super) fn init() {
        let theirs = tracing_subscriber::registry()
            .with(LevelFilter::WARN)
            .with(tracing_subscriber::fmt::layer().with_writer(std::io::sink));
        tracebraid::tracing::wrap(theirs).init();
    }

    #[instrument(target = "shop::cart")]
    pub(super) fn add(item: u64) {
        debug!(target: "shop::cart", item, user = "ada", "looked up");
        if item.is_multiple_of(2) {
            warn!(target: "shop::cart", left = -1, ratio = 0.5, "sold out");
        }
    }

    /// Adds items, or says something for the first time, a step each; `run` does so all the time.
    pub(super) fn serve() {
        loop {
            match step().as_str() {
                "late" => trace!(target: "shop::cart", "never said before"),
                "run" => loop {
                    (0..2).for_each(add);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                },
                "" => return,
                count => (0..count.parse().unwrap()).for_each(add),
            }
            say("done");
        }
    }
}

pub(super) fn tick(seq: u64) {
    event!(app::tick, seq = seq, who = "tick");
}

pub(super) fn words(seq: u64) {
    event!(app::words, seq = seq, a = 1_u64, b = 2_u64);
}

/// A field of each kind.
fn kinds(number: u64) {
    event!(
        app::kinds,
        number = number,
        user = (!number.is_multiple_of(3)).then_some("alice"),
        small = number as u8,
        signed = -(number as i16),
        large = u64::MAX - number,
        deep = -i128::from(number),
        wide = u128::from(number) << 70,
        maybe = (number > 5).then_some(number as u32),
        yes = number.is_multiple_of(2),
        letter = 'ä',
        half = number as f32 / 2.0,
        double = number as f64 / 4.0,
        took = Duration::from_micros(number),
        bytes = &[0xff_u8, b'a' + number as u8][..],
        place = std::ptr::without_provenance::<u8>(0x1000 + number as usize),
        list = ?[number, 7],
    );
}

/// What `took` takes.
pub(crate) const PAUSE: Duration = Duration::from_millis(60);

#[tracepoint(provider = "app")]
fn took() {
    thread::sleep(PAUSE);
}

/// Waits for a line.
pub(super) fn step() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

pub(super) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").unwrap();
    out.flush().unwrap();
}

fn until_on(name: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while !tracebraid::is_enabled(name) {
        assert!(Instant::now() < end, "{name} is not on");
        thread::sleep(Duration::from_millis(1));
    }
}

#[allow(unsafe_code)]
pub(super) fn fork(child: impl FnOnce()) -> i32 {
    // SAFETY: the program has no other threads than the helper, which holds no lock in the child.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        pid => pid,
    }
}

/// To one of the CPUs, in turn.
#[allow(unsafe_code)]
fn go_to_cpu(turn: usize) {
    // SAFETY: plain memory that the calls fill and read.
    unsafe {
        let cpus = libc::sysconf(libc::_SC_NPROCESSORS_ONLN).max(1) as usize;
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(turn % cpus, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// One ring then holds all that this thread records.
#[allow(unsafe_code)]
fn stay_on_one_cpu() {
    // SAFETY: plain memory that the calls fill and read.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[allow(unsafe_code)]
pub(super) fn wait(pid: i32) {
    let mut status = 0;
    // SAFETY: a place for the status.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0, "a child ended with {status}");
}

fn number(arguments: &[&str], index: usize) -> u64 {
    arguments.get(index).map_or(100, |it| it.parse().unwrap())
}

#[allow(unsafe_code)]
pub(super) fn program(name: &str, arguments: &[&str]) {
    match name {
        "late" | "never" | "outsider" | "tracer" => {}
        "threadless" => tracebraid::init_with(Options::new().no_thread()).unwrap(),
        "shop" | "shop-at-once" => shop::init(),
        "flight" => tracebraid::init_with(Options::new().flight_recorder(64 * 1024)).unwrap(),
        "locked" => {
            tracebraid::init_with(Options::new().appending(tracebraid::Appending::Locked)).unwrap()
        }
        _ => tracebraid::init(),
    }
    if name == "flight" {
        stay_on_one_cpu();
    }
    say(&format!("READY {}", std::process::id()));
    match name {
        "shop" => shop::serve(),
        "shop-at-once" => shop::add(0),
        // So many events when told to, then more on each line.
        "ticks" | "flight" | "locked" => {
            let count = number(arguments, 0);
            let mut seq = 0;
            while step() == "go" {
                for _ in 0..count {
                    tick(seq);
                    words(seq);
                    seq += 1;
                }
                say("done");
            }
        }
        // Traces the process that it is told, for as long as it runs.
        "tracer" => {
            let pid = nix::unistd::Pid::from_raw(step().parse().unwrap());
            nix::sys::ptrace::seize(pid, nix::sys::ptrace::Options::empty()).unwrap();
            say("done");
            step();
        }
        // Nobody in it switches its tracepoints: it never initialises itself, or has no helper thread.
        "outsider" | "threadless" | "insider" => outsider(),
        // Ten events with a field of each kind, on each line.
        "kinds" => {
            while step() == "go" {
                until_on("app:kinds");
                (0..10).for_each(kinds);
                say("done");
            }
        }
        // One event after the other until it is killed.
        "forever" => {
            step();
            for seq in 0.. {
                words(seq);
                if seq == 640 {
                    say("begun");
                }
                if seq % 64 == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        }
        // Events as fast as it can; how many there were, and whether they are on, is said on each line.
        "busy" => {
            let hits = std::sync::atomic::AtomicU64::new(0);
            let over = std::sync::atomic::AtomicBool::new(false);
            let relaxed = std::sync::atomic::Ordering::Relaxed;
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(relaxed) {
                        for seq in 0..1000 {
                            words(seq);
                        }
                        hits.fetch_add(1000, relaxed);
                        // Others want to run as well.
                        thread::yield_now();
                    }
                });
                while step() == "how" {
                    let on = tracebraid::is_enabled("app:words");
                    say(&format!("{} {on}", hits.load(relaxed)));
                }
                over.store(true, relaxed);
            });
        }
        // So many threads with events all along, until it is killed.
        "crowd" => {
            for _ in 0..number(arguments, 0) {
                thread::spawn(|| {
                    for seq in 0.. {
                        words(seq);
                        if seq % 4096 == 0 {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
            }
            step();
        }
        // Initialises its rings when it is told to.
        "late" => {
            step();
            tracebraid::init();
            until_on("app:tick");
            for seq in 0..number(arguments, 0) {
                tick(seq);
            }
            say("done");
            step();
        }
        // Events at once, for commands.
        "at_once" => {
            for seq in 0..number(arguments, 0) {
                tick(seq);
            }
        }
        // Three children in turn, and events before, between and after.
        "forker" => {
            step();
            let mut children = Vec::new();
            for seq in 0..10 {
                tick(seq);
            }
            for generation in 1..=3 {
                children.push(fork(|| {
                    for seq in 0..10 {
                        tick(1000 * generation + seq);
                    }
                }));
            }
            for seq in 10..20 {
                tick(seq);
            }
            let pids: Vec<String> = children.iter().map(i32::to_string).collect();
            children.into_iter().for_each(wait);
            for seq in 20..30 {
                tick(seq);
            }
            // All of it has been recorded.
            say(&pids.join(" "));
            step();
        }
        // A child that initialises itself, and one that starts another program.
        "family" => {
            step();
            let own = fork(|| {
                tracebraid::init();
                until_on("app:tick");
                for seq in 0..10 {
                    tick(5000 + seq);
                }
            });
            wait(own);
            let status = Command::new("/proc/self/exe")
                .env(VARIABLE, "grandchild")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success());
            say(&format!("{own}"));
            step();
        }
        "grandchild" => {
            until_on("app:tick");
            for seq in 0..10 {
                tick(7000 + seq);
            }
        }
        // Many children that fire nothing, and some that fire.
        "storm" => {
            step();
            for child in 0..number(arguments, 0) {
                wait(fork(|| {
                    if child % 10 == 0 {
                        tick(child);
                    }
                }));
            }
            say("done");
            step();
        }
        // Becomes another program.
        "exec" => {
            step();
            for seq in 0..10 {
                tick(seq);
            }
            let error = exec(arguments);
            panic!("exec: {error}");
        }
        // Never initialises itself, and waits until somebody has switched its tracepoint on.
        "never" => {
            // No thread of this process looks at its semaphores.
            let end = Instant::now() + Duration::from_secs(60);
            while !tracebraid::is_enabled("app:tick") {
                assert!(Instant::now() < end, "app:tick is not on");
                thread::sleep(Duration::from_millis(5));
                tracebraid::settle().unwrap();
            }
            // The kernel raises the semaphore before it has placed the probe.
            thread::sleep(Duration::from_millis(200));
            for seq in 0..number(arguments, 0) {
                tick(seq);
            }
        }
        // A system call between any two events, on one CPU and the other.
        "between" => {
            step();
            for seq in 0..number(arguments, 0) {
                if seq % 16 == 0 {
                    go_to_cpu(seq as usize / 16);
                }
                words(2 * seq);
                // SAFETY: no preconditions. (The C library's own function would do as well.)
                unsafe { libc::syscall(libc::SYS_getppid) };
                words(2 * seq + 1);
            }
            say("done");
            step();
        }
        // The same all along, until it is killed.
        "calling" => {
            for seq in 0.. {
                words(2 * seq);
                // SAFETY: no preconditions.
                unsafe { libc::syscall(libc::SYS_getppid) };
                words(2 * seq + 1);
                thread::sleep(Duration::from_micros(100));
            }
        }
        // As many events as there is room for.
        "flood" => {
            step();
            for seq in 0..number(arguments, 0) {
                words(seq);
            }
            say("done");
            step();
        }
        // Two threads hit in turn, each time on another CPU.
        "turns" => {
            step();
            let count = number(arguments, 0);
            let turn = std::sync::atomic::AtomicU64::new(0);
            let turn = &turn;
            thread::scope(|scope| {
                for who in 0..2 {
                    scope.spawn(move || {
                        for seq in (who..count).step_by(2) {
                            go_to_cpu(seq as usize / 2 + who as usize);
                            while turn.load(std::sync::atomic::Ordering::Acquire) != seq {
                                thread::yield_now();
                            }
                            words(seq);
                            turn.store(seq + 1, std::sync::atomic::Ordering::Release);
                        }
                    });
                }
            });
            say("done");
            step();
        }
        // A thread of each of these names.
        "named" => {
            step();
            for (seq, name) in NAMES.iter().enumerate() {
                let named = move || {
                    // SAFETY: a terminated name.
                    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                    words(seq as u64);
                };
                thread::spawn(named).join().unwrap();
            }
            say("done");
            step();
        }
        // Threads that live for one event.
        "threads" => {
            step();
            for seq in 0..number(arguments, 0) {
                thread::Builder::new()
                    .name(format!("short-{seq}"))
                    .spawn(move || words(seq))
                    .unwrap()
                    .join()
                    .unwrap();
            }
            say("done");
            step();
        }
        // Asks for a snapshot now and then.
        "asker" => {
            let mut seq = 0;
            loop {
                match step().as_str() {
                    "go" => {
                        for _ in 0..number(arguments, 0) {
                            words(seq);
                            seq += 1;
                        }
                        say("done");
                    }
                    "slow" => {
                        took();
                        say("done");
                    }
                    "" => break,
                    reason => say(&tracebraid::snapshot(reason).to_string()),
                }
            }
        }
        other => panic!("no program is named {other}"),
    }
}

fn exec(arguments: &[&str]) -> std::io::Error {
    use std::os::unix::process::CommandExt;

    Command::new("/proc/self/exe")
        .env(VARIABLE, arguments.join(" "))
        .exec()
}
