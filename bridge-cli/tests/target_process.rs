//! A process is found out as it is: its binaries whatever they are called and wherever they lie, its
//! threads, and when it is no process to be traced.

mod case_program;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bridge::error::ErrorKind;
use bridge::target::{Process, Scan};
use case_program::{build, run, scratch};

/// A process that is killed and waited for at the end of the test.
struct Running(Child);

impl Running {
    /// Starts a command and waits until it says that it is ready.
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Running(child)
    }

    fn process(&self) -> Process {
        Process::open(self.0.id()).unwrap()
    }

    fn scan(&self) -> Scan {
        self.process().binaries().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> PathBuf {
    build(&["usdt/waits.c"], &["-pthread"])
}

/// The scan has to hold the waiting program as its first binary, under this name.
fn has(scan: &Scan, path: &Path, deleted: bool) {
    let binary = &scan.binaries[0];
    assert_eq!((binary.path(), binary.is_deleted()), (path, deleted));
    let names: Vec<String> = binary
        .usdt_probes()
        .iter()
        .map(bridge::target::UsdtProbe::full_name)
        .collect();
    assert_eq!(names, ["shop:waits"]);
    // What a session opens is the file itself.
    let opened = std::fs::read(binary.open_path()).unwrap();
    assert!(opened.windows(11).any(|bytes| bytes == b"shop\0waits\0"));
}

#[test]
fn names_of_any_form_lead_to_their_file() {
    let program = program();
    let directory = scratch("names");
    let mut names: Vec<OsString> = [
        "with space",
        "real (deleted)",
        "new\nline",
        "back\\012slash",
        "quo\"te'",
        "a:b,c",
        "é",
        "glob*[x]?",
        "-dash",
        "%n%s",
    ]
    .map(OsString::from)
    .to_vec();
    names.push(OsString::from_vec(b"not\xffutf8".to_vec()));
    for name in names {
        let path = directory.join(&name);
        std::fs::copy(&program, &path).unwrap();
        let running = Running::start(&mut Command::new(&path));
        has(&running.scan(), &path, false);
    }
}

#[test]
fn a_path_near_the_limit_is_read_whole() {
    let program = program();
    let mut path = scratch("deep");
    while path.as_os_str().len() < 3500 {
        path.push("d".repeat(200));
        std::fs::create_dir(&path).unwrap();
    }
    path.push("app");
    std::fs::copy(program, &path).unwrap();
    let running = Running::start(&mut Command::new(&path));
    has(&running.scan(), &path, false);
}

#[test]
fn a_symbolic_link_shows_as_the_file_it_leads_to() {
    let program = program();
    let link = scratch("link").join("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let running = Running::start(&mut Command::new(&link));
    has(&running.scan(), &program.canonicalize().unwrap(), false);
}

#[test]
fn a_removed_program_is_read_from_the_process_and_said_to_be_removed() {
    for name in ["app", "app (deleted)"] {
        let path = scratch("removed").join(name);
        std::fs::copy(program(), &path).unwrap();
        let running = Running::start(&mut Command::new(&path));
        std::fs::remove_file(&path).unwrap();
        has(&running.scan(), &path, true);
    }
}

#[test]
fn a_replaced_program_is_never_mistaken_for_the_new_file() {
    let path = scratch("replaced").join("app");
    std::fs::copy(program(), &path).unwrap();
    let running = Running::start(&mut Command::new(&path));
    let other = build(&["usdt/counts.c"], &[]);
    std::fs::remove_file(&path).unwrap();
    std::fs::copy(&other, &path).unwrap();
    has(&running.scan(), &path, true);
    // Nor is a new file that is called just as the kernel shows the old one.
    let mut shown = path.as_os_str().to_owned();
    shown.push(" (deleted)");
    std::fs::copy(&other, PathBuf::from(shown)).unwrap();
    has(&running.scan(), &path, true);
}

#[test]
fn a_library_of_a_process_is_found_beside_its_program() {
    let library = build(&["usdt/counts.c"], &["-shared", "-fPIC"]);
    let running = Running::start(Command::new(program()).env("LD_PRELOAD", &library));
    let scan = running.scan();
    let found = scan
        .binaries
        .iter()
        .find(|binary| binary.path() == library)
        .unwrap();
    assert_eq!(found.usdt_probes().len(), 3);
    assert_eq!(
        scan.binaries[0].usdt_probes()[0].name,
        "waits",
        "the program comes first"
    );
    let mut ids: Vec<_> = scan
        .binaries
        .iter()
        .map(bridge::target::Binary::id)
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), scan.binaries.len());
}

#[test]
fn an_address_of_the_file_and_the_load_bias_give_the_address_in_the_process() {
    for flags in [["-pthread", "-pie"], ["-pthread", "-no-pie"]] {
        let running = Running::start(&mut Command::new(build(&["usdt/waits.c"], &flags)));
        let process = running.process();
        let scan = process.binaries().unwrap();
        let binary = &scan.binaries[0];
        let location = &binary.usdt_probes()[0].locations[0];
        let bias = process.load_bias(binary).unwrap().unwrap();
        let address = location.address.wrapping_add(bias);
        let mappings = process.mappings().unwrap();
        let holds = |mapping: &&bridge::target::Mapping| mapping.range.contains(&address);
        let mapping = mappings.iter().find(holds).unwrap();
        let offset = address - mapping.range.start + mapping.offset;
        assert_eq!(Some(offset), location.offset());
    }
}

#[test]
fn threads_are_listed_with_their_names() {
    let running = Running::start(&mut Command::new(program()));
    let threads = running.process().threads().unwrap();
    let names: Vec<&OsStr> = threads
        .iter()
        .map(|thread| thread.comm.as_os_str())
        .collect();
    assert_eq!(names, ["waits", "a ) second"]);
    assert_eq!(threads[0].tid, running.0.id());
}

#[test]
fn a_thread_s_number_is_no_process_and_the_process_is_named() {
    let running = Running::start(&mut Command::new(program()));
    let second = running.process().threads().unwrap()[1].tid;
    let error = Process::open(second).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Target);
    let expected = format!("{second} is a thread of process {}", running.0.id());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_process_that_ends_is_said_to_have_ended_whoever_has_its_number_then() {
    let mut running = Running::start(&mut Command::new(program()));
    let process = running.process();
    assert!(process.is_alive());
    running.0.kill().unwrap();
    // A zombie first …
    while process.is_alive() {
        std::thread::yield_now();
    }
    let error = Process::open(running.0.id()).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    assert_eq!(process.binaries().unwrap_err().kind(), ErrorKind::Target);
    // … then nothing.
    running.0.wait().unwrap();
    for error in [
        process.binaries().unwrap_err(),
        process.threads().unwrap_err(),
        process.mappings().unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            format!("process {} has ended", process.pid())
        );
    }
}

#[test]
fn numbers_of_no_process_and_kernel_threads_are_refused() {
    let error = Process::open(u32::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("there is no process {}", u32::MAX)
    );
    // Process 2 is kthreadd, except in an inner pid namespace.
    if std::fs::read("/proc/2/comm").is_ok_and(|name| name == b"kthreadd\n") {
        let error = Process::open(2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 is a thread of the kernel, not a program"
        );
    }
}

/// Whether this test may make namespaces of this sort; where not, there is nothing to be seen.
fn may_unshare(what: &[&str]) -> bool {
    Command::new("unshare")
        .args(what)
        .arg("true")
        .output()
        .is_ok_and(|run| run.status.success())
}

#[test]
fn a_program_in_another_mount_namespace_is_read_through_the_process() {
    if !may_unshare(&["-m"]) {
        eprintln!("not tested: no right to make a mount namespace");
        return;
    }
    let directory = scratch("mounted");
    let path = directory.join("app");
    // At the same path, our own namespace holds another program.
    std::fs::copy(build(&["usdt/counts.c"], &[]), &path).unwrap();
    let script = "mount -t tmpfs none \"$1\" && cp \"$2\" \"$1/app\" && exec \"$1/app\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(&directory)
        .arg(program());
    let running = Running::start(&mut command);
    has(&running.scan(), &path, false);
}

#[test]
fn a_process_in_an_inner_pid_namespace_is_known_by_both_of_its_numbers() {
    let inner = ["-p", "-f", "--kill-child"];
    if !may_unshare(&inner) {
        eprintln!("not tested: no right to make a pid namespace");
        return;
    }
    let running = Running::start(Command::new("unshare").args(inner).arg(program()));
    let outer = running.0.id();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let pid: u32 = children.split_whitespace().next().unwrap().parse().unwrap();
    let process = Process::open(pid).unwrap();
    assert_eq!(process.namespace_pids().first(), Some(&pid));
    assert_eq!(process.namespace_pids().last(), Some(&1));
    let threads = process.threads().unwrap();
    assert_eq!(threads[1].namespace_tids.last(), Some(&2));
}

#[test]
fn a_32_bit_program_is_refused() {
    // An unused tail of the ELF header tells nothing to the kernel: only a true 32-bit program will do.
    let source = scratch("narrow").join("narrow.s");
    let program = source.with_extension("");
    let text = ".globl _start\n_start: mov $4,%eax\nmov $1,%ebx\nmov $text,%ecx\nmov $6,%edx\n\
        int $0x80\n1: mov $29,%eax\nint $0x80\njmp 1b\ntext: .ascii \"ready\\n\"\n";
    std::fs::write(&source, text).unwrap();
    run(Command::new("cc")
        .args(["-m32", "-nostdlib", "-static", "-o"])
        .arg(&program)
        .arg(&source));
    let probe = Command::new(&program).stdout(Stdio::null()).spawn();
    let Ok(mut probe) = probe else {
        eprintln!("not tested: this kernel runs no 32-bit programs");
        return;
    };
    let _ = probe.kill();
    let _ = probe.wait();
    let running = Running::start(&mut Command::new(&program));
    let error = Process::open(running.0.id()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Target);
    assert!(
        error
            .to_string()
            .ends_with("a 32-bit program, which cannot be traced"),
        "{error}"
    );
}

#[test]
fn our_own_name_is_ours() {
    let own = Process::open(std::process::id()).unwrap();
    let comm = std::fs::read("/proc/self/comm").unwrap();
    // The test runs in a thread of its own; the process is called after its first.
    assert_eq!(own.comm().as_bytes(), comm.strip_suffix(b"\n").unwrap());
}
