//! The system calls that `docs/security.md` lists, against those that a program makes; and programs to
//! which one of them is refused.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tracebraid_tests::requirement::{self, Need, trial};
use tracebraid_tests::variant::GNU;
use tracebraid_tests::{programs, scenario};

fn main() {
    let mut trials = vec![trial(
        "a_program_makes_no_system_call_that_is_not_documented",
        &[Need::Tool("strace")],
        compare,
    )];
    for refused in REFUSED {
        let name = format!("a_program_lives_without_{}", refused.name);
        trials.push(trial(name, &[], move || lives_without(refused)));
    }
    requirement::run(trials);
}

/// A system call, and what of the program's report says that it was refused.
struct Refused {
    name: &'static str,
    number: libc::c_long,
    /// In what the program prints.
    sign: &'static str,
}

const fn refused(name: &'static str, number: libc::c_long, sign: &'static str) -> Refused {
    Refused { name, number, sign }
}

/// All works, as far as the program itself can tell.
const ALL: &str = "init Ok(()), claimed Ok(0), enabled Ok(1), drained Ok(101), disabled Ok(1)";
const NO_RINGS: &str = "claimed Err(Rings";

const REFUSED: &[Refused] = &[
    refused("memfd_create", libc::SYS_memfd_create, NO_RINGS),
    refused("ftruncate", libc::SYS_ftruncate, NO_RINGS),
    refused("fcntl", libc::SYS_fcntl, NO_RINGS),
    refused("membarrier", libc::SYS_membarrier, ALL),
    refused("pwrite64", libc::SYS_pwrite64, ALL),
    refused("rseq", libc::SYS_rseq, ALL),
    refused("gettid", libc::SYS_gettid, ALL),
    refused("statx", libc::SYS_statx, ALL),
    refused("prctl", libc::SYS_prctl, ALL),
    refused("sched_getaffinity", libc::SYS_sched_getaffinity, ALL),
    refused("sigaltstack", libc::SYS_sigaltstack, ALL),
    refused("getrandom", libc::SYS_getrandom, ALL),
];

fn lives_without(refused: &'static Refused) {
    let mut command = Command::new(program());
    command
        .arg("refused")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: the closure makes two system calls with data of its own.
    unsafe { command.pre_exec(|| refuse(refused.number)) };
    let child = command.spawn().expect("the program starts");
    let end = scenario::wait(child, Duration::from_secs(30)).expect("it can be waited for");
    assert!(
        end.status.is_some_and(|status| status.success()) && end.output.contains(refused.sign),
        "{:?}: {}{}",
        end.status,
        end.output,
        end.errors
    );
}

/// Has the kernel answer EPERM to one system call from now on.
fn refuse(number: libc::c_long) -> std::io::Result<()> {
    let statement = |code: u32, jump_false: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_false,
        k,
    };
    let mut filter = [
        // The number of the system call is the first word of `seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            number as u32,
        ),
        statement(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are alive during the calls.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) != 0
    };
    if refused {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// `traced`, built.
fn program() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    programs::build(programs::cargo("build", GNU, directory).args(["--package", "traced"]));
    directory.join("programs").join(GNU).join("release/traced")
}

fn compare() {
    let made = made();
    let documented = documented();
    for (step, calls) in &made {
        let rows: &[&str] = match step.as_str() {
            "init" => &["`init`", "starting the thread"],
            "helper" => &["starting the thread", "the thread", "a switch", "a flush"],
            "switch" => &["a switch"],
            "first" => &["a thread's first event"],
            "events" => &["later events"],
            "drain" => &["`drain`"],
            other => panic!("{other}"),
        };
        let mut allowed: BTreeSet<&str> = BTreeSet::from(["brk", "mmap", "munmap", "madvise"]);
        for row in rows {
            let found = documented.iter().find(|(when, _)| when.starts_with(row));
            let (_, calls) = found.unwrap_or_else(|| panic!("no row begins with {row:?}"));
            allowed.extend(calls.iter().map(String::as_str));
        }
        for call in calls {
            assert!(allowed.contains(call.as_str()), "{step}: {call}, {made:?}");
        }
    }
    assert_eq!(made["events"], BTreeSet::new());
    assert!(made["init"].contains("memfd_create") && made["switch"].contains("membarrier"));
}

/// The rows of the page's table: when, and the calls.
fn documented() -> Vec<(String, BTreeSet<String>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, section) = page.split_once("### System calls\n").expect("the section");
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    table
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            let (when, calls) = (cells.next()?, cells.next()?);
            let words = calls.split('`').skip(1).step_by(2);
            Some((when.to_owned(), words.map(str::to_owned).collect()))
        })
        .collect()
}

/// What `traced calls` asks of the kernel, by the step that it marks; its other thread is the helper.
fn made() -> BTreeMap<String, BTreeSet<String>> {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls.txt");
    let status = Command::new("strace")
        .arg("-f")
        .arg("-o")
        .arg(&log)
        .arg(program())
        .arg("calls")
        .status()
        .expect("strace starts");
    assert!(status.success(), "{status}");
    let mut made = BTreeMap::new();
    let (mut main, mut step) = (None, None);
    for line in std::fs::read_to_string(log).expect("the log").lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        // A call that another thread's line has cut (`<... futex resumed>`) was counted as it began.
        let rest = rest.trim_start();
        let name_ends = rest.find(['(', ' ']).unwrap_or(rest.len());
        let (call, arguments) = rest.split_at(name_ends);
        if !call
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            continue;
        }
        let is_main = *main.get_or_insert(thread) == thread;
        if let Some(mark) = arguments.strip_prefix("(-1, \"") {
            step = mark.split('"').next();
            continue;
        }
        match step {
            None | Some("end" | "pause") => continue,
            Some(step) => {
                let step = if is_main { step } else { "helper" };
                let calls: &mut BTreeSet<String> = made.entry(step.to_owned()).or_default();
                calls.insert(call.to_owned());
            }
        }
    }
    made.entry("events".to_owned()).or_default();
    made
}
