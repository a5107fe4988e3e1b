//! A bounded queue of paid orders and the thread that packs them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tracebraid::tracepoint;

use crate::error::Error;
use crate::stock::Stock;

/// After so many parcels the shelves are filled.
const REFILL_EVERY: u64 = 64;
/// Rounds of the checksum on a parcel's label: some tens of microseconds of work.
const LABEL_ROUNDS: u32 = 20_000;

/// An order went into the queue, which then held `depth`.
#[tracepoint(print = "id={id} depth={depth} user={user}")]
fn queued(id: u64, depth: usize, user: &str);

/// An order that waits to be shipped.
pub(crate) struct Parcel {
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) items: Vec<String>,
}

/// The queue and its thread; dropped, it ships what waits and ends.
pub(crate) struct Shipping {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    limit: usize,
}

#[derive(Default)]
struct Waiting {
    parcels: VecDeque<Parcel>,
    closed: bool,
}

impl Shipping {
    /// Starts the thread; at most `limit` parcels wait.
    pub(crate) fn start(stock: Arc<Stock>, limit: usize) -> std::io::Result<Shipping> {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            limit,
        });
        let thread = std::thread::Builder::new()
            .name("shipping".to_owned())
            .spawn({
                let queue = Arc::clone(&queue);
                move || ship(&queue, &stock)
            })?;
        Ok(Shipping {
            queue,
            thread: Some(thread),
        })
    }

    /// Puts an order into the queue.
    pub(crate) fn enqueue(&self, parcel: Parcel) -> Result<(), Error> {
        let mut waiting = self.queue.lock();
        if waiting.parcels.len() >= self.queue.limit {
            return Err(Error::Busy);
        }
        queued(parcel.id, waiting.parcels.len() + 1, &parcel.user);
        waiting.parcels.push_back(parcel);
        drop(waiting);
        self.queue.changed.notify_one();
        Ok(())
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("orders: the shipping thread panicked");
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next parcel, waiting for one; `None` after the end.
    fn next(&self) -> Option<Parcel> {
        let mut waiting = self.lock();
        loop {
            if let Some(parcel) = waiting.parcels.pop_front() {
                return Some(parcel);
            }
            if waiting.closed {
                return None;
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn ship(queue: &Queue, stock: &Stock) {
    let mut shipped = 0_u64;
    while let Some(parcel) = queue.next() {
        std::hint::black_box(pack(parcel.id, &parcel.user, &parcel.items));
        shipped += 1;
        if shipped.is_multiple_of(REFILL_EVERY) {
            stock.refill();
        }
    }
}

/// Computes the parcel's label: the part of the service that needs a CPU.
#[tracepoint(skip(user, items), ret)]
fn pack(id: u64, user: &str, items: &[String]) -> u64 {
    let mut label = id;
    for _ in 0..LABEL_ROUNDS {
        label = label.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    let letters = user
        .bytes()
        .chain(items.iter().flat_map(|item| item.bytes()));
    letters.fold(label, |label, byte| label.rotate_left(7) ^ u64::from(byte))
}
