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
    dead_code
)]
use std::fmt::{Debug, Display};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tracebraid::{event, tracepoint};

/// Keywords as names.
#[tracepoint]
fn keywords(
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
fn hygiene(
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
fn generic<T, const N: usize>(x: &T, y: [u8; N]) -> String
where
    T: Debug + Sync + ?Sized,
{
    format!("{x:?}{}", y.len())
}

#[tracepoint(skip_all)]
fn anything(n: impl Into<u64>, shown: impl Display) -> String {
    format!("{}{shown}", n.into())
}

#[tracepoint(fields(?shown))]
fn formatted(shown: impl Debug, value: impl tracebraid::Value) -> usize {
    let _ = value;
    format!("{shown:?}").len()
}

#[tracepoint(skip(n))]
fn iterator(n: impl Into<u64>) -> impl Iterator<Item = u64> {
    0..n.into()
}

#[tracepoint]
fn adder(by: u64) -> impl Fn(&u64) -> u64 + Clone {
    move |n| n + by
}

#[tracepoint]
fn future(n: u64) -> impl Future<Output = Result<u64, String>> {
    async move {
        if n == 3 {
            return Err("three".into());
        }
        Ok(n)
    }
}

#[tracepoint(err)]
fn half_named(n: u64) -> Result<impl Iterator<Item = u64>, String> {
    if n == 0 {
        return Err("none".into());
    }
    Ok(0..n)
}

/// A struct to take apart.
struct Pair {
    left: u8,
    right: u8,
}

struct Unit;

#[tracepoint]
fn patterns(
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
fn references(ref a: u8, ref mut b: u8) -> u8 {
    *b += 1;
    a + *b
}

#[tracepoint(ret, err)]
async fn asynchronous<'a>(s: &'a str, n: &mut u32, mut own: u8) -> Result<&'a str, String> {
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
async fn asynchronous_forever(s: u32) {
    assert!(s != 3, "three");
    std::future::pending::<()>().await;
}

#[tracepoint(ret = ?)]
async fn asynchronous_unnamed(n: u32) -> impl Iterator<Item = u32> + Debug {
    std::future::ready(()).await;
    0..n
}

#[tracepoint]
fn boxed<'a>(s: &'a str) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>> {
    Box::pin(async move { s.len() })
}

#[tracepoint]
fn never(code: i32) -> ! {
    std::process::exit(code)
}

/// # Safety
/// `p` must be readable.
#[tracepoint]
#[allow(unsafe_code)]
unsafe extern "C" fn external(p: *const u8, n: usize) -> u8 {
    // SAFETY: the caller's promise.
    if n == 0 { 0 } else { unsafe { *p } }
}

#[tracepoint]
fn pick<'a>(a: &'a str, _b: &str) -> &'a str {
    a
}

#[tracepoint(ret)]
fn early(s: &str) -> Option<u32> {
    let n: u32 = s.parse().ok()?;
    if n == 7 {
        return None;
    }
    Some(n)
}

#[tracepoint]
fn consume(v: Vec<u8>) -> usize {
    let w = v;
    w.len()
}

#[tracepoint]
fn unit(n: u8) {
    if n > 3 {
        return;
    }
    let _ = n;
}

#[tracepoint]
fn diverges(n: u8) {
    let _ = n;
    panic!("{n}");
}

#[tracepoint]
fn inner_attributes(n: u8) -> u8 {
    #![allow(unused_variables)]
    let unused = 3;
    n
}

#[tracepoint]
fn items_after_arguments(mut n: usize) -> usize {
    const MORE: usize = 3;
    n += MORE;
    n
}

#[tracepoint]
async fn items_in_async(mut n: usize) -> usize {
    const MORE: usize = 3;
    n += MORE;
    std::future::ready(n).await
}

#[tracepoint]
fn items_in_place(n: usize) -> impl Iterator<Item = usize> {
    const MORE: usize = 3;
    [n, MORE].into_iter()
}

#[tracepoint]
fn one_expression(n: usize) -> impl Iterator<Item = usize> {
    [n].into_iter()
}

/// A body that a macro passed on.
macro_rules! passed_on {
    ($visibility:vis $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[tracepoint]
        $visibility fn $name($($argument: $type),*) $body
    };
}
passed_on!(pub(crate) from_macro(n: u8) {
    assert_ne!(n, 3);
});

#[tracepoint]
fn items() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    CALLS.fetch_add(1, Relaxed)
}

#[tracepoint]
#[track_caller]
fn caller(n: u8) -> u32 {
    let _ = n;
    std::panic::Location::caller().line()
}

#[tracepoint]
fn coerced(n: u8) -> Box<dyn Fn(&u8) -> u8> {
    if n == 1 {
        return Box::new(|x| *x);
    }
    Box::new(move |x| x + n)
}

#[tracepoint(ret)]
fn inferred(s: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let n = s.parse::<u8>()?;
    Ok((0..n).collect())
}

#[tracepoint(err, ret)]
fn aliased(n: u8) -> io::Result<u8> {
    if n == 0 {
        Err(io::Error::other("zero"))
    } else {
        Ok(n)
    }
}

/// Neither Debug nor Copy nor Display.
struct Opaque {
    n: u8,
}

#[tracepoint(skip(_o), fields(n = _o.n))]
fn opaque(_o: Opaque, m: u8) -> u8 {
    m
}

trait Shape {
    fn required(&self, n: u8) -> u8;

    #[tracepoint]
    fn provided(&self, n: u8) -> u8 {
        self.required(n) + 1
    }

    #[tracepoint]
    fn make(n: u8) -> Self
    where
        Self: Sized + From<u8>,
    {
        n.into()
    }

    fn later(&self, n: u8) -> impl Future<Output = u8> + Send;
}

impl From<u8> for Opaque {
    fn from(n: u8) -> Self {
        Self { n }
    }
}

impl Shape for Opaque {
    #[tracepoint(fields(own = self.n))]
    fn required(&self, n: u8) -> u8 {
        self.n + n
    }

    #[tracepoint(fields(self.n))]
    async fn later(&self, m: u8) -> u8 {
        std::future::ready(self.n + m).await
    }
}

impl Opaque {
    #[tracepoint]
    fn by_value(self, n: u8) -> u8 {
        self.n + n
    }
    #[tracepoint]
    fn by_box(self: Box<Self>, n: u8) -> u8 {
        self.n + n
    }
    #[tracepoint]
    fn by_arc(self: &Arc<Self>, n: u8) -> u8 {
        self.n + n
    }
    #[tracepoint]
    fn by_pin(mut self: Pin<&mut Self>, n: u8) -> u8 {
        self.n += n;
        self.n
    }
    #[tracepoint]
    fn chained(&mut self) -> &mut Self {
        self
    }
    #[tracepoint(fields(n = self.n))]
    fn borrowed(&mut self, by: u8) -> &mut u8 {
        self.n += by;
        if by == 3 {
            return &mut self.n;
        }
        &mut self.n
    }
    #[tracepoint]
    fn maybe_borrowed(&mut self, by: u8) -> Option<&mut u8> {
        (by == 0).then_some(())?;
        Some(&mut self.n)
    }
    #[tracepoint]
    fn associated(n: u8) -> Self {
        Self { n }
    }
    #[tracepoint]
    async fn asynchronous(&mut self, n: u8) -> &mut u8 {
        self.n += n;
        std::future::ready(()).await;
        &mut self.n
    }
    #[tracepoint]
    fn iterate(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.n).map(|n| n + self.n)
    }
    #[tracepoint]
    fn object(&self) -> Box<dyn Iterator<Item = u8> + '_> {
        Box::new((0..self.n).map(|n| n + self.n))
    }
}

#[tracepoint]
fn wide(
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

/// A declared event.
#[tracepoint(print = "id={id} {{{depth}}}")]
pub(crate) fn queued(id: u64, depth: usize, user: &str);

/// Another, with everything that one may have.
#[tracepoint(name = "all.of-it", provider = "other", skip(c), fields(%d, sum = a + 1), gate = "semaphore")]
pub(crate) fn declared<T: Display + ?Sized>(
    a: u8,
    _b: &str,
    c: &T,
    d: &T,
    mut_e: impl tracebraid::Value,
);

/// Nothing.
#[tracepoint]
pub(crate) fn empty();

fn events(x: u32, name: &str, order: &Pair) -> u32 {
    event!(nothing);
    event!(shapes::named, x, order.left, %name, "quoted key" = x + 1, type = 3, y = %name.len(), z = ?order.right,);
    event!(print: "{x} {{}}", gate: "semaphore", formatted, x = x);
    match x {
        0 => event!(arm),
        1 => event!(arm, one = 1),
        _ => event!(arm, x),
    }
    x
}

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
