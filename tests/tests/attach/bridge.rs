//! The bridge as a child process, and what it prints.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracebraid_tests::programs;

use super::directory;

/// No test waits longer than this for anything.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The program, built as these tests are and in the same directory.
pub(crate) fn path() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| programs::bridge(directory()))
}

/// How the target's own tracepoints come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// The rings where there are some, else USDT.
    Auto,
    Ring,
    Usdt,
}

impl Via {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Via::Auto => "auto",
            Via::Ring => "ring",
            Via::Usdt => "usdt",
        }
    }

    /// For the names of tests.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Via::Auto => "by_itself",
            Via::Ring => "through_the_rings",
            Via::Usdt => "through_usdt",
        }
    }
}

/// Runs the bridge to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    let output = Command::new(path())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the bridge starts");
    Ran {
        status: output.status.code(),
        out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("the messages are UTF-8"),
    }
}

/// What a bridge that has ended left.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its exit status; `None` where a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn assert_well(&self) {
        assert_eq!(self.status, Some(0), "{}", self.err);
    }

    /// The lines of the text format.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.out.lines().map(Line::parse)
    }

    /// The row of the summary for a tracepoint: events, hits and lost.
    pub(crate) fn row(&self, name: &str) -> (u64, u64, u64) {
        let row = self.columns(name);
        (row[0], row[1], row[3])
    }

    /// The same where there are filters: events, hits, filtered out and lost.
    pub(crate) fn row_with_filters(&self, name: &str) -> (u64, u64, u64, u64) {
        let row = self.columns(name);
        (row[0], row[1], row[2], row[4])
    }

    /// The numbers of a row; `?` is 0.
    fn columns(&self, name: &str) -> Vec<u64> {
        let row = self
            .err
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name))
            .unwrap_or_else(|| panic!("no row for {name} in:\n{}", self.err));
        let columns = row.split_whitespace().skip(1);
        columns
            .map_while(|word| match word {
                "?" => Some(0),
                number => number.parse().ok(),
            })
            .collect()
    }
}

/// A line of the text format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) tid: u32,
    pub(crate) cpu: Option<u32>,
    /// Nanoseconds.
    pub(crate) time: u64,
    pub(crate) event: &'a str,
    pub(crate) body: &'a str,
}

impl<'a> Line<'a> {
    /// Reads `%16s-%-7d [%03d] %6u.%09u: event: body`.
    fn parse(line: &'a str) -> Line<'a> {
        let read = || {
            let (who, rest) = line.split_once(" [")?;
            let (cpu, rest) = rest.split_once("] ")?;
            let (time, rest) = rest.trim_start().split_once(": ")?;
            let (event, body) = rest.split_once(": ").or_else(|| {
                // An event without fields.
                Some((rest.strip_suffix(':')?, ""))
            })?;
            let (seconds, fraction) = time.split_once('.')?;
            Some(Line {
                tid: who.trim_end().rsplit('-').next()?.parse().ok()?,
                cpu: cpu.trim().parse().ok(),
                time: seconds.parse::<u64>().ok()? * 1_000_000_000
                    + fraction.parse::<u64>().ok()?,
                event,
                body,
            })
        };
        read().unwrap_or_else(|| panic!("no line of the text format: {line:?}"))
    }

    /// How many events this line says were lost.
    pub(crate) fn lost(&self) -> Option<u64> {
        let rest = self.body.strip_prefix("LOST ")?;
        rest.split(' ').next()?.parse().ok()
    }
}

/// An `attach -v` that has said that it is attached.
pub(crate) struct Attached {
    child: Child,
    out: Option<ChildStdout>,
    reader: Option<JoinHandle<String>>,
    errors: JoinHandle<String>,
}

impl Attached {
    /// Attaches to a process and reads what is printed all along.
    pub(crate) fn start(pid: u32, via: Via, arguments: &[&str]) -> Attached {
        let mut attached = Attached::unread(pid, via, arguments);
        attached.read();
        attached
    }

    /// Attaches and leaves what is printed in the pipe.
    pub(crate) fn unread(pid: u32, via: Via, arguments: &[&str]) -> Attached {
        let pid = pid.to_string();
        let mut command = Command::new(path());
        command
            .args(["attach", "-v", "-p", &pid, "--via", via.name()])
            .args(arguments);
        Attached::spawn(&mut command)
    }

    /// Any command that says that it is attached.
    pub(crate) fn spawn(command: &mut Command) -> Attached {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bridge starts");
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut seen = String::new();
        loop {
            let before = seen.len();
            if errors.read_line(&mut seen).expect("text") == 0 {
                let status = child.wait().expect("its status");
                panic!("the bridge ended with {status} before it was attached:\n{seen}");
            }
            if seen[before..].starts_with("bridge-cli: attached ") {
                break;
            }
        }
        Attached {
            out: child.stdout.take(),
            child,
            reader: None,
            errors: std::thread::spawn(move || rest(errors, seen)),
        }
    }

    /// Begins to read what is printed.
    pub(crate) fn read(&mut self) {
        let mut out = self.out.take().expect("nobody reads it yet");
        self.reader = Some(std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).expect("the output is UTF-8");
            text
        }));
    }

    pub(crate) fn signal(&self, signal: i32) {
        super::target::kill(self.child.id(), signal);
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        let end = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                break status;
            }
            if Instant::now() > end {
                self.child.kill().expect("it can be killed");
                panic!("the bridge did not end within {LONG:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let joined = |thread: JoinHandle<String>| thread.join().expect("what it printed");
        Ran {
            status: status.code(),
            out: self.reader.map(joined).unwrap_or_default(),
            err: joined(self.errors),
        }
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(self) -> Ran {
        self.signal(libc::SIGINT);
        self.finish()
    }
}

fn rest(mut errors: BufReader<ChildStderr>, mut seen: String) -> String {
    errors
        .read_to_string(&mut seen)
        .expect("messages are UTF-8");
    seen
}
