//! As little as has a tracepoint: it says whether that is on when the program starts. Tests link it with
//! something in front of its writable data.

#![forbid(unsafe_code)]
#![deny(warnings)]

use std::cell::Cell;

fn main() {
    tracebraid::init_with(tracebraid::Options::new().no_thread()).expect("nothing to start");
    let on = Cell::new(false);
    tracebraid::event!(hit, on = on.replace(true));
    println!("{}", on.get());
}
