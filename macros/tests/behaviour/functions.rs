//! Entries and returns of functions.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tracebraid::{event, tracepoint};

use crate::log::{Log, find, run};

#[tracepoint]
fn charge(order_id: u64, cents: i64) -> u64 {
    event!(in_charge, order_id);
    order_id + cents.unsigned_abs()
}

#[test]
fn an_entry_stands_before_what_the_body_emits_and_a_return_after_it() {
    let log = Log::of(&["charge", "in_charge"]);
    assert_eq!(charge(17, -4200), 4217);
    assert_eq!(
        log.take(),
        [
            "charge order_id=17 cents=-4200",
            "in_charge order_id=17",
            "charge__return"
        ]
    );
    drop(log.attachments);
    charge(1, 2);
    assert_eq!(log.lines.lock().unwrap().len(), 0);
}

#[tracepoint(ret, err)]
fn parse(text: &str) -> Result<u8, std::num::ParseIntError> {
    if text == "early" {
        return Ok(7);
    }
    let value: u8 = text.parse()?;
    Ok(value)
}

#[test]
fn early_returns_and_question_marks_are_returns() {
    let log = Log::of(&["parse"]);
    parse("early").unwrap();
    parse("x").unwrap_err();
    parse("3").unwrap();
    assert_eq!(
        log.take(),
        [
            "parse text=early",
            "parse__return ret=7 err=None",
            "parse text=x",
            "parse__return ret=None err=invalid digit found in string",
            "parse text=3",
            "parse__return ret=3 err=None",
        ]
    );
}

#[tracepoint]
fn panics(depth: u8) {
    if depth == 0 {
        panic!("at the bottom");
    }
    panics(depth - 1);
}

#[test]
fn unwinding_marks_each_return_that_it_crosses() {
    let log = Log::of(&["panics"]);
    catch_unwind(|| panics(1)).unwrap_err();
    assert_eq!(
        log.take(),
        [
            "panics depth=1",
            "panics depth=0",
            "panics__return end=unwind",
            "panics__return end=unwind"
        ]
    );
}

#[tracepoint(ret)]
fn factorial(n: u64) -> u64 {
    if n < 2 { 1 } else { n * factorial(n - 1) }
}

#[test]
fn recursion_nests() {
    let log = Log::of(&["factorial"]);
    assert_eq!(factorial(3), 6);
    assert_eq!(
        log.take(),
        [
            "factorial n=3",
            "factorial n=2",
            "factorial n=1",
            "factorial__return ret=1",
            "factorial__return ret=2",
            "factorial__return ret=6",
        ]
    );
}

/// What a destructor called while unwinding.
struct CallsWhenDropped;

impl Drop for CallsWhenDropped {
    fn drop(&mut self) {
        factorial_in_drop(1);
        in_place_in_drop(1).next();
    }
}

#[tracepoint]
fn factorial_in_drop(n: u64) -> u64 {
    n
}

#[tracepoint]
fn in_place_in_drop(n: u64) -> impl Iterator<Item = u64> {
    0..n
}

#[test]
fn a_function_that_returns_while_another_unwinds_has_returned() {
    let log = Log::of(&["factorial_in_drop", "in_place_in_drop"]);
    catch_unwind(|| {
        let _calls = CallsWhenDropped;
        panic!("now");
    })
    .unwrap_err();
    assert_eq!(
        log.take(),
        [
            "factorial_in_drop n=1",
            "factorial_in_drop__return",
            "in_place_in_drop n=1",
            "in_place_in_drop__return"
        ]
    );
}

#[test]
fn a_return_is_emitted_exactly_where_its_entry_was() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let attach = |name: &str| {
        let lines = Arc::clone(&lines);
        find(name)
            .attach(move |event| lines.lock().unwrap().push(event.name().to_owned()))
            .unwrap()
    };
    let attached = Cell::new(Vec::new());
    let take = || std::mem::take(&mut *lines.lock().unwrap());
    // Switched on inside: neither.
    switched_inside(&|| {
        attached.set(vec![
            attach("switched_inside"),
            attach("switched_inside__return"),
        ])
    });
    assert_eq!(take(), [""; 0]);
    switched_inside(&|| ());
    assert_eq!(take(), ["switched_inside", "switched_inside__return"]);
    // Switched off inside: nobody is there any more when it returns.
    switched_inside(&|| drop(attached.take()));
    assert_eq!(take(), ["switched_inside"]);
}

#[tracepoint(skip(step))]
fn switched_inside(step: &dyn Fn()) {
    step();
}

#[test]
fn a_function_with_many_arguments_passes_them_on() {
    #[tracepoint(ret)]
    #[allow(clippy::too_many_arguments)]
    fn nine(
        a: u8,
        mut b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        (i, mut j): (u8, &str),
    ) -> String {
        b += 1;
        j = &j[1..];
        format!("{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}")
    }
    let log = Log::of(&["nine"]);
    assert_eq!(nine(1, 2, 3, 4, 5, 6, 7, 8, (9, "xy")), "133456789y");
    assert_eq!(
        log.take(),
        [
            "nine a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9 j=xy",
            "nine__return ret=133456789y"
        ]
    );
}

#[derive(Debug)]
struct Receipt;

#[test]
fn ret_takes_the_value_as_a_field_or_by_debug_and_err_by_display_or_debug() {
    #[tracepoint(ret)]
    fn debugged() -> Receipt {
        Receipt
    }
    #[tracepoint(ret = ?)]
    fn text_debugged() -> &'static str {
        "x"
    }
    #[tracepoint(ret(Display))]
    fn displayed() -> u8 {
        3
    }
    #[tracepoint(ret)]
    fn whole() -> Result<u8, String> {
        Err("x".into())
    }
    #[tracepoint(err = ?)]
    fn err_debugged() -> Result<Receipt, String> {
        Err("x".into())
    }
    #[tracepoint(ret)]
    fn optional(n: Option<u8>) -> Option<u8> {
        n
    }
    let log = Log::of(&[
        "debugged",
        "text_debugged",
        "displayed",
        "whole",
        "err_debugged",
        "optional",
    ]);
    debugged();
    text_debugged();
    displayed();
    let _ = whole();
    let _ = err_debugged();
    optional(Some(1));
    let returns: Vec<_> = log
        .take()
        .into_iter()
        .filter(|line| line.contains("__return"))
        .collect();
    assert_eq!(
        returns,
        [
            "debugged__return ret=Receipt",
            r#"text_debugged__return ret=\"x\""#,
            "displayed__return ret=3",
            r#"whole__return ret=Err(\"x\")"#,
            r#"err_debugged__return err=\"x\""#,
            "optional__return ret=1",
        ]
    );
}

#[test]
fn a_return_says_how_long_the_body_took() {
    #[tracepoint]
    fn sleeps() {
        thread::sleep(Duration::from_millis(20));
    }
    #[tracepoint]
    fn sleeps_in_place() -> impl Iterator<Item = u8> {
        thread::sleep(Duration::from_millis(20));
        [3].into_iter()
    }
    #[tracepoint]
    async fn sleeps_async() {
        thread::sleep(Duration::from_millis(20));
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let attached: Vec<_> = [
        "sleeps__return",
        "sleeps_in_place__return",
        "sleeps_async__return",
    ]
    .into_iter()
    .map(|name| {
        let seen = Arc::clone(&seen);
        assert!(find(name).is_return());
        find(name)
            .attach(move |event| {
                seen.lock()
                    .unwrap()
                    .push(format!("{:?}", event.field("ns")))
            })
            .unwrap()
    })
    .collect();
    sleeps();
    assert_eq!(sleeps_in_place().count(), 1);
    run(sleeps_async());
    drop(attached);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for ns in &*seen {
        let ns: u64 = ns
            .trim_matches(|char: char| !char.is_ascii_digit())
            .parse()
            .unwrap();
        assert!((20_000_000..10_000_000_000).contains(&ns), "{ns}");
    }
}

#[test]
fn events_reach_callbacks_while_a_panic_unwinds_through_a_body_that_cannot_move() {
    #[tracepoint]
    #[track_caller]
    fn tracks(n: u8) -> u32 {
        assert!(n != 0, "zero");
        std::panic::Location::caller().line()
    }
    let log = Log::of(&["tracks"]);
    assert_eq!(tracks(1), line!());
    catch_unwind(AssertUnwindSafe(|| tracks(0))).unwrap_err();
    assert_eq!(
        log.take(),
        [
            "tracks n=1",
            "tracks__return",
            "tracks n=0",
            "tracks__return end=unwind"
        ]
    );
}
