#![allow(unused)]

use tracebraid::tracepoint;

#[tracepoint]
struct Point;

#[tracepoint]
impl Point {
    fn zero() {}
}

#[tracepoint]
mod inside {}

#[tracepoint]
unsafe trait Shape {}

#[tracepoint]
unsafe extern "C" fn variadic(n: u8, mut rest: ...) {}

fn main() {
    Point::zero();
}
