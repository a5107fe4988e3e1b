//! The model checker's atomics, each access of which is a step.
//!
//! Loom leaves out interleavings that it takes for the same as one it has tried, and remembers only the
//! last access of each atomic to tell: a reader's load that is followed by a writer's load and store goes
//! unnoticed. So each access here also touches one atomic that all threads touch. No order comes of it,
//! for it is relaxed; but any two steps of different threads are then tried in both orders.

pub(crate) use std::sync::atomic::Ordering;

use loom::sync::atomic as checked;

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::thread::yield_now;

loom::lazy_static! {
    static ref STEP: checked::AtomicBool = checked::AtomicBool::new(false);
}

fn step() {
    STEP.swap(false, Ordering::Relaxed);
}

pub(crate) fn fence(order: Ordering) {
    step();
    checked::fence(order);
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name(checked::$name);

        impl $name {
            pub(crate) fn new(value: $value) -> $name {
                $name(checked::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                step();
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

impl AtomicU32 {
    pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        step();
        self.0.fetch_add(value, order)
    }
}
