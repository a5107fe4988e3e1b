//! What a test needs of the machine.
//!
//! A test whose need is not met is reported as ignored, with the reason, and never as passed. Where
//! `TRACEBRAID_REQUIRE` (a list, separated by commas) names the need it is a failure instead: there the
//! machine is known to have it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::{mdwe, own_text, programs, uprobe};

/// Something that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rights of root. Required as `bpf`: whoever loads BPF programs has them.
    Root,
    /// Uprobes through `perf_event_open`. Required as `bpf`: BPF programs hang on them.
    Uprobe,
    /// tracefs, mounted and writable. Required as `bpf`.
    Tracefs,
    /// `PR_SET_MDWE`, Linux 6.3 and later. Required as `mdwe`.
    Mdwe,
    /// Writing the process's own text through `/proc/self/mem`. Required as `proc-mem`.
    OwnText,
    /// A program in PATH or in a directory of system tools. Required by its name, or as `tools`.
    Tool(&'static str),
    /// A target of the Rust toolchain. Required by its name.
    Target(&'static str),
}

impl Need {
    /// Why the need is not met; `None` where it is.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Need::Root => (!is_root()).then(|| "this needs root".to_owned()),
            Need::Uprobe => uprobe::refusal(),
            Need::Tracefs => {
                let file = "/sys/kernel/tracing/uprobe_events";
                let opened = std::fs::File::options().append(true).open(file);
                opened.err().map(|error| format!("{file}: {error}"))
            }
            Need::Mdwe => mdwe::refusal(),
            Need::OwnText => own_text::refusal(),
            Need::Tool(name) => find_tool(name)
                .is_none()
                .then(|| format!("{name} is not installed")),
            Need::Target(target) => (!has_target(target)).then(|| {
                format!("the target {target} is not installed (rustup target add {target})")
            }),
        }
    }

    /// Whether this machine is known to meet the need.
    fn is_required(self) -> bool {
        let Ok(required) = std::env::var("TRACEBRAID_REQUIRE") else {
            return false;
        };
        let names: &[&str] = match self {
            Need::Root | Need::Uprobe | Need::Tracefs => &["bpf"],
            Need::Mdwe => &["mdwe"],
            Need::OwnText => &["proc-mem"],
            Need::Tool(name) => &[name, "tools"],
            Need::Target(name) => &[name],
        };
        required.split(',').any(|word| names.contains(&word.trim()))
    }
}

/// Whether tests that count for long are to run at full length (`TRACEBRAID_SOAK=1`).
#[must_use]
pub fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

/// Whether tests that count are to count little, for a machine that is emulated (`TRACEBRAID_SHORT=1`).
#[must_use]
pub fn is_short() -> bool {
    std::env::var_os("TRACEBRAID_SHORT").is_some()
}

/// A test that needs something of the machine.
pub fn trial(
    name: impl Into<String>,
    needs: &'static [Need],
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        for need in needs {
            if let Some(reason) = need.missing() {
                return match need.is_required() {
                    true => Err(format!("required by TRACEBRAID_REQUIRE, but {reason}").into()),
                    false => Ok(Completion::ignored_with(reason)),
                };
            }
        }
        catch_unwind(AssertUnwindSafe(run))
            .map(|()| Completion::Completed)
            .map_err(|panic| failed(panic.as_ref()))
    })
}

/// Runs the trials one after the other, for they share few CPUs and measure time, and ends the process.
pub fn run(trials: Vec<Trial>) -> ! {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit()
}

fn failed(panic: &(dyn std::any::Any + Send)) -> Failed {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without text").into()
}

/// Where a tool is. Root's directories count also where PATH leaves them out.
#[must_use]
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory: PathBuf| directory.join(name))
        .find(|candidate| candidate.is_file())
}

fn has_target(target: &str) -> bool {
    if let Some(built) = programs::built_for() {
        return built.split(',').any(|one| one == target);
    }
    let directory = std::process::Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output();
    directory.is_ok_and(|output| {
        output.status.success()
            && PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}

#[allow(unsafe_code)]
fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}
