//! The kernel's own probes, in a tracing instance of their own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::table::Hit;

const ROOT: &str = "/sys/kernel/tracing";
/// The group of the probes, so that nobody else's are touched.
const GROUP: &str = "tracebraid_hits";

/// The first two numbers of a kernel's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32);

impl Version {
    /// Of these numbers.
    pub(crate) fn of(major: u32, minor: u32) -> Version {
        Version(major, minor)
    }

    /// `6.12…`.
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some(Version(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// That of the kernel that runs.
    pub(crate) fn here() -> Version {
        let text = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
        Version::parse(&text).expect("a version")
    }
}

/// Probes of the kernel's own. They are gone when this is dropped.
pub(crate) struct KernelProbes {
    instance: PathBuf,
    defined: Vec<String>,
}

impl KernelProbes {
    /// None yet.
    pub(crate) fn new() -> KernelProbes {
        let process = std::process::id();
        let instance = Path::new(ROOT).join(format!("instances/{GROUP}_{process}"));
        fs::create_dir(&instance).unwrap_or_else(|error| panic!("{instance:?}: {error}"));
        let probes = KernelProbes {
            instance,
            defined: Vec::new(),
        };
        probes.write("buffer_size_kb", "4096");
        probes
    }

    /// Defines one, as `dynamic_events` takes it, in our group.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub(crate) fn define(&mut self, definition: &str) -> io::Result<()> {
        let (kind, rest) = definition.split_once(':').expect("a name");
        let (name, rest) = rest.split_once(' ').expect("a place");
        let name = name.rsplit('/').next().unwrap_or(name);
        let line = format!("{kind}:{GROUP}/{name} {rest}\n");
        dynamic_events(&line)?;
        self.defined.push(name.to_owned());
        Ok(())
    }

    /// Gives one a filter.
    pub(crate) fn filter(&self, event: &str, filter: &str) {
        self.write(&format!("events/{GROUP}/{event}/filter"), filter);
    }

    /// Switches all on, or off.
    pub(crate) fn enable(&self, on: bool) {
        for event in &self.defined {
            self.write(
                &format!("events/{GROUP}/{event}/enable"),
                if on { "1" } else { "0" },
            );
        }
    }

    /// The hits of a thread, as they are in the buffer: the address, and the hit.
    pub(crate) fn hits(&self, thread: &str) -> Vec<(String, Hit)> {
        let text = fs::read(self.instance.join("trace")).expect("the buffer can be read");
        let mut lines: Vec<String> = Vec::new();
        for line in String::from_utf8_lossy(&text)
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            // A line break in a text breaks the line.
            match lines.last_mut() {
                Some(last) if !is_head(line) => last.extend(["\\n", line]),
                _ => lines.push(line.to_owned()),
            }
        }
        let mark = format!("-{thread} ");
        let of_thread = lines.iter().filter(|line| {
            line.split(" [")
                .next()
                .is_some_and(|head| format!("{head} ").contains(&mark))
        });
        of_thread.filter_map(|line| parse(line)).collect()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.instance.join(file);
        let file = File::options().write(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

impl Drop for KernelProbes {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.enable(false);
        } else {
            let _ = fs::write(self.instance.join("events/enable"), "0");
        }
        let _ = fs::remove_dir(&self.instance);
        self.defined.sort();
        self.defined.dedup();
        for name in &self.defined {
            // What is not taken back is there to be seen in `dynamic_events`.
            let _ = dynamic_events(&format!("-:{GROUP}/{name}\n"));
        }
    }
}

fn dynamic_events(line: &str) -> io::Result<()> {
    let path = Path::new(ROOT).join("dynamic_events");
    File::options()
        .append(true)
        .open(path)?
        .write_all(line.as_bytes())
}

/// Whether a line begins as those of events do: `name-pid  [cpu] flags time: `.
fn is_head(line: &str) -> bool {
    line.split_once(" [")
        .is_some_and(|(head, rest)| head.contains('-') && rest.get(3..5) == Some("] "))
}

/// `name-pid [cpu] flags time: event: (address) fields`.
fn parse(line: &str) -> Option<(String, Hit)> {
    let (_, body) = line.split_once("] ")?;
    let (_, body) = body.split_once(": ")?;
    let (event, rest) = body.split_once(": ")?;
    let (address, fields) = rest.split_once(')')?;
    let fields = fields.replace("(fault)", "<fault>");
    Some((
        format!("{address})"),
        Hit::parse(&format!("{event}{fields}")),
    ))
}
