//! An allocator that refuses what no reader has a reason to ask for.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// The most bytes at once. What a reader keeps of an input follows from the input's length, which libFuzzer
/// bounds to less than this.
const MOST: usize = 16 << 20;

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

// SAFETY: what is not refused is left to the system's allocator.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST {
            // A panic would allocate.
            eprintln!("an allocation of {} bytes", layout.size());
            std::process::abort();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}
