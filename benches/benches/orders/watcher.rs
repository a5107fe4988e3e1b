//! Those who watch the service: ours, and what else shows system calls or counts the same probes.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use tracebraid_benches::children;

/// How long a watcher may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);
/// For how long a watcher that has attached all opens nothing more.
const QUIET: Duration = Duration::from_secs(1);
/// The kernel's events that the bridge takes where nobody says which.
const SCHED: [&str; 8] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
];

/// A way to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// `bridge-cli attach`.
    Bridge(Asked),
    /// `perf trace`: system calls.
    PerfTrace,
    /// bpftrace, counting the same probes as ours.
    Bpftrace,
    /// `strace -f`: system calls.
    Strace,
}

/// What the bridge is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All tracepoints through the rings, scheduling and system calls.
    All,
    /// The service's own tracepoints, through the rings.
    Own,
    /// These, and who is on which CPU.
    Switches,
    /// As `All`, with the tracepoints through their USDT probes.
    Usdt,
}

impl Asked {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Asked::All => &["--via", "ring"],
            Asked::Own => &["--via", "ring", "-e", "orders:*"],
            Asked::Switches => &[
                "--via",
                "ring",
                "-e",
                "orders:*",
                "-e",
                "sched:sched_switch",
            ],
            Asked::Usdt => &["--via", "usdt"],
        }
    }
}

impl Watcher {
    /// All of them.
    pub(crate) const ALL: [Watcher; 7] = [
        Watcher::Bridge(Asked::All),
        Watcher::Bridge(Asked::Own),
        Watcher::Bridge(Asked::Switches),
        Watcher::Bridge(Asked::Usdt),
        Watcher::PerfTrace,
        Watcher::Bpftrace,
        Watcher::Strace,
    ];

    /// What it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Watcher::Bridge(Asked::All) => "ring",
            Watcher::Bridge(Asked::Own) => "ring-own",
            Watcher::Bridge(Asked::Switches) => "ring-switches",
            Watcher::Bridge(Asked::Usdt) => "usdt",
            Watcher::PerfTrace => "perf-trace",
            Watcher::Bpftrace => "bpftrace",
            Watcher::Strace => "strace",
        }
    }

    /// The command that watches the process.
    fn command(self, bridge: &Path, service: &Path, pid: u32) -> Command {
        let pid = pid.to_string();
        let mut command = match self {
            Watcher::Bridge(_) => Command::new(bridge),
            Watcher::PerfTrace => Command::new("perf"),
            Watcher::Bpftrace => Command::new("bpftrace"),
            Watcher::Strace => Command::new("strace"),
        };
        match self {
            Watcher::Bridge(asked) => command
                .args(["attach", "--verbose", "-p", &pid, "-o", "/dev/null"])
                .args(asked.arguments()),
            Watcher::PerfTrace => command.args(["trace", "-p", &pid, "-o", "/dev/null"]),
            Watcher::Bpftrace => command
                .args(["-p", &pid, "-e", &script(service, &pid)])
                .env("BPFTRACE_MAX_PROBES", "2048"),
            Watcher::Strace => command.args(["-f", "-p", &pid, "-o", "/dev/null"]),
        };
        command
    }

    /// What it prints when it has begun.
    fn sign(self) -> Option<&'static str> {
        match self {
            Watcher::Bridge(_) => Some("bridge-cli: attached "),
            Watcher::PerfTrace => None,
            Watcher::Bpftrace => Some("begun"),
            Watcher::Strace => Some(" attached"),
        }
    }

    /// Starts it, and waits until it watches. The error is why it cannot be had.
    pub(crate) fn start(self, bridge: &Path, service: &Path, pid: u32) -> Result<Watching, String> {
        let name = self.name();
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let mut command = self.command(bridge, service, pid);
        command.stdin(Stdio::null());
        // bpftrace talks on its standard output, the others beside it.
        match self {
            Watcher::Bpftrace => command.stdout(Stdio::piped()).stderr(Stdio::null()),
            _ => command.stdout(Stdio::null()).stderr(Stdio::piped()),
        };
        let mut child = children::spawn(&mut command).map_err(failed)?;
        let pipe: Box<dyn Read + Send> = match (child.stdout.take(), child.stderr.take()) {
            (Some(pipe), _) => Box::new(pipe),
            (_, Some(pipe)) => Box::new(pipe),
            _ => return Err(format!("{name}: no output")),
        };
        let sign = self.sign();
        let (sender, begun) = mpsc::channel();
        let listener = std::thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sign.is_some_and(|sign| line.contains(sign)) {
                    // The receiver goes when it has heard it once.
                    let _ = sender.send(());
                }
                text += &line;
                text.push('\n');
            }
            text
        });
        let mut watching = Watching {
            watcher: self,
            child,
            listener: Some(listener),
        };
        let has_begun = match sign {
            Some(_) => begun.recv_timeout(PATIENCE).is_ok(),
            None => true,
        };
        match self {
            // What comes through USDT is switched by a thread of the service.
            Watcher::Bridge(_) | Watcher::Strace => sleep(Duration::from_millis(400)),
            // They say nothing once all is attached, but have opened a descriptor for each probe then.
            Watcher::PerfTrace | Watcher::Bpftrace => watching.wait_for_descriptors(),
        }
        match has_begun && watching.is_running() {
            true => Ok(watching),
            false => {
                let text = watching.stop();
                Err(format!(
                    "{name} did not begin: {}",
                    text.trim().replace('\n', "; ")
                ))
            }
        }
    }
}

/// What bpftrace is to count.
fn script(service: &Path, pid: &str) -> String {
    let sched: Vec<String> = SCHED
        .iter()
        .map(|event| format!("tracepoint:sched:{event}"))
        .collect();
    format!(
        "BEGIN {{ printf(\"begun\\n\"); }} \
         usdt:{}:orders:* {{ @[probe] = count(); }} \
         {} {{ @[probe] = count(); }} \
         tracepoint:raw_syscalls:sys_enter, tracepoint:raw_syscalls:sys_exit /pid == {pid}/ {{ @[probe] = count(); }}",
        service.display(),
        sched.join(", ")
    )
}

/// A watcher at work; ended when dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watcher: Watcher,
    child: Child,
    listener: Option<JoinHandle<String>>,
}

/// What one of ours saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Events that were handed to the output.
    pub(crate) events: u64,
    /// Events that were not.
    pub(crate) lost: u64,
    /// Seconds of CPU.
    pub(crate) cpu: f64,
}

impl Watching {
    /// Ends it. What ours counted; of others, that they watched at all. The error is that they did not.
    pub(crate) fn end(mut self) -> Result<Option<Seen>, String> {
        if !self.is_running() {
            return Err(format!(
                "{} has ended early: {}",
                self.watcher.name(),
                self.stop()
            ));
        }
        let text = self.stop();
        let seen = match self.watcher {
            Watcher::Bridge(_) => Some(read_summary(&text)),
            Watcher::Bpftrace if !text.contains("orders:charge") => None,
            _ => return Ok(None),
        };
        match seen.flatten() {
            Some(seen) if seen.events > 0 => Ok(Some(seen)),
            _ => Err(format!("{} saw nothing: {text}", self.watcher.name())),
        }
    }

    /// Waits until it has opened no descriptor for a while.
    fn wait_for_descriptors(&mut self) {
        let directory = format!("/proc/{}/fd", self.child.id());
        let count = || std::fs::read_dir(&directory).map_or(0, Iterator::count);
        let limit = Instant::now() + PATIENCE;
        let (mut last, mut since) = (0, Instant::now());
        while since.elapsed() < QUIET && Instant::now() < limit {
            sleep(Duration::from_millis(20));
            let now = count();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Ends it and gives what it said.
    fn stop(&mut self) -> String {
        // It has ended or cannot be waited for; the text says more than the status.
        let _ = children::end(&mut self.child, libc::SIGINT);
        let listener = self.listener.take();
        listener
            .and_then(|listener| listener.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop();
    }
}

/// `bridge-cli: 10 events in 1.00 s, 0 lost, …` and `bridge-cli: took 0.5 s of CPU, …`.
fn read_summary(text: &str) -> Option<Seen> {
    let line = text.lines().find(|line| line.contains(" events in "))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let cpu = text.lines().find_map(|line| line.split_once("took "))?.1;
    Some(Seen {
        events: words.get(1)?.parse().ok()?,
        lost: words.get(6)?.parse().ok()?,
        cpu: cpu.split(' ').next()?.parse().ok()?,
    })
}

/// The programs of the bench.
#[derive(Debug)]
pub(crate) struct Programs {
    /// `bridge-cli`.
    pub(crate) bridge: PathBuf,
    /// `orders`.
    pub(crate) service: PathBuf,
    /// `orders-load`.
    pub(crate) load: PathBuf,
}
