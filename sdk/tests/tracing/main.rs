//! `tracing` as a source: what the program says arrives, and nobody beside notices.
//!
//! Rings, wishes and `tracing`'s cache of interests are the process's: the tests take turns.

mod bad_input;
mod beside;
mod caching;
mod forwarding;
mod layered;
mod matrix;
mod recorder;
mod shapes;
mod storm;
mod switching;
mod ways;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes the turn of this test, with a ring that is empty and nothing wished.
fn turn() -> Turn {
    static ONE: Mutex<()> = Mutex::new(());
    let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    tracebraid::init();
    drained();
    Turn {
        wished: Wished(Vec::new()),
        _one: turn,
    }
}

/// A test's turn.
struct Turn {
    wished: Wished,
    _one: MutexGuard<'static, ()>,
}

impl std::ops::Deref for Turn {
    type Target = Wished;
    fn deref(&self) -> &Wished {
        &self.wished
    }
}

impl std::ops::DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut Wished {
        &mut self.wished
    }
}

/// What is wished in a turn; nothing is afterwards.
struct Wished(Vec<&'static str>);

impl Wished {
    fn enable(&mut self, pattern: &'static str) {
        tracebraid::enable(pattern).unwrap();
        self.0.push(pattern);
    }

    fn disable_all(&mut self) {
        for pattern in self.0.drain(..) {
            tracebraid::disable(pattern).unwrap();
        }
    }
}

impl Drop for Wished {
    fn drop(&mut self) {
        self.disable_all();
    }
}

/// What the rings hold, as text.
fn drained() -> Vec<String> {
    let mut seen = Vec::new();
    tracebraid::drain(|event| seen.push(event.to_string())).unwrap();
    seen
}

/// The same without what is of the place, `TARGET:FILE:LINE: `.
fn bodies() -> Vec<String> {
    let body = |line: String| {
        line.split_once(": ")
            .map(|(_, body)| body.to_owned())
            .unwrap()
    };
    drained().into_iter().map(body).collect()
}

/// What a subscriber has written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).unwrap()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
