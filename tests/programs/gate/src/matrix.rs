//! Off, on by callbacks, off, on by pattern, off.

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracebraid::{Attachment, Tracepoint};

use crate::plugin::Plugin;
use crate::walk::walk;

static HITS: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub fn run(plugin: Option<&str>) {
    tracebraid::init();
    let points = tracebraid::tracepoints();
    println!("points {}", points.len());
    print_sites("off", &points);

    println!("phase before");
    counted_walk();
    println!("phase attached");
    let attachments: Vec<Attachment> = points.iter().map(attach).collect();
    counted_walk();
    print_sites("on", &points);
    println!("phase detached");
    drop(attachments);
    counted_walk();
    print_sites("off", &points);
    println!("phase enabled");
    let count = tracebraid::enable("*").expect("the process can patch itself");
    assert_eq!(count, points.len());
    counted_walk();
    println!("phase disabled");
    tracebraid::disable("*").expect("the process can patch itself");
    counted_walk();
    print_sites("off", &points);
    if let Some(plugin) = plugin {
        loaded_twice(Path::new(plugin));
    }
    let status = tracebraid::status();
    assert!(status.text.is_ok() && status.helper.is_ok(), "{status}");
    assert_eq!((status.sites_on, status.panics, status.nested), (0, 0, 0));
    if let Some(plugin) = plugin {
        kept_loaded(Path::new(plugin));
    }
}

/// A wish holds for a library that is loaded later, closed and loaded again.
fn loaded_twice(path: &Path) {
    assert_eq!(tracebraid::enable("plugin:work").expect("a wish"), 0);
    for round in 1..=2 {
        let plugin = Plugin::open(path);
        tracebraid::settle().expect("the process can patch itself");
        assert!(tracebraid::is_enabled("plugin:work"));
        assert!(!tracebraid::is_enabled("plugin:shout"));
        plugin.work(1);
        println!("plugin round {round} evaluated {}", plugin.evaluated());
        plugin.close();
        println!("plugin round {round} gone {}", is_gone());
    }
    tracebraid::disable("plugin:work").expect("a wish");
    two_copies(path);
    let plugin = Plugin::open(path);
    tracebraid::settle().expect("the process can patch itself");
    plugin.work(2);
    println!("plugin off evaluated {}", plugin.evaluated());
    let points: Vec<Tracepoint> = tracebraid::tracepoints()
        .into_iter()
        .filter(|point| point.provider() == "plugin")
        .collect();
    println!("plugin points {}", points.len());
    print_sites("off", &points);
    let attachments: Vec<Attachment> = points.iter().map(attach).collect();
    plugin.work(3);
    print_sites("on", &points);
    print_hits();
    drop(attachments);
    plugin.work(4);
    print_hits();
    println!("plugin at last evaluated {}", plugin.evaluated());
}

/// A library is not unloaded under its helper thread, nor under its callbacks.
fn kept_loaded(path: &Path) {
    static SUM: AtomicU64 = AtomicU64::new(0);
    println!(
        "plugin with a thread keeps {} points",
        points_kept(path, "thread", |plugin| {
            plugin.init();
            // Until the thread looks around.
            std::thread::sleep(std::time::Duration::from_millis(20));
        })
    );
    // The program's own callback comes first: copies of the SDK do not share a list.
    let points = tracebraid::tracepoints();
    let plain = points.iter().find(|point| point.name() == "plain");
    let ours = attach(plain.expect("the tracepoint"));
    let refused = points_kept(path, "refused", |plugin| {
        println!("plugin attaches beside the program {}", plugin.attach(&SUM));
    });
    drop(ours);
    println!("plugin with a refused callback keeps {refused} points");
    let kept = points_kept(path, "callback", |plugin| {
        println!("plugin attaches alone {}", plugin.attach(&SUM));
    });
    println!("plugin with a callback keeps {kept} points");
    shapes::plain(40, 2);
    println!("plugin's callback sees {}", SUM.load(Ordering::Relaxed));
}

/// How many of the library's points are left when it has been closed after `work`.
fn points_kept(path: &Path, name: &str, work: impl FnOnce(&Plugin)) -> usize {
    let loaded = || {
        let points = tracebraid::tracepoints();
        points
            .iter()
            .filter(|point| point.provider() == "plugin")
            .count()
    };
    let before = loaded();
    // A file of another name is another library.
    let copy = path.with_extension(name);
    std::fs::copy(path, &copy).expect("a copy");
    let plugin = Plugin::open(&copy);
    std::fs::remove_file(&copy).expect("the copy goes");
    work(&plugin);
    plugin.close();
    loaded() - before
}

/// The library's copy of the SDK and the program's switch the same tracepoint.
fn two_copies(path: &Path) {
    let plugin = Plugin::open(path);
    let evaluates = || {
        let before = shapes::evaluated();
        shapes::plain(1, 1);
        shapes::evaluated() > before
    };
    plugin.switch(true);
    println!("plugin switches on {}", evaluates());
    tracebraid::enable("shapes:plain").expect("the process can patch itself");
    plugin.switch(false);
    println!("program keeps on {}", evaluates());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                tracebraid::enable("shapes:plain").expect("the process can patch itself");
                tracebraid::disable("shapes:plain").expect("the process can patch itself");
            }
        });
        for _ in 0..500 {
            plugin.switch(true);
            plugin.switch(false);
        }
    });
    println!("both leave on {}", evaluates());
    tracebraid::disable("shapes:plain").expect("the process can patch itself");
    println!("both leave off {}", !evaluates());
    plugin.close();
    println!("plugin with a copy gone {}", is_gone());
}

fn is_gone() -> bool {
    let points = tracebraid::tracepoints();
    points.iter().all(|point| point.provider() != "plugin")
}

fn attach(point: &Tracepoint) -> Attachment {
    point
        .attach(|event| {
            let mut line = format!("hit {}:{}", event.provider(), event.name());
            for (name, value) in event.fields() {
                // The duration is another one each time.
                let value = match name {
                    "ns" => "_".to_owned(),
                    _ => value.to_string(),
                };
                line += &format!(" {name}={value}");
            }
            HITS.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        })
        .expect("the process can patch itself")
}

fn counted_walk() {
    let before = shapes::evaluated();
    walk();
    print_hits();
    println!("evaluated {}", shapes::evaluated() - before);
}

fn print_hits() {
    for hit in HITS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .drain(..)
    {
        println!("{hit}");
    }
}

fn print_sites(when: &str, points: &[Tracepoint]) {
    for point in points {
        for site in point.sites().iter().filter(|site| !site.tests_semaphore) {
            let place: *const [u8; 8] = ptr::with_exposed_provenance(site.address);
            // SAFETY: eight bytes of this program's own text, which nobody changes now.
            let bytes = unsafe { place.read_volatile() };
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("site {when} {point:?} {:#x} {hex}", site.address);
        }
    }
}
