use tracebraid::tracepoint;

#[tracepoint]
fn returns(n: u8) -> u8;

#[tracepoint]
async fn waits(n: u8);

#[tracepoint]
const fn constant(n: u8);

#[tracepoint]
unsafe fn dangerous(n: u8);

#[tracepoint(ret)]
fn asks(n: u8);

trait Shape {
    #[tracepoint]
    fn required(&self, n: u8);
}

fn main() {}
