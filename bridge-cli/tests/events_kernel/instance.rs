//! A tracefs instance of the tests' own: what the kernel records, as text and as raw bytes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bridge::tracefs::Tracefs;

/// A tracing instance of our own, removed when dropped.
pub(crate) struct Instance(pub(crate) PathBuf);

impl Instance {
    pub(crate) fn new(tracefs: &Tracefs, name: &str) -> Instance {
        let path = tracefs.root().join(format!(
            "instances/tracebraid-test-{name}-{}",
            std::process::id()
        ));
        fs::create_dir(&path).unwrap();
        let instance = Instance(path);
        instance.write("tracing_on", "0");
        instance.write("buffer_size_kb", "8192");
        // %p as an address, which is what is printed here, not as a hash that nobody can compute.
        instance.write("options/hash-ptr", "0");
        instance
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        let file = fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }

    /// The directories of its CPUs.
    pub(crate) fn cpus(&self) -> Vec<PathBuf> {
        let cpu = |number: usize| self.0.join(format!("per_cpu/cpu{number}"));
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
        let _ = fs::remove_dir(&self.0);
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
