//! A stream of the bridge, read line by line: what stands within what.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use tracebraid_tests::programs;

use crate::service::{Scratch, Service};

/// What is attached to: libraries, the service, and the kernel.
const SOURCES: [&str; 4] = ["h2*:*", "tower_http*:*", "orders:*", "sched:sched_switch"];

pub(crate) fn one_stream() {
    let data = Scratch::create("orders-attached");
    let service = Service::start(&["--data", data.path()]);
    let bridge = Attached::start(service.pid());
    // As many as the rings have room for, however late the bridge comes to read them.
    let arguments = ["--rate", "16", "--seconds", "1", "--connections", "2"];
    let (good, text) = service.load(&[&arguments[..], &["--http2"]].concat());
    assert!(good && text.starts_with("16 answers"), "{text}");
    let out = bridge.interrupt();
    let lines: Vec<Line<'_>> = out.lines().map(Line::parse).collect();

    for (one, next) in lines.iter().zip(&lines[1..]) {
        assert!(one.time <= next.time, "{one:?} stands before {next:?}");
    }
    let of = |prefix: &str| {
        lines
            .iter()
            .filter(|line| line.event.starts_with(prefix))
            .count()
    };
    for source in ["h2.", "tower_http.trace.make_span:", "orders:", "sched:"] {
        assert!(of(source) >= 16, "{source}: {}", of(source));
    }
    let mut nesting = Nesting::default();
    for line in &lines {
        nesting.take(line);
    }
    nesting.judge();
}

/// What has been seen of a stream, as far as it says what is within what.
#[derive(Default)]
struct Nesting<'a> {
    /// The spans that threads are in, by thread, from the outermost.
    entered: BTreeMap<u32, Vec<u64>>,
    /// The names of spans, by number.
    spans: BTreeMap<u64, &'a str>,
    /// When orders were taken in.
    checkouts: BTreeMap<u64, Time>,
    /// When threads last came to a CPU.
    running_since: BTreeMap<u64, Time>,
    /// Requests that an order was taken in.
    with_order: BTreeSet<u64>,
    /// Names of the spans that libraries' events were in.
    said_in: BTreeSet<&'a str>,
    /// Spans of h2 within one another.
    h2_in_h2: usize,
    /// Charges by a thread that the kernel let run when the order was there.
    charges_woken_for: usize,
}

impl<'a> Nesting<'a> {
    fn take(&mut self, line: &Line<'a>) {
        let within = self.entered.entry(line.tid).or_default();
        if let Some(next) = line.number("next_pid") {
            self.running_since.insert(next, line.time);
        } else if line.event.ends_with("__enter") {
            within.push(line.number("id").expect("a span"));
        } else if line.event.ends_with("__exit") {
            let id = line.number("id");
            assert_eq!(within.pop(), id, "left is what was entered last: {line:?}");
        } else if let (Some(id), Some(parent)) = (line.number("id"), line.number("parent")) {
            let innermost = within.last().copied().unwrap_or(0);
            assert!([0, innermost].contains(&parent), "{line:?} in {innermost}");
            self.spans.insert(id, line.event);
            let is_h2 = |name: &str| name.starts_with("h2.");
            let parent = self.spans.get(&parent).copied().unwrap_or("");
            self.h2_in_h2 += usize::from(is_h2(line.event) && is_h2(parent));
        } else if let Some(span) = line.number("span") {
            assert_eq!(within.last().copied().unwrap_or(0), span, "{line:?}");
            self.said_in.extend(self.spans.get(&span).copied());
        } else if line.event == "orders:checkout" {
            let request = within
                .iter()
                .find(|id| self.spans.get(id).copied() == Some(REQUEST));
            self.with_order
                .insert(*request.expect("an order is taken in a request"));
            let order = line.number("order").expect("its number");
            self.checkouts.insert(order, line.time);
        } else if line.event == "orders:charge" {
            let order = line.number("order_id").expect("its number");
            let since = self.running_since.get(&line.tid.into());
            let taken_in = self.checkouts[&order];
            self.charges_woken_for += usize::from(since.is_some_and(|since| *since > taken_in));
        }
    }

    fn judge(&self) {
        // Of 16 requests one of each connection looks up an order.
        assert_eq!(self.with_order.len(), 14);
        assert!(self.said_in.contains(REQUEST), "{:?}", self.said_in);
        assert!(
            self.said_in.iter().any(|name| name.starts_with("h2.")),
            "{:?}",
            self.said_in
        );
        assert!(self.h2_in_h2 > 0);
        assert!(self.charges_woken_for > 0);
    }
}

/// The span of a request.
const REQUEST: &str = "tower_http.trace.make_span:request";

/// Seconds and nanoseconds.
type Time = (u64, u64);

/// A line of the text format.
#[derive(Debug)]
struct Line<'a> {
    tid: u32,
    time: Time,
    event: &'a str,
    body: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Line<'a> {
        let read = || {
            let (who, rest) = line.split_once(" [")?;
            let (_, rest) = rest.split_once("] ")?;
            let (time, rest) = rest.trim_start().split_once(": ")?;
            let without_fields = || Some((rest.strip_suffix(':')?, ""));
            let (event, body) = rest.split_once(": ").or_else(without_fields)?;
            let (seconds, nanoseconds) = time.split_once('.')?;
            Some(Line {
                tid: who.trim_end().rsplit('-').next()?.parse().ok()?,
                time: (seconds.parse().ok()?, nanoseconds.parse().ok()?),
                event,
                body,
            })
        };
        read().unwrap_or_else(|| panic!("no line of the text format: {line:?}"))
    }

    /// The field of this name, if it is a number.
    fn number(&self, name: &str) -> Option<u64> {
        let mut words = self.body.split(' ');
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }
}

/// A bridge that is attached, and whose stream is read.
struct Attached {
    child: Child,
    out: JoinHandle<String>,
    errors: JoinHandle<String>,
}

impl Attached {
    /// Attaches; it is when this returns.
    fn start(pid: u32) -> Attached {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let mut command = Command::new(programs::bridge(directory));
        command.args(["attach", "-v", "-p", &pid.to_string()]);
        for source in SOURCES {
            command.args(["-e", source]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bridge starts");
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut seen = String::new();
        while !seen
            .lines()
            .any(|line| line.starts_with("bridge-cli: attached "))
        {
            let read = errors.read_line(&mut seen).expect("text");
            assert_ne!(read, 0, "the bridge ended before it was attached:\n{seen}");
        }
        let out = child.stdout.take().expect("a pipe");
        Attached {
            child,
            out: rest(out),
            errors: rest(errors),
        }
    }

    /// Ends it as its user would; what it printed.
    fn interrupt(mut self) -> String {
        // SAFETY: a child that has not been waited for, so that the number is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        let status = self.child.wait().expect("its status");
        let errors = self.errors.join().expect("it was read");
        assert!(status.success(), "{status}: {errors}");
        assert!(errors.contains(" 0 lost, "), "{errors}");
        self.out.join().expect("it was read")
    }
}

/// Reads to the end.
fn rest(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("text");
        text
    })
}
