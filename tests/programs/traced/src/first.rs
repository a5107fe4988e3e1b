//! What is on from the first statement of `main`, when somebody attached before it.

use std::cell::Cell;

pub fn run() {
    let tested = before_init();
    let early = patched_before_init();
    tracebraid::init();
    let patched = after_init();
    println!("tested {tested} early {early} patched {patched}");
}

/// A site that tests its semaphore needs nobody to patch it.
fn before_init() -> bool {
    let on = Cell::new(false);
    tracebraid::event!(gate: "semaphore", first::tested, on = on.replace(true));
    on.get()
}

/// One that is patched does: it is on where somebody does it from outside.
fn patched_before_init() -> bool {
    let on = Cell::new(false);
    tracebraid::event!(first::early, on = on.replace(true));
    on.get()
}

fn after_init() -> bool {
    let on = Cell::new(false);
    tracebraid::event!(first::patched, on = on.replace(true));
    on.get()
}
