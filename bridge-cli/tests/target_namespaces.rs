//! Processes in other namespaces, lesser rights, kernel threads and 32-bit programs: what only some
//! kernels and some rights let a test make. Where they do not, a test is ignored with the reason.

mod case_program;
mod running_program;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use bridge::error::ErrorKind;
use bridge::target::Process;
use case_program::{build, copy, scratch};
use libtest_mimic::{Arguments, Trial};
use running_program::{Running, has, waiting_program};

fn main() -> ExitCode {
    if std::env::var_os(ASK).is_some() {
        return answer();
    }
    let arguments = Arguments::from_args();
    let trials = vec![
        trial(
            "a_program_in_another_mount_namespace_is_read_through_the_process",
            unshare_is_refused(&["-m"]),
            a_program_in_another_mount_namespace_is_read_through_the_process,
        ),
        trial(
            "a_process_in_an_inner_pid_namespace_is_known_by_both_of_its_numbers",
            unshare_is_refused(&INNER_PIDS),
            a_process_in_an_inner_pid_namespace_is_known_by_both_of_its_numbers,
        ),
        trial(
            "without_the_right_to_follow_map_files_a_binary_is_found_by_name_if_it_is_the_one",
            may_not_give_up_rights(),
            without_the_right_to_follow_map_files_a_binary_is_found_by_name_if_it_is_the_one,
        ),
        trial(
            "a_kernel_thread_is_refused",
            no_kernel_thread(),
            a_kernel_thread_is_refused,
        ),
        trial(
            "a_32_bit_program_is_refused",
            no_32_bit_programs(),
            a_32_bit_program_is_refused,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test that is ignored where there is a reason, unless TRACEBRAID_REQUIRE lists `namespaces`.
fn trial(name: &str, missing: Option<String>, test: fn()) -> Trial {
    let required = std::env::var("TRACEBRAID_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|one| one == "namespaces"));
    let name = match &missing {
        Some(why) => format!("{name} (needs {why})"),
        None => name.to_owned(),
    };
    let ignored = missing.is_some() && !required;
    Trial::test(name, move || {
        test();
        Ok(())
    })
    .with_ignored_flag(ignored)
}

const INNER_PIDS: [&str; 5] = ["-p", "-f", "--kill-child", "-m", "--mount-proc"];

fn unshare_is_refused(what: &[&str]) -> Option<String> {
    let output = Command::new("unshare").args(what).arg("true").output();
    let allowed = output.is_ok_and(|output| output.status.success());
    (!allowed).then(|| "the right to make namespaces".to_owned())
}

fn a_program_in_another_mount_namespace_is_read_through_the_process() {
    let directory = scratch("mounted");
    let path = directory.join("app");
    // At the same path, our own namespace holds another program.
    copy(&build(&["usdt/counts.c"], &[]), &path);
    let script = "mount -t tmpfs none \"$1\" && cp \"$2\" \"$1/app\" && exec \"$1/app\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(&directory)
        .arg(waiting_program());
    let running = Running::start(&mut command);
    has(&running.scan(), &path, false);
    // The paths that lead to it from here lead to it by hand, too.
    for way in ["exe".to_owned(), format!("root{}", path.display())] {
        let path = PathBuf::from(format!("/proc/{}/{way}", running.0.id()));
        let binary = bridge::target::Binary::open(&path).unwrap();
        assert_eq!(binary.usdt_probes()[0].name, "waits");
    }
}

/// The process that `unshare -f` started.
fn child_of(running: &Running) -> u32 {
    let outer = running.0.id();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

fn a_process_in_an_inner_pid_namespace_is_known_by_both_of_its_numbers() {
    let running = Running::start(
        Command::new("unshare")
            .args(INNER_PIDS)
            .arg(waiting_program()),
    );
    let pid = child_of(&running);
    let process = Process::open(pid).unwrap();
    assert_eq!(process.namespace_pids().first(), Some(&pid));
    assert_eq!(process.namespace_pids().last(), Some(&1));
    let threads = process.threads().unwrap();
    assert_eq!(threads[1].namespace_tids.last(), Some(&2));
}

/// Set for a copy of this program that runs elsewhere: of whom it is to tell.
const ASK: &str = "TARGET_NAMESPACES_ASK";

/// What a copy of this program prints: the binaries of the process asked for, as the copy sees them.
fn answer() -> ExitCode {
    let pid = std::env::var(ASK).unwrap().parse().unwrap();
    let scan = Process::open(pid).unwrap().binaries().unwrap();
    for binary in &scan.binaries {
        println!("{} {}", binary.path().display(), binary.is_deleted());
    }
    for (path, error) in &scan.unreadable {
        println!("{} {:?}", path.display(), error.kind());
    }
    ExitCode::SUCCESS
}

/// Root without the rights that `map_files` needs, but with that to look at processes.
const FEWER_RIGHTS: [&str; 2] = ["--bounding-set", "-sys_admin,-checkpoint_restore"];

fn may_not_give_up_rights() -> Option<String> {
    let output = Command::new("setpriv")
        .args(FEWER_RIGHTS)
        .arg("true")
        .output();
    let allowed = output.is_ok_and(|output| output.status.success());
    (!allowed).then(|| "root, and setpriv".to_owned())
}

fn without_the_right_to_follow_map_files_a_binary_is_found_by_name_if_it_is_the_one() {
    let directory = scratch("by-name");
    let (path, library) = (directory.join("app"), directory.join("library"));
    copy(&waiting_program(), &path);
    copy(&build(&["usdt/counts.c"], &["-shared", "-fPIC"]), &library);
    let running = Running::start(Command::new(&path).env("LD_PRELOAD", &library));
    let ask = || {
        let output = Command::new("setpriv")
            .args(FEWER_RIGHTS)
            .arg(std::env::current_exe().unwrap())
            .env(ASK, running.0.id().to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let own = |line: &&str| line.starts_with(directory.to_str().unwrap());
        text.lines()
            .filter(own)
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let (app, lib) = (path.display(), library.display());
    assert_eq!(ask(), [format!("{app} false"), format!("{lib} false")]);
    // Another file under the name is never taken; the program is still found by /proc/PID/exe.
    for removed in [&path, &library] {
        std::fs::remove_file(removed).unwrap();
        copy(&build(&["usdt/counts.c"], &[]), removed);
    }
    assert_eq!(ask(), [format!("{app} true"), format!("{lib} Rights")]);
}

fn no_kernel_thread() -> Option<String> {
    // Process 2 is kthreadd, except in an inner pid namespace.
    let there = std::fs::read("/proc/2/comm").is_ok_and(|name| name == b"kthreadd\n");
    (!there).then(|| "to see the kernel's threads".to_owned())
}

fn a_kernel_thread_is_refused() {
    let error = Process::open(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Target);
    assert_eq!(
        error.to_string(),
        "2 is a thread of the kernel, not a program"
    );
}

/// A program of 32 bits that says it is ready and waits.
fn narrow_program() -> Option<PathBuf> {
    let source = scratch("narrow").join("narrow.s");
    let program = source.with_extension("");
    let text = ".globl _start\n_start: mov $4,%eax\nmov $1,%ebx\nmov $text,%ecx\nmov $6,%edx\n\
        int $0x80\n1: mov $29,%eax\nint $0x80\njmp 1b\ntext: .ascii \"ready\\n\"\n";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .args(["-m32", "-nostdlib", "-static", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    built.status.success().then_some(program)
}

fn no_32_bit_programs() -> Option<String> {
    let runs = narrow_program().is_some_and(|program| {
        Command::new(program)
            .stdout(Stdio::null())
            .spawn()
            .is_ok_and(|mut child| {
                child.kill().unwrap();
                child.wait().unwrap();
                true
            })
    });
    (!runs).then(|| "a compiler and a kernel for 32-bit programs".to_owned())
}

fn a_32_bit_program_is_refused() {
    let running = Running::start(&mut Command::new(narrow_program().unwrap()));
    let error = Process::open(running.0.id()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Target);
    assert!(
        error
            .to_string()
            .ends_with("a 32-bit program, which cannot be traced"),
        "{error}"
    );
}
