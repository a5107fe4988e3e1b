//! Free functions.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::io;
use std::pin::Pin;

use tracebraid::{event, tracepoint};

/// Keywords as names.
#[tracepoint]
pub(super) fn keywords(
    r#type: u32,
    r#struct: u64,
    event: i32,
    stream: i64,
    string: &str,
    r#enum: u8,
    _unused: u8,
) -> u64 {
    u64::from(r#type)
        + r#struct
        + u64::from(event.unsigned_abs())
        + stream.unsigned_abs()
        + string.len() as u64
        + u64::from(r#enum)
}

/// Names that an expansion may use itself.
#[tracepoint]
pub(super) fn hygiene(
    on: bool,
    kinds: u32,
    ns: u64,
    end: u8,
    result: i32,
    ret: i32,
    err: u8,
    guard: u8,
    body: &[u8],
    this: u8,
) -> i32 {
    if on {
        ret + result
    } else {
        i32::from(end)
            + i32::from(err)
            + i32::from(guard)
            + i32::from(this)
            + i32::try_from(body.len()).unwrap_or(0)
            + i32::try_from(kinds).unwrap_or(0)
            + i32::try_from(ns).unwrap_or(0)
    }
}

#[tracepoint(skip(x))]
pub(super) fn generic<T, const N: usize>(x: &T, y: [u8; N]) -> String
where
    T: Debug + Sync + ?Sized,
{
    format!("{x:?}{}", y.len())
}

#[tracepoint(skip_all)]
pub(super) fn anything(n: impl Into<u64>, shown: impl Display) -> String {
    format!("{}{shown}", n.into())
}

#[tracepoint(fields(?shown))]
pub(super) fn formatted(shown: impl Debug, value: impl tracebraid::Value) -> usize {
    let _ = value;
    format!("{shown:?}").len()
}

#[tracepoint(skip(n))]
pub(super) fn iterator(n: impl Into<u64>) -> impl Iterator<Item = u64> {
    0..n.into()
}

#[tracepoint]
pub(super) fn adder(by: u64) -> impl Fn(&u64) -> u64 + Clone {
    move |n| n + by
}

#[tracepoint]
pub(super) fn future(n: u64) -> impl Future<Output = Result<u64, String>> {
    async move {
        if n == 3 {
            return Err("three".into());
        }
        Ok(n)
    }
}

#[tracepoint(err)]
pub(super) fn half_named(n: u64) -> Result<impl Iterator<Item = u64>, String> {
    if n == 0 {
        return Err("none".into());
    }
    Ok(0..n)
}

/// A struct to take apart.
pub(super) struct Pair {
    pub(super) left: u8,
    pub(super) right: u8,
}

pub(super) struct Unit;

#[tracepoint]
pub(super) fn patterns(
    (a, b): (u8, u8),
    [c, ..]: [u8; 4],
    &d: &u8,
    mut e: u8,
    Pair { left, right: mut f }: Pair,
    g @ 0..: u8,
    Unit: Unit,
    _: &str,
) -> u8 {
    e = e.wrapping_add(1);
    f += 1;
    a ^ b ^ c ^ d ^ e ^ left ^ f ^ g
}

#[tracepoint]
#[allow(clippy::toplevel_ref_arg)]
pub(super) fn references(ref a: u8, ref mut b: u8) -> u8 {
    *b += 1;
    a + *b
}

#[tracepoint(ret, err)]
pub(super) async fn asynchronous<'a>(
    s: &'a str,
    n: &mut u32,
    mut own: u8,
) -> Result<&'a str, String> {
    *n += 1;
    own += 1;
    std::future::ready(()).await;
    if s.is_empty() {
        return Err("empty".into());
    }
    let _ = own;
    Ok(s)
}

#[tracepoint]
pub(super) async fn asynchronous_forever(s: u32) {
    assert!(s != 3, "three");
    std::future::pending::<()>().await;
}

#[tracepoint(ret = ?)]
pub(super) async fn asynchronous_unnamed(n: u32) -> impl Iterator<Item = u32> + Debug {
    std::future::ready(()).await;
    0..n
}

#[tracepoint]
pub(super) fn boxed<'a>(s: &'a str) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>> {
    Box::pin(async move { s.len() })
}

#[tracepoint]
pub(super) fn never(code: i32) -> ! {
    std::process::exit(code)
}

/// # Safety
/// `p` must be readable.
#[tracepoint]
#[allow(unsafe_code)]
pub(super) unsafe extern "C" fn external(p: *const u8, n: usize) -> u8 {
    // SAFETY: the caller's promise.
    if n == 0 { 0 } else { unsafe { *p } }
}

#[tracepoint]
pub(super) fn pick<'a>(a: &'a str, _b: &str) -> &'a str {
    a
}

#[tracepoint(ret)]
pub(super) fn early(s: &str) -> Option<u32> {
    let n: u32 = s.parse().ok()?;
    if n == 7 {
        return None;
    }
    Some(n)
}

#[tracepoint]
pub(super) fn consume(v: Vec<u8>) -> usize {
    let w = v;
    w.len()
}

#[tracepoint]
pub(super) fn unit(n: u8) {
    if n > 3 {
        return;
    }
    let _ = n;
}

#[tracepoint]
pub(super) fn diverges(n: u8) {
    let _ = n;
    panic!("{n}");
}

#[tracepoint]
pub(super) fn inner_attributes(n: u8) -> u8 {
    #![allow(unused_variables)]
    let unused = 3;
    n
}

#[tracepoint]
pub(super) fn items_after_arguments(mut n: usize) -> usize {
    const MORE: usize = 3;
    n += MORE;
    n
}

#[tracepoint]
pub(super) async fn items_in_async(mut n: usize) -> usize {
    const MORE: usize = 3;
    n += MORE;
    std::future::ready(n).await
}

#[tracepoint]
pub(super) fn items_in_place(n: usize) -> impl Iterator<Item = usize> {
    const MORE: usize = 3;
    [n, MORE].into_iter()
}

#[tracepoint]
pub(super) fn one_expression(n: usize) -> impl Iterator<Item = usize> {
    [n].into_iter()
}

/// A body that a macro passed on.
macro_rules! passed_on {
    ($visibility:vis $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[tracepoint]
        $visibility fn $name($($argument: $type),*) $body
    };
}
passed_on!(pub(super) from_macro(n: u8) {
    assert_ne!(n, 3);
});

#[tracepoint]
pub(super) fn items() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    CALLS.fetch_add(1, Relaxed)
}

#[tracepoint]
#[track_caller]
pub(super) fn caller(n: u8) -> u32 {
    let _ = n;
    std::panic::Location::caller().line()
}

#[tracepoint]
pub(super) fn coerced(n: u8) -> Box<dyn Fn(&u8) -> u8> {
    if n == 1 {
        return Box::new(|x| *x);
    }
    Box::new(move |x| x + n)
}

#[tracepoint(ret)]
pub(super) fn inferred(s: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let n = s.parse::<u8>()?;
    Ok((0..n).collect())
}

#[tracepoint(err, ret)]
pub(super) fn aliased(n: u8) -> io::Result<u8> {
    if n == 0 {
        Err(io::Error::other("zero"))
    } else {
        Ok(n)
    }
}

#[tracepoint]
pub(super) fn wide(
    a: i128,
    b: u128,
    c: f32,
    d: f64,
    e: bool,
    f: char,
    g: usize,
    h: Option<u8>,
    k: *const u8,
    l: [u8; 32],
    m: String,
    n: i8,
    o: u16,
) -> usize {
    let _ = (a, b, c, d, e, f, h, k, l, m, n, o);
    g
}

#[tracepoint]
pub(super) fn nested(n: u8) -> u8 {
    #[tracepoint]
    fn inner(m: u8) -> u8 {
        event!(shapes::in_function, m);
        m
    }
    let closure = |z: u8| {
        event!(in_closure, z);
        z
    };
    inner(n) + closure(1)
}

/// Types and expressions that a macro passed on.
macro_rules! make {
    ($name:ident, $type:ty, $expression:expr) => {
        #[tracepoint(fields(extra = $expression))]
        pub(super) fn $name(a: $type) -> $type {
            event!(made, a, b = $expression, c = %$expression);
            a
        }
    };
}
make!(made, u8, 1 + 2);
