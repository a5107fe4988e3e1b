//! What callbacks saw.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use tracebraid::{Attachment, FieldValue, Tracepoint};

/// The events of some tracepoints, hit by this thread, as text. Times are left out.
pub(crate) struct Log {
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    pub(crate) attachments: Vec<Attachment>,
}

impl Log {
    /// Of the tracepoints whose name is one of these, or the return of one.
    pub(crate) fn of(names: &[&str]) -> Log {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let thread: ThreadId = thread::current().id();
        let mut attachments = Vec::new();
        for tracepoint in tracebraid::tracepoints() {
            let name = tracepoint.name().trim_end_matches("__return");
            if !names.contains(&name) {
                continue;
            }
            let lines = Arc::clone(&lines);
            let attachment = tracepoint.attach(move |event| {
                if thread::current().id() != thread {
                    return;
                }
                let mut line = event.name().to_owned();
                for (field, value) in event.fields().filter(|(field, _)| *field != "ns") {
                    if field != "end" || value != FieldValue::None {
                        line += &format!(" {field}={value}");
                    }
                }
                lines.lock().unwrap().push(line);
            });
            attachments.push(attachment.unwrap());
        }
        assert!(!attachments.is_empty(), "no tracepoint is named {names:?}");
        Log { lines, attachments }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

/// The tracepoint of this name: there is one.
pub(crate) fn find(name: &str) -> Tracepoint {
    let mut found = tracebraid::tracepoints()
        .into_iter()
        .filter(|tracepoint| tracepoint.name() == name);
    let tracepoint = found
        .next()
        .unwrap_or_else(|| panic!("no tracepoint {name}"));
    assert!(found.next().is_none(), "two tracepoints {name}");
    tracepoint
}

/// Polls once.
pub(crate) fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future that never waits.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    match poll(pin!(future)) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}
