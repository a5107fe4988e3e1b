//! A library with a copy of the SDK of its own, which is unloaded while its events are being written.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tracebraid_tests::requirement::{is_short, is_soak};
use tracebraid_tests::scenario::{self, Scenario};
use tracebraid_tests::variant::{self, Variant};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a_library_may_be_closed_while_its_events_are_being_written",
        &[],
        || closed_while_writing(false),
    ),
    Scenario::new(
        "several_copies_of_a_library_may_be_closed_while_their_events_are_being_written",
        &[],
        || closed_while_writing(true),
    ),
];

/// How many copies there are. Each takes its thread-locals from what the loader keeps for static ones:
/// with the usual settings of glibc nine such libraries can be loaded.
const COPIES: usize = 4;

/// The library, opened.
#[derive(Clone, Copy)]
struct Library {
    handle: *mut c_void,
    work: extern "C" fn(u64) -> u64,
    record: extern "C" fn() -> bool,
    drain: extern "C" fn(&mut u64) -> u64,
}

// SAFETY: an address that is only given to the loader, and functions.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    fn open(path: &Path) -> Library {
        let path = CString::new(path.to_str().expect("a path in UTF-8")).expect("a path");
        // SAFETY: the library is our own; its initialisers are Rust's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{}", loader_says());
        let symbol = |name: &CStr| {
            // SAFETY: an open handle and a terminated name.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!symbol.is_null(), "{name:?} is missing");
            symbol
        };
        // SAFETY: the functions have these types in `programs/plugin/src/lib.rs`.
        unsafe {
            Library {
                handle,
                work: transmute::<*mut c_void, extern "C" fn(u64) -> u64>(symbol(c"plugin_work")),
                record: transmute::<*mut c_void, extern "C" fn() -> bool>(symbol(c"plugin_record")),
                drain: transmute::<*mut c_void, extern "C" fn(&mut u64) -> u64>(symbol(
                    c"plugin_drain",
                )),
            }
        }
    }

    fn close(self) {
        // SAFETY: a handle of `dlopen`, closed once. Others are still in the library's code: it has to
        // stay, which is what this test is about.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }
}

fn loader_says() -> String {
    // SAFETY: the loader's text, or null.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => String::new(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

fn build() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = variant::build(&Variant::release("ring"), directory);
    built.plugin.expect("a dynamic variant")
}

fn closed_while_writing(copies: bool) {
    const THREADS: u64 = 3;
    let plugin = build();
    let times = match (copies, is_soak()) {
        (true, _) => COPIES,
        (false, true) => 1_000,
        (false, false) if is_short() => 10,
        (false, false) => 100,
    };
    let (done, busy) = (AtomicBool::new(false), AtomicU64::new(0));
    for time in 0..times {
        let path = match copies {
            true => {
                let copy = plugin.with_extension(format!("{}.{time}.so", std::process::id()));
                std::fs::copy(&plugin, &copy).expect("a copy of the library");
                copy
            }
            false => plugin.clone(),
        };
        let library = Library::open(&path);
        if copies {
            std::fs::remove_file(&path).expect("the copy is ours");
        }
        assert!((library.record)(), "the library reads its own rings");
        done.store(false, Ordering::Relaxed);
        busy.store(0, Ordering::Relaxed);
        // Those of earlier times, which are counted from the library's beginning on.
        let (mut before, mut lost) = (0, 0);
        (library.drain)(&mut before);
        let (mut read, mut written) = (0, 0);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut count = 0;
                        while !done.load(Ordering::Relaxed) {
                            (library.work)(count);
                            count += 1;
                            busy.fetch_add(u64::from(count == 1), Ordering::Relaxed);
                        }
                        count
                    })
                })
                .collect();
            scenario::eventually("all write", Duration::from_secs(20), || {
                busy.load(Ordering::Relaxed) == THREADS
            });
            library.close();
            thread::sleep(Duration::from_micros(1_500));
            read += (library.drain)(&mut lost);
            done.store(true, Ordering::Relaxed);
            written = writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .sum::<u64>();
        });
        read += (library.drain)(&mut lost);
        assert_eq!(read + lost - before, written);
        assert!(written >= THREADS && read > 0);
    }
}
