use tracebraid::{event, tracepoint};

struct Opaque;

#[tracepoint(fields(%opaque))]
fn argument(id: u64, opaque: Opaque) {}

#[tracepoint(ret)]
fn result() -> Opaque {
    Opaque
}

#[tracepoint(err)]
fn error() -> Result<u8, Opaque> {
    Ok(3)
}

#[tracepoint(err)]
fn no_result() -> u8 {
    3
}

fn main() {
    event!(an_event, id = 1, ?Opaque);
}
