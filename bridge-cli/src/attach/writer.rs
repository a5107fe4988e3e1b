//! The thread that writes events, so that a slow reader of ours never holds up the rings' draining for
//! longer than they can bear, and never makes an event vanish uncounted.
//!
//! Batches go through a bounded channel. The loop that drains asks [`Writer::has_room`] first: while the
//! reader is slow there is no room, nothing is drained, the rings fill up, and what does not fit there is
//! counted by the kernel side. Only events that are counted as lost are lost.
//!
//! The exporter is flushed whenever the channel is empty: a line waits for the next one only while there
//! is a next one.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{self, Receiver, SendTimeoutError, Sender, TrySendError};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, What};
use crate::export::{Exporter, Format, Outcome, Sink};
use crate::symbolize::Symbolizer;

use super::stacks::Named;

/// Batches that may wait. Each is at most what one drain round gives.
const BATCHES: usize = 4;
/// How often a wait looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Where the events go, opened and not yet changed.
#[derive(Debug)]
pub(super) enum Output {
    /// The standard output.
    Standard,
    /// A file, and what its user calls it.
    File(File, PathBuf),
}

impl Output {
    /// Opens or creates the file; what is in it stays until events are written.
    ///
    /// # Errors
    /// [`ErrorKind::Output`] where that is not possible.
    pub(super) fn open(path: Option<&Path>) -> Result<Output> {
        let Some(path) = path else {
            return Ok(Output::Standard);
        };
        let mut options = OpenOptions::new();
        match options.write(true).create(true).truncate(false).open(path) {
            Ok(file) => Ok(Output::File(file, path.to_owned())),
            Err(error) => {
                let message = format!("cannot create {}", path.display());
                Err(Error::new(ErrorKind::Output, message).because(error))
            }
        }
    }

    fn into_sink(self) -> Result<(Sink, PathBuf)> {
        Ok(match self {
            Output::Standard => (Box::new(io::stdout()), PathBuf::from("the standard output")),
            Output::File(file, path) => {
                let ordinary = file.metadata().is_ok_and(|metadata| metadata.is_file());
                if ordinary {
                    file.set_len(0).map_err(|error| failed(&path, error))?;
                }
                (Box::new(file), path)
            }
        })
    }
}

/// How the output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// Everything was written.
    Whole,
    /// The reader of the pipe went away, which is no failure.
    ReaderGone,
    /// Writing did not get on, and nobody wanted to wait any longer.
    Abandoned,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Writer {
    batches: Sender<Vec<Event>>,
    /// Batches that were written.
    spent: Receiver<Vec<Event>>,
    thread: JoinHandle<Result<Finish>>,
    /// Hits that the exporter has taken.
    written: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread, which names stacks where they are taken. An ordinary file is emptied.
    ///
    /// # Errors
    /// [`ErrorKind::Output`] where the file cannot be emptied.
    pub(super) fn start(format: &Format, output: Output, named: Option<Named>) -> Result<Writer> {
        let (sink, name) = output.into_sink()?;
        let exporter = (format.create)(sink);
        let (batches, receiver) = channel::bounded(BATCHES);
        let (spends, spent) = channel::bounded(BATCHES);
        let written = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&written);
        let thread = thread::Builder::new()
            .name("bridge-writer".into())
            .spawn(move || {
                let symbolizer = named.map(|(wanted, updates)| Symbolizer::new(wanted, updates));
                write_all(exporter, symbolizer, &receiver, &spends, &count, &name)
            })
            .map_err(|error| {
                Error::new(ErrorKind::Other, "cannot start the writing thread").because(error)
            })?;
        Ok(Writer {
            batches,
            spent,
            thread,
            written,
        })
    }

    /// Where batches come to that were written, for their memory to be used again.
    pub(super) fn spent(&self) -> Receiver<Vec<Event>> {
        self.spent.clone()
    }

    /// Whether the next [`send`](Writer::send) returns at once.
    pub(super) fn has_room(&self) -> bool {
        !self.batches.is_full()
    }

    /// Whether it still writes.
    pub(super) fn is_open(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Hands over a batch; waits for room while `go_on` says so. Whether it was taken: it is not where the
    /// writer has ended ([`Writer::finish`] says why), or where the wait was.
    pub(super) fn send(&self, batch: Vec<Event>, mut go_on: impl FnMut() -> bool) -> bool {
        let mut batch = match self.batches.try_send(batch) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(batch)) => batch,
        };
        while go_on() {
            match self.batches.send_timeout(batch, LOOK) {
                Ok(()) => return true,
                Err(SendTimeoutError::Disconnected(_)) => return false,
                Err(SendTimeoutError::Timeout(back)) => batch = back,
            }
        }
        false
    }

    /// Lets it write what it has and ends it; stops waiting for that when `go_on` says so. The second
    /// value is how many hits were written.
    ///
    /// # Errors
    /// [`ErrorKind::Output`] where something could not be written.
    pub(super) fn finish(self, mut go_on: impl FnMut() -> bool) -> (Result<Finish>, u64) {
        drop(self.batches);
        let mut patience = 0;
        while !self.thread.is_finished() {
            // The end of a thread cannot be waited for with a limit. The last batch is soon written.
            thread::sleep(if patience < 20 {
                Duration::from_millis(1)
            } else {
                LOOK
            });
            patience += 1;
            if !go_on() {
                return (Ok(Finish::Abandoned), self.written.load(Ordering::Relaxed));
            }
        }
        let result = match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (result, self.written.load(Ordering::Relaxed))
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    let message = format!("cannot write {}", path.display());
    Error::new(ErrorKind::Output, message).because(error)
}

fn write_all(
    mut exporter: Box<dyn Exporter>,
    mut symbolizer: Option<Symbolizer>,
    batches: &Receiver<Vec<Event>>,
    spent: &Sender<Vec<Event>>,
    written: &AtomicU64,
    name: &Path,
) -> Result<Finish> {
    let failed = |error| failed(name, error);
    while let Ok(mut batch) = batches.recv() {
        for event in &mut batch {
            if let Some(symbolizer) = &mut symbolizer {
                symbolizer.resolve(event);
            }
            if exporter.event(event).map_err(failed)? == Outcome::ReaderGone {
                return Ok(Finish::ReaderGone);
            }
            if matches!(event.what, What::Hit { .. }) {
                written.fetch_add(1, Ordering::Relaxed);
            }
        }
        // Where nobody takes it, it is dropped here.
        let _ = spent.try_send(batch);
        if batches.is_empty() && exporter.flush().map_err(failed)? == Outcome::ReaderGone {
            return Ok(Finish::ReaderGone);
        }
    }
    Ok(match exporter.finish().map_err(failed)? {
        Outcome::ReaderGone => Finish::ReaderGone,
        Outcome::Open => Finish::Whole,
    })
}
