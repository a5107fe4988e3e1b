//! `cargo xtask demo`: from a fresh machine to a stream of what a service and the kernel do.
//!
//! ```text
//! orders (the example service) ◀─ load ─ orders-load
//!    └── bridge-cli attach --pid … ─▶ <target>/demo/stream.txt ─▶ last lines, a short table
//! ```
//! Everything it starts ends with it. Without the rights for BPF it says so, and shows what needs
//! none: the tracepoints that the binary declares, and a program that listens to its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cargo::{cargo, target_directory};
use crate::error::Error;
use crate::package::as_root;
use crate::process::{self, Running};
use crate::setup;
use crate::stream::{self, Table};

/// For how long the bridge listens, seconds.
const SECONDS: u32 = 4;
/// Requests per second.
const RATE: u32 = 200;
/// Lines of the stream that are shown.
const SHOWN: usize = 12;
/// The call whose slowest one is shown.
const CALL: &str = "orders:charge";
/// Lines of that call that are shown.
const CALL_SHOWN: usize = 24;
/// What is listened to.
const EVENTS: [&str; 4] = [
    "orders:*",
    "sched:sched_switch",
    "syscalls:sys_enter_fsync",
    "syscalls:sys_exit_fsync",
];

/// The bridge's exit status where a right is missing.
const EXIT_RIGHTS: i32 = 6;
/// The bridge's exit status where the kernel cannot do it.
const EXIT_UNSUPPORTED: i32 = 7;

/// Runs the demonstration.
///
/// # Errors
/// The machine cannot be set up, the build fails, or something that was started does not do its
/// part.
pub(crate) fn run() -> Result<(), Error> {
    section("setup");
    setup::build()?;
    section("build");
    let binaries = ["bridge-cli", "orders", "orders-load", "in_process_probe"];
    let mut build = cargo(&[
        "build",
        "--release",
        "--package",
        "bridge-cli",
        "--package",
        "examples",
    ]);
    process::run(build.args(binaries.iter().flat_map(|name| ["--bin", name])))?;

    let target = target_directory()?;
    let release = target.join("release");
    let directory = Scratch::create(target.join("demo"))?;
    let stream = directory.0.join("stream.txt");

    section("start the service, and load on it");
    let mut service = Command::new(release.join("orders"));
    service
        .arg("--data")
        .arg(directory.0.join("data"))
        .stdout(std::process::Stdio::piped());
    process::show(&service);
    let mut service = Running::start(&mut service)?;
    let ready = service.first_line(Duration::from_secs(20))?;
    println!("{ready}");
    let address = ready
        .strip_prefix("READY ")
        .and_then(|rest| rest.split(' ').next())
        .ok_or_else(|| Error::failed(format!("the service says {ready:?}")))?;
    let mut load = Command::new(release.join("orders-load"));
    load.arg(address).args(["--rate", &RATE.to_string()]);
    // A little longer than the bridge listens, since attaching takes its time.
    load.args(["--seconds", &(SECONDS + 2).to_string()]);
    process::show(&load);
    let load = Running::start(&mut load)?;

    section("attach");
    let attached = attach(&release.join("bridge-cli"), service.pid(), &stream);
    let shown = attached.and_then(|refused| match refused {
        None => show_stream(&stream),
        Some(reason) => {
            println!("\nno events through BPF on this machine: {reason}");
            show_without_bpf(&release)
        }
    });

    section("what the load driver saw");
    let status = load.wait()?;
    drop(service);
    shown?;
    if !status.success() {
        return Err(Error::failed(format!("the load driver failed ({status})")));
    }
    Ok(())
}

/// Has the bridge write its stream into a file; gives the reason, where it may not.
///
/// # Errors
/// The bridge fails for any other reason.
fn attach(bridge: &Path, pid: u32, stream: &Path) -> Result<Option<String>, Error> {
    let (mut command, no_root) = match as_root(&bridge.to_string_lossy()) {
        Ok(command) => (command, None),
        // The bridge may still have the capabilities it needs.
        Err(error) => (Command::new(bridge), Some(error.to_string())),
    };
    command.args([
        "attach",
        "--pid",
        &pid.to_string(),
        "-T",
        &SECONDS.to_string(),
    ]);
    command.args(EVENTS.iter().flat_map(|event| ["-e", event]));
    command.arg("-o").arg(stream);
    process::show(&command);
    let status = Running::start(&mut command)?.wait()?;
    let refused = match status.code() {
        Some(0) => return Ok(None),
        Some(EXIT_RIGHTS) => "a right is missing",
        Some(EXIT_UNSUPPORTED) => "this kernel cannot do it",
        _ => return Err(Error::failed(format!("the bridge failed ({status})"))),
    };
    Ok(Some(match no_root {
        Some(error) => format!("{refused}; {error}"),
        None => format!("{refused}; the bridge says above which"),
    }))
}

/// The stream's last lines, and what all of it comes to.
fn show_stream(stream: &Path) -> Result<(), Error> {
    let text = fs::read(stream).map_err(Error::doing(stream.display().to_string()))?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let mut table = Table::default();
    lines.iter().for_each(|line| table.add(line));

    section(&format!("the last of {} lines", lines.len()));
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        println!("{line}");
    }
    section(&format!(
        "the slowest {CALL}, and what happened to its thread meanwhile"
    ));
    let call = stream::slowest(&lines, CALL);
    for line in call.iter().take(CALL_SHOWN) {
        println!("{line}");
    }
    if call.len() > CALL_SHOWN {
        println!("… and {} more", call.len() - CALL_SHOWN);
    }
    section("all of them");
    let is_whole = ["orders", "sched", "syscalls"]
        .iter()
        .all(|group| table.has(group));
    print!("{}", table.render());
    if is_whole {
        return Ok(());
    }
    Err(Error::failed(
        "the stream lacks events of the service or of the kernel",
    ))
}

/// What can be seen without any rights.
fn show_without_bpf(release: &Path) -> Result<(), Error> {
    section("the tracepoints that the binary declares");
    let mut list = Command::new(release.join("bridge-cli"));
    process::run(list.arg("list").arg(release.join("orders")))?;
    section("a program that listens to its own");
    process::run(&mut Command::new(release.join("in_process_probe")))
}

fn section(title: &str) {
    println!("\n━━ {title} ━━");
}

/// The demo's directory; what is in it goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create(path: PathBuf) -> Result<Scratch, Error> {
        // What a killed run has left.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(Error::doing(path.display().to_string()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("xtask: {}: {error}", self.0.display());
        }
    }
}
