//! Tracy's zones as a peer. Nobody is connected, so that the process keeps all of them: few are made.

use tracebraid_benches::paired::Run;

use crate::shapes::{Shape, TEXT16, TEXT200, hidden};

/// Gets ready.
pub(crate) fn start() {
    tracy_client::Client::start();
}

/// The function of a shape; there is no Tracy event that stands alone, so an empty one is not to be had.
pub(crate) fn run(shape: Shape) -> Option<Run> {
    match shape {
        Shape::Three => Some(three),
        Shape::Text16 => Some(text16),
        Shape::Text200 => Some(text200),
        Shape::Empty => None,
        Shape::Pair => Some(pair),
    }
}

#[inline(never)]
fn three(rounds: u64, items: &[u64], _: i32) {
    for one in 0..rounds {
        let zone = tracy_client::span!("three");
        for word in [one, items[0], items[1]] {
            zone.emit_value(word);
        }
    }
}

#[inline(never)]
fn text16(rounds: u64, _: &[u64], _: i32) {
    let text = hidden(TEXT16);
    for _ in 0..rounds {
        tracy_client::span!("text").emit_text(text);
    }
}

#[inline(never)]
fn text200(rounds: u64, _: &[u64], _: i32) {
    let text = hidden(TEXT200);
    for _ in 0..rounds {
        tracy_client::span!("text").emit_text(text);
    }
}

#[inline(never)]
fn pair(rounds: u64, _: &[u64], _: i32) {
    for id in 0..rounds {
        let zone = tracy_client::span!("pair");
        zone.emit_value(id);
    }
}
