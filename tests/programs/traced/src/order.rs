//! Threads that hit a tracepoint before, between and after system calls, on one CPU and then another.

use std::fs::File;
use std::os::fd::AsRawFd;

pub fn run(rounds: u64) {
    crate::wait_until_on("order");
    let cpus = allowed_cpus();
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null opens");
    let descriptor = null.as_raw_fd();
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let cpus = cpus.clone();
            std::thread::spawn(move || work(thread, rounds, descriptor, &cpus))
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

/// Each round: an event, `write`, an event, `getppid`, an event, `write`.
fn work(thread: usize, rounds: u64, descriptor: i32, cpus: &[usize]) {
    for round in 0..rounds {
        if round % 16 == 0 {
            move_to(cpus[(round as usize / 16 + thread) % cpus.len()]);
        }
        step(3 * round);
        write(descriptor);
        step(3 * round + 1);
        // SAFETY: no preconditions. By its number: the C library may know the answer already.
        unsafe { libc::syscall(libc::SYS_getppid) };
        step(3 * round + 2);
        write(descriptor);
    }
}

#[inline(never)]
fn step(n: u64) {
    tracebraid::event!(order::step, n);
}

fn write(descriptor: i32) {
    // SAFETY: one byte of a constant.
    let written = unsafe { libc::write(descriptor, b"x".as_ptr().cast(), 1) };
    assert_eq!(written, 1);
}

fn allowed_cpus() -> Vec<usize> {
    // SAFETY: zeros are an empty set, which the call fills.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        assert_eq!(
            libc::sched_getaffinity(0, size_of_val(&set), &raw mut set),
            0
        );
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &set))
            .collect()
    }
}

fn move_to(cpu: usize) {
    // SAFETY: zeros are an empty set, to which one CPU is added.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set),
            0
        );
    }
}
