//! The library `addon`, loaded by hand.

use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;

/// The library, while it is loaded.
pub struct Addon {
    handle: *mut c_void,
    work: extern "C" fn(u64),
    init: extern "C" fn(),
}

impl Addon {
    pub fn open(path: &str) -> Addon {
        let path = CString::new(path).expect("a path");
        // SAFETY: the library is our own; its initialisers are Rust's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{path:?} does not load");
        // SAFETY: the functions have these types in `addon/src/lib.rs`.
        unsafe {
            Addon {
                handle,
                work: transmute::<*mut c_void, extern "C" fn(u64)>(symbol(handle, c"addon_work")),
                init: transmute::<*mut c_void, extern "C" fn()>(symbol(handle, c"addon_init")),
            }
        }
    }

    pub fn work(&self, id: u64) {
        (self.work)(id);
    }

    pub fn init(&self) {
        (self.init)();
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
