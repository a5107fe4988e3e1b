//! A program that does what it is told, a line each: hits, children of every kind, threads.

use std::process::Command;
use std::thread;
use std::time::Duration;

use tracebraid::event;

use super::roles::{fork, say, step, tick, wait, words};

fn tested(seq: u64) {
    event!(gate: "semaphore", app::tested, seq = seq);
}

/// A child as that of `vfork`, which hits so often, and ends.
#[allow(unsafe_code)]
fn vfork(count: u64) -> i32 {
    extern "C" fn child(count: *mut libc::c_void) -> i32 {
        (0..count.addr() as u64).for_each(|seq| tick(100 + seq));
        0
    }
    let mut stack = vec![0_u8; 256 * 1024];
    let top = stack.as_mut_ptr().wrapping_add(stack.len());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let count = std::ptr::without_provenance_mut(count as usize);
    // SAFETY: the child runs in this stack, and has ended when the call returns.
    let pid = unsafe { libc::clone(child, top.cast(), flags, count) };
    assert!(pid > 0);
    wait(pid);
    pid
}

/// System calls and events by turns, then the same in a child, and so on.
#[allow(unsafe_code)]
fn family(generations: u64, count: u64) {
    // SAFETY: no preconditions. Nothing comes before it in a child.
    let call = || unsafe { libc::syscall(libc::SYS_getppid) };
    for index in 0..count {
        call();
        tick(1000 * generations + index);
    }
    say(&std::process::id().to_string());
    if generations > 1 {
        wait(fork(|| family(generations - 1, count)));
    }
}

/// Does what it is told, a line each.
#[allow(unsafe_code)]
pub(super) fn outsider() {
    let mut seq = 0;
    loop {
        let line = step();
        let words_of: Vec<&str> = line.split(' ').collect();
        match words_of[..] {
            ["go", count] => {
                for _ in 0..count.parse().unwrap() {
                    tick(seq);
                    words(seq);
                    tested(seq);
                    seq += 1;
                }
                say("done");
            }
            ["init"] => {
                tracebraid::init();
                say("done");
            }
            ["sites_on"] => say(&tracebraid::status().sites_on.to_string()),
            ["enable", name] => say(&tracebraid::enable(name).unwrap().to_string()),
            ["disable", name] => say(&tracebraid::disable(name).unwrap().to_string()),
            ["undumpable"] => {
                // SAFETY: numbers only.
                assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
                say("done");
            }
            // A child that hits as often, ends, and had so many sites on.
            ["fork", count] => {
                let first = 1000 + seq;
                let child = fork(|| {
                    for seq in 0..count.parse().unwrap() {
                        tick(first + seq);
                    }
                });
                wait(child);
                say(&child.to_string());
            }
            // So many generations of children, each says who it is before it begins.
            ["family", generations, count] => {
                family(generations.parse().unwrap(), count.parse().unwrap());
                say("done");
            }
            // A child that goes on when we are gone, and then hits.
            ["orphan", milliseconds] => {
                let pause = Duration::from_millis(milliseconds.parse().unwrap());
                let child = fork(|| {
                    thread::sleep(pause);
                    for seq in 0..10 {
                        tick(9000 + seq);
                    }
                });
                say(&child.to_string());
            }
            // So many children that make one system call each.
            ["storm", count] => {
                for child in 0..count.parse().unwrap() {
                    wait(fork(|| {
                        // SAFETY: no preconditions.
                        unsafe { libc::syscall(libc::SYS_getppid) };
                        tick(child);
                    }));
                }
                say("done");
            }
            // A child in our memory and in this thread's place, with an event of ours on either side.
            ["share", count] => {
                let sharing = tracebraid::before_vfork();
                tick(1);
                let child = vfork(count.parse().unwrap());
                tick(2);
                drop(sharing);
                tick(3);
                say(&child.to_string());
            }
            // A child that becomes another program, which makes one system call.
            ["become"] => {
                let child = fork(|| {
                    use std::os::unix::process::CommandExt;
                    let error = Command::new("sh").args(["-c", "echo $PPID"]).exec();
                    panic!("{error}");
                });
                wait(child);
                say(&child.to_string());
            }
            // A child that lives until its input, which is ours, is at its end.
            ["leave"] => {
                let child = fork(|| {
                    thread::sleep(Duration::from_secs(30));
                });
                say(&child.to_string());
            }
            // Threads that hit for as long as it runs.
            ["busy", count] => {
                for _ in 0..count.parse().unwrap() {
                    thread::spawn(|| {
                        for seq in 0.. {
                            words(seq);
                        }
                    });
                }
                say("done");
            }
            [""] => break,
            _ => panic!("what is {line}?"),
        }
    }
}
