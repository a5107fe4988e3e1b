//! `quickstart`: the three ways to declare a tracepoint, and the list of all there are.
//!
//! Run it with a number of seconds to have it do its work for so long, and look at it meanwhile:
//!
//! ```text
//! $ cargo run --bin quickstart -- 30 &
//! $ sudo bridge-cli attach --pid $! -e 'quickstart:*' -T 2
//! $ sudo bpftrace -p $! -e 'usdt:*:quickstart:charge { printf("%d %d\n", arg0, arg1); }'
//! ```

use std::time::{Duration, Instant};

use tracebraid::{event, tracepoint};

/// A function: `quickstart:charge` when it begins, `quickstart:charge__return` when it ends.
#[tracepoint(err)]
fn charge(order_id: u64, cents: i64) -> Result<u64, String> {
    if cents < 0 {
        return Err(format!("{cents} cents cannot be charged"));
    }
    // An event at this place; its fields are evaluated only while somebody looks.
    event!(rounded, order_id, euros = cents / 100, rest = cents % 100);
    Ok(order_id)
}

/// An event that is declared once and shared by all its callers.
#[tracepoint(print = "id={id} depth={depth}")]
fn queued(id: u64, depth: usize, user: &str);

fn main() {
    tracebraid::init();

    for tracepoint in tracebraid::tracepoints() {
        let fields: Vec<String> = tracepoint
            .fields()
            .iter()
            .map(|field| {
                let optional = if field.kind.optional { "?" } else { "" };
                format!("{}: {}{optional}", field.name, field.kind.kind.name())
            })
            .collect();
        println!(
            "{}:{}({})",
            tracepoint.provider(),
            tracepoint.name(),
            fields.join(", ")
        );
    }

    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    for id in 0.. {
        if charge(id, if id % 8 == 7 { -1 } else { 4250 }).is_ok() {
            queued(id, 1, "ada");
        }
        if Instant::now() >= end {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
