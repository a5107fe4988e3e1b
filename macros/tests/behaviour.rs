//! What is emitted, when and in which order, seen by in-process probes.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tracebraid::{Attachment, FieldValue, Kind, Tracepoint, event, tracepoint};

/// The events of some tracepoints, hit by this thread, as text. Times are left out.
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    attachments: Vec<Attachment>,
}

impl Log {
    /// Of the tracepoints whose name is one of these, or the return of one.
    fn of(names: &[&str]) -> Log {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let thread: ThreadId = thread::current().id();
        let mut attachments = Vec::new();
        for tracepoint in tracebraid::tracepoints() {
            let name = tracepoint.name().trim_end_matches("__return");
            if !names.contains(&name) {
                continue;
            }
            let lines = Arc::clone(&lines);
            let attachment = tracepoint.attach(move |event| {
                if thread::current().id() != thread {
                    return;
                }
                let mut line = event.name().to_owned();
                for (field, value) in event.fields().filter(|(field, _)| *field != "ns") {
                    if field != "end" || value != FieldValue::None {
                        line += &format!(" {field}={value}");
                    }
                }
                lines.lock().unwrap().push(line);
            });
            attachments.push(attachment.unwrap());
        }
        assert!(!attachments.is_empty(), "no tracepoint is named {names:?}");
        Log { lines, attachments }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

fn find(name: &str) -> Tracepoint {
    let mut found = tracebraid::tracepoints()
        .into_iter()
        .filter(|tracepoint| tracepoint.name() == name);
    let tracepoint = found
        .next()
        .unwrap_or_else(|| panic!("no tracepoint {name}"));
    assert!(found.next().is_none(), "two tracepoints {name}");
    tracepoint
}

/// Polls once.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future that never waits.
fn run<T>(future: impl Future<Output = T>) -> T {
    match poll(pin!(future)) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

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

#[test]
fn a_tracepoint_is_described_before_its_first_hit() {
    #[tracepoint(print = "id={id} {{{depth}}}")]
    fn never_called(id: u64, depth: usize, user: &str);
    if std::hint::black_box(false) {
        never_called(1, 2, "x");
    }
    let found = find("never_called");
    assert_eq!(found.provider(), "behaviour");
    assert_eq!(found.print(), "id={id} {{{depth}}}");
    let fields: Vec<_> = found
        .fields()
        .iter()
        .map(|field| (field.name.as_str(), field.kind.kind))
        .collect();
    assert_eq!(
        fields,
        [("id", Kind::U64), ("depth", Kind::U64), ("user", Kind::Str)]
    );
    assert!(!found.is_return());
    let site = &found.sites()[0];
    assert!(site.file.ends_with("tests/behaviour.rs"), "{}", site.file);
    let line = include_str!("behaviour.rs")
        .lines()
        .position(|line| line.contains("fn never_called("))
        .unwrap()
        + 1;
    assert_eq!(site.line as usize, line);
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

#[tracepoint(ret, err)]
async fn wait(n: u64) -> Result<u64, String> {
    match n {
        0 => return Ok(0),
        1 => Err("one".to_owned())?,
        2 => pending().await,
        3 => panic!("three"),
        _ => ready(()).await,
    }
    Ok(n)
}

#[test]
fn an_async_function_is_entered_at_its_first_poll_and_returns_when_it_is_done() {
    let log = Log::of(&["wait"]);
    let future = wait(5);
    assert_eq!(log.take(), [""; 0]);
    run(future).unwrap();
    run(wait(0)).unwrap();
    run(wait(1)).unwrap_err();
    assert_eq!(
        log.take(),
        [
            "wait n=5",
            "wait__return ret=5 err=None",
            "wait n=0",
            "wait__return ret=0 err=None",
            "wait n=1",
            "wait__return ret=None err=one",
        ]
    );
}

#[test]
fn a_future_that_is_dropped_or_unwinds_says_so_once() {
    let log = Log::of(&["wait"]);
    {
        let mut future = pin!(wait(2));
        assert!(poll(future.as_mut()).is_pending());
        assert!(poll(future.as_mut()).is_pending());
        assert_eq!(log.take(), ["wait n=2"]);
    }
    assert_eq!(log.take(), ["wait__return end=dropped ret=None err=None"]);
    catch_unwind(|| run(wait(3))).unwrap_err();
    assert_eq!(
        log.take(),
        ["wait n=3", "wait__return end=unwind ret=None err=None"]
    );
    drop(wait(2));
    assert_eq!(
        log.take(),
        [""; 0],
        "a future that was never polled was never entered"
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

/// Panics, or breaks off, in the middle.
enum Bad {
    Panics,
    Breaks,
    Long,
}

impl fmt::Display for Bad {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("so far")?;
        match self {
            Bad::Panics => panic!("in a Display"),
            Bad::Breaks => Err(fmt::Error),
            Bad::Long => (0..1000).try_for_each(|_| out.write_str("ä")),
        }
    }
}

#[test]
fn a_display_that_panics_or_never_ends_harms_nobody() {
    let log = Log::of(&["bad_display"]);
    for bad in [Bad::Panics, Bad::Breaks, Bad::Long] {
        event!(bad_display, %bad, after = 3);
    }
    let lines = log.take();
    assert!(
        lines[0].starts_with("bad_display bad=so far") && lines[0].ends_with("after=3"),
        "{lines:?}"
    );
    assert_eq!(lines[1], "bad_display bad=so far after=3");
    assert!(
        lines[2].len() < 1100 && lines[2].contains("ää") && lines[2].ends_with("after=3"),
        "{lines:?}"
    );
}

#[test]
fn fields_are_evaluated_only_while_somebody_looks() {
    let calls = Cell::new(0);
    let count = || {
        calls.set(calls.get() + 1);
        calls.get()
    };
    let hit = || event!(counted, first = count(), second = %count());
    hit();
    assert_eq!(calls.get(), 0);
    let log = Log::of(&["counted"]);
    hit();
    assert_eq!(log.take(), ["counted first=1 second=2"]);
    drop(log);
    hit();
    assert_eq!(calls.get(), 2);
}

#[inline(never)]
#[tracepoint]
fn generic<T: tracebraid::Value, const N: usize>(value: T, bytes: [u8; N]) -> usize {
    let _ = value;
    bytes.len()
}

#[test]
fn a_generic_function_is_a_tracepoint_for_each_list_of_kinds() {
    generic(1_u8, [1]);
    generic(2_u8, [1, 2]);
    generic("three", [1, 2, 3]);
    let kinds = |tracepoint: &Tracepoint| {
        tracepoint
            .fields()
            .iter()
            .map(|field| field.kind.kind)
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = tracebraid::tracepoints()
        .into_iter()
        .filter(|tracepoint| tracepoint.name() == "generic")
        .map(|tracepoint| (kinds(&tracepoint), tracepoint.sites().len()))
        .collect();
    all.sort_by_key(|(kinds, _)| kinds[0] as u8);
    assert_eq!(
        all,
        [
            (vec![Kind::U8, Kind::Bytes], 2),
            (vec![Kind::Str, Kind::Bytes], 1)
        ]
    );
    let log = Log::of(&["generic"]);
    generic("four", [1, 32, 31]);
    generic(5_u8, [255, 34]);
    assert_eq!(
        log.take(),
        [
            r"generic value=four bytes=\x01 \x1f",
            "generic__return",
            r#"generic value=5 bytes=\xff\""#,
            "generic__return"
        ]
    );
}

#[test]
fn the_same_event_at_two_places_is_one_tracepoint_and_other_fields_are_another() {
    fn first(x: u32) {
        event!(shared, x);
    }
    fn second(x: u32) {
        event!(shared, x = x + 1);
    }
    fn third(x: u32) {
        event!(shared, y = x);
    }
    for function in [first, second, third] {
        function(std::hint::black_box(1));
    }
    let found: Vec<_> = tracebraid::tracepoints()
        .into_iter()
        .filter(|found| found.name() == "shared")
        .collect();
    let mut sites: Vec<_> = found
        .iter()
        .map(|found| (found.fields()[0].name.clone(), found.sites().len()))
        .collect();
    sites.sort();
    assert_eq!(sites, [("x".to_owned(), 2), ("y".to_owned(), 1)]);
}

struct User {
    name: String,
    id: u64,
}

#[tracepoint(
    name = "checkout",
    provider = "shop",
    fields(user = %user.name, id = user.id, "any text" = ?lines),
    skip(db, lines)
)]
fn check_out(db: (), order: u32, user: User, lines: &[u16]) -> usize {
    let () = db;
    drop(user);
    lines.len() + order as usize
}

#[test]
fn options_of_a_function_shape_its_entry() {
    let log = Log::of(&["checkout"]);
    check_out(
        (),
        4,
        User {
            name: "ada".to_owned(),
            id: 9,
        },
        &[1, 2],
    );
    assert_eq!(
        log.take(),
        [
            "checkout order=4 user=ada id=9 any text=[1, 2]",
            "checkout__return"
        ]
    );
    assert_eq!(find("checkout").provider(), "shop");
}

#[test]
fn every_value_arrives_as_it_was() {
    macro_rules! arrives {
        ($($value:expr => $expected:expr;)*) => {$({
            let seen = Arc::new(Mutex::new(Vec::new()));
            let all: Vec<_> = tracebraid::tracepoints().into_iter().filter(|found| found.name() == "value").collect();
            let attached: Vec<_> = all
                .iter()
                .map(|found| {
                    let seen = Arc::clone(&seen);
                    found.attach(move |event| seen.lock().unwrap().push(format!("{:?}", event.field("v").unwrap()))).unwrap()
                })
                .collect();
            event!(value, v = $value);
            drop(attached);
            assert_eq!(*seen.lock().unwrap(), [format!("{:?}", $expected)], "{}", stringify!($value));
        })*};
    }
    use FieldValue as V;
    let text = "ä".repeat(150);
    let atomic = std::sync::atomic::AtomicI16::new(-3);
    arrives! {
        u8::MAX => V::Unsigned(255);
        i8::MIN => V::Signed(-128);
        u64::MAX => V::Unsigned(u64::MAX);
        i64::MIN => V::Signed(i64::MIN);
        usize::MAX => V::Unsigned(u64::MAX);
        u128::MAX - 1 => V::Unsigned128(u128::MAX - 1);
        i128::MIN => V::Signed128(i128::MIN);
        true => V::Bool(true);
        'ß' => V::Char('ß');
        f32::NAN => V::F32(f32::NAN);
        -0.0_f64 => V::F64(-0.0);
        text.as_str() => V::Str(&text);
        text.clone() => V::Str(&text);
        "" => V::Str("");
        std::borrow::Cow::Borrowed("cow") => V::Str("cow");
        [1_u8, 2] => V::Bytes(&[1, 2]);
        &[3_u8][..] => V::Bytes(&[3]);
        vec![0_u8] => V::Bytes(&[0]);
        Some(3_u8) => V::Unsigned(3);
        None::<u8> => V::None;
        Some(u128::MAX) => V::Unsigned128(u128::MAX);
        None::<i128> => V::None;
        Some("s") => V::Str("s");
        None::<&str> => V::None;
        Some(Duration::new(3, 4)) => V::Duration(Duration::new(3, 4));
        Duration::MAX => V::Duration(Duration::MAX);
        std::num::NonZeroU16::MAX => V::Unsigned(65535);
        std::ptr::without_provenance::<u8>(0x1234) => V::Pointer(0x1234);
        atomic => V::Signed(-3);
        &&Box::new(5_u8) => V::Unsigned(5);
    }
}

#[test]
fn more_words_than_registers_and_than_usdt_can_show_arrive_too() {
    let (a, b, c) = (1_u128, "two", Some(Duration::from_nanos(3)));
    let log = Log::of(&["many"]);
    event!(
        many, a, b, c, d = a, e = b, f = c, g = 1, h = 2, i = 3, j = 4, k = 5, l = 6, m = 7, n = 8, o = 9, p = 10, q = 11,
        r = 12, s = 13, t = 14, u = 15, v = 16, w = 17, x = 18, y = 19, z = 20, aa = 21, ab = 22, ac = 23, ad = 24, ae = %25, af = ?26
    );
    assert_eq!(
        log.take(),
        [
            "many a=1 b=two c=3ns d=1 e=two f=3ns g=1 h=2 i=3 j=4 k=5 l=6 m=7 n=8 o=9 p=10 q=11 \
          r=12 s=13 t=14 u=15 v=16 w=17 x=18 y=19 z=20 aa=21 ab=22 ac=23 ad=24 ae=25 af=26"
        ]
    );
    let many = find("many");
    let in_usdt: Vec<_> = many
        .fields()
        .iter()
        .filter(|field| field.in_usdt)
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(in_usdt, ["a", "b", "c", "d", "e"]);
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
fn a_gate_that_tests_the_semaphore_opens_too() {
    #[tracepoint(gate = "semaphore")]
    fn tested(n: u8) -> u8 {
        event!(gate: "semaphore", tested_inside, n);
        n
    }
    tested(1);
    let log = Log::of(&["tested", "tested_inside"]);
    tested(2);
    assert_eq!(
        log.take(),
        ["tested n=2", "tested_inside n=2", "tested__return"]
    );
    assert!(
        find("tested")
            .sites()
            .iter()
            .all(|site| site.tests_semaphore)
    );
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

#[test]
fn names_with_any_character_come_back_as_they_were() {
    event!(print: "\"\\{{}}\t\u{1f600} {a\"b\\\u{1f600}1}", odd_names, "a\"b\\\u{1f600}1" = 1, "%d{};#//\t$$" = 2);
    let odd = find("odd_names");
    assert_eq!(odd.print(), "\"\\{{}}\t\u{1f600} {a\"b\\\u{1f600}1}");
    let names: Vec<_> = odd
        .fields()
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["a\"b\\\u{1f600}1", "%d{};#//\t$$"]);
}

#[test]
fn futures_are_as_send_as_they_were() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    drop(send(wait(1)));
}
