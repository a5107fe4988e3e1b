//! A program for other processors and other systems: its tracepoints off, on and off again, where there
//! are tracepoints, and nothing but its fields' types where there are none.

#![forbid(unsafe_code)]
#![deny(warnings)]

use std::cell::Cell;
use std::hint::black_box;

use tracebraid::{Options, Patching, event, tracepoint};

#[tracepoint(ret)]
#[inline(never)]
fn charge(order_id: u64, cents: i64) -> Result<u64, String> {
    order_id
        .checked_add(cents.unsigned_abs())
        .ok_or_else(|| "too much".to_owned())
}

#[tracepoint(print = "id={id} user={user}")]
fn queued(id: u64, user: &str);

/// Hits everything; whether it was on.
#[inline(never)]
fn hit(n: u64) -> bool {
    let on = Cell::new(false);
    event!(hit, n, seen = on.replace(true));
    queued(n, "ada");
    assert_eq!(black_box(charge(black_box(n), -1)), Ok(n + 1));
    #[cfg(feature = "bad-field")]
    event!(bad, value = std::sync::Mutex::new(n));
    on.get()
}

fn main() {
    // An emulator does not notice what is written to text through /proc/self/mem.
    let options = Options::new().patching(Patching::Mprotect).no_thread();
    tracebraid::init_with(options).expect("nothing to start");
    println!("off {}", hit(1));
    let named = tracebraid::enable("foreign:*");
    println!("enable {named:?}");
    println!("on {}", hit(2));
    drop(tracebraid::disable("foreign:*"));
    println!("off {}", hit(3));
    for point in tracebraid::tracepoints() {
        println!("{point:?} {}", point.fields().len());
    }
    attached();
    drained();
}

/// The rings give them too, in order. The first call starts the recording.
fn drained() {
    drop(tracebraid::enable("foreign:hit"));
    for round in 0..2 {
        let drained = tracebraid::drain(|event| println!("drained {event}"));
        println!("drained {drained:?} lost {}", tracebraid::lost("*"));
        hit(10 + round);
    }
}

/// Callbacks get the values.
fn attached() {
    for point in tracebraid::tracepoints() {
        let attachment = point.attach(|event| println!("{event}"));
        hit(4);
        drop(attachment);
    }
}
