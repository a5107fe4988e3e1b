use tracebraid::tracepoint;

#[tracepoint]
const fn double(n: u8) -> u8 {
    n * 2
}

struct Point;

impl Point {
    #[tracepoint]
    pub const fn zero(&self) -> u8 {
        0
    }
}

fn main() {
    double(1);
    Point.zero();
}
