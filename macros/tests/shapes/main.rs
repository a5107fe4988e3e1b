//! Functions of every shape, with lints at their strictest: they compile without a warning and behave
//! as if they had no tracepoint.
#![forbid(unsafe_op_in_unsafe_fn)]
#![deny(
    warnings,
    unused,
    unreachable_code,
    missing_docs,
    rust_2018_idioms,
    single_use_lifetimes,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    unreachable_pub,
    trivial_casts,
    trivial_numeric_casts,
    elided_lifetimes_in_paths,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![allow(
    clippy::too_many_arguments,
    clippy::many_single_char_names,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    clippy::boxed_local,
    clippy::trivially_copy_pass_by_ref,
    clippy::redundant_pub_crate,
    clippy::wildcard_imports,
    dead_code
)]
mod events;
mod functions;
mod methods;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use events::*;
use functions::*;
use methods::{Generic, Opaque, Shape, opaque};

/// Runs a future that never waits.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

/// How often a function was called.
struct Count(usize);

impl Debug for Count {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "count {}", self.0)
    }
}

/// Calls everything, and says what it returned.
#[allow(unsafe_code)]
fn call_everything() -> Vec<String> {
    let mut seen = Vec::new();
    let mut see = |value: &dyn Debug| seen.push(format!("{value:?}"));
    see(&keywords(1, 2, -3, -4, "five", 6, 7));
    see(&hygiene(false, 1, 2, 3, 4, 5, 6, 7, &[8], 9));
    see(&generic("x", [0; 3]));
    see(&anything(1_u8, 'x'));
    see(&formatted([1], 2_u8));
    see(&iterator(3_u8).sum::<u64>());
    see(&adder(3).clone()(&4));
    see(&run(future(2)));
    see(&half_named(3).map(Iterator::count));
    see(&half_named(0).map(Iterator::count));
    see(&patterns(
        (1, 2),
        [3; 4],
        &5,
        6,
        Pair { left: 7, right: 8 },
        9,
        Unit,
        "",
    ));
    see(&references(1, 2));
    let mut n = 1;
    see(&run(asynchronous("s", &mut n, 1)));
    see(&run(asynchronous("", &mut n, 1)));
    see(&n);
    see(&run(asynchronous_unnamed(2)).count());
    see(&run(boxed("boxed")));
    // SAFETY: it reads one byte of two.
    see(&unsafe { external([5, 6].as_ptr(), 2) });
    see(&pick("a", "b"));
    see(&[early("8"), early("7"), early("x")]);
    see(&consume(vec![1, 2]));
    unit(1);
    unit(5);
    see(&std::panic::catch_unwind(|| diverges(1)).is_err());
    see(&inner_attributes(4));
    see(&[
        items_after_arguments(1),
        run(items_in_async(1)),
        items_in_place(1).sum(),
        one_expression(5).sum(),
    ]);
    from_macro(1);
    see(&Count(items()));
    see(&Count(items()));
    let (traced, here) = (caller(1), line!());
    see(&(traced == here));
    see(&coerced(3)(&4));
    see(&inferred("3").ok());
    see(&inferred("x").map_err(|error| error.to_string()));
    see(&[aliased(0).is_err(), aliased(1).is_err()]);
    see(&opaque(Opaque { n: 1 }, 2));
    let mut shape = Opaque::make(3);
    see(&shape.required(1));
    see(&shape.provided(1));
    see(&run(shape.later(1)));
    see(&Pin::new(&mut shape).by_pin(1));
    see(&shape.chained().n);
    *shape.borrowed(1) += 1;
    see(&shape.maybe_borrowed(0).copied());
    see(&shape.maybe_borrowed(1).copied());
    *run(shape.asynchronous(1)) += 1;
    see(&shape.iterate().map(u32::from).sum::<u32>());
    see(&shape.object().count());
    see(&shape.by_value(1));
    see(&Box::new(Opaque::associated(1)).by_box(1));
    see(&Opaque::by_arc(&Arc::new(Opaque { n: 2 }), 1));
    see(&wide(
        -1,
        1,
        0.5,
        0.5,
        true,
        'x',
        7,
        None,
        std::ptr::null(),
        [0; 32],
        String::new(),
        -1,
        1,
    ));
    let generic = Generic(1_u16).mutate(7);
    see(&generic.show(1));
    see(&run(generic.amutate(8)).0);
    see(&nested(2));
    see(&made(4));
    queued(1, 2, "user");
    declared(1, "b", "c", "d", 3_u8);
    empty();
    see(&events(0, "name", &Pair { left: 1, right: 2 }));
    seen
}

/// What a program with the same functions and no tracepoints sees.
const WITHOUT: &[&str] = &[
    "20",
    "29",
    r#""\"x\"3""#,
    r#""1x""#,
    "3",
    "3",
    "7",
    "Ok(2)",
    "Ok(3)",
    r#"Err("none")"#,
    "5",
    "4",
    r#"Ok("s")"#,
    r#"Err("empty")"#,
    "3",
    "2",
    "5",
    "5",
    r#""a""#,
    "[Some(8), None, None]",
    "2",
    "true",
    "4",
    "[4, 4, 4, 5]",
    "count 0",
    "count 1",
    "true",
    "7",
    "Some([0, 1, 2])",
    r#"Err("invalid digit found in string")"#,
    "[true, false]",
    "2",
    "4",
    "5",
    "4",
    "4",
    "4",
    "Some(6)",
    "None",
    "92",
    "8",
    "9",
    "2",
    "3",
    "7",
    "[7, 7]",
    "8",
    "3",
    "4",
    "0",
];

#[test]
fn functions_return_what_they_return_without_tracepoints_also_while_they_are_on() {
    assert_eq!(call_everything(), WITHOUT);
    let switched = tracebraid::enable("*").unwrap();
    assert!(switched > 50, "{switched} tracepoints");
    let on = call_everything();
    let _ = tracebraid::disable("*").unwrap();
    // One of them counts its calls.
    let expected = WITHOUT.iter().map(|line| match *line {
        "count 0" => "count 2",
        "count 1" => "count 3",
        line => line,
    });
    assert_eq!(on, expected.collect::<Vec<_>>());
}
