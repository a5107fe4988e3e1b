//! Tracers of others: programs, and the kernel's own trace through tracefs.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracebraid_benches::children;

use crate::target::{Program, Target};
use crate::tracer::What;

const TRACEFS: &str = "/sys/kernel/tracing";
/// Our group of events, and our instance.
const GROUP: &str = "tracebraid_bench";
/// For how long one that has attached all opens nothing more.
const QUIET: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that traces. What it prints is read and thrown away.
pub(crate) struct Peer {
    child: Child,
    name: String,
    readers: Vec<JoinHandle<Vec<u8>>>,
}

impl Peer {
    /// Starts it, and waits until it has opened no descriptor for a while: it says nothing when it begins.
    pub(crate) fn start(mut command: Command) -> Result<Peer, Box<dyn Error>> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child =
            children::spawn(&mut command).map_err(|error| format!("{name}: {error}"))?;
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            readers.push(thread::spawn(move || read_all(pipe)));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(thread::spawn(move || read_all(pipe)));
        }
        let mut peer = Peer {
            child,
            name,
            readers,
        };
        peer.wait_for_descriptors();
        match peer.child.try_wait()? {
            None => Ok(peer),
            Some(status) => {
                let said = peer.said();
                Err(format!("{} ended with {status}: {said}", peer.name).into())
            }
        }
    }

    fn wait_for_descriptors(&mut self) {
        let directory = format!("/proc/{}/fd", self.child.id());
        let count = || fs::read_dir(&directory).map_or(0, Iterator::count);
        let limit = Instant::now() + PATIENCE;
        let (mut last, mut since) = (0, Instant::now());
        while since.elapsed() < QUIET && Instant::now() < limit {
            thread::sleep(Duration::from_millis(20));
            let now = count();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    /// The last of what it has printed.
    fn said(&mut self) -> String {
        let texts = self
            .readers
            .drain(..)
            .filter_map(|reader| reader.join().ok());
        let all: Vec<String> = texts
            .map(|text| String::from_utf8_lossy(&text).trim().to_owned())
            .collect();
        all.join("; ")
    }

    /// Ends it; whether it has seen hits.
    pub(crate) fn end(mut self) -> Result<bool, Box<dyn Error>> {
        children::end(&mut self.child, libc::SIGINT)?;
        let said = self.said();
        // perf says how many samples it wrote, bpftrace has printed them.
        Ok(said.contains("some ") || said.contains(" samples)") && !said.contains("(0 samples)"))
    }
}

/// Reads to the end and keeps what came last.
fn read_all(mut pipe: impl Read) -> Vec<u8> {
    let mut last = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        last.extend_from_slice(&buffer[..length]);
        let more = last.len().saturating_sub(4096);
        last.drain(..more);
    }
    last
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let open = OpenOptions::new().append(true).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

/// An event of the kernel's: a tracepoint, or one that is defined for as long as this is held.
pub(crate) struct KernelEvent {
    group: &'static str,
    event: &'static str,
    is_ours: bool,
}

impl KernelEvent {
    pub(crate) fn of(
        what: What,
        program: &Program,
        target: &mut Target,
    ) -> Result<KernelEvent, Box<dyn Error>> {
        if !what.is_function() {
            return Ok(KernelEvent {
                group: "task",
                event: "task_rename",
                is_ours: false,
            });
        }
        let offset = target.offsets()?.first().copied().ok_or("no function")?;
        let definition = format!(
            "p:{GROUP}/hit {}:{offset:#x} a=%di:s32 s=+0(%si):string b=%dx:s64\n",
            program.path.display()
        );
        write(&Path::new(TRACEFS).join("uprobe_events"), &definition)?;
        Ok(KernelEvent {
            group: GROUP,
            event: "hit",
            is_ours: true,
        })
    }

    /// As perf calls it.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.group, self.event)
    }
}

impl Drop for KernelEvent {
    fn drop(&mut self) {
        if self.is_ours {
            // A reader that is just going away still has it for a moment.
            let file = Path::new(TRACEFS).join("uprobe_events");
            for _ in 0..50 {
                if write(&file, &format!("-:{GROUP}/hit\n")).is_ok() {
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The kernel's trace buffer with an event on.
pub(crate) struct Buffer {
    instance: PathBuf,
    enable: PathBuf,
    reader: Option<Child>,
    _event: KernelEvent,
}

impl Buffer {
    /// With a filter, if there is one; `is_read`: with our clock, and with a reader.
    pub(crate) fn on(
        event: KernelEvent,
        pid: u32,
        filter: Option<&str>,
        is_read: bool,
    ) -> Result<Buffer, Box<dyn Error>> {
        let instance = Path::new(TRACEFS).join("instances").join(GROUP);
        fs::create_dir(&instance).map_err(|error| format!("{}: {error}", instance.display()))?;
        let enable = instance
            .join("events")
            .join(event.group)
            .join(event.event)
            .join("enable");
        let mut buffer = Buffer {
            instance,
            enable,
            reader: None,
            _event: event,
        };
        write(&buffer.instance.join("set_event_pid"), &pid.to_string())?;
        if let Some(filter) = filter {
            write(&buffer.enable.with_file_name("filter"), filter)?;
        }
        if is_read {
            write(&buffer.instance.join("trace_clock"), "mono")?;
            let mut command = Command::new("cat");
            command
                .arg(buffer.instance.join("trace_pipe"))
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            buffer.reader = Some(children::spawn(&mut command)?);
        }
        write(&buffer.enable, "1")?;
        Ok(buffer)
    }

    /// Whether there are hits in it.
    pub(crate) fn has_seen(self) -> Result<bool, Box<dyn Error>> {
        write(&self.enable, "0")?;
        let stats = fs::read_to_string(self.instance.join("per_cpu/cpu0/stats"))?;
        let counts = ["entries: ", "read events: "].map(|name| {
            let count = stats.lines().find_map(|line| line.strip_prefix(name));
            count.is_some_and(|count| count != "0")
        });
        Ok(counts.contains(&true))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Where these fail the event stays on for as long as the instance is there, which goes as well.
        let _ = write(&self.enable, "0");
        if let Some(reader) = &mut self.reader {
            let _ = children::end(reader, libc::SIGTERM);
        }
        let _ = fs::remove_dir(&self.instance);
    }
}
