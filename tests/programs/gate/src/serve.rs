//! Hits a few tracepoints all along, for tools that look from outside.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::plugin::Plugin;

pub fn run(seconds: &str, plugin: Option<&str>) {
    let limit = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let plugin = plugin.map(|path| Plugin::open(Path::new(path)));
    let options = tracebraid::Options::new().watch_semaphores(Duration::from_millis(5));
    tracebraid::init_with(options).expect("the helper thread starts");
    println!("READY {}", std::process::id());
    let start = Instant::now();
    let mut id = 1_u64;
    while start.elapsed() < limit {
        black_box(shapes::plain(black_box(id), -(id as i64)));
        shapes::queued(id, 7, "ada");
        black_box(shapes::generic(id as u8));
        if let Some(plugin) = &plugin {
            black_box(plugin.work(id));
        }
        id += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
}
