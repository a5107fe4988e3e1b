//! A library that is loaded while the program runs. It shares a tracepoint with the program that loads
//! it (`shapes:queued`), from a copy of the crate of its own.

#![deny(warnings)]

/// Hits `addon:work`, and the shared one.
#[unsafe(no_mangle)]
pub extern "C" fn addon_work(id: u64) {
    tracebraid::event!(work, id);
    shapes::queued(id, 1, "addon");
}

/// Makes the rings of this library's own copy of the SDK.
#[unsafe(no_mangle)]
pub extern "C" fn addon_init() {
    tracebraid::init();
}
