use tracebraid::{event, tracepoint};

fn length(text: String) -> usize {
    text.len()
}

#[tracepoint(fields(length = length(text)), skip(text))]
fn entry(text: String) {
    drop(text);
}

fn main() {
    let text = String::new();
    event!(an_event, length = length(text));
    drop(text);
}
