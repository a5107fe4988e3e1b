use tracebraid::{event, tracepoint};

struct Opaque;

#[tracepoint]
fn argument(id: u64, opaque: Opaque) {}

#[tracepoint(fields(part = Opaque), skip(opaque))]
fn field(id: u64, opaque: Opaque) {}

#[tracepoint]
fn declared(id: u64, opaque: &Opaque);

#[tracepoint]
fn generic<T>(value: T) {}

fn main() {
    event!(an_event, id = 1, opaque = Opaque);
}
