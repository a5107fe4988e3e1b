//! When a body began: what an entry hands to its return.
//!
//! ```text
//! entry    in the rings:  the time of its record, which was read anyway
//!          else:          the clock is read
//! return   to the rings:  the stamp stands in the record as it is, and readers subtract
//!          to others too: the clock is read again, and nanoseconds are what everybody sees
//! ```
//! A stamp is a reading of the counter where the rings carry its ticks, else of CLOCK_MONOTONIC, and says
//! which it is: rings may be made while the body runs, and a body may end in a child of fork.

use core::num::NonZeroU64;

use tracebraid_wire::kind::Kind;

use crate::value::{Bits, Value};

/// A moment, in one word that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Stamp(NonZeroU64);

impl Value for Stamp {
    type Lowered = Bits<{ Kind::Elapsed as u8 }>;
    #[inline(always)]
    fn lower(&self) -> Self::Lowered {
        Bits(self.0.get())
    }
}

/// Whether the site that a body stands behind is on, and when its entry was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    is_on: bool,
    stamp: Option<Stamp>,
}

impl Entry {
    /// The site is off.
    pub const OFF: Entry = Entry {
        is_on: false,
        stamp: None,
    };

    /// The site is on, and its entry has been emitted.
    #[inline(always)]
    #[must_use]
    pub const fn emitted(stamp: Option<Stamp>) -> Entry {
        Entry { is_on: true, stamp }
    }

    /// Whether the site is on.
    #[inline(always)]
    pub(crate) const fn is_on(self) -> bool {
        self.is_on
    }

    /// When its record was made, where the entry is in the rings.
    #[inline(always)]
    pub(crate) const fn stamp(self) -> Option<Stamp> {
        self.stamp
    }
}

impl Stamp {
    /// When a body begins: as its entry was recorded; where it was not, now.
    #[inline(always)]
    pub(crate) fn or_now(entry: Option<Stamp>) -> Stamp {
        entry.unwrap_or_else(Stamp::now)
    }
}

#[cfg(tracebraid_keys)]
mod reading {
    use super::{NonZeroU64, Stamp};
    use crate::{clock, ring};
    use tracebraid_ring::Clock;
    use tracebraid_wire::record::Elapsed;

    /// Set in a reading of CLOCK_MONOTONIC.
    const MONOTONIC: u64 = 1 << 63;

    impl Stamp {
        /// The time of a record.
        #[inline(always)]
        pub(crate) fn of(clock: Clock, time: u64) -> Option<Stamp> {
            match clock {
                Clock::Tsc => Stamp::of_word(time),
                Clock::Given => Stamp::of_word(time | MONOTONIC),
            }
        }

        /// Back from a slot, or from machine code; 0 is none.
        #[inline(always)]
        pub(crate) fn of_word(word: u64) -> Option<Stamp> {
            NonZeroU64::new(word).map(Stamp)
        }

        #[cold]
        #[inline(never)]
        pub(crate) fn now() -> Stamp {
            let word = match ring::clock_known() {
                Some(Clock::Tsc) => ring::ticks(),
                _ => clock::now() | MONOTONIC,
            };
            Stamp(NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN))
        }

        /// Its word, which is not 0.
        #[cfg(feature = "tracing")]
        #[inline(always)]
        pub(crate) fn word(self) -> u64 {
            self.0.get()
        }

        /// Its word, where it is in ticks of the counter.
        #[inline(always)]
        pub(crate) fn in_ticks(self) -> Option<u64> {
            (self.0.get() & MONOTONIC == 0).then_some(self.0.get())
        }

        /// How long ago it is, in nanoseconds.
        pub(crate) fn nanoseconds(self) -> u64 {
            match self.in_ticks() {
                Some(ticks) => ring::nanoseconds_since(ticks),
                None => clock::now().saturating_sub(self.0.get() & !MONOTONIC),
            }
        }

        /// What a record says of it in rings of this clock: the stamp, unless it is of another clock.
        pub(crate) fn elapsed(self, clock: Clock) -> Elapsed {
            match (clock, self.in_ticks()) {
                (Clock::Tsc, Some(ticks)) => Elapsed::Since(ticks),
                (Clock::Given, None) => Elapsed::Since(self.0.get() & !MONOTONIC),
                _ => Elapsed::Nanoseconds(self.nanoseconds()),
            }
        }
    }
}

#[cfg(not(tracebraid_keys))]
impl Stamp {
    /// No clock is needed where nothing is emitted.
    pub(crate) fn now() -> Stamp {
        Stamp(NonZeroU64::MIN)
    }
}

#[cfg(all(test, tracebraid_keys))]
mod tests {
    use super::*;
    use crate::clock;
    use tracebraid_ring::Clock;
    use tracebraid_wire::record::Elapsed;

    #[test]
    fn a_stamp_of_the_rings_clock_stands_in_a_record_as_it_is() {
        let ticks = Stamp::of(Clock::Tsc, 17).unwrap();
        assert_eq!(ticks.elapsed(Clock::Tsc), Elapsed::Since(17));
        let given = Stamp::of(Clock::Given, 17).unwrap();
        assert_eq!(given.elapsed(Clock::Given), Elapsed::Since(17));
        assert_eq!(Stamp::of_word(given.lower().0), Some(given));
    }

    #[test]
    fn a_stamp_of_another_clock_becomes_a_duration() {
        let before = clock::now();
        let stamp = Stamp::of(Clock::Given, before).unwrap();
        let Elapsed::Nanoseconds(nanoseconds) = stamp.elapsed(Clock::Tsc) else {
            panic!("it is in no ticks");
        };
        assert!(nanoseconds <= clock::now() - before);
    }
}
