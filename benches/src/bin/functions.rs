//! Runs the functions whose instructions are counted, a given number of times.

fn main() {
    let calls = std::env::args()
        .nth(1)
        .and_then(|argument| argument.parse().ok());
    tracebraid_benches::functions::call_all(calls.unwrap_or(1));
}
