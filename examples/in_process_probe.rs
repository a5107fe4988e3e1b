//! `in_process_probe`: a program that listens to its own tracepoints. It needs no rights.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracebraid::tracepoint;

/// The work that is looked at.
#[tracepoint(ret)]
fn fibonacci(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

fn main() -> ExitCode {
    match listen() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("in_process_probe: {error}\n{}", tracebraid::status());
            ExitCode::FAILURE
        }
    }
}

fn listen() -> tracebraid::Result<()> {
    tracebraid::init();
    let hits = Arc::new(AtomicU64::new(0));
    let mut attachments = Vec::new();
    for tracepoint in tracebraid::tracepoints() {
        let hits = Arc::clone(&hits);
        attachments.push(tracepoint.attach(move |event| {
            hits.fetch_add(1, Ordering::Relaxed);
            println!("{event}");
        })?);
    }
    for n in [1, 10, 90] {
        fibonacci(n);
    }
    drop(attachments);
    // Nobody listens any more: this is not seen.
    fibonacci(50);
    println!("{} hits seen", hits.load(Ordering::Relaxed));
    Ok(())
}
