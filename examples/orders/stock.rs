//! What is on the shelves, behind one mutex that every request and the shipping thread want.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracebraid::tracepoint;

use crate::error::Error;

/// Pieces of an item that a shelf is filled up to.
const FULL_SHELF: u32 = 10_000;

/// The shelves.
pub(crate) struct Stock {
    shelves: Mutex<BTreeMap<&'static str, u32>>,
}

impl Stock {
    /// Full shelves.
    pub(crate) fn new() -> Stock {
        let items = ["cup", "kettle", "spoon", "sugar", "tea"];
        Stock {
            shelves: Mutex::new(items.map(|item| (item, FULL_SHELF)).into()),
        }
    }

    /// Takes one piece of each item, or nothing at all.
    #[tracepoint(skip(items), fields(count = items.len()), err)]
    pub(crate) fn reserve(&self, items: &[String]) -> Result<(), Error> {
        let mut shelves = self.lock();
        for (taken, item) in items.iter().enumerate() {
            match shelves.get_mut(item.as_str()) {
                Some(pieces) if *pieces > 0 => *pieces -= 1,
                _ => {
                    put_back(&mut shelves, &items[..taken]);
                    return Err(Error::OutOfStock(item.clone()));
                }
            }
        }
        Ok(())
    }

    /// Undoes [`Stock::reserve`].
    pub(crate) fn release(&self, items: &[String]) {
        put_back(&mut self.lock(), items);
    }

    /// Fills the shelves and adds up what was missing; nobody can reserve meanwhile.
    #[tracepoint(ret)]
    pub(crate) fn refill(&self) -> u32 {
        let mut missing = 0;
        for pieces in self.lock().values_mut() {
            missing += FULL_SHELF.saturating_sub(*pieces);
            *pieces = FULL_SHELF;
        }
        missing
    }

    /// A panic elsewhere leaves counts that are still counts. The time between entry and return is
    /// the time this thread waited.
    #[tracepoint(name = "stock_lock")]
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u32>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put_back(shelves: &mut BTreeMap<&'static str, u32>, items: &[String]) {
    for item in items {
        if let Some(pieces) = shelves.get_mut(item.as_str()) {
            *pieces += 1;
        }
    }
}
