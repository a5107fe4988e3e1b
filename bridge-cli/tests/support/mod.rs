//! What the command-line tests share: targets built from C, the bridge as a child process, and trials
//! that say what they need.

#![allow(dead_code)] // Each test binary uses a part of it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::{SigHandler, Signal};

/// No test waits longer than this for anything. Long enough for an emulated CPU, and never spent where all
/// is well.
pub(crate) const LONG: Duration = Duration::from_secs(100);

// ---- trials ----

/// A test that needs nothing special.
pub(crate) fn test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || catch(run))
}

/// A test that attaches BPF programs. Where that is not possible it is reported as ignored, with the
/// reason as its kind; with `TRACEBRAID_REQUIRE=bpf` it fails instead.
pub(crate) fn bpf_test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    match no_bpf() {
        None => Trial::test(name, move || catch(run)),
        Some(reason) if required("bpf") => Trial::test(name, move || {
            Err(Failed::from(format!("BPF is required: {reason}")))
        }),
        Some(reason) => Trial::test(name, || Ok(()))
            .with_kind(format!("needs bpf: {reason}"))
            .with_ignored_flag(true),
    }
}

/// The same where nothing speaks against it; else it is reported as ignored with that reason.
pub(crate) fn bpf_test_unless(reason: Option<&String>, name: &str, run: fn()) -> Trial {
    match reason {
        None => bpf_test(name, run),
        Some(reason) => Trial::test(name, || Ok(()))
            .with_kind(reason.clone())
            .with_ignored_flag(true),
    }
}

/// What runs the command that follows in a pid namespace of its own.
pub(crate) fn in_pid_namespace() -> Command {
    let mut command = Command::new("unshare");
    command.args(["-p", "-f", "--kill-child", "-m", "--mount-proc"]);
    command
}

/// A test in which the bridge has to be there within a certain time: for CPUs that are no emulation
/// (`TRACEBRAID_SHORT`).
pub(crate) fn timed(test: Trial) -> Trial {
    match std::env::var_os("TRACEBRAID_SHORT") {
        None => test,
        Some(_) => Trial::test(test.name(), || Ok(()))
            .with_kind("an emulated CPU is too slow")
            .with_ignored_flag(true),
    }
}

/// A test that probes kernel functions, which this kernel may have none of.
pub(crate) fn kprobe_test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    if Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
        return bpf_test(name, run);
    }
    Trial::test(name, || Ok(()))
        .with_kind("needs a kernel with CONFIG_KPROBE_EVENTS")
        .with_ignored_flag(true)
}

/// Runs the trials. One after the other: they share two CPUs.
pub(crate) fn run(trials: Vec<Trial>) -> ! {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit()
}

fn catch(run: impl FnOnce()) -> Result<(), Failed> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Failed::from(text.unwrap_or_else(|| "panicked".to_owned()))
    })
}

fn required(what: &str) -> bool {
    std::env::var("TRACEBRAID_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|word| word.trim() == what))
}

/// Why user probes cannot be attached here, as the bridge's own doctor says it.
fn no_bpf() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let output = bridge().arg("doctor").output().expect("bridge-cli starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.contains("user probes"));
        match line {
            Some(line) if line.starts_with("yes") => None,
            Some(line) => Some(line.to_owned()),
            None => Some(format!("doctor says nothing of user probes: {text}")),
        }
    });
    reason.as_deref()
}

// ---- targets ----

/// The program (or, for a name that ends in `.so`, library) of `tests/targets/NAME.c`, built once.
pub(crate) fn build(name: &str) -> PathBuf {
    static BUILT: OnceLock<Mutex<HashMap<String, PathBuf>>> = OnceLock::new();
    let mut built = BUILT.get_or_init(Mutex::default).lock().unwrap();
    if let Some(path) = built.get(name) {
        return path.clone();
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
    let stem = name.trim_end_matches(".so");
    let directory = scratch("targets");
    let path = directory.join(name);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-g", "-pthread", "-o"])
        .arg(&path)
        .arg(source.join(format!("{stem}.c")));
    if name.ends_with(".so") {
        compiler.args(["-shared", "-fPIC"]);
    }
    let status = compiler
        .arg("-ldl")
        .status()
        .expect("the C compiler starts");
    assert!(status.success(), "cc failed on {name}");
    built.insert(name.to_owned(), path.clone());
    path
}

/// A fresh directory of this test binary's own, below the build's scratch directory.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A running target. Killed when dropped.
pub(crate) struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) pid: u32,
}

impl Target {
    /// Starts a program of `tests/targets` and waits until it says that it is ready.
    pub(crate) fn start(name: &str, args: &[&str]) -> Target {
        Target::spawn(Command::new(build(name)).args(args))
    }

    /// The same for any command that prints `READY pid` first.
    pub(crate) fn spawn(command: &mut Command) -> Target {
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("the target starts");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let pid = line
            .trim()
            .strip_prefix("READY ")
            .expect("READY")
            .parse()
            .unwrap();
        Target { child, output, pid }
    }

    /// Lets it begin.
    pub(crate) fn go(&self) {
        kill(self.pid, nix::sys::signal::Signal::SIGUSR1);
    }

    /// Waits until it has rested so often more, as a ticker does between two hits.
    pub(crate) fn await_rests(&self, count: u64) {
        let path = format!("/proc/{}/status", self.pid);
        let rests = || -> u64 {
            let status = std::fs::read_to_string(&path).unwrap();
            let line = |line: &str| {
                line.strip_prefix("voluntary_ctxt_switches:")
                    .map(str::trim)
                    .map(str::parse)
            };
            status.lines().find_map(line).unwrap().unwrap()
        };
        let (before, deadline) = (rests(), Instant::now() + LONG);
        while rests() < before + count {
            assert!(Instant::now() < deadline, "it does not rest");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for its end; its status and the rest of its output.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.child, "the target");
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        (status, text)
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn kill(pid: u32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), signal).unwrap();
}

/// Whether there is such a process, and it is more than a zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait(child: &mut Child, who: &str) -> ExitStatus {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("{who} did not end within {LONG:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

// ---- the bridge ----

pub(crate) fn bridge() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bridge-cli"));
    command.stdin(Stdio::null());
    heed_hangups(&mut command);
    command
}

/// Tests may run under `nohup`, and what it ignores is inherited.
#[allow(unsafe_code)]
fn heed_hangups(command: &mut Command) {
    // SAFETY: `signal` is async-signal-safe, which is what may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::sys::signal::signal(Signal::SIGHUP, SigHandler::SigDfl)?;
            Ok(())
        });
    }
}

/// Runs the bridge to its end.
pub(crate) fn run_bridge(args: &[&str]) -> Ran {
    Ran::from(bridge().args(args).output().expect("bridge-cli starts"))
}

/// What a bridge that has ended left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            status: output.status.code().expect("bridge-cli ends by itself"),
            out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("the messages are UTF-8"),
        }
    }
}

impl Ran {
    /// Lines of the stream whose event is `name`.
    pub(crate) fn events(&self, name: &str) -> Vec<&str> {
        let mark = format!(": {name}: ");
        let end = format!(": {name}:");
        self.out
            .lines()
            .filter(|line| line.contains(&mark) || line.ends_with(&end))
            .collect()
    }

    /// The bodies of those lines.
    pub(crate) fn bodies(&self, name: &str) -> Vec<String> {
        let mark = format!(": {name}: ");
        self.events(name)
            .iter()
            .map(|line| line.split_once(&mark).map_or("", |it| it.1).to_owned())
            .collect()
    }

    /// The row of the summary for `name`: events, hits, misses and lost, as printed.
    pub(crate) fn row(&self, name: &str) -> Vec<String> {
        let line = self
            .err
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no row for {name} in:\n{}", self.err));
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    }
}

impl Ran {
    /// How many hits of `name` the kernel's recursion guard kept from the bridge, whoever made them; 0 where it
    /// does not count them. Of system calls Linux 7.2 was seen to drop some, on an emulated CPU.
    pub(crate) fn missed(&self, name: &str) -> usize {
        self.column("misses", name).parse().unwrap_or(0)
    }

    /// How many hits of `name` are counted as lost, as where a bridge that gets no CPU lets a ring run full.
    pub(crate) fn lost(&self, name: &str) -> usize {
        self.column("lost", name).parse().unwrap()
    }

    /// What the summary has for `name` below this heading; where there are filters it has one more.
    fn column(&self, heading: &str, name: &str) -> String {
        let mut lines = self.err.lines();
        let headings = lines.find(|line| line.split_whitespace().next() == Some("probe"));
        let headings = headings.unwrap_or_else(|| panic!("no summary in:\n{}", self.err));
        let mut headings = headings.split_whitespace().skip(1);
        let at = headings.position(|one| one == heading);
        self.row(name)[at.expect(heading)].clone()
    }
}

/// The thread of a line, which a process of one thread shares its number with.
pub(crate) fn pid_of(line: &str) -> &str {
    // `%16s-%-7d [%03d] …`: the name may hold blanks and dashes, what follows the last dash before ` [` not.
    let head = line.split(" [").next().unwrap();
    head.rsplit('-').next().unwrap().trim()
}

/// An `attach -v` that has said that it is attached.
pub(crate) struct Attached {
    child: Child,
    pub(crate) out: Option<ChildStdout>,
    errors: JoinHandle<String>,
    pub(crate) pid: u32,
}

impl Attached {
    /// Starts `bridge-cli attach -v ARGS` and waits until its probes are in place.
    pub(crate) fn start(args: &[&str]) -> Attached {
        Attached::spawn(bridge().arg("attach").arg("-v").args(args))
    }

    /// Starts `bridge-cli stat -v --format json ARGS` and waits until its probes are in place.
    pub(crate) fn start_stat(args: &[&str]) -> Attached {
        Attached::spawn(bridge().args(["stat", "-v", "--format", "json"]).args(args))
    }

    pub(crate) fn spawn(command: &mut Command) -> Attached {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bridge-cli starts");
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        loop {
            let before = seen.len();
            if errors.read_line(&mut seen).unwrap() == 0 {
                let status = child.wait().unwrap();
                panic!("bridge-cli ended with {status} before it was attached:\n{seen}");
            }
            if seen[before..].starts_with("bridge-cli: attached ") {
                break;
            }
        }
        let errors = thread::spawn(move || read_rest(errors, seen));
        let out = child.stdout.take();
        Attached {
            pid: child.id(),
            child,
            out,
            errors,
        }
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        let out = self.out.take();
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut out) = out {
                out.read_to_end(&mut text).unwrap();
            }
            text
        });
        let status = wait(&mut self.child, "bridge-cli");
        Ran {
            status: status
                .code()
                .unwrap_or_else(|| panic!("bridge-cli was ended by {status}")),
            out: String::from_utf8(reader.join().unwrap()).expect("the output is UTF-8"),
            err: self.errors.join().unwrap(),
        }
    }

    /// Waits for its end without ever reading its output.
    pub(crate) fn finish_unread(mut self) -> Ran {
        let status = wait(&mut self.child, "bridge-cli");
        Ran {
            status: status.code().expect("bridge-cli ends by itself"),
            out: String::new(),
            err: self.errors.join().unwrap(),
        }
    }

    /// Kills it, and waits until it is gone, with all that the kernel keeps for it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it by a signal and waits.
    pub(crate) fn stop(self, signal: nix::sys::signal::Signal) -> Ran {
        kill(self.pid, signal);
        self.finish()
    }
}

fn read_rest(mut errors: BufReader<ChildStderr>, mut seen: String) -> String {
    errors.read_to_string(&mut seen).unwrap();
    seen
}
