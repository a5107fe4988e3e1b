//! A target for the bridge. It says `READY pid` and does what its standard input asks for.
//!
//! ```text
//! traced values FILE         hits every kind of field at its limits; FILE holds text of 20,000 bytes
//! traced order ROUNDS        two threads, each with system calls between its events
//! traced count THREADS HITS  hits as fast as it can
//! traced many                1,000 tracepoints
//! traced serve               hits all along, and answers questions about its tracepoints
//! traced first               says which of its first statements were on
//! traced calls               marks what it does for a watcher of system calls
//! traced refused             does it all whatever is refused
//! ```
//! With `TRACED_WITHOUT_INIT` in its environment it does not initialise itself. The first four wait for a line (`go`) and then until their tracepoints are on.

#![deny(warnings)]

mod addon;
mod calls;
mod count;
mod first;
mod many;
mod order;
mod refused;
mod serve;
mod values;

use std::io::BufRead;
use std::time::{Duration, Instant};

use tracebraid::{Appending, Options};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["first"] => return first::run(),
        ["calls"] => return calls::run(),
        ["refused"] => return refused::run(),
        _ => {}
    }
    if std::env::var_os("TRACED_WITHOUT_INIT").is_none() {
        tracebraid::init_with(options()).expect("the helper thread starts");
    }
    println!("READY {}", std::process::id());
    match words[..] {
        ["values", file] => values::run(file),
        ["order", rounds] => order::run(number(rounds)),
        ["count", threads, hits] => count::run(number(threads), number(hits)),
        ["many"] => many::run(),
        ["serve"] => serve::run(),
        _ => panic!("this is for tests: see its source"),
    }
}

/// Looks at semaphores often, so that tests need not wait.
fn options() -> Options {
    let options = Options::new().watch_semaphores(Duration::from_millis(5));
    match std::env::var("TRACED_APPENDING").as_deref() {
        Ok("own") => options.appending(Appending::OwnRseq),
        Ok("locked") => options.appending(Appending::Locked),
        _ => options,
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Reads one line, then waits until every tracepoint of a provider is on.
fn wait_until_on(providers: &str) {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("a line");
    let points = tracebraid::tracepoints();
    let end = Instant::now() + Duration::from_secs(60);
    for point in points
        .iter()
        .filter(|it| it.provider().starts_with(providers))
    {
        while !point.is_enabled() {
            assert!(Instant::now() < end, "{point:?} is not switched on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
