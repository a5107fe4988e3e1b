//! What makes it a storm: writers are interrupted by signals and moved from CPU to CPU.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::appender::{self, Appender};

/// Threads that append.
pub(crate) const WRITERS: usize = 8;

/// How a storm went.
pub(crate) struct Outcome<T> {
    /// What the reader made of it.
    pub(crate) read: T,
    /// By writer: how many records found no room.
    pub(crate) lost: Vec<u64>,
    /// How many records signal handlers wrote, and how many of them were lost.
    pub(crate) handled: (u64, u64),
}

/// Only one storm at a time: they share the signal, and there are few CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static STORM: Mutex<()> = Mutex::new(());
    STORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers without order.
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Has [`WRITERS`] threads write `events` records each while signals and moves come; `read` runs beside
/// them until the flag it is given says that all is written.
pub(crate) fn storm<T: Send>(
    appender: Appender,
    events: u64,
    read: impl FnOnce(&Appender, &AtomicBool) -> T + Send,
) -> Outcome<T> {
    let _alone = alone();
    let appender: &'static Appender = Box::leak(Box::new(appender));
    appender::handle_signals(appender);
    let done = AtomicBool::new(false);
    let calm = AtomicBool::new(false);
    let left = AtomicU32::new(WRITERS as u32);
    let ids: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    // Writers stay until nobody sends them signals any more.
    let end = Barrier::new(WRITERS + 1);
    let begun = Barrier::new(WRITERS + 1);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(appender, &done));
        let writers: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(writer, id)| {
                let (left, end, begun) = (&left, &end, &begun);
                scope.spawn(move || {
                    // SAFETY: no preconditions.
                    let tid = unsafe { libc::gettid() } as u64;
                    id.store(tid, Ordering::Release);
                    begun.wait();
                    let lost = (0..events)
                        .filter(|&index| !appender.append(writer as u32, index))
                        .count() as u64;
                    left.fetch_sub(1, Ordering::AcqRel);
                    end.wait();
                    lost
                })
            })
            .collect();
        begun.wait();
        let weather = scope.spawn(|| blow(&ids, &calm));
        while left.load(Ordering::Acquire) != 0 {
            thread::sleep(Duration::from_millis(1));
        }
        calm.store(true, Ordering::Release);
        weather.join().unwrap();
        end.wait();
        let lost = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        let handled = appender::handled();
        done.store(true, Ordering::Release);
        Outcome {
            read: reader.join().unwrap(),
            lost,
            handled,
        }
    })
}

fn blow(ids: &[AtomicU64], calm: &AtomicBool) {
    let mut dice = Dice(0x5eed_0f5a_5eed_0f5b);
    let cpus = appender::cpus();
    while !calm.load(Ordering::Acquire) {
        for id in ids {
            let tid = id.load(Ordering::Acquire) as libc::pid_t;
            match dice.throw() % 4 {
                // SAFETY: numbers only; the thread is one of ours and stays until the weather is calm.
                0 | 1 => unsafe {
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1);
                },
                2 => set_affinity(tid, |cpu| cpu == dice.0 as usize / 4 % cpus),
                _ => set_affinity(tid, |_| true),
            }
        }
        thread::sleep(Duration::from_micros(dice.throw() % 200));
    }
}

fn set_affinity(tid: libc::pid_t, on: impl Fn(usize) -> bool) {
    // SAFETY: a set of ours, filled with CPUs that it has room for. A CPU that is not there is refused,
    // which leaves the thread where it is.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in (0..appender::cpus()).filter(|&cpu| on(cpu)) {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(tid, size_of_val(&set), &raw const set);
    }
}
