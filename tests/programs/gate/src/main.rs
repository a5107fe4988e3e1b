//! Runs through every shape of tracepoint, off, on and off again, and prints what was hit.
//!
//! ```text
//! gate matrix [PLUGIN]          prints sites and hits, for `gate_matrix`
//! gate serve SECONDS [PLUGIN]   hits tracepoints all along, for `readers`
//! ```

#![deny(warnings)]

mod matrix;
mod plugin;
mod serve;
mod walk;

// Linked, so that its tracepoints may be in this program; never called.
use uncalled as _;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["matrix"] => matrix::run(None),
        ["matrix", plugin] => matrix::run(Some(plugin)),
        ["serve", seconds] => serve::run(seconds, None),
        ["serve", seconds, plugin] => serve::run(seconds, Some(plugin)),
        _ => panic!("gate matrix [PLUGIN] | gate serve SECONDS [PLUGIN]"),
    }
}
