//! Loads the library `guest`, has it work, and unloads it, as its standard input says. Both use one copy of
//! the SDK. It says `READY pid`; then one line in, one line out.
//!
//! ```text
//! open PATH    work ID    close    is_enabled PATTERN
//! ```

#![deny(warnings)]

use std::ffi::{CString, c_void};
use std::io::BufRead;

fn main() {
    tracebraid::init();
    println!("READY {}", std::process::id());
    let mut guest = std::ptr::null_mut();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["open", path] => {
                guest = open(path);
                "open".to_owned()
            }
            ["work", id] => {
                let id = id.parse().expect("a number");
                dynamic::inside(id, "host");
                work(guest, id);
                "worked".to_owned()
            }
            ["close"] => {
                // SAFETY: a handle of `dlopen`, closed once; no function of the library is called later.
                assert_eq!(unsafe { libc::dlclose(guest) }, 0);
                format!("closed {}", is_mapped())
            }
            ["is_enabled", pattern] => tracebraid::is_enabled(pattern).to_string(),
            _ => panic!("{line:?}"),
        };
        println!("{answer}");
    }
}

fn open(path: &str) -> *mut c_void {
    let path = CString::new(path).expect("a path");
    // SAFETY: the library is our own; its initialisers are Rust's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "{path:?} does not load");
    handle
}

fn work(guest: *mut c_void, id: u64) {
    // SAFETY: an open handle and a terminated name.
    let symbol = unsafe { libc::dlsym(guest, c"guest_work".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: the function has this type in `guest/src/lib.rs`.
    let work = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(symbol) };
    work(id);
}

/// Whether the library is still there.
fn is_mapped() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("its mappings");
    maps.contains("libguest.so")
}
