//! A program whose helper thread gets no CPU.

mod ring_program;
mod ring_stream;
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use ring_program::Program;
use ring_stream::attach;
use support::{test, timed};

fn main() {
    ring_program::run_if_asked();
    support::run(vec![timed(test(
        "a_program_that_gets_no_cpu_for_a_while_is_waited_for",
        || {
            // Its helper waits behind somebody who wants all of a CPU, until long after a helper that is stopped
            // or stuck would have been given up.
            let mut program = Program::start("ticks 40");
            let helper = helper_of(program.pid);
            let hog = Hog::before(helper);
            let attached = thread::scope(|scope| {
                let attached = scope.spawn(|| attach(&program, &[]));
                thread::sleep(Duration::from_secs(8));
                drop(hog);
                attached.join().unwrap()
            });
            assert_eq!(program.ask("go"), "done");
            let ran = attached.stop(Signal::SIGINT);
            assert!(!ran.err.contains("does not answer"), "{}", ran.err);
            assert_eq!(ran.row("app:tick")[..2], ["40", "40"], "{}", ran.err);
            program.finish();
        },
    ))])
}

/// The thread of a program that answers bridges, as soon as it has its name.
fn helper_of(pid: u32) -> i32 {
    let is_helper = |thread: &PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "tracebraid")
    };
    let end = Instant::now() + support::LONG;
    loop {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut threads = threads.map(|entry| entry.unwrap().path());
        if let Some(thread) = threads.find(is_helper) {
            return thread
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .parse()
                .unwrap();
        }
        assert!(Instant::now() < end, "no helper thread");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Wants all of a CPU on which another thread would run with what is left. Ends when dropped.
struct Hog {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Hog {
    #[allow(unsafe_code)]
    fn before(thread: i32) -> Hog {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let stay = |of: i32| {
            // SAFETY: plain memory that the calls fill and read.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                libc::sched_setaffinity(of, size_of::<libc::cpu_set_t>(), &raw const set)
            }
        };
        assert_eq!(stay(thread), 0);
        // SAFETY: as above.
        unsafe {
            let idle: libc::sched_param = std::mem::zeroed();
            assert_eq!(
                libc::sched_setscheduler(thread, libc::SCHED_IDLE, &raw const idle),
                0
            );
        }
        let spins = thread::spawn(move || {
            assert_eq!(stay(0), 0);
            // SAFETY: no memory is passed. Where it is not allowed the helper gets more.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Hog {
            is_over,
            thread: Some(spins),
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
