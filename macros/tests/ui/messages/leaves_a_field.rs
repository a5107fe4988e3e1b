#![allow(unused)]

use tracebraid::{event, tracepoint};

fn returns(n: Option<u8>) -> u8 {
    event!(leaves, n = return 3);
    event!(leaves, n = if n.is_none() { return 3 } else { 4 });
    0
}

fn question_mark(n: Option<u8>) -> Option<u8> {
    event!(leaves, n = n?);
    event!(leaves, a = 1, n = %n.map(|n| Some(n)?)?, z = 2);
    None
}

async fn awaits() {
    event!(leaves, n = std::future::ready(1).await);
}

fn jumps() {
    loop {
        event!(leaves, n = break, m = continue);
    }
}

#[tracepoint(fields(len = name?.len()), skip_all)]
fn entry(name: Option<&str>) -> Option<u8> {
    None
}

fn main() {}
