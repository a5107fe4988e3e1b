//! Links the SDK and has no tracepoint.

#![forbid(unsafe_code)]
#![deny(warnings)]

fn main() {
    tracebraid::init();
    let enabled = tracebraid::enable("*").expect("nothing to switch is no error");
    println!(
        "points {} enabled {enabled}",
        tracebraid::tracepoints().len()
    );
}
