//! A target that lies: its region is written by somebody who wishes us ill.
//!
//! The stand-in holds a memfd that looks like a region, and writes into it what no program would. The
//! bridge reads on where it can, says once what it cannot, ends in order, and takes no memory by a number
//! that the target wrote.

mod foreign_region;
mod ring_program;
mod ring_stream;
mod support;

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use foreign_region::Region;
use nix::sys::signal::Signal;
use ring_program::{Program, seq};
use ring_stream::attach;
use support::{Ran, kill, run_bridge, test};
use tracebraid_ring::Geometry;
use tracebraid_wire::region::{self, Group, Header};

/// How many lines say that something is damaged.
fn damaged(ran: &Ran) -> usize {
    ran.err
        .lines()
        .filter(|line| line.contains("damaged ring on CPU"))
        .count()
}

/// A sequence of numbers that nobody could guess to be meant: xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "a_head_that_jumps_damages_its_ring_once_and_the_others_go_on",
            || {
                for jump in [u64::MAX, 1 << 40, 3] {
                    let mut program = Program::start("ticks 20");
                    let region = Region::of(program.pid);
                    let attached = attach(&program, &[]);
                    // A locked ring, which this program does not use itself.
                    let ring = region.rings(Group::OwnLocked).start;
                    region.write(region.head(ring), &jump.to_le_bytes());
                    std::thread::sleep(Duration::from_millis(100));
                    program.ask("go");
                    let ran = attached.stop(Signal::SIGINT);
                    assert_eq!(damaged(&ran), 1, "{}", ran.err);
                    assert!(
                        ran.err.contains("damaged ring on CPU 0 of process"),
                        "{}",
                        ran.err
                    );
                    let seqs: Vec<u64> = ran
                        .bodies("app:tick")
                        .iter()
                        .map(|body| seq(body))
                        .collect();
                    assert_eq!(seqs, (0..20).collect::<Vec<_>>(), "{}", ran.err);
                    program.finish();
                }
            },
        ),
        test(
            "lengths_that_lead_past_the_end_damage_the_ring_and_no_more",
            || {
                for length in [0_u16, 1, 4, u16::MAX] {
                    let mut program = Program::start("ticks 20");
                    let region = Region::of(program.pid);
                    let attached = attach(&program, &[]);
                    let ring = region.rings(Group::OwnLocked).start;
                    let data = region.geometry().data_offset(ring);
                    region.write(data, &u64::from(length).to_le_bytes());
                    region.write(region.head(ring), &24_u64.to_le_bytes());
                    program.ask("go");
                    std::thread::sleep(Duration::from_millis(50));
                    let ran = attached.stop(Signal::SIGINT);
                    assert_eq!(damaged(&ran), 1, "{length}: {}", ran.err);
                    assert_eq!(ran.bodies("app:tick").len(), 20, "{}", ran.err);
                    program.finish();
                }
            },
        ),
        test(
            "times_that_have_not_come_yet_are_taken_for_now_and_hold_nobody_up",
            || {
                let mut program = Program::start("ticks 20");
                let region = Region::of(program.pid);
                let attached = attach(&program, &[]);
                let ring = region.rings(Group::OwnLocked).start;
                let data = region.geometry().data_offset(ring);
                // Five words of the first event, in the far future.
                for (index, word) in [5 | 1 << 16 | 77 << 32, u64::MAX - 5, 7, 0, 0]
                    .into_iter()
                    .enumerate()
                {
                    region.write(data + 8 * index, &word.to_le_bytes());
                }
                region.write(region.head(ring), &40_u64.to_le_bytes());
                std::thread::sleep(Duration::from_millis(100));
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                assert!(
                    ran.err.contains("times that have not come yet"),
                    "{}",
                    ran.err
                );
                assert!(!ran.out.contains("(late)"), "{}", ran.out);
                assert_eq!(ran.row("app:words")[0], "20");
                program.finish();
            },
        ),
        test("no_byte_of_a_header_makes_the_bridge_crash_or_hang", || {
            let program = Program::start("ticks 1");
            let region = Region::of(program.pid);
            let good = region.header.encode();
            let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
            let pid = program.pid.to_string();
            let step = if is_soak() { 1 } else { 5 };
            for at in (0..region::HEADER_BYTES).step_by(step) {
                let mut bad = good;
                bad[at] ^= 1 | noise.next() as u8;
                region.write(0, &bad);
                let start = Instant::now();
                let ran = run_bridge(&[
                    "attach", "-p", &pid, "-e", "app:*", "--via", "ring", "-T", "0.02",
                ]);
                assert!((0..9).contains(&ran.status), "byte {at}: {}", ran.err);
                let snapshot = run_bridge(&["snapshot", "-p", &pid]);
                assert!(
                    (0..9).contains(&snapshot.status),
                    "byte {at}: {}",
                    snapshot.err
                );
                assert!(start.elapsed() < Duration::from_secs(10), "byte {at}");
            }
            region.write(0, &good);
        }),
        test(
            "a_target_that_holds_its_lock_for_ever_is_said_and_not_waited_for",
            || {
                let program = Program::start("ticks 1");
                let region = Region::of(program.pid);
                // Whoever has it is not the bridge: the program itself, or another one.
                assert!(lock(&region.file));
                let pid = program.pid.to_string();
                let start = Instant::now();
                let ran = run_bridge(&["attach", "-p", &pid, "-e", "app:*", "--via", "ring"]);
                assert_eq!(ran.status, 3, "{}", ran.err);
                assert!(
                    ran.err.contains("are taken by another bridge"),
                    "{}",
                    ran.err
                );
                // Nobody needs the lock to look.
                let ran = run_bridge(&["snapshot", "-p", &pid]);
                assert_eq!(ran.status, 0, "{}", ran.err);
                assert!(start.elapsed() < Duration::from_secs(10));
            },
        ),
        test(
            "a_target_that_is_stopped_is_attached_and_left_in_order",
            || {
                let mut program = Program::start("ticks 20");
                kill(program.pid, Signal::SIGSTOP);
                let start = Instant::now();
                let attached = attach(&program, &[]);
                std::thread::sleep(Duration::from_millis(200));
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(ran.status, 0, "{}", ran.err);
                assert!(ran.err.contains("does not answer"), "{}", ran.err);
                assert!(start.elapsed() < Duration::from_secs(20));
                kill(program.pid, Signal::SIGCONT);
                // What the bridge wanted went with it.
                std::thread::sleep(Duration::from_millis(600));
                program.ask("go");
                let attached = attach(&program, &[]);
                program.ask("go");
                assert_eq!(attached.stop(Signal::SIGINT).bodies("app:tick").len(), 20);
                program.finish();
            },
        ),
        test(
            "rings_whose_locks_are_held_for_ever_lose_records_that_are_counted_and_hold_nobody_up",
            || {
                let mut program = Program::start("locked 20");
                let region = Region::of(program.pid);
                let attached = attach(&program, &[]);
                let held = |holder: u32| {
                    for ring in region.rings(Group::OwnLocked) {
                        // Behind head, time and oldest.
                        region.write(region.head(ring) + 24, &holder.to_le_bytes());
                    }
                };
                // A thread that lives.
                held(std::process::id());
                program.ask("go");
                held(0);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                let bodies = ran.bodies("app:tick");
                let whole = bodies.iter().filter(|body| body.starts_with("seq="));
                let seqs: Vec<u64> = whole.map(|body| seq(body)).collect();
                assert_eq!(seqs, (20..40).collect::<Vec<_>>(), "{}", ran.err);
                let row = ran.row("app:tick");
                assert_eq!([&row[0], &row[1], &row[3]], ["20", "40", "20"], "{row:?}");
                program.finish();
            },
        ),
        test("a_newer_region_is_refused_and_its_version_said", || {
            let program = Program::start("ticks 1");
            let region = Region::of(program.pid);
            region.write(8, &7_u32.to_le_bytes());
            let ran = run_bridge(&[
                "attach",
                "-p",
                &program.pid.to_string(),
                "-e",
                "app:*",
                "--via",
                "ring",
                "-T",
                "1",
            ]);
            assert_eq!(ran.status, 3);
            assert!(ran.err.contains("are of version 7"), "{}", ran.err);
        }),
        test("a_region_cannot_be_resized_under_its_reader", || {
            let mut program = Program::start("ticks 20");
            let region = Region::of(program.pid);
            let attached = attach(&program, &[]);
            let size = region.file.metadata().unwrap().len();
            for length in [0, size / 2, size * 2] {
                let refused = region.file.set_len(length).unwrap_err();
                assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            }
            program.ask("go");
            assert_eq!(attached.stop(Signal::SIGINT).bodies("app:tick").len(), 20);
            program.finish();
        }),
        test("a_memfd_that_could_shrink_is_no_region", || {
            // Another process's memfd of the right name, with a good header, and no seal.
            let mut program = Program::start("ticks 1");
            let header = Region::of(program.pid).header;
            let stand_in = stand_in(&header);
            let ran = run_bridge(&["snapshot", "-p", &std::process::id().to_string()]);
            drop(stand_in);
            assert_eq!(ran.status, 3, "{}", ran.err);
            assert!(ran.err.contains("shrunk"), "{}", ran.err);
            program.kill();
        }),
        test(
            "a_region_of_more_rings_than_the_machine_can_have_is_refused",
            || {
                let mut program = Program::start("ticks 1");
                let header = Header {
                    cpu_rings: 2048,
                    rings: 2048 * Group::ALL.len() as u32,
                    ring_bytes: Geometry::MIN_RING as u64,
                    ..Region::of(program.pid).header
                };
                let stand_in = stand_in(&header);
                let ran = run_bridge(&["snapshot", "-p", &std::process::id().to_string()]);
                drop(stand_in);
                assert_eq!(ran.status, 3, "{}", ran.err);
                let said = "claim to be more than this machine has CPUs";
                assert!(ran.err.contains(said), "{}", ran.err);
                program.kill();
            },
        ),
        test("noise_in_every_part_of_a_region_ends_in_order", || {
            let limit = Duration::from_secs(if is_soak() { 60 } else { 3 });
            let end = Instant::now() + limit;
            let mut noise = Noise(std::process::id().into());
            let mut rounds = 0;
            while Instant::now() < end {
                rounds += 1;
                let mut program = Program::start("ticks 20");
                let region = Region::of(program.pid);
                let attached = attach(&program, &["-T", "0.3"]);
                let size = region.geometry().file_bytes() as u64;
                let controls = region.geometry().header_bytes() as u64;
                for _ in 0..400 {
                    // A word anywhere, or where it hurts most: control words, directory, control blocks.
                    let at = match noise.next() % 4 {
                        0 => noise.next() % size,
                        1 => 256 + noise.next() % 1024,
                        2 => region::DIRECTORY as u64 + noise.next() % 512,
                        _ => controls + noise.next() % 4096,
                    };
                    let word = match noise.next() % 3 {
                        0 => noise.next(),
                        1 => noise.next() % 4096,
                        _ => u64::MAX,
                    };
                    let word = word.to_le_bytes();
                    let length = (size - (at & !7)).min(8) as usize;
                    region.file.write_all_at(&word[..length], at & !7).unwrap();
                }
                program.tell("go");
                let start = Instant::now();
                let ran = attached.finish();
                assert!(
                    start.elapsed() < Duration::from_secs(10),
                    "round {rounds}: {}",
                    ran.err
                );
                assert!((0..9).contains(&ran.status), "{}", ran.err);
                assert!(!ran.err.contains("panicked"), "{}", ran.err);
                // One line a ring, and not more.
                assert!(
                    damaged(&ran) <= 4 * region.header.cpu_rings as usize,
                    "{}",
                    ran.err
                );
                program.kill();
            }
            println!("{rounds} rounds");
        }),
    ]);
}

/// Takes the lock of a region, as whoever has it would. Whether it could be had.
#[allow(unsafe_code)]
fn lock(file: &File) -> bool {
    // SAFETY: all zeros is a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: a descriptor of ours and a filled lock.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
}

/// A memfd of this process that looks like a region but can be resized.
#[allow(unsafe_code)]
fn stand_in(header: &Header) -> File {
    // SAFETY: a terminated name; the descriptor that comes back is nobody else's.
    let file = unsafe {
        let file = libc::memfd_create(c"tracebraid".as_ptr(), libc::MFD_CLOEXEC);
        assert!(file >= 0);
        File::from_raw_fd(file)
    };
    assert!(file.as_raw_fd() >= 0);
    let header = Header {
        pid: std::process::id(),
        ..*header
    };
    file.write_all_at(&header.encode(), 0).unwrap();
    let rings = header.rings as usize;
    let bytes = region::header_bytes(rings).next_multiple_of(Geometry::PAGE);
    let geometry = Geometry::new(bytes, rings, header.ring_bytes as usize).unwrap();
    file.set_len(geometry.file_bytes() as u64).unwrap();
    file
}
