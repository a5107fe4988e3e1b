//! Events that are on: a function for each peer and shape.
//!
//! Every function is the same loop, whose counter is the first of the three words. Texts have a length
//! that the compiler does not know.

#![allow(unsafe_code)]

use std::arch::asm;
use std::hint::black_box;

use tracebraid_benches::paired::Run;

use crate::lttng::{Library, Mode};
use crate::shapes::{Shape, TEXT16, TEXT200};

/// A way to have events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// What it is called in results.
    pub(crate) name: &'static str,
    runs: [Run; 5],
}

impl Peer {
    /// The function of a shape.
    pub(crate) fn run(&self, shape: Shape) -> Run {
        self.runs[shape as usize]
    }
}

/// Needs the value in a register; adds no instruction, and is never removed.
#[inline(always)]
fn keep(value: u64) {
    // SAFETY: there is no instruction.
    unsafe {
        asm!("/* {value} */", value = in(reg) value, options(nomem, nostack, preserves_flags))
    };
}

macro_rules! peers {
    ($(#[$attribute:meta] $constant:ident $name:literal $module:ident |$one:ident, $two:ident, $three:ident, $text:ident|
        { $($words:tt)* } { $($string:tt)* } { $($empty:tt)* } { $($pair:tt)* })*) => {
        $(
            mod $module {
                #![allow(unused_variables)]

                use super::*;

                #[inline(never)]
                fn three(rounds: u64, items: &[u64], _: i32) {
                    let ($two, $three) = (items[0], items[1]);
                    for $one in 0..rounds {
                        $($words)*
                    }
                }

                #[inline(never)]
                fn text16(rounds: u64, _: &[u64], _: i32) {
                    let $text = crate::shapes::hidden(TEXT16);
                    for _ in 0..rounds {
                        $($string)*
                    }
                }

                #[inline(never)]
                fn text200(rounds: u64, _: &[u64], _: i32) {
                    let $text = crate::shapes::hidden(TEXT200);
                    for _ in 0..rounds {
                        $($string)*
                    }
                }

                #[inline(never)]
                fn empty(rounds: u64, _: &[u64], _: i32) {
                    for _ in 0..rounds {
                        $($empty)*
                    }
                }

                #[inline(never)]
                fn pair(rounds: u64, _: &[u64], _: i32) {
                    for $one in 0..rounds {
                        $($pair)*
                    }
                }

                pub(super) const RUNS: [Run; 5] = [three, text16, text200, empty, pair];
            }

            #[$attribute]
            pub(crate) const $constant: Peer = Peer { name: $name, runs: $module::RUNS };
        )*
    };
}

/// The `usdt` crate's probes: a macro for each function.
#[usdt::provider(provider = "on_usdt_crate")]
mod usdt_probes {
    fn three(one: u64, two: u64, three: u64) {}
    fn text(text: &str) {}
    fn empty() {}
    fn entry(id: u64) {}
    fn exit() {}
}

/// A call that is measured for its entry and its return.
#[tracebraid::tracepoint(provider = "on", name = "pair")]
fn ours_called(id: u64) {
    keep(id);
}

/// The same, seen through its USDT probes.
#[tracebraid::tracepoint(provider = "on_usdt", name = "pair")]
fn ours_called_usdt(id: u64) {
    keep(id);
}

/// What a user of `tracing` would write.
#[tracing::instrument(level = "debug")]
fn tracing_called(id: u64) {
    keep(id);
}

peers! {
    /// Ours, through the rings.
    OURS "tracebraid" ours |one, two, three, text|
        { tracebraid::event!(on::three, one = one, two = two, three = three); }
        { tracebraid::event!(on::text, text = text); }
        { tracebraid::event!(on::empty); }
        { super::ours_called(one); }
    /// Ours, through USDT probes.
    OURS_USDT "tracebraid-usdt" ours_usdt |one, two, three, text|
        { tracebraid::event!(on_usdt::three, one = one, two = two, three = three); }
        { tracebraid::event!(on_usdt::text, text = text); }
        { tracebraid::event!(on_usdt::empty); }
        { super::ours_called_usdt(one); }
    /// The crate `usdt`.
    USDT "usdt" usdt_crate |one, two, three, text|
        { super::usdt_probes::three!(|| (one, two, three)); }
        { super::usdt_probes::text!(|| text); }
        { super::usdt_probes::empty!(|| ()); }
        { super::usdt_probes::entry!(|| one); keep(one); super::usdt_probes::exit!(|| ()); }
    /// The crate `probe`.
    PROBE "probe" probe_crate |one, two, three, text|
        { probe::probe!(on_probe_crate, three, one, two, three); }
        { probe::probe!(on_probe_crate, text, text.as_ptr(), text.len()); }
        { probe::probe!(on_probe_crate, empty); }
        { probe::probe!(on_probe_crate, entry, one); keep(one); probe::probe!(on_probe_crate, exit); }
    /// `tracing`, with the process's subscriber.
    TRACING "tracing" tracing_crate |one, two, three, text|
        { tracing::debug!(one, two, three); }
        { tracing::debug!(text); }
        { tracing::debug!("empty"); }
        { super::tracing_called(one); }
}

macro_rules! lttng_runs {
    ($mode:expr) => {
        [
            |rounds, items, _| lttng($mode).three(rounds, items[0], items[1]),
            |rounds, _, _| lttng($mode).text(rounds, black_box(TEXT16)),
            |rounds, _, _| lttng($mode).text(rounds, black_box(TEXT200)),
            |rounds, _, _| lttng($mode).empty(rounds),
            |rounds, _, _| lttng($mode).pair(rounds),
        ]
    };
}

/// LTTng-UST, refusing events when its buffers are full.
pub(crate) const LTTNG_DISCARD: Peer = Peer {
    name: "lttng-ust-discard",
    runs: lttng_runs!(Mode::Discard),
};

/// LTTng-UST, overwriting the oldest.
pub(crate) const LTTNG_OVERWRITE: Peer = Peer {
    name: "lttng-ust-overwrite",
    runs: lttng_runs!(Mode::Overwrite),
};

fn lttng(mode: Mode) -> &'static Library {
    Library::of(mode).expect("it was loaded before anything is measured")
}

/// Reading the time stamp counter.
pub(crate) fn rdtsc(rounds: u64, _: &[u64], _: i32) {
    for _ in 0..rounds {
        // SAFETY: an instruction that every x86-64 has, and that touches no memory.
        #[cfg(target_arch = "x86_64")]
        keep(unsafe { std::arch::x86_64::_rdtsc() });
    }
}

/// Reading CLOCK_MONOTONIC through the vDSO.
pub(crate) fn clock_gettime(rounds: u64, _: &[u64], _: i32) {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    for _ in 0..rounds {
        // SAFETY: the call writes one timespec, which this is.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        keep(time.tv_nsec as u64);
    }
}
