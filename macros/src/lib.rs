//! `#[tracepoint]` and `event!`.
//!
//! ```text
//! tokens ─parse─▶ fields, options ─▶ point  ─▶ __point!{…}      what its DSO knows of it
//!                                 └▶ site   ─▶ __gate_key!{…}   the NOP, and the cold block
//! ```
//! The expansion holds no assembly and no unsafe code of its own: it calls the macros and functions
//! of `tracebraid::__private`, which differ by target. Kinds of fields are not known here; the
//! compiler infers them, through a variable that ties a site's gate to what it emits.
//!
//! Generated tokens have mixed-site spans, so that `#![forbid(unsafe_code)]` and lints of the user's
//! crate do not see them. Where the compiler may complain about what the user wrote, they are located
//! at the user's tokens.
//!
//! Use it through the crate `tracebraid`, which exports both macros.

mod arguments;
mod assembly;
mod attribute;
mod closed;
mod declared;
mod event;
mod field;
mod function;
mod item;
mod outcome;
mod point;
mod print;
mod site;

use proc_macro::TokenStream;

/// Makes a function two tracepoints, its entry and its return; or declares an event.
///
/// # On a function
///
/// ```
/// use tracebraid::tracepoint;
///
/// #[tracepoint]
/// fn charge(order_id: u64, cents: i64) -> Result<u32, String> {
///     # let _ = (order_id, cents);
///     Ok(3)
/// }
///
/// # struct Pool;
/// # struct Order { id: u64, lines: Vec<u8> }
/// # struct User { name: String }
/// #[tracepoint(name = "checkout", fields(order = order.id, user = %user.name, items = order.lines.len()), skip(db), ret, err)]
/// async fn check_out(db: &Pool, order: Order, user: User) -> Result<u32, std::io::Error> {
///     # let _ = (db, order, user);
///     Ok(1)
/// }
/// # charge(1, 2).unwrap();
/// # drop(check_out(&Pool, Order { id: 1, lines: Vec::new() }, User { name: String::new() }));
/// ```
///
/// The entry is named like the function and has one field an argument (`self` is left out, the
/// variables of a pattern are a field each), read before the body runs. The return is named
/// `…__return`. Its fields are
///
/// - `ns`: how long the body took, in nanoseconds of CLOCK_MONOTONIC. Of an `async fn`: from the first
///   poll to the end, time in which it waited included.
/// - `end`: absent after an ordinary return (early ones and `?` included), `"unwind"` where a panic
///   left the function, `"dropped"` where a future was dropped before it was done.
/// - `ret` and `err`, where asked for; absent where there was none.
///
/// A return is emitted exactly where its entry was: switching the tracepoint in between makes no
/// half of a pair. A function that never returns (`-> !`) has no return event, unless it unwinds.
/// What a function returns as `impl Trait` runs later: its return says when it was made.
///
/// | option | |
/// | --- | --- |
/// | `name = "…"` | instead of the function's name |
/// | `provider = "…"` | instead of the crate's name |
/// | `fields(…)` | fields beside the arguments, with the syntax of [`event!`]; one that is named like an argument takes its place |
/// | `skip(a, b)`, `skip_all` | leaves out arguments |
/// | `ret`, `ret = %`, `ret = ?` | the value: as a field where its type is a field kind, else by `Debug`; or by `Display`, or by `Debug`. With `err` it is that of `Ok` |
/// | `err`, `err = ?` | the error of a `Result`, by `Display` or by `Debug` |
/// | `print = "id={id}"` | how a reader prints the entry; `{{` and `}}` are braces |
/// | `gate = "semaphore"` | tests a word in memory instead of patching code |
///
/// An argument whose type is no field kind (`tracebraid::Value`) is an error: skip it, or format it by
/// `fields(%argument)` or `fields(?argument)`. Fields of an argument that is borrowed or moved by the
/// body are read before that. Inside a trait, put the attribute on methods that have a body.
///
/// While it is off, a tracepoint is one NOP at the function's start, and the body is as it was; where the
/// compiler keeps a large body as a function of its own, for both sides, one jump leads to it. The body of
/// a function with `#[track_caller]` or an `impl Trait` result stands under a guard instead, which costs
/// some instructions more; `ret` and `err` cannot be had of the former. An `async fn`'s future holds one
/// word more, and its arguments a second time.
///
/// # On a function without a body
///
/// ```
/// use tracebraid::tracepoint;
///
/// #[tracepoint(print = "id={id} depth={depth}")]
/// pub fn queued(id: u64, depth: usize, user: &str);
///
/// queued(7, 2, "ada");
/// ```
///
/// This declares an event, shared by all its callers; it has one site wherever it is inlined.
/// It is an ordinary function: callers evaluate the arguments also while it is off. Where they are
/// dear, use [`event!`].
#[proc_macro_attribute]
pub fn tracepoint(options: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(options.into(), item.into()).into()
}

/// An event at this place. Its fields are evaluated only while it is on.
///
/// ```
/// use tracebraid::event;
///
/// # let (key, bytes, error, order) = (7_u64, [0_u8; 3], "no", (1,));
/// # struct Peer { port: u16 }
/// # let peer = Peer { port: 80 };
/// event!(orders::cache_miss, key = key, size = bytes.len());
/// event!(cache_miss, key, peer.port, %error, reason = ?order, "http.status" = 404);
/// event!(print: "took {ns} ns", timer, ns = 12_u64);
/// ```
///
/// It begins with `provider::name`, or with a name in the crate's own provider. Before that may stand
/// `print: "…",` (see [`macro@tracepoint`]) and `gate: "semaphore",`. Then come fields, at most 32, with
/// the syntax of the crate `tracing`:
///
/// | | |
/// | --- | --- |
/// | `key = value` | a type that is a field kind (`tracebraid::Value`) |
/// | `key = %value`, `key = ?value` | formatted by `Display`, by `Debug` |
/// | `value`, `%value`, `?value` | a variable, or a field of one (`a.b`), under its own name |
/// | `"any text" = value` | |
///
/// Fields are only read: they may not move what they name, nor leave it by `return`, `?`, `break`,
/// `continue` or `.await`. The same provider, name and fields at several places are one tracepoint.
#[proc_macro]
pub fn event(input: TokenStream) -> TokenStream {
    event::expand(input.into()).into()
}
