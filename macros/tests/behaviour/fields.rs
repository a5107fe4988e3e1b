//! The values of fields, and when they are evaluated.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracebraid::{FieldValue, event, tracepoint};

use crate::log::{Log, find};

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
