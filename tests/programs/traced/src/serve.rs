//! Hits its tracepoints all along, and answers questions about them: one line in, one line out.

use std::cell::Cell;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::addon::Addon;

pub fn run() {
    std::thread::Builder::new()
        .name("hitting".into())
        .spawn(hit_all_along)
        .expect("a thread");
    let mut addon = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["sites_on"] => tracebraid::status().sites_on.to_string(),
            ["is_enabled", pattern] => tracebraid::is_enabled(pattern).to_string(),
            ["status"] => tracebraid::status().to_string().replace('\n', "; "),
            ["along"] => ALONG.load(Ordering::Relaxed).to_string(),
            ["hit", count] => hit(count.parse().expect("a number")).to_string(),
            ["open", path] => {
                addon = Some(Addon::open(path));
                "open".to_owned()
            }
            ["init"] => {
                addon.as_ref().expect("an open library").init();
                "initialised".to_owned()
            }
            ["work", id] => {
                let id = id.parse().expect("a number");
                addon.as_ref().expect("an open library").work(id);
                "worked".to_owned()
            }
            ["queue", id] => {
                shapes::queued(id.parse().expect("a number"), 2, "traced");
                "queued".to_owned()
            }
            ["close"] => {
                addon.take().expect("an open library").close();
                "closed".to_owned()
            }
            _ => panic!("{line:?}"),
        };
        println!("{answer}");
        std::io::stdout().flush().expect("somebody reads");
    }
}

/// Hits a tracepoint so often; how often it was on.
fn hit(count: u64) -> u64 {
    let on = Cell::new(0);
    for n in 0..count {
        tracebraid::event!(serve::asked, n, seen = on.replace(on.get() + 1));
    }
    on.get()
}

/// How often that was.
static ALONG: AtomicU64 = AtomicU64::new(0);

fn hit_all_along() {
    for n in 0_u64.. {
        tracebraid::event!(serve::along, n);
        ALONG.store(n, Ordering::Relaxed);
        charge(n, 7);
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[tracebraid::tracepoint(provider = "serve", ret)]
#[inline(never)]
fn charge(order_id: u64, cents: i64) -> u64 {
    order_id + cents.unsigned_abs()
}
