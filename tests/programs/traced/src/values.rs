//! Every kind of field at its limits. What each event must print is in `tests/attach/values.rs`.

use std::borrow::Cow;
use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};
use std::time::Duration;

use tracebraid::event;

pub fn run(file: &str) {
    crate::wait_until_on("values");
    numbers();
    truth_and_characters();
    texts();
    bytes();
    pointers();
    spans();
    optional();
    formatted();
    in_a_print_format(-1, "a b");
    many_slots();
    most_slots();
    cold(file);
    too_long();
}

fn numbers() {
    unsigned(0, 0, 0, 0, 0);
    unsigned(u8::MAX, u16::MAX, u32::MAX, u64::MAX, usize::MAX);
    signed(i8::MIN, i16::MIN, i32::MIN, i64::MIN, isize::MIN);
    signed(i8::MAX, i16::MAX, i32::MAX, i64::MAX, isize::MAX);
    signed(-1, -1, -1, -1, -1);
    wide(0, 0);
    wide(u128::MAX, i128::MAX);
    wide(1 << 64, i128::MIN);
    wide(u128::from(u64::MAX), -1);
    floats(0.0, -0.0);
    floats(f32::NAN, f64::NAN);
    floats(f32::INFINITY, f64::NEG_INFINITY);
    floats(f32::MIN, f64::MAX);
    floats(1e-45, 5e-324);
    floats(0.1, 0.1);
    event!(
        values::nonzero,
        a = NonZero::<u8>::MAX,
        b = NonZero::<i16>::MIN,
        c = NonZero::<u64>::MAX,
        d = NonZero::<i128>::MIN,
        e = NonZero::<usize>::MIN
    );
    event!(
        values::atomic_unsigned,
        a = AtomicU8::new(u8::MAX),
        b = AtomicU16::new(u16::MAX),
        c = AtomicU32::new(u32::MAX),
        d = AtomicU64::new(u64::MAX),
        e = AtomicUsize::new(usize::MAX)
    );
    event!(
        values::atomic_signed,
        a = AtomicI8::new(i8::MIN),
        b = AtomicI16::new(i16::MIN),
        c = AtomicI32::new(i32::MIN),
        d = AtomicI64::new(i64::MIN),
        e = AtomicIsize::new(isize::MIN)
    );
}

fn unsigned(a: u8, b: u16, c: u32, d: u64, e: usize) {
    event!(values::unsigned, a, b, c, d, e);
}

fn signed(a: i8, b: i16, c: i32, d: i64, e: isize) {
    event!(values::signed, a, b, c, d, e);
}

fn wide(a: u128, b: i128) {
    event!(values::wide, a, b);
}

fn floats(a: f32, b: f64) {
    event!(values::floats, a, b);
}

fn truth_and_characters() {
    for (truth, character) in [
        (true, 'ß'),
        (false, '\0'),
        (true, '\n'),
        (false, ' '),
        (true, char::MAX),
    ] {
        event!(values::plain, truth, character);
    }
    event!(values::atomic_truth, a = AtomicBool::new(true));
}

fn texts() {
    let long = "é".repeat(150);
    let texts = [
        "",
        "plain",
        "ünïcödé 🦀",
        "a=\"b\"",
        "nul\0within",
        "\x1b[31m\n\u{202e}",
        "None",
        "<fault>",
        "back\\slash",
        &long,
    ];
    for text in texts {
        event!(
            values::text,
            a = text,
            b = text.to_owned(),
            c = Cow::Borrowed(text)
        );
    }
}

fn bytes() {
    let long: Vec<u8> = (0..=255).cycle().take(300).collect();
    for slice in [&b""[..], b"\0", b"\xff\xfe no text", &long] {
        event!(values::bytes, a = slice, b = slice.to_vec(), c = b"four");
    }
}

fn pointers() {
    for address in [0, 0x7ffe_0012, usize::MAX] {
        let pointer = ptr::without_provenance::<u8>(address);
        event!(
            values::pointers,
            a = pointer,
            b = pointer.cast_mut(),
            c = AtomicPtr::new(pointer.cast_mut()),
            d = NonNull::new(pointer.cast_mut())
        );
    }
}

fn spans() {
    for span in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(1500),
        Duration::new(3, 999_999_999),
        Duration::MAX,
    ] {
        event!(values::span, span);
    }
}

fn optional() {
    numbers_or_not(
        Some(u8::MAX),
        Some(i16::MIN),
        Some(u32::MAX),
        Some(i64::MIN),
        Some(true),
        Some('🦀'),
    );
    numbers_or_not(None, None, None, None, None, None);
    wide_or_not(
        Some(u128::MAX),
        Some(i128::MIN),
        Some(Duration::MAX),
        Some(f64::MIN),
    );
    wide_or_not(None, None, None, None);
    text_or_not(
        Some(""),
        Some("ü".to_owned()),
        Some(b""),
        Some(vec![0, 255]),
    );
    text_or_not(None, None, None, None);
    rest_or_not(
        Some(f32::NAN),
        Some(ptr::null()),
        NonZero::new(7),
        Some(Cow::Borrowed("None")),
    );
    rest_or_not(None, None, None, None);
}

fn numbers_or_not(
    a: Option<u8>,
    b: Option<i16>,
    c: Option<u32>,
    d: Option<i64>,
    e: Option<bool>,
    f: Option<char>,
) {
    event!(values::optional_numbers, a, b, c, d, e, f);
}

fn wide_or_not(a: Option<u128>, b: Option<i128>, c: Option<Duration>, d: Option<f64>) {
    event!(values::optional_wide, a, b, c, d);
}

fn text_or_not(a: Option<&str>, b: Option<String>, c: Option<&[u8]>, d: Option<Vec<u8>>) {
    event!(values::optional_text, a, b, c, d);
}

fn rest_or_not(
    a: Option<f32>,
    b: Option<*const u8>,
    c: Option<NonZero<i8>>,
    d: Option<Cow<'_, str>>,
) {
    event!(values::optional_rest, a, b, c, d);
}

fn formatted() {
    let list = ["a", "b\n"];
    let number = 7;
    event!(
        values::formatted,
        %number,
        ?list,
        empty = %"",
        width = %format_args!("{number:>4}"),
        longer = %"x".repeat(300)
    );
}

#[tracebraid::tracepoint(provider = "values", print = "id={id} {{user}}=[{user}]")]
fn in_a_print_format(id: i32, user: &str);

/// More slots than a USDT note describes: what is beyond says so, and in the ring is all of it.
fn many_slots() {
    event!(
        values::slots,
        a = 1_u8,
        b = "two",
        c = Some(3_u16),
        d = i128::MIN,
        e = Some("five"),
        f = Some(6_u64),
        g = 7_u32,
        h = 8_u32,
        i = "nine"
    );
}

/// More slots than the bridge copies through USDT: what is beyond says so, and in the ring is all of it.
fn most_slots() {
    let n = Some(i128::MIN);
    event!(
        values::most_slots,
        a = n,
        b = n,
        c = n,
        d = n,
        e = n,
        f = n,
        g = n,
        h = n,
        i = n,
        j = n,
        k = n,
        l = n,
        m = n,
        n = n,
        o = n,
        p = n,
        q = n,
        r = n,
        s = n,
        t = n,
        u = n,
        v = n,
        w = n,
        x = n
    );
}

/// More than a record of a ring holds: texts are cut, words are not.
fn too_long() {
    let (text, user) = ("y".repeat(5000), "ada");
    event!(
        long::words,
        text,
        id = u64::MAX,
        wide = Some(i128::MIN),
        user
    );
    event!(long::texts, a = text, b = text, c = %text, d = 'd');
}

/// Text in pages of a file that nobody has touched: here, before the event, as little as anywhere.
fn cold(path: &str) {
    let file = File::open(path).expect("the file opens");
    let length = file.metadata().expect("its length").len() as usize;
    // SAFETY: a new mapping of a file that nobody changes and of which all is ASCII; it stays to the end.
    let text = |range: Range<usize>| unsafe {
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
        let place = libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(place, libc::MAP_FAILED);
        libc::madvise(place, length, libc::MADV_RANDOM);
        // Not by checked ways, which would touch it.
        let start = place.cast::<u8>().add(range.start);
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(start, range.len()))
    };
    event!(values::cold, a = text(8192..8212), b = text(12278..12298));
}
