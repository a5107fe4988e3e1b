//! What programs do that they should not, or that nobody thought of.

use tracing::dispatcher::{Dispatch, with_default};
use tracing::{info, info_span};

use crate::{bodies, drained, turn};

#[test]
fn a_message_of_a_megabyte_is_cut_and_says_so_and_the_others_have_their_room() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.bad_input:*");
    let long = "ü".repeat(1 << 19);
    with_default(&dispatch, || {
        info!(also = long, n = 7, last = "kept", "{long}")
    });
    let seen = bodies();
    assert!(
        seen[0].len() < 1400 && seen[0].matches('…').count() == 2,
        "{}",
        seen[0]
    );
    assert!(seen[0].ends_with("n=7 last=kept"), "{}", seen[0]);
}

#[test]
fn a_target_with_blanks_and_colons_has_a_name_that_can_be_said() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("my_app.part__v2_:*");
    with_default(&dispatch, || {
        info!(target: "my app::part::\tv2:", "there");
        info_span!(target: "my app::part::\tv2:", "a: b\n").in_scope(|| ());
    });
    let seen = drained();
    assert_eq!(seen.len(), 0, "{seen:?}");
    turn.enable("my_app.part.*:*");
    with_default(&dispatch, || {
        info!(target: "my app::part::\tv2:", "there");
        drop(info_span!(target: "my app::part::\tv2:", "a: b\n"));
    });
    let names: Vec<String> = drained()
        .iter()
        .map(|line| line.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 3);
    assert_eq!(names[1], "my_app.part._v2_:a__b_");
}

#[test]
fn more_fields_than_there_is_room_for_are_left_out_at_the_end() {
    #[rustfmt::skip]
    fn say() {
        info!(
            f00 = 0, f01 = 1, f02 = 2, f03 = 3, f04 = 4, f05 = 5, f06 = 6, f07 = 7, f08 = 8, f09 = 9,
            f10 = 10, f11 = 11, f12 = 12, f13 = 13, f14 = 14, f15 = 15, f16 = 16, f17 = 17, f18 = 18, f19 = 19,
            f20 = 20, f21 = 21, f22 = 22, f23 = 23, f24 = 24, f25 = 25, f26 = 26, f27 = 27, f28 = 28, f29 = 29,
            f30 = 30, f31 = 31, f32 = 32, f33 = 33, f34 = 34, f35 = 35, f36 = 36, f37 = 37, f38 = 38, f39 = 39,
        );
    }
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.bad_input:*");
    with_default(&dispatch, say);
    let seen = bodies();
    assert!(seen[0].ends_with("f34=34 f35=35"), "{seen:?}");
}

#[test]
fn a_span_that_is_not_one_of_ours_or_is_long_closed_does_no_harm() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.bad_input:*");
    with_default(&dispatch, || {
        let old = info_span!("old");
        let id = old.id().unwrap();
        drop(old);
        tracing::dispatcher::get_default(|dispatch| {
            for id in [id.clone(), field_id(1), field_id(u64::MAX)] {
                dispatch.enter(&id);
                dispatch.exit(&id);
                dispatch.record_follows_from(&id, &id);
                dispatch.try_close(id);
            }
        });
        info!(parent: id, "to a span that is gone");
    });
    let seen = bodies();
    assert_eq!(
        seen.last().unwrap(),
        "level=3 span=0 message=to a span that is gone"
    );
    assert_eq!(seen.len(), 3, "{seen:?}");
}

fn field_id(number: u64) -> tracing::span::Id {
    tracing::span::Id::from_u64(number)
}

#[test]
#[allow(unsafe_code)]
fn a_child_of_fork_has_its_own_rings_and_its_parents_wishes() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.bad_input:*");
    let say = |n: u64| with_default(&dispatch, || info!(n, "forked"));
    say(1);
    // SAFETY: the child does only what is allowed after fork in a program with threads: this test takes
    // turns with all others, and the SDK's locks follow.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            say(2);
            tracebraid::drain(|_| ()).unwrap();
            say(3);
            bodies() == ["level=3 span=0 message=forked n=3"]
        }));
        // SAFETY: ends the process, and runs nothing of it.
        unsafe { libc::_exit(if matches!(ok, Ok(true)) { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: a child of ours and a place for its status.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert_eq!(bodies(), ["level=3 span=0 message=forked n=1"]);
}
