use tracebraid::tracepoint;

#[tracepoint(err)]
fn no_result() {}

#[tracepoint(ret)]
fn never() -> ! {
    loop {}
}

#[track_caller]
#[tracepoint(ret)]
fn first(n: u8) -> u8 {
    n
}

#[tracepoint(err)]
#[track_caller]
fn second(n: u8) -> Result<u8, String> {
    Ok(n)
}

#[tracepoint(ret)]
async fn unnamed() -> impl Iterator<Item = u8> {
    0..3
}

fn main() {}
