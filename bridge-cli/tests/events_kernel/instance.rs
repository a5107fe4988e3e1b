//! A tracefs instance of the tests' own: what the kernel records, as text and as raw bytes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bridge::tracefs::Tracefs;

/// A tracing instance of our own, removed when dropped.
pub(crate) struct Instance {
    pub(crate) path: PathBuf,
    /// Whether `%p` is a hash here, and not the address.
    hashes: bool,
}

impl Instance {
    pub(crate) fn new(tracefs: &Tracefs, name: &str) -> Instance {
        let path = tracefs.root().join(format!(
            "instances/tracebraid-test-{name}-{}",
            std::process::id()
        ));
        fs::create_dir(&path).unwrap();
        let mut instance = Instance {
            path,
            hashes: false,
        };
        instance.write("tracing_on", "0");
        instance.write("buffer_size_kb", "8192");
        // Times that BPF's can be compared with.
        instance.write("trace_clock", "mono");
        // %p as an address, which is what is printed here, not as a hash that nobody can compute.
        instance.write("options/hash-ptr", "0");
        if instance.loses_text() {
            instance.write("options/hash-ptr", "1");
            instance.hashes = true;
        }
        instance
    }

    /// Whether text is printed as empty now: without hashes 6.1 does that.
    fn loses_text(&self) -> bool {
        let event = "events/sched/sched_switch/enable";
        self.write(event, "1");
        self.write("tracing_on", "1");
        std::thread::sleep(std::time::Duration::from_millis(20));
        self.write("tracing_on", "0");
        self.write(event, "0");
        let mut lines = self.cpus().into_iter().flat_map(|cpu| lines(&cpu));
        let is_lost = lines.any(|line| line.contains("prev_comm= prev_pid="));
        self.write("trace", "");
        is_lost
    }

    /// A line's text without addresses, where nobody can tell them.
    pub(crate) fn comparable(&self, text: &str) -> String {
        if !self.hashes {
            return text.to_owned();
        }
        let is_word = |c: char| c.is_ascii_alphanumeric();
        let mut out = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.split(|c| !is_word(c)).next().unwrap_or_default();
            match word.len() == 16 && word.chars().all(|c| c.is_ascii_hexdigit()) {
                true => out.push_str("ADDRESS"),
                false => out.push_str(word),
            }
            rest = &rest[word.len()..];
            let gap = rest.find(is_word).unwrap_or(rest.len());
            out.push_str(&rest[..gap]);
            rest = &rest[gap..];
        }
        out
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.path.join(file);
        let file = fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }

    /// The directories of its CPUs.
    pub(crate) fn cpus(&self) -> Vec<PathBuf> {
        let cpu = |number: usize| self.path.join(format!("per_cpu/cpu{number}"));
        (0..).map(cpu).take_while(|path| path.exists()).collect()
    }
}

/// The events' lines of a CPU's buffer, oldest first. Reading them takes nothing out.
pub(crate) fn lines(cpu: &Path) -> Vec<String> {
    let text = fs::read(cpu.join("trace")).unwrap();
    let text = String::from_utf8_lossy(&text);
    let is_event =
        |line: &&str| !line.starts_with('#') && !line.starts_with("CPU:") && line.contains(": ");
    text.lines().filter(is_event).map(str::to_owned).collect()
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.write("tracing_on", "0");
        self.write("events/enable", "0");
        let _ = fs::remove_dir(&self.path);
    }
}

/// The records of a CPU's buffer, oldest first, as `trace_pipe_raw` gives its pages:
/// `u64 time  u64 bytes committed  then records`, each with a word of 5 bits type or length and 27 bits
/// of time (Documentation/trace/ring-buffer-design and `events/header_page`).
pub(crate) fn raw_records(cpu: &Path) -> Vec<Vec<u8>> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(cpu.join("trace_pipe_raw"))
        .unwrap();
    let mut records = Vec::new();
    let mut page = vec![0; 4096];
    while let Ok(length) = file.read(&mut page) {
        if length == 0 {
            break;
        }
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
        let committed = (word(8) & 0xf_ffff) as usize;
        let mut at = 16;
        while at < 16 + committed {
            let (kind, delta) = (word(at) & 31, word(at) >> 5);
            at += 4;
            let data = match kind {
                0 => at + 4..at + word(at) as usize,
                1..=28 => at..at + kind as usize * 4,
                29 if delta == 0 => break,
                29 => {
                    at += word(at) as usize;
                    continue;
                }
                _ => {
                    at += 4;
                    continue;
                }
            };
            records.push(page[data.clone()].to_vec());
            at = data.end;
        }
    }
    records
}
