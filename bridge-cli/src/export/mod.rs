//! What comes out: one file a format, and one table of them all.
//!
//! A format is an [`Exporter`] and a row in [`FORMATS`], which its own file adds. The command line's
//! names, the documentation and the tests are made from that table; nothing else knows the formats.
//!
//! An exporter collects bytes and writes them in large pieces; [`Exporter::flush`] hands over what it
//! has, and is called whenever the stream pauses, so that a reader never waits for a full buffer. The
//! reader going away (`| head`) is an [`Outcome`], not an error.

mod json;
mod nothing;
mod text;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use crate::event::{Event, Probe};

pub(crate) use json::string as json_string;
pub use nothing::NOTHING;

/// Where the bytes go.
pub type Sink = Box<dyn Write + Send>;

/// Writes events in one format.
pub trait Exporter: Send {
    /// Takes an event.
    ///
    /// # Errors
    /// What the sink answered, a reader that has gone excepted.
    fn event(&mut self, event: &Event) -> io::Result<Outcome>;

    /// Hands everything to the sink.
    ///
    /// # Errors
    /// As for [`Exporter::event`].
    fn flush(&mut self) -> io::Result<Outcome>;

    /// Writes what the format has at its end, and hands everything over. Nothing may follow.
    ///
    /// # Errors
    /// As for [`Exporter::event`].
    fn finish(&mut self) -> io::Result<Outcome> {
        self.flush()
    }
}

/// Whether there is still somebody to write for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Go on.
    Open,
    /// The reader of the pipe has gone. What follows is written nowhere.
    ReaderGone,
}

/// A row of the table of formats.
#[derive(Debug)]
pub struct Format {
    /// What `--format` calls it.
    pub name: &'static str,
    /// One line for the help.
    pub description: &'static str,
    /// Makes an exporter that writes to a sink.
    pub create: fn(Sink) -> Box<dyn Exporter>,
}

/// All formats, in no particular order.
#[linkme::distributed_slice]
pub static FORMATS: [Format];

/// The formats in order of their names.
pub fn formats() -> Vec<&'static Format> {
    let mut formats: Vec<&Format> = FORMATS.iter().collect();
    formats.sort_by_key(|format| format.name);
    formats
}

/// The format of this name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Bytes collected until handing them over is worth a system call.
const ENOUGH: usize = 64 * 1024;

/// A sink with the bytes that wait for it.
struct Buffered {
    waiting: Vec<u8>,
    sink: Sink,
    reader_gone: bool,
}

impl Buffered {
    fn new(sink: Sink) -> Buffered {
        Buffered {
            waiting: Vec::with_capacity(ENOUGH + 4096),
            sink,
            reader_gone: false,
        }
    }

    /// Hands the bytes over if there are enough of them.
    fn settle(&mut self) -> io::Result<Outcome> {
        if self.waiting.len() < ENOUGH && !self.reader_gone {
            return Ok(Outcome::Open);
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<Outcome> {
        if !self.reader_gone {
            let written = self
                .sink
                .write_all(&self.waiting)
                .and_then(|()| self.sink.flush());
            match written {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.reader_gone = true,
                other => other?,
            }
        }
        self.waiting.clear();
        Ok(if self.reader_gone {
            Outcome::ReaderGone
        } else {
            Outcome::Open
        })
    }
}

/// What a format prepares once for each probe.
struct PerProbe<T> {
    /// By the probe's address; the `Arc` keeps the address from being used again.
    prepared: HashMap<usize, (Arc<Probe>, T), BuildHasherDefault<AddressHasher>>,
}

/// Spreads addresses, which nobody from outside chooses.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(byte.into());
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Fibonacci hashing: 2^64 divided by the golden ratio. The table looks at the highest bits
        // and at the lowest ones.
        let spread = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

impl<T> PerProbe<T> {
    fn new() -> PerProbe<T> {
        PerProbe {
            prepared: HashMap::default(),
        }
    }

    fn get(&mut self, probe: &Arc<Probe>, prepare: impl FnOnce(&Probe) -> T) -> &T {
        let address = Arc::as_ptr(probe) as usize;
        let entry = self.prepared.entry(address);
        &entry
            .or_insert_with(|| (Arc::clone(probe), prepare(probe)))
            .1
    }
}
