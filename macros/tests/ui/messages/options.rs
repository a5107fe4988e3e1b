#![allow(unused)]

use tracebraid::tracepoint;

#[tracepoint(level = "info")]
fn unknown() {}

#[tracepoint(name)]
fn without_text() {}

#[tracepoint(name = other)]
fn no_text() {}

#[tracepoint(name = "a:b")]
fn bad_name() {}

#[tracepoint(provider = "")]
fn no_provider() {}

#[tracepoint(name = "a", name = "b")]
fn twice() {}

#[tracepoint(skip)]
fn no_list() {}

#[tracepoint(skip(b))]
fn skips_nothing(a: u8, (c, d): (u8, u8)) {}

#[tracepoint(skip(self))]
fn no_self() {}

#[tracepoint(fields)]
fn no_fields() {}

#[tracepoint(fields(x = 1, x = 2))]
fn two_fields() {}

#[tracepoint("name")]
fn a_text() {}

#[tracepoint(gate = "nop")]
fn no_gate() {}

#[tracepoint(ret = Debug)]
fn no_form() -> u8 {
    3
}

#[tracepoint(ret(Pointer))]
fn unknown_form() -> u8 {
    3
}

#[tracepoint(name = "a" provider = "b")]
fn no_comma() {}

fn main() {
    // The functions are still there, so that nothing else is reported.
    unknown();
    skips_nothing(1, (2, 3));
}
