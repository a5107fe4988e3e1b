//! Says things through `tracing`, and has the library of its own package say them through a copy of `tracing`
//! of that library's own. It says `READY pid`; then one line in, one line out.
//!
//! ```text
//! say VERSE    open PATH    library VERSE    init    within VERSE
//! ```

#![deny(warnings)]

use std::ffi::{CStr, CString, c_void};
use std::io::BufRead;

use tracing::{info, info_span};

fn main() {
    tracebraid::tracing::init();
    println!("READY {}", std::process::id());
    let mut library = Library(std::ptr::null_mut());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let verse = |word: &str| -> u64 { word.parse().expect("a number") };
        match words[..] {
            ["say", word] => info!(target: "chorus::program", verse = verse(word), "from the program"),
            ["open", path] => library = Library::open(path),
            ["library", word] => library.say(verse(word)),
            ["init"] => library.init(),
            ["within", word] => {
                let span = info_span!(target: "chorus::program", "led", verse = verse(word));
                span.in_scope(|| library.say(verse(word)));
            }
            _ => panic!("{line:?}"),
        }
        println!("{line}");
    }
}

/// The package's library.
struct Library(*mut c_void);

impl Library {
    fn open(path: &str) -> Library {
        let path = CString::new(path).expect("a path");
        // SAFETY: the library is our own; its initialisers are Rust's.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{path:?} does not load");
        Library(library)
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: an open handle and a terminated name.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    }

    fn say(&self, verse: u64) {
        let symbol = self.symbol(c"chorus_say");
        // SAFETY: the function has this type in `lib.rs`.
        let say = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(symbol) };
        say(verse);
    }

    fn init(&self) {
        let symbol = self.symbol(c"chorus_init");
        // SAFETY: the function has this type in `lib.rs`.
        let init = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol) };
        init();
    }
}
