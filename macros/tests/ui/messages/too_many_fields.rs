#![allow(unused)]

use tracebraid::{event, tracepoint};

#[tracepoint]
#[rustfmt::skip]
fn arguments(
    a0: u8, a1: u8, a2: u8, a3: u8, a4: u8, a5: u8, a6: u8, a7: u8, a8: u8, a9: u8, b0: u8, b1: u8, b2: u8, b3: u8, b4: u8, b5: u8,
    b6: u8, b7: u8, b8: u8, b9: u8, c0: u8, c1: u8, c2: u8, c3: u8, c4: u8, c5: u8, c6: u8, c7: u8, c8: u8, c9: u8, d0: u8, d1: u8,
    d2: u8,
) {
}

fn main() {
    event!(
        many, a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, a5 = 0, a6 = 0, a7 = 0, a8 = 0, a9 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0, b4 = 0,
        b5 = 0, b6 = 0, b7 = 0, b8 = 0, b9 = 0, c0 = 0, c1 = 0, c2 = 0, c3 = 0, c4 = 0, c5 = 0, c6 = 0, c7 = 0, c8 = 0, c9 = 0,
        d0 = 0, d1 = 0, d2 = 0
    );
}
