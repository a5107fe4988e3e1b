//! A library with a copy of `tracing` of its own: no subscriber of the program that loads it is its.

#![deny(warnings)]

/// Says it through the library's `tracing`, on a span.
#[unsafe(no_mangle)]
pub extern "C" fn chorus_say(verse: u64) {
    let span = tracing::info_span!(target: "chorus::library", "sung", verse);
    span.in_scope(|| tracing::info!(target: "chorus::library", verse, "from the library"));
}

/// Makes the library's copy of the SDK the subscriber of the library's `tracing`.
#[unsafe(no_mangle)]
pub extern "C" fn chorus_init() {
    tracebraid::tracing::init();
}
