//! The form of a layer: the same stream, of what its stack shows it.

use tracing::dispatcher::{Dispatch, with_default};
use tracing::{debug, info, info_span};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::{Written, bodies, drained, turn};

fn work() {
    let span = info_span!("outer", n = 1, later = tracing::field::Empty);
    span.in_scope(|| {
        info!("said");
        debug!("murmured");
    });
    span.record("later", 2);
}

#[test]
fn a_layer_is_switched_by_wishes_and_leaves_its_neighbours_alone() {
    let mut turn = turn();
    let written = Written::default();
    let stack = |with_ours: bool| {
        let written = written.clone();
        let fmt = fmt::layer()
            .without_time()
            .with_ansi(false)
            .with_writer(move || written.clone());
        let ours = with_ours.then(tracebraid::tracing::layer);
        Dispatch::new(Registry::default().with(ours).with(fmt))
    };
    with_default(&stack(false), work);
    let expected = written.take();
    assert_eq!(expected.lines().count(), 2);

    let dispatch = stack(true);
    for _ in 0..2 {
        with_default(&dispatch, work);
        assert_eq!((written.take(), drained()), (expected.clone(), vec![]));
        turn.enable("tracing.layered:*");
        with_default(&dispatch, work);
        assert_eq!(written.take(), expected);
        assert_eq!(bodies().len(), 7);
        turn.disable_all();
    }
}

#[test]
fn under_a_filter_of_the_whole_stack_a_layer_sees_what_that_lets_through() {
    let mut turn = turn();
    let ours = tracebraid::tracing::layer();
    let dispatch = Dispatch::new(Registry::default().with(ours).with(EnvFilter::new("info")));
    turn.enable("tracing.layered:*");
    with_default(&dispatch, work);
    let seen = bodies();
    assert_eq!(seen.len(), 6, "{seen:#?}");
    assert!(!seen.iter().any(|body| body.contains("level=4")));
}
