//! Those who trace the program: ours, and others that print or record the same.
//!
//! All of them give what they see to this program or to a file that is thrown away; what that takes is on the
//! other CPU.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracebraid_benches::children;

use crate::peers::{Buffer, KernelEvent, Peer};
use crate::target::{Program, Target};

/// How long one of them may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// A `bridge-cli attach` that is attached.
pub(crate) struct Ours {
    child: Child,
    errors: Option<JoinHandle<String>>,
    /// How many probes it has said that it has attached.
    pub(crate) probes: usize,
}

impl Ours {
    /// Attaches it to one event, of which a filter may pass not all.
    pub(crate) fn start(
        bridge: &Path,
        pid: u32,
        event: &str,
        filter: Option<&str>,
    ) -> Result<Ours, Box<dyn Error>> {
        let mut command = Command::new(bridge);
        command
            .args(["attach", "--verbose", "-o", "/dev/null", "-e", event])
            .args(filter.into_iter().flat_map(|text| ["--filter", text]))
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = children::spawn(&mut command)?;
        let pipe = child.stderr.take().ok_or("no error output")?;
        let (said, errors) = listen(pipe, |line| line.starts_with("bridge-cli: attached "));
        let line = said.recv_timeout(PATIENCE);
        let mut ours = Ours {
            child,
            errors: Some(errors),
            probes: 0,
        };
        match line {
            Ok(line) => {
                let count = line.split_whitespace().nth(2);
                ours.probes = count.and_then(|count| count.parse().ok()).unwrap_or(0);
                Ok(ours)
            }
            Err(_) => Err(format!("bridge-cli does not attach: {}", ours.end()?).into()),
        }
    }

    /// Ends it; what it said.
    pub(crate) fn stop(mut self) -> Result<String, Box<dyn Error>> {
        self.end()
    }

    fn end(&mut self) -> Result<String, Box<dyn Error>> {
        children::end(&mut self.child, libc::SIGINT)?;
        let errors = self.errors.take().ok_or("it has ended")?;
        errors.join().map_err(|_| "the listener panicked".into())
    }
}

/// Why ours cannot attach here, if so.
pub(crate) fn try_ours(
    bridge: &Path,
    program: &Program,
) -> Result<Result<(), String>, Box<dyn Error>> {
    let target = program.start()?;
    let event = format!("uprobe:{}:probed", program.path.display());
    Ok(match Ours::start(bridge, target.pid(), &event, None) {
        Ok(ours) => ours.stop().map(drop).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    })
}

/// Reads lines to the end, and tells the first one for which `is_it` holds.
fn listen(
    pipe: impl Read + Send + 'static,
    is_it: fn(&str) -> bool,
) -> (Receiver<String>, JoinHandle<String>) {
    let (sender, said) = mpsc::channel();
    let listener = thread::spawn(move || {
        let mut text = String::new();
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if is_it(&line) {
                // The receiver has gone where it was heard before.
                let _ = sender.send(line.clone());
            }
            text += &line;
            text.push('\n');
        }
        text
    });
    (said, listener)
}

/// What is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A function with three arguments, the second of which is text.
    Function,
    /// The tracepoint of a thread that gets a name.
    Tracepoint,
    /// The function, with a filter that refuses all but one of 500 calls.
    RefusedFunction,
    /// The tracepoint, with such a filter.
    RefusedTracepoint,
}

impl What {
    pub(crate) const ALL: [What; 4] = [
        What::Function,
        What::Tracepoint,
        What::RefusedFunction,
        What::RefusedTracepoint,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            What::Function => "uprobe",
            What::Tracepoint => "tracepoint",
            What::RefusedFunction => "uprobe-refused",
            What::RefusedTracepoint => "tracepoint-refused",
        }
    }

    pub(crate) fn is_function(self) -> bool {
        matches!(self, What::Function | What::RefusedFunction)
    }

    /// Which hits are wanted, in the language of the kernel's filters, which is ours too.
    pub(crate) fn filter(self) -> Option<&'static str> {
        match self {
            What::Function | What::Tracepoint => None,
            What::RefusedFunction => Some("a == 250"),
            What::RefusedTracepoint => Some("newcomm == \"other name\""),
        }
    }

    /// What the program is asked to do.
    pub(crate) fn request(self) -> &'static str {
        match self.is_function() {
            true => "call",
            false => "rename",
        }
    }

    /// For bpftrace.
    fn script(self, path: &Path, pid: u32) -> String {
        let wanted = match self {
            What::Function | What::Tracepoint => "",
            What::RefusedFunction => " /(int32)arg0 == 250/",
            What::RefusedTracepoint => " && args->newcomm == \"other name\"",
        };
        match self.is_function() {
            true => format!(
                "uprobe:{}:probed{wanted} {{ printf(\"%d %s %d\\n\", arg0, str(arg1), arg2); }}",
                path.display()
            ),
            false => format!(
                "tracepoint:task:task_rename /pid == {pid}{wanted}/ {{ printf(\"%d %s %s %d\\n\", \
                 args->pid, args->oldcomm, args->newcomm, args->oom_score_adj); }}"
            ),
        }
    }
}

/// Others and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracer {
    /// `bridge-cli attach`.
    Ours,
    /// bpftrace, which prints the same.
    Bpftrace,
    /// `perf record`.
    Perf,
    /// The kernel's own trace buffer.
    Tracefs,
    /// The same with our clock, and read by somebody, as ours is.
    TracefsRead,
}

impl Tracer {
    pub(crate) const ALL: [Tracer; 5] = [
        Tracer::Ours,
        Tracer::Tracefs,
        Tracer::Bpftrace,
        Tracer::Perf,
        Tracer::TracefsRead,
    ];

    /// Whether ours is held against it round by round; the others are started in some of the rounds.
    pub(crate) fn is_close(self) -> bool {
        matches!(self, Tracer::Ours | Tracer::Tracefs)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tracer::Ours => "tracebraid",
            Tracer::Bpftrace => "bpftrace",
            Tracer::Perf => "perf-record",
            Tracer::Tracefs => "tracefs",
            Tracer::TracefsRead => "tracefs-read",
        }
    }

    /// Starts it and waits until it traces. The error is why it cannot be had.
    pub(crate) fn start(
        self,
        what: What,
        bridge: &Path,
        program: &Program,
        target: &mut Target,
    ) -> Result<Tracing, Box<dyn Error>> {
        let path = program.path.display();
        let pid = target.pid();
        match self {
            Tracer::Ours => {
                let event = match what.is_function() {
                    true => format!("p:hit {path}:probed a=%di:s32 s=+0(%si):string b=%dx:s64"),
                    false => "task:task_rename".to_owned(),
                };
                let ours = Ours::start(bridge, pid, &event, what.filter())?;
                Ok(Tracing::Ours(ours))
            }
            Tracer::Bpftrace => {
                let script = what.script(&program.path, pid);
                let mut command = Command::new("bpftrace");
                command.args(["-p", &pid.to_string(), "-e", &script]);
                Ok(Tracing::Peer(Peer::start(command)?, None))
            }
            Tracer::Perf => {
                let event = KernelEvent::of(what, program, target)?;
                let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probes-perf.data");
                let mut command = Command::new("perf");
                command
                    .args(["record", "-e", &event.name()])
                    .args(
                        what.filter()
                            .into_iter()
                            .flat_map(|text| ["--filter", text]),
                    )
                    .args(["-p", &pid.to_string(), "-o"])
                    .arg(file);
                Ok(Tracing::Peer(Peer::start(command)?, Some(event)))
            }
            Tracer::Tracefs | Tracer::TracefsRead => {
                let event = KernelEvent::of(what, program, target)?;
                let is_read = self == Tracer::TracefsRead;
                let buffer = Buffer::on(event, pid, what.filter(), is_read)?;
                Ok(Tracing::Buffer(buffer))
            }
        }
    }
}

/// One of them at work.
pub(crate) enum Tracing {
    Ours(Ours),
    /// A program, and the event that was defined for it.
    Peer(Peer, Option<KernelEvent>),
    Buffer(Buffer),
}

impl Tracing {
    /// Ends it; whether ours has lost any: what is lost costs less. The error is that it saw nothing.
    pub(crate) fn end(self) -> Result<bool, Box<dyn Error>> {
        let mut has_lost = false;
        let seen = match self {
            Tracing::Ours(ours) => {
                let said = ours.stop()?;
                has_lost = !said.contains(", 0 lost");
                !said.contains(" 0 events in")
            }
            Tracing::Peer(peer, event) => {
                let seen = peer.end()?;
                drop(event);
                seen
            }
            Tracing::Buffer(buffer) => buffer.has_seen()?,
        };
        match seen {
            true => Ok(has_lost),
            false => Err("it saw nothing".into()),
        }
    }
}
