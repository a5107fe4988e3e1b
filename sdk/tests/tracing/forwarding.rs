//! Tracepoints of the SDK as events of `tracing`.

use std::time::Duration;

use tracebraid::{event, tracepoint};
use tracing::dispatcher::{Dispatch, with_default};
use tracing_subscriber::fmt;

use crate::{Written, drained, turn};

#[tracepoint(provider = "till")]
fn charge(order_id: u64, who: Option<&str>) -> u64 {
    event!(
        till::weighed,
        grams = -3_i32,
        took = Duration::from_millis(5),
        raw = &b"\xff"[..],
        none = None::<u8>
    );
    event!(till::bare);
    order_id + who.map_or(0, str::len) as u64
}

#[test]
fn tracepoints_arrive_where_events_of_tracing_do_and_do_not_come_back() {
    let mut turn = turn();
    let written = Written::default();
    let writer = written.clone();
    let theirs = fmt()
        .without_time()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let dispatch = Dispatch::new(tracebraid::tracing::wrap(theirs));
    with_default(&dispatch, || charge(1, None));
    assert_eq!(written.take(), "");

    turn.enable("*.none:*");
    let forwarding = with_default(&dispatch, || {
        tracebraid::tracing::forward("till:*").unwrap()
    });
    assert_eq!(forwarding.tracepoints(), 4);
    with_default(&dispatch, || charge(17, Some("ada")));
    let lines = written.take();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert_eq!(lines[0], " INFO till: order_id=17 who=\"ada\"");
    assert_eq!(lines[1], " INFO till: grams=-3 took=5ms raw=\\xff");
    assert_eq!(lines[2].trim(), "INFO till:");
    assert!(lines[3].starts_with(" INFO till: ns="), "{lines:#?}");
    // Forwarded to a thread that has no subscriber: nowhere.
    charge(18, None);
    drop(forwarding);
    with_default(&dispatch, || charge(19, None));
    assert_eq!(written.take(), "");
    assert_eq!(drained(), [""; 0]);
}
