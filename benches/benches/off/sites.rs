//! Switched-off sites: a function for each peer and shape.
//!
//! Every function is the same loop. `keep` makes the loop's count and the three captured values live
//! in registers at its start, for all peers alike, without an instruction of its own. So what differs
//! between two functions is what their sites need.

#![allow(unsafe_code)]

use std::arch::asm;

use tracebraid_benches::paired::Run;

/// How many sites a loop has, and what they capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// One site.
    One,
    /// Sixteen sites.
    X16,
    /// One site with three fields.
    OneFields,
    /// Sixteen sites with three fields.
    X16Fields,
}

impl Shape {
    /// All of them.
    pub(crate) const ALL: [Shape; 4] = [Shape::One, Shape::X16, Shape::OneFields, Shape::X16Fields];

    /// What it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::One => "one",
            Shape::X16 => "x16",
            Shape::OneFields => "one-3fields",
            Shape::X16Fields => "x16-3fields",
        }
    }

    /// Sites that a loop passes.
    pub(crate) fn sites(self) -> u64 {
        match self {
            Shape::One | Shape::OneFields => 1,
            Shape::X16 | Shape::X16Fields => 16,
        }
    }
}

/// A way to have a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its crate, and what of it where that says too little.
    pub(crate) name: &'static str,
    runs: [Run; 4],
}

impl Peer {
    /// The function of a shape.
    pub(crate) fn run(&self, shape: Shape) -> Run {
        self.runs[shape as usize]
    }
}

/// Needs the values in registers; adds no instruction, and is never removed.
#[inline(always)]
fn keep(round: u64, length: usize, code: i32) {
    // SAFETY: there is no instruction.
    unsafe {
        asm!("/* {round} {length} {code:e} */",
            round = in(reg) round, length = in(reg) length, code = in(reg) code,
            options(nomem, nostack, preserves_flags));
    }
}

macro_rules! sixteen {
    ($($site:tt)*) => {
        $($site)* $($site)* $($site)* $($site)* $($site)* $($site)* $($site)* $($site)*
        $($site)* $($site)* $($site)* $($site)* $($site)* $($site)* $($site)* $($site)*
    };
}

macro_rules! peers {
    ($($name:literal $module:ident |$round:ident, $items:ident, $code:ident|
        { $($plain:tt)* } { $($fields:tt)* })*) => {
        $(
            mod $module {
                use super::keep;

                #[inline(never)]
                pub(super) fn one(rounds: u64, $items: &[u64], $code: i32) {
                    for $round in 0..rounds {
                        keep($round, $items.len(), $code);
                        $($plain)*
                    }
                }

                #[inline(never)]
                pub(super) fn x16(rounds: u64, $items: &[u64], $code: i32) {
                    for $round in 0..rounds {
                        keep($round, $items.len(), $code);
                        sixteen! { $($plain)* }
                    }
                }

                #[inline(never)]
                pub(super) fn one_fields(rounds: u64, $items: &[u64], $code: i32) {
                    for $round in 0..rounds {
                        keep($round, $items.len(), $code);
                        $($fields)*
                    }
                }

                #[inline(never)]
                pub(super) fn x16_fields(rounds: u64, $items: &[u64], $code: i32) {
                    for $round in 0..rounds {
                        keep($round, $items.len(), $code);
                        sixteen! { $($fields)* }
                    }
                }
            }
        )*

        /// All peers. `tracing` is what the process's `Subscriber`
        /// makes of it.
        pub(crate) const PEERS: &[Peer] = &[$(Peer {
            name: $name,
            runs: [$module::one, $module::x16, $module::one_fields, $module::x16_fields],
        }),*];
    };
}

/// The `usdt` crate's probes: a macro for each function.
#[usdt::provider(provider = "benches")]
mod usdt_probes {
    fn site() {}
    fn site_fields(round: u64, length: u64, code: i32) {}
}

static_keys::define_static_key_false!(KEY);

/// What a user of `static-keys` would write behind the key.
#[cold]
#[inline(never)]
fn emit_nothing() {
    keep(0, 0, 0);
}

/// The same with three values.
#[cold]
#[inline(never)]
fn emit(round: u64, length: usize, code: i32) {
    keep(round, length, code);
}

peers! {
    "none" none |round, items, code| {} {}
    "tracebraid" ours |round, items, code|
        { tracebraid::event!(site); }
        { tracebraid::event!(site_fields, round = round, length = items.len(), code = code); }
    "tracebraid-semaphore" ours_semaphore |round, items, code|
        { tracebraid::event!(gate: "semaphore", tested); }
        { tracebraid::event!(gate: "semaphore", tested_fields, round = round, length = items.len(), code = code); }
    "static-keys" static_keys_crate |round, items, code|
        { if static_keys::static_branch_unlikely!(super::KEY) { super::emit_nothing(); } }
        { if static_keys::static_branch_unlikely!(super::KEY) { super::emit(round, items.len(), code); } }
    "probe" probe_crate |round, items, code|
        { probe::probe!(benches, site); }
        { probe::probe!(benches, site_fields, round, items.len(), code); }
    "probe_lazy" probe_lazy |round, items, code|
        { probe::probe_lazy!(benches, site_lazy); }
        { probe::probe_lazy!(benches, site_lazy_fields, round, items.len(), code); }
    "usdt" usdt_crate |round, items, code|
        { super::usdt_probes::site!(|| ()); }
        { super::usdt_probes::site_fields!(|| (round, items.len() as u64, code)); }
    "tracing" tracing_crate |round, items, code|
        { tracing::debug!("site"); }
        { tracing::debug!(round, length = items.len(), code, "site"); }
    "log" log_crate |round, items, code|
        { log::debug!("site"); }
        { log::debug!("site {round} {} {code}", items.len()); }
}
