//! `own_log`: a program that writes its own events down, with no bridge and no rights.
//!
//! Recording an event costs about what reading the clock costs; a thread reads them when there is time.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tracebraid::{event, tracepoint};

/// A request.
#[tracepoint(ret)]
fn answer(request: u64) -> u64 {
    event!(lookup, key = request * 7, hit = request.is_multiple_of(3));
    request * request
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("own_log: {error}\n{}", tracebraid::status());
            ExitCode::FAILURE
        }
    }
}

fn run() -> tracebraid::Result<()> {
    tracebraid::init();
    tracebraid::enable("own_log:*")?;
    // The first drain begins the recording.
    write_down()?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let log = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                write_down()?;
                thread::sleep(Duration::from_millis(20));
            }
            write_down()
        });
        for request in 1..=3 {
            answer(request);
        }
        done.store(true, Ordering::Release);
        log.join().expect("the log's thread does not panic")
    })?;
    println!("{} lost", tracebraid::lost("own_log:*"));
    Ok(())
}

/// Prints what has been recorded since the last time.
fn write_down() -> tracebraid::Result<()> {
    tracebraid::drain(|event| {
        println!(
            "{}.{:09} {event}",
            event.time() / 1_000_000_000,
            event.time() % 1_000_000_000
        );
    })?;
    Ok(())
}
