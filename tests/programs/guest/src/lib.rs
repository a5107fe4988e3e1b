//! A library that is loaded while the program runs, and uses the program's own copy of the SDK, which is in
//! a Rust `dylib` that both are linked with.

#![deny(warnings)]

/// Hits `guest:work`, and a tracepoint of the `dylib`.
#[unsafe(no_mangle)]
pub extern "C" fn guest_work(id: u64) {
    tracebraid::event!(work, id);
    dynamic::inside(id, "guest");
}
