//! Hits tracepoints of its own, and of a Rust `dylib` that it is linked with.

#![forbid(unsafe_code)]
#![deny(warnings)]

use tracebraid::{Attachment, event};

fn main() {
    tracebraid::init();
    let points = tracebraid::tracepoints();
    let attach = |point: &tracebraid::Tracepoint| {
        let callback = |event: &tracebraid::Event<'_>| {
            if !event.name().ends_with("__return") {
                println!("{event}");
            }
        };
        point
            .attach(callback)
            .expect("the process can patch itself")
    };
    let attachments: Vec<Attachment> = points.iter().map(attach).collect();
    walk();
    drop(attachments);
    walk();
    let status = tracebraid::status();
    println!("{} objects, {} on", status.objects, status.sites_on);
}

fn walk() {
    dynamic::inside(1, "abc");
    dynamic::generic('x', "generic");
    dynamic::generic(7_u8, "generic");
    event!(here, a = 1_u64, b = "text", c = 3_u64, d = 4_u64);
}
