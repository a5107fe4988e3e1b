//! A library that is loaded while the program runs, with tracepoints and a copy of the SDK of its own.

#![deny(warnings)]

use std::sync::atomic::{AtomicU64, Ordering};

static EVALUATED: AtomicU64 = AtomicU64::new(0);

/// Hits `plugin:work`.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work(id: u64) -> u64 {
    tracebraid::event!(
        work,
        id = id,
        name = "plugin",
        evaluated = EVALUATED.fetch_add(1, Ordering::Relaxed)
    );
    shout(id as i32)
}

#[tracebraid::tracepoint]
#[inline(never)]
fn shout(volume: i32) -> u64 {
    volume.unsigned_abs().into()
}

/// Enables or disables a tracepoint of the program, through the library's copy of the SDK. Says whether
/// the program can be patched.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_switch(on: bool) -> bool {
    let pattern = "shapes:plain";
    let switched = if on {
        tracebraid::enable(pattern)
    } else {
        tracebraid::disable(pattern)
    };
    switched.is_ok()
}

/// Puts a callback of the library on a tracepoint of the program, for good. It adds what it is called
/// with to the given counter. Says whether it could be attached.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_attach(sum: &'static AtomicU64) -> bool {
    let points = tracebraid::tracepoints();
    let plain = points
        .iter()
        .find(|point| point.name() == "plain")
        .expect("the tracepoint");
    let attachment = plain.attach(move |event| {
        if let Some(tracebraid::FieldValue::Unsigned(id)) = event.field("order_id") {
            sum.fetch_add(id, Ordering::Relaxed);
        }
    });
    let attached = attachment.is_ok();
    std::mem::forget(attachment);
    attached
}

/// Starts the helper thread of the library's copy of the SDK.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_init() {
    tracebraid::init();
}

/// How often the fields of `plugin:work` were evaluated since the library was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_evaluated() -> u64 {
    EVALUATED.load(Ordering::Relaxed)
}

/// Begins to record `plugin:work` into the rings of the library's copy of the SDK, which it reads itself.
/// Says whether it could.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_record() -> bool {
    tracebraid::init();
    tracebraid::enable("plugin:work").is_ok() && tracebraid::drain(|_| {}).is_ok()
}

/// How many events of `plugin:work` the library's rings held. Puts into `lost` how many found no room so
/// far.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_drain(lost: &mut u64) -> u64 {
    let mut count = 0;
    let drained = tracebraid::drain(|event| count += u64::from(event.name() == "work"));
    *lost = tracebraid::lost("plugin:work");
    match drained {
        Ok(_) => count,
        Err(_) => 0,
    }
}
