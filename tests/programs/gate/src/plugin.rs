//! The library `plugin`, loaded by hand.

use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;
use std::path::Path;

/// The library, while it is loaded.
pub struct Plugin {
    handle: *mut c_void,
    work: extern "C" fn(u64) -> u64,
    evaluated: extern "C" fn() -> u64,
}

impl Plugin {
    pub fn open(path: &Path) -> Plugin {
        let path = CString::new(path.to_str().expect("a path in UTF-8")).expect("a path");
        // SAFETY: the library is our own; its initialisers are Rust's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "the library does not load");
        // SAFETY: the functions have these types in `plugin/src/lib.rs`.
        unsafe {
            Plugin {
                handle,
                work: transmute::<*mut c_void, extern "C" fn(u64) -> u64>(symbol(
                    handle,
                    c"plugin_work",
                )),
                evaluated: transmute::<*mut c_void, extern "C" fn() -> u64>(symbol(
                    handle,
                    c"plugin_evaluated",
                )),
            }
        }
    }

    pub fn work(&self, id: u64) -> u64 {
        (self.work)(id)
    }

    pub fn evaluated(&self) -> u64 {
        (self.evaluated)()
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
