//! The library `plugin`, loaded by hand.

use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// The library, while it is loaded.
pub struct Plugin {
    handle: *mut c_void,
    work: extern "C" fn(u64) -> u64,
    evaluated: extern "C" fn() -> u64,
    switch: extern "C" fn(bool) -> bool,
    init: extern "C" fn(),
    attach: extern "C" fn(&'static AtomicU64) -> bool,
}

/// A function of the library, of the type that is asked for.
macro_rules! function {
    ($handle:expr, $name:literal, $type:ty) => {{
        let symbol = symbol($handle, $name);
        // SAFETY: the function has this type in `plugin/src/lib.rs`.
        unsafe { transmute::<*mut c_void, $type>(symbol) }
    }};
}

impl Plugin {
    pub fn open(path: &Path) -> Plugin {
        let path = CString::new(path.to_str().expect("a path in UTF-8")).expect("a path");
        // SAFETY: the library is our own; its initialisers are Rust's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "the library does not load");
        Plugin {
            handle,
            work: function!(handle, c"plugin_work", extern "C" fn(u64) -> u64),
            evaluated: function!(handle, c"plugin_evaluated", extern "C" fn() -> u64),
            switch: function!(handle, c"plugin_switch", extern "C" fn(bool) -> bool),
            init: function!(handle, c"plugin_init", extern "C" fn()),
            attach: function!(
                handle,
                c"plugin_attach",
                extern "C" fn(&'static AtomicU64) -> bool
            ),
        }
    }

    pub fn work(&self, id: u64) -> u64 {
        (self.work)(id)
    }

    pub fn evaluated(&self) -> u64 {
        (self.evaluated)()
    }

    /// Switches `shapes:plain` of the program.
    pub fn switch(&self, on: bool) {
        assert!((self.switch)(on), "the process can patch itself");
    }

    /// Starts a helper thread whose code is in the library.
    pub fn init(&self) {
        (self.init)();
    }

    /// Puts a callback of the library on `shapes:plain`, which adds to `sum`; says whether it could.
    pub fn attach(&self, sum: &'static AtomicU64) -> bool {
        (self.attach)(sum)
    }

    /// Unloads the library.
    pub fn close(self) {
        // SAFETY: a handle of `dlopen`, closed once; no function of the library is called later.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: an open handle and a terminated name.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?} is missing");
    symbol
}
