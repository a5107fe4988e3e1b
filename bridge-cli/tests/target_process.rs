//! A process is found out as it is: its binaries whatever they are called and wherever they lie, its
//! threads, and when it is no process to be traced.

mod case_program;
mod running_program;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;

use bridge::error::ErrorKind;
use bridge::target::Process;
use case_program::{build, copy, scratch};
use running_program::{Running, has, waiting_program};

#[test]
fn names_of_any_form_lead_to_their_file() {
    let program = waiting_program();
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
        copy(&program, &path);
        let running = Running::start(&mut Command::new(&path));
        has(&running.scan(), &path, false);
    }
}

#[test]
fn a_path_near_the_limit_is_read_whole() {
    let program = waiting_program();
    let mut path = scratch("deep");
    while path.as_os_str().len() < 3500 {
        path.push("d".repeat(200));
        std::fs::create_dir(&path).unwrap();
    }
    path.push("app");
    copy(&program, &path);
    let running = Running::start(&mut Command::new(&path));
    has(&running.scan(), &path, false);
}

#[test]
fn a_symbolic_link_shows_as_the_file_it_leads_to() {
    let program = waiting_program();
    let link = scratch("link").join("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let running = Running::start(&mut Command::new(&link));
    has(&running.scan(), &program.canonicalize().unwrap(), false);
}

#[test]
fn a_removed_program_is_read_from_the_process_and_said_to_be_removed() {
    for name in ["app", "app (deleted)"] {
        let path = scratch("removed").join(name);
        copy(&waiting_program(), &path);
        let running = Running::start(&mut Command::new(&path));
        std::fs::remove_file(&path).unwrap();
        has(&running.scan(), &path, true);
    }
}

#[test]
fn a_replaced_program_is_never_mistaken_for_the_new_file() {
    let path = scratch("replaced").join("app");
    copy(&waiting_program(), &path);
    let running = Running::start(&mut Command::new(&path));
    let other = build(&["usdt/counts.c"], &[]);
    std::fs::remove_file(&path).unwrap();
    copy(&other, &path);
    has(&running.scan(), &path, true);
    // Nor is a new file that is called just as the kernel shows the old one.
    let mut shown = path.as_os_str().to_owned();
    shown.push(" (deleted)");
    copy(&other, &PathBuf::from(shown));
    has(&running.scan(), &path, true);
}

#[test]
fn a_library_of_a_process_is_found_beside_its_program() {
    let library = build(&["usdt/counts.c"], &["-shared", "-fPIC"]);
    let running = Running::start(Command::new(waiting_program()).env("LD_PRELOAD", &library));
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
    let running = Running::start(&mut Command::new(waiting_program()));
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
    let running = Running::start(&mut Command::new(waiting_program()));
    let second = running.process().threads().unwrap()[1].tid;
    let error = Process::open(second).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Target);
    let expected = format!("{second} is a thread of process {}", running.0.id());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_process_that_ends_is_said_to_have_ended_whoever_has_its_number_then() {
    let mut running = Running::start(&mut Command::new(waiting_program()));
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
fn a_number_of_no_process_is_refused() {
    let error = Process::open(u32::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("there is no process {}", u32::MAX)
    );
}

#[test]
fn our_own_name_is_ours() {
    let own = Process::open(std::process::id()).unwrap();
    let comm = std::fs::read("/proc/self/comm").unwrap();
    // The test runs in a thread of its own; the process is called after its first.
    assert_eq!(own.comm().as_bytes(), comm.strip_suffix(b"\n").unwrap());
}

#[test]
fn a_process_whose_first_thread_has_ended_is_refused_for_that_and_not_as_one_that_has_ended() {
    let source = scratch("headless").join("headless.c");
    let program = source.with_extension("");
    let text = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        static void *rest(void *first) { pthread_join(*(pthread_t *)first, NULL); puts(\"ready\"); \
        fflush(stdout); for (;;) pause(); }\n\
        static pthread_t first, other;\n\
        int main(void) { first = pthread_self(); pthread_create(&other, NULL, rest, &first); \
        pthread_exit(NULL); }\n";
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-pthread", "-o"]).args([&program, &source]);
    assert!(compiler.status().unwrap().success());
    let running = Running::start(&mut Command::new(&program));
    // It has been joined, and is gone a moment later.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let error = loop {
        match Process::open(running.0.id()) {
            Err(error) => break error,
            Ok(_) => assert!(std::time::Instant::now() < end),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_eq!(error.kind(), ErrorKind::Target);
    let said = error.to_string();
    assert!(said.starts_with("the main thread of process "), "{said}");
}
