//! Those who see the calls: ours by each mechanism, and others.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::NAME;
use crate::support::{self, Attached, LONG, scratch};

const TRACEFS: &str = "/sys/kernel/tracing";
/// Our group of events, and our instance of the trace buffer.
const GROUP: &str = "tracebraid_costs";
/// One that has printed nothing for so long has nothing more to print.
const PATIENCE: Duration = Duration::from_secs(5);
/// A name that the process has until one that prints what it sees has begun.
const BEFORE: &str = "before";

/// One of them.
pub(crate) struct Tracer {
    /// As the table and the summary of the benches call it: the mechanism, then whose it is.
    pub(crate) name: &'static str,
    how: How,
    /// The definition, or, for bpftrace, the probe and what it prints.
    probe: &'static str,
}

enum How {
    /// `bridge-cli attach -e`, which has to take this mechanism.
    Ours(&'static str),
    /// bpftrace.
    Bpftrace,
    /// `perf record` of a probe of the kernel's own.
    Perf,
    /// The kernel's trace buffer, with a probe of its own.
    Buffer,
}

/// A register that holds no argument: only a kprobe has it.
const KPROBE: &str = "p:hit __set_task_comm a=%di:x64 s=+0(%si):string b=%r12:x64";
const KPROBE_SCRIPT: &str =
    "kprobe:__set_task_comm / { printf(\"%lx %s %lx\\n\", arg0, str(arg1), reg(\"r12\")); }";
const FPROBE: &str = "f:hit __set_task_comm a=$arg1:x64 s=+0($arg2):string b=$arg3:u8";
const FPROBE_SCRIPT: &str =
    "kfunc:__set_task_comm / { printf(\"%lx %s %d\\n\", args->tsk, str(args->buf), args->exec); }";

/// All of them.
pub(crate) const TRACERS: &[Tracer] = &[
    Tracer::new("kprobe/tracebraid", How::Ours("kprobe"), KPROBE),
    Tracer::new("kprobe/tracefs", How::Buffer, KPROBE),
    Tracer::new("kprobe/perf-record", How::Perf, KPROBE),
    Tracer::new("kprobe/bpftrace", How::Bpftrace, KPROBE_SCRIPT),
    Tracer::new(
        "kprobe_multi/tracebraid",
        How::Ours("kprobe_multi"),
        "p:hit __set_task_comm a=%di:x64 s=+0(%si):string b=%dx:u8",
    ),
    Tracer::new("fentry/tracebraid", How::Ours("fentry"), FPROBE),
    Tracer::new("fentry/tracefs", How::Buffer, FPROBE),
    Tracer::new("fentry/perf-record", How::Perf, FPROBE),
    Tracer::new("fentry/bpftrace", How::Bpftrace, FPROBE_SCRIPT),
];

impl Tracer {
    const fn new(name: &'static str, how: How, probe: &'static str) -> Tracer {
        Tracer { name, how, probe }
    }

    /// Whether a kernel or a machine may lack it.
    pub(crate) fn is_optional(&self) -> bool {
        match self.how {
            How::Ours(mechanism) => mechanism == "kprobe_multi",
            How::Buffer => self.probe.starts_with('f'),
            How::Bpftrace | How::Perf => true,
        }
    }

    /// Whether it is a tool of others, which may lose what it sees.
    pub(crate) fn is_of_others(&self) -> bool {
        matches!(self.how, How::Bpftrace | How::Perf)
    }

    /// Starts it, and waits until it sees what happens.
    ///
    /// # Errors
    /// Why it cannot be had here.
    pub(crate) fn start(&self) -> Result<Tracing, String> {
        let pid = std::process::id();
        match self.how {
            How::Ours(mechanism) => {
                let output = scratch("costs").join("ours");
                let to = output.display().to_string();
                let pid = pid.to_string();
                let attached = Attached::start(&["-o", &to, "-e", self.probe, "-p", &pid]);
                Ok(Tracing::Ours(attached, mechanism, output))
            }
            How::Bpftrace => {
                let filter = format!("/pid == {pid}/");
                let script = self.probe.replacen('/', &filter, 1);
                let mut command = Command::new("bpftrace");
                command.args(["-B", "line", "-e", &script]);
                // Room for all calls.
                command.env("BPFTRACE_PERF_RB_PAGES", "1024");
                let mut program = Program::start(command)?;
                program.wait(|said| {
                    let named = fs::write("/proc/self/comm", BEFORE);
                    named.is_ok() && said.contains(BEFORE)
                })?;
                Ok(Tracing::Bpftrace(program))
            }
            How::Perf => {
                let event = KernelEvent::define(self.probe)?;
                let scratch = scratch("costs");
                let [control, answer] = ["control", "answer"].map(|name| scratch.join(name));
                let mut pipes = Vec::new();
                for pipe in [&control, &answer] {
                    pipes.push(Pipe::make(pipe)?);
                }
                let mut command = Command::new("perf");
                command
                    .args(["record", "-e", &format!("{GROUP}:hit"), "--delay=-1"])
                    .arg(format!(
                        "--control=fifo:{},{}",
                        control.display(),
                        answer.display()
                    ))
                    .args(["-p", &pid.to_string(), "-o"])
                    .arg(scratch.join("perf.data"));
                let mut program = Program::start(command)?;
                pipes[0].tell("enable\n")?;
                program.wait(|_| pipes[1].has_come("ack"))?;
                Ok(Tracing::Perf(program, event))
            }
            How::Buffer => {
                let event = KernelEvent::define(self.probe)?;
                Ok(Tracing::Buffer(Buffer::on(event)?))
            }
        }
    }
}

/// One of them at work.
pub(crate) enum Tracing {
    /// With the mechanism that it has to take, and where the events are.
    Ours(Attached, &'static str, PathBuf),
    Bpftrace(Program),
    Perf(Program, KernelEvent),
    Buffer(Buffer),
}

/// What one of them saw.
pub(crate) struct Seen {
    /// Calls with their values.
    pub(crate) hits: usize,
    /// What it said.
    pub(crate) said: String,
}

impl Tracing {
    /// Ends it, once it has seen so many calls, where that shows.
    ///
    /// # Errors
    /// It did not work after all: why.
    pub(crate) fn end(self, calls: usize) -> Result<Seen, String> {
        match self {
            Tracing::Ours(attached, mechanism, output) => {
                let said = attached.stop(Signal::SIGINT).err;
                let through = format!("through {mechanism}: 1 probe");
                if !said.contains(&through) {
                    return Err(format!("it is not {through}:\n{said}"));
                }
                let text = fs::read_to_string(&output).map_err(|error| error.to_string())?;
                Ok(Seen {
                    hits: lines_with_values(&text),
                    said,
                })
            }
            Tracing::Bpftrace(mut program) => {
                let hits = |said: &str| said.lines().filter(|line| line.contains(NAME)).count();
                let (mut most, mut since) = (0, Instant::now());
                program.wait(|said| {
                    if hits(said) > most {
                        (most, since) = (hits(said), Instant::now());
                    }
                    most >= calls || since.elapsed() > PATIENCE
                })?;
                let said = program.end()?;
                Ok(Seen {
                    hits: hits(&said),
                    said: last_of(&said).to_owned(),
                })
            }
            Tracing::Perf(program, event) => {
                let said = program.end()?;
                drop(event);
                let samples = said
                    .split_once(" samples)")
                    .and_then(|(before, _)| before.rsplit('(').next()?.parse().ok());
                let hits = samples.ok_or_else(|| said.clone())?;
                Ok(Seen { hits, said })
            }
            Tracing::Buffer(buffer) => buffer.end(),
        }
    }
}

/// Events whose text is the one that it was.
fn lines_with_values(text: &str) -> usize {
    let value = format!(" s=\"{NAME}\" b=");
    text.lines().filter(|line| line.contains(&value)).count()
}

/// A program that traces.
pub(crate) struct Program {
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Program {
    fn start(mut command: Command) -> Result<Program, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let said = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            read_all(child.stdout.take(), &said),
            read_all(child.stderr.take(), &said),
        ];
        Ok(Program {
            child,
            said,
            readers,
        })
    }

    /// Waits until something holds, by what it has said.
    fn wait(&mut self, mut holds: impl FnMut(&str) -> bool) -> Result<(), String> {
        let limit = Instant::now() + LONG;
        while !holds(&self.said()) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status}: {}", last_of(&self.said())));
            }
            if Instant::now() > limit {
                return Err(format!("it does not begin: {}", last_of(&self.said())));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn said(&self) -> String {
        let said = self.said.lock();
        said.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it; what it has printed.
    fn end(mut self) -> Result<String, String> {
        support::kill(self.child.id(), Signal::SIGINT);
        let limit = Instant::now() + LONG;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > limit {
                return Err(format!("it does not end: {}", last_of(&self.said())));
            }
            thread::sleep(Duration::from_millis(20));
        }
        for reader in self.readers.drain(..) {
            reader.join().map_err(|_| "a reader panicked")?;
        }
        Ok(self.said().trim().to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(pipe: Option<impl Read + Send + 'static>, said: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let said = Arc::clone(said);
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]);
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_str(&text);
        }
    })
}

/// The last line of what somebody has said.
fn last_of(said: &str) -> &str {
    said.trim_end().lines().last().unwrap_or_default()
}

/// A named pipe that is open at both of its ends, so that neither waits for the other.
struct Pipe(File);

impl Pipe {
    fn make(path: &Path) -> Result<Pipe, String> {
        let failed = |error: String| format!("{}: {error}", path.display());
        // That of an earlier round.
        let _ = fs::remove_file(path);
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|error| failed(error.to_string()))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path);
        file.map(Pipe).map_err(|error| failed(error.to_string()))
    }

    fn tell(&mut self, text: &str) -> Result<(), String> {
        let told = self.0.write_all(text.as_bytes());
        told.map_err(|error| error.to_string())
    }

    /// Whether a text has come now.
    fn has_come(&mut self, text: &str) -> bool {
        let mut buffer = [0; 64];
        let length = self.0.read(&mut buffer).unwrap_or(0);
        buffer[..length].starts_with(text.as_bytes())
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let file = OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// A probe of the kernel's own, as long as this is held.
pub(crate) struct KernelEvent;

impl KernelEvent {
    fn define(definition: &str) -> Result<KernelEvent, String> {
        let line = definition.replacen(":hit", &format!(":{GROUP}/hit"), 1);
        write(&events(), &format!("{line}\n"))?;
        Ok(KernelEvent)
    }
}

impl Drop for KernelEvent {
    fn drop(&mut self) {
        // Whoever has just used it may hold it for a moment.
        let begin = Instant::now();
        while write(&events(), &format!("-:{GROUP}/hit\n")).is_err() && begin.elapsed() < LONG {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn events() -> PathBuf {
    Path::new(TRACEFS).join("dynamic_events")
}

/// The kernel's trace buffer, with its event on.
pub(crate) struct Buffer {
    instance: PathBuf,
    _event: KernelEvent,
}

impl Buffer {
    fn on(event: KernelEvent) -> Result<Buffer, String> {
        let instance = Path::new(TRACEFS).join("instances").join(GROUP);
        fs::create_dir(&instance).map_err(|error| format!("{}: {error}", instance.display()))?;
        let buffer = Buffer {
            instance,
            _event: event,
        };
        let pid = std::process::id().to_string();
        // Room for all calls.
        write(&buffer.instance.join("buffer_size_kb"), "4096")?;
        write(&buffer.instance.join("set_event_pid"), &pid)?;
        write(&buffer.enable(), "1")?;
        Ok(buffer)
    }

    fn enable(&self) -> PathBuf {
        let events = self.instance.join("events").join(GROUP);
        events.join("hit/enable")
    }

    fn end(self) -> Result<Seen, String> {
        write(&self.enable(), "0")?;
        let text = fs::read_to_string(self.instance.join("trace"));
        let text = text.map_err(|error| error.to_string())?;
        Ok(Seen {
            hits: lines_with_values(&text),
            said: String::new(),
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Where this fails it stays on for as long as the instance is there, which goes as well.
        let _ = write(&self.enable(), "0");
        let _ = fs::remove_dir(&self.instance);
    }
}
