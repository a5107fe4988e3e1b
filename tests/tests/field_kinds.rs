//! Every kind of field at its limits, as a callback sees it.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::num::NonZero;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracebraid::FieldValue as V;
use tracebraid::value::Lowered;
use tracebraid::{Attachment, FieldKind, Kind, Value, event};

#[path = "field_kinds/formatted.rs"]
mod formatted;

/// Whoever looks at hits: tests run in threads, and a callback sees the hits of all of them.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What callbacks on the tracepoints of a name saw of `hit`: the kinds and values of each event by
/// `Debug`, and the event by `Display`.
fn seen(name: &str, hit: impl FnOnce()) -> Vec<(Vec<(FieldKind, String)>, String)> {
    seen_of(|point| point.name() == name, hit)
}

/// The same for the tracepoints that `which` says.
fn seen_of(
    which: impl Fn(&tracebraid::Tracepoint) -> bool,
    hit: impl FnOnce(),
) -> Vec<(Vec<(FieldKind, String)>, String)> {
    let _alone = lock(&ONE_AT_A_TIME);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut points = tracebraid::tracepoints();
    points.retain(which);
    assert!(!points.is_empty());
    let attach = |point: &tracebraid::Tracepoint| {
        let kinds: Vec<FieldKind> = point.fields().iter().map(|field| field.kind).collect();
        let seen = Arc::clone(&seen);
        let callback = move |event: &tracebraid::Event<'_>| {
            let values = event.fields().map(|(_, value)| format!("{value:?}"));
            let fields = kinds.iter().copied().zip(values).collect();
            lock(&seen).push((fields, event.to_string()));
        };
        point.attach(callback).unwrap()
    };
    let attachments: Vec<Attachment> = points.iter().map(attach).collect();
    hit();
    drop(attachments);
    std::mem::take(&mut *lock(&seen))
}

/// How a value arrives: as which kind, and as what.
fn arrives<T: Value + ?Sized>(value: &T) -> (FieldKind, String) {
    let kind = T::Lowered::KIND;
    let is_ours = |point: &tracebraid::Tracepoint| {
        point.name() == "arrives" && point.fields()[0].kind == kind
    };
    let mut hits = seen_of(is_ours, || event!(arrives, value = value));
    assert_eq!(hits.len(), 1, "{hits:?}");
    let (mut fields, _) = hits.remove(0);
    assert_eq!(fields.len(), 1, "{fields:?}");
    fields.remove(0)
}

#[track_caller]
fn check<T: Value + ?Sized>(value: &T, kind: Kind, expected: V<'_>) {
    let kind = FieldKind {
        kind,
        optional: false,
    };
    assert_eq!(arrives(value), (kind, format!("{expected:?}")));
}

#[track_caller]
fn check_optional<T: Value + ?Sized>(value: &T, kind: Kind, expected: V<'_>) {
    let kind = FieldKind {
        kind,
        optional: true,
    };
    assert_eq!(arrives(value), (kind, format!("{expected:?}")));
}

macro_rules! integers {
    ($($test:ident: $type:ident $atomic:ident $kind:ident $value:ident;)*) => {$(
        #[test]
        fn $test() {
            for number in [$type::MIN, $type::MAX, 0, 1, $type::MAX / 2] {
                let expected = V::$value(number.into_wide());
                check(&number, Kind::$kind, expected);
                check(&$atomic::new(number), Kind::$kind, expected);
                check_optional(&Some(number), Kind::$kind, expected);
                if let Some(number) = NonZero::new(number) {
                    check(&number, Kind::$kind, expected);
                    check_optional(&Some(number), Kind::$kind, expected);
                }
            }
            check_optional(&None::<$type>, Kind::$kind, V::None);
            check_optional(&None::<NonZero<$type>>, Kind::$kind, V::None);
        }
    )*};
}

integers! {
    u8_at_its_limits: u8 AtomicU8 U8 Unsigned;
    u16_at_its_limits: u16 AtomicU16 U16 Unsigned;
    u32_at_its_limits: u32 AtomicU32 U32 Unsigned;
    u64_at_its_limits: u64 AtomicU64 U64 Unsigned;
    usize_at_its_limits: usize AtomicUsize U64 Unsigned;
    i8_at_its_limits: i8 AtomicI8 I8 Signed;
    i16_at_its_limits: i16 AtomicI16 I16 Signed;
    i32_at_its_limits: i32 AtomicI32 I32 Signed;
    i64_at_its_limits: i64 AtomicI64 I64 Signed;
    isize_at_its_limits: isize AtomicIsize I64 Signed;
}

/// A number as callbacks get it.
trait IntoWide {
    type Wide;
    fn into_wide(self) -> Self::Wide;
}

macro_rules! wide {
    ($wide:ident: $($type:ident)*) => {$(
        impl IntoWide for $type {
            type Wide = $wide;
            fn into_wide(self) -> $wide {
                $wide::try_from(self).expect("a wider type")
            }
        }
    )*};
}
wide!(u64: u8 u16 u32 u64 usize);
wide!(i64: i8 i16 i32 i64 isize);

#[test]
fn integers_of_128_bits_keep_both_halves() {
    for number in [0, 1, u128::MAX, 1 << 64, u128::from(u64::MAX)] {
        check(&number, Kind::U128, V::Unsigned128(number));
        check_optional(&Some(number), Kind::U128, V::Unsigned128(number));
    }
    for number in [0, -1, i128::MIN, i128::MAX, -(1 << 64)] {
        check(&number, Kind::I128, V::Signed128(number));
        check_optional(&Some(number), Kind::I128, V::Signed128(number));
    }
    check_optional(&None::<u128>, Kind::U128, V::None);
    check(&NonZero::<i128>::MIN, Kind::I128, V::Signed128(i128::MIN));
    check_optional(
        &Some(NonZero::<u128>::MAX),
        Kind::U128,
        V::Unsigned128(u128::MAX),
    );
}

#[test]
fn floats_arrive_bit_for_bit() {
    for number in [
        0.0,
        -0.0,
        f64::MIN,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        5e-324,
    ] {
        check(&number, Kind::F64, V::F64(number));
        check_optional(&Some(number), Kind::F64, V::F64(number));
    }
    for number in [0.0, -0.0, f32::MIN, f32::MAX, f32::NEG_INFINITY, 1e-45] {
        check(&number, Kind::F32, V::F32(number));
    }
    check_optional(&None::<f64>, Kind::F64, V::None);
    check_optional(&None::<f32>, Kind::F32, V::None);

    // What distinguishes a NaN from another is in its bits.
    let bits = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&bits);
    let nan = f64::from_bits(0xfff8_dead_beef_0001);
    let signalling = f32::from_bits(0x7fa0_0001);
    let _alone = lock(&ONE_AT_A_TIME);
    let points = tracebraid::tracepoints();
    let point = points.iter().find(|point| point.name() == "nans").unwrap();
    let attachment = point.attach(move |event| {
        for (_, value) in event.fields() {
            match value {
                V::F64(number) => lock(&into).push(number.to_bits()),
                V::F32(number) => lock(&into).push(number.to_bits().into()),
                other => panic!("{other:?}"),
            }
        }
    });
    event!(nans, nan, signalling);
    drop(attachment);
    assert_eq!(*lock(&bits), [0xfff8_dead_beef_0001, 0x7fa0_0001]);
}

#[test]
fn truth_and_characters() {
    for truth in [true, false] {
        check(&truth, Kind::Bool, V::Bool(truth));
        check(&AtomicBool::new(truth), Kind::Bool, V::Bool(truth));
        check_optional(&Some(truth), Kind::Bool, V::Bool(truth));
    }
    check_optional(&None::<bool>, Kind::Bool, V::None);
    for character in ['\0', 'ß', '\u{d7ff}', '\u{e000}', char::MAX] {
        check(&character, Kind::Char, V::Char(character));
        check_optional(&Some(character), Kind::Char, V::Char(character));
    }
    check_optional(&None::<char>, Kind::Char, V::None);
}

#[test]
fn text_of_any_owner_and_length() {
    let long = "é".repeat(150);
    let longest = "x".repeat(1 << 14);
    for text in [
        "",
        "plain",
        "ünïcödé 🦀",
        "nul\0within",
        "esc\x1b[0m\n",
        &long,
        &longest,
    ] {
        let expected = V::Str(text);
        check(text, Kind::Str, expected);
        check(&text, Kind::Str, expected);
        check(&&text, Kind::Str, expected);
        check(&text.to_owned(), Kind::Str, expected);
        check(&Cow::Borrowed(text), Kind::Str, expected);
        check(&Box::<str>::from(text), Kind::Str, expected);
        check(&Rc::<str>::from(text), Kind::Str, expected);
        check(&Arc::<str>::from(text), Kind::Str, expected);
        check_optional(&Some(text), Kind::Str, expected);
        check_optional(&Some(text.to_owned()), Kind::Str, expected);
        check_optional(&Some(&text.to_owned()), Kind::Str, expected);
        check_optional(&Some(Cow::Borrowed(text)), Kind::Str, expected);
    }
    assert_eq!(long.len(), 300);
    check_optional(&None::<&str>, Kind::Str, V::None);
    check_optional(&None::<String>, Kind::Str, V::None);
}

#[test]
fn bytes_of_any_owner_and_length() {
    let long: Vec<u8> = (0..=255).cycle().take(300).collect();
    for bytes in [&b""[..], b"\0", b"\xff\xfe not UTF-8", &long] {
        let expected = V::Bytes(bytes);
        check(bytes, Kind::Bytes, expected);
        check(&bytes.to_vec(), Kind::Bytes, expected);
        check(&Cow::Borrowed(bytes), Kind::Bytes, expected);
        check_optional(&Some(bytes), Kind::Bytes, expected);
        check_optional(&Some(bytes.to_vec()), Kind::Bytes, expected);
    }
    check(b"four", Kind::Bytes, V::Bytes(b"four"));
    check(&[0_u8; 0], Kind::Bytes, V::Bytes(b""));
    check_optional(&None::<&[u8]>, Kind::Bytes, V::None);
    check_optional(&None::<Vec<u8>>, Kind::Bytes, V::None);
}

#[test]
fn pointers_are_addresses_and_never_followed() {
    let mut place = 7_u32;
    let address = (&raw const place).addr();
    check(&&raw const place, Kind::Pointer, V::Pointer(address));
    check(&&raw mut place, Kind::Pointer, V::Pointer(address));
    check(
        &NonNull::from(&mut place),
        Kind::Pointer,
        V::Pointer(address),
    );
    check(
        &AtomicPtr::new(&raw mut place),
        Kind::Pointer,
        V::Pointer(address),
    );
    check(&ptr::null::<u8>(), Kind::Pointer, V::Pointer(0));
    check(
        &ptr::without_provenance::<u8>(usize::MAX),
        Kind::Pointer,
        V::Pointer(usize::MAX),
    );
    check_optional(&Some(&raw const place), Kind::Pointer, V::Pointer(address));
    check_optional(&Some(ptr::null::<u8>()), Kind::Pointer, V::Pointer(0));
    check_optional(&None::<*const u8>, Kind::Pointer, V::None);
}

#[test]
fn spans_of_time_up_to_the_longest() {
    for span in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::MAX,
        Duration::new(3, 999_999_999),
    ] {
        check(&span, Kind::Duration, V::Duration(span));
        check_optional(&Some(span), Kind::Duration, V::Duration(span));
    }
    check_optional(&None::<Duration>, Kind::Duration, V::None);
}

#[test]
fn what_leads_to_a_value_is_that_value() {
    check(&&&5_u16, Kind::U16, V::Unsigned(5));
    check(&&mut 5_i16, Kind::I16, V::Signed(5));
    check(&Box::new(-5_i32), Kind::I32, V::Signed(-5));
    check(&Rc::new('x'), Kind::Char, V::Char('x'));
    check(&Arc::new("x".to_owned()), Kind::Str, V::Str("x"));
}

/// A type of the application's own, in terms of one that is a field already.
struct OrderId(u32);

impl Value for OrderId {
    type Lowered = <u32 as Value>::Lowered;

    fn lower(&self) -> Self::Lowered {
        self.0.lower()
    }
}

#[test]
fn a_type_of_the_application_may_be_a_field() {
    check(&OrderId(u32::MAX), Kind::U32, V::Unsigned(u32::MAX.into()));
}

#[test]
fn as_many_fields_as_there_may_be_arrive_in_order() {
    let hits = seen("thirty_two", || {
        event!(
            thirty_two, a0 = 0_u8, a1 = "1", a2 = Some(2_u8), a3 = -3_i64, a4 = 4_i128, a5 = Some(5_u128),
            a6 = 6.0_f32, a7 = '7', a8 = %8, a9 = ?"9", b0 = 10_u16, b1 = b"11", b2 = None::<u8>,
            b3 = Duration::from_secs(13), b4 = true, b5 = ptr::null::<u8>(), b6 = 16_u32, b7 = "17",
            b8 = Some("18"), b9 = None::<&str>, c0 = 20_u64, c1 = 21_i8, c2 = 22_i16, c3 = 23_i32,
            c4 = 24_usize, c5 = 25_isize, c6 = Some(26_i64), c7 = %27, c8 = "28", c9 = 29.0,
            d0 = None::<Duration>, d1 = "last"
        );
    });
    let (fields, text) = &hits[0];
    assert_eq!(fields.len(), 32);
    let expected = "field_kinds:thirty_two: a0=0 a1=1 a2=2 a3=-3 a4=4 a5=5 a6=6.0 a7=7 a8=8 a9=\\\"9\\\" b0=10 \
        b1=11 b2=None b3=13s b4=true b5=0x0 b6=16 b7=17 b8=18 b9=None c0=20 c1=21 c2=22 c3=23 c4=24 c5=25 \
        c6=26 c7=27 c8=28 c9=29.0 d0=None d1=last";
    assert_eq!(text, expected);
}

#[test]
fn an_event_shows_control_characters_escaped() {
    let hits = seen("escapes", || {
        event!(
            escapes,
            text = "a\x1b[31m\n\"b\"",
            bytes = b"\x07\xff",
            c = '\n'
        )
    });
    let (_, text) = &hits[0];
    assert_eq!(
        text,
        r#"field_kinds:escapes: text=a\u{1b}[31m\n\"b\" bytes=\x07\xff c=\n"#
    );
}

#[test]
fn fields_are_evaluated_once_and_in_order_and_only_while_on() {
    let order = Cell::new(0);
    let next = || order.replace(order.get() + 1);
    let hit = || event!(order, first = next(), second = next(), third = next());
    hit();
    assert_eq!(order.get(), 0);
    let hits = seen("order", hit);
    let values: Vec<&str> = hits[0].0.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["Signed(0)", "Signed(1)", "Signed(2)"]);
    hit();
    assert_eq!(order.get(), 3);
}

impl fmt::Display for OrderId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "#{}", self.0)
    }
}
