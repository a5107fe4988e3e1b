//! Memory that is taken before the first event.
//!
//! Each test runs this program anew, for a region is made once in a process; what it does then, its first
//! thread does, with which it ends.

#![allow(unsafe_code)]

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use tracebraid::{Options, event};

/// What the program run anew does.
const ROLE: &str = "TRACEBRAID_TEST_ROLE";
/// Bytes of a ring.
const RING: usize = 256 << 10;
/// More than a ring holds.
const EVENTS: u64 = 100_000;

fn options() -> Options {
    Options::new().no_thread().ring(RING).record("*")
}

fn hits() {
    for n in 0..EVENTS {
        event!(eager::hit, n = n, text = "some text");
    }
}

/// What the program run anew does.
fn play(role: &str) {
    let options = if role.contains("eager") {
        options().eager()
    } else {
        options()
    };
    tracebraid::init_with(options).expect("there is memory");
    if role.contains("closed") {
        close_filter();
        hits();
        // SAFETY: it runs nothing of this process's.
        unsafe { libc::_exit(0) };
    }
    println!("{}", resident());
}

/// From here on this process is killed for every system call but the one that ends it. (The kernel's own
/// strict mode would forbid to read the time stamp counter too.)
fn close_filter() {
    const NUMBER: u32 = 0;
    let op = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER),
        op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_exit_group as u32,
        ),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        op(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_KILL_PROCESS,
        ),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: a filter of so many instructions, which the kernel checks and copies.
    let closed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    assert!(closed, "{}", std::io::Error::last_os_error());
}

/// KiB of the rings' memory that this process has.
fn resident() -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").expect("procfs");
    let mut ours = false;
    let mut sum = 0;
    for line in maps.lines() {
        if line.contains(" /") || line.ends_with(" 0 ") {
            ours = line.contains("memfd:tracebraid");
        } else if let (true, Some(rest)) = (ours, line.strip_prefix("Rss:")) {
            let number = rest.trim().trim_end_matches(" kB");
            sum += number.parse::<u64>().expect("a number");
        }
    }
    sum
}

fn as_role(role: &str) -> Output {
    let program = env::current_exe().expect("a path");
    let mut command = Command::new(program);
    command.env(ROLE, role).output().expect("it starts")
}

fn without_system_calls() -> Result<(), Failed> {
    let ran = as_role("closed, eager");
    assert!(ran.status.success(), "{ran:?}");
    // Without it the first event asks who the thread is.
    let ran = as_role("closed");
    assert_eq!(ran.status.signal(), Some(libc::SIGSYS), "{ran:?}");
    Ok(())
}

fn memory() -> Result<(), Failed> {
    let number = |role: &str| -> Result<u64, Failed> {
        let ran = as_role(role);
        Ok(String::from_utf8(ran.stdout)?.trim().parse()?)
    };
    // SAFETY: no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) } as u64;
    // Each is mapped twice.
    let rings = 2 * cpus * RING as u64 / 1024;
    let (eager, lazy) = (number("eager")?, number("lazy")?);
    assert!(eager >= rings, "{eager} KiB, and rings of {rings} KiB");
    assert!(lazy < rings, "{lazy} KiB without being asked");
    Ok(())
}

fn main() {
    if let Ok(role) = env::var(ROLE) {
        return play(&role);
    }
    let trials = vec![
        Trial::test(
            "an_eager_program_records_events_where_no_system_call_is_allowed",
            without_system_calls,
        ),
        Trial::test(
            "an_eager_program_has_the_memory_of_a_ring_a_cpu_before_its_first_event",
            memory,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
