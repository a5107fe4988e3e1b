#![allow(unused)]

use tracebraid::{event, tracepoint};

#[tracepoint(print = "id={ID}")]
fn queued(id: u64);

#[tracepoint(print = "{id}", skip(id))]
fn empty(id: u64);

#[tracepoint(print = "{id:x} {depth}")]
fn with_body(id: u64, depth: u64) {}

fn main() {
    event!(print: "{", a, x = 1);
    event!(print: "x}", a, x = 1);
    event!(print: "{} {x}", a, x = 1);
    event!(print: "\0", a, x = 1);
}
