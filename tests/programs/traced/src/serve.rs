//! Hits its tracepoints all along, and answers questions about them: one line in, one line out.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::addon::Addon;

pub fn run() {
    std::thread::Builder::new()
        .name("hitting".into())
        .spawn(hit_all_along)
        .expect("a thread");
    let (mut addon, mut own_files) = (None, Vec::new());
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
            ["close_descriptors"] => {
                own_files = close_descriptors();
                "closed".to_owned()
            }
            ["own_files"] => own_files
                .iter()
                .map(|file| file.metadata().expect("still open").len().to_string())
                .collect::<Vec<_>>()
                .join(" "),
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

/// What daemons do: closes every descriptor that it does not know, and goes on with files of its own, which
/// get the same numbers.
fn close_descriptors() -> Vec<File> {
    // SAFETY: whoever else has descriptors in this program has to cope with it.
    assert_eq!(unsafe { libc::close_range(3, libc::c_uint::MAX, 0) }, 0);
    let open = |_| {
        // SAFETY: a terminated name; the descriptor is a new one.
        unsafe {
            let file = libc::memfd_create(c"traced's own".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 3);
            File::from_raw_fd(file)
        }
    };
    (0..8).map(open).collect()
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
