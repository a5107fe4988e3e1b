//! What the commands need of a machine, and how it gets there.
//!
//! Each need is looked for by what it is used for (a program that runs, a header that compiles),
//! not by whether a package is installed: it may have come from elsewhere. What is missing is
//! named with its reason, and only that is installed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::package::Manager;
use crate::process;

/// Something that a command needs.
struct Need {
    /// How it shows.
    sign: Sign,
    /// What it is for.
    why: &'static str,
    /// Its package where apt is used.
    apt: &'static str,
    /// Its package where dnf is used.
    dnf: &'static str,
}

/// How a need shows.
enum Sign {
    /// A program in PATH.
    Program(&'static str),
    /// A header that the C compiler finds.
    Header(&'static str),
}

/// To build the workspace.
const BUILD: &[Need] = &[
    Need {
        sign: Sign::Program("cc"),
        why: "to link, and to compile libbpf and the example's SQLite",
        apt: "gcc",
        dnf: "gcc",
    },
    Need {
        sign: Sign::Program("make"),
        why: "to build libbpf",
        apt: "make",
        dnf: "make",
    },
    Need {
        sign: Sign::Program("clang"),
        why: "to compile the BPF programs",
        apt: "clang",
        dnf: "clang",
    },
    Need {
        sign: Sign::Program("pkg-config"),
        why: "to find libelf and zlib",
        apt: "pkg-config",
        dnf: "pkgconf-pkg-config",
    },
    // The C library's headers come with the compiler on some systems only.
    Need {
        sign: Sign::Header("stdlib.h"),
        why: "to compile C",
        apt: "libc6-dev",
        dnf: "glibc-devel",
    },
    Need {
        sign: Sign::Header("gelf.h"),
        why: "libbpf reads ELF files with libelf",
        apt: "libelf-dev",
        dnf: "elfutils-libelf-devel",
    },
    Need {
        sign: Sign::Header("zlib.h"),
        why: "libelf needs zlib",
        apt: "zlib1g-dev",
        dnf: "zlib-devel",
    },
];

/// To test and to fuzz.
const CPP: &[Need] = &[Need {
    sign: Sign::Program("c++"),
    why: "to compile libFuzzer, and programs whose functions tests look at",
    apt: "g++",
    dnf: "gcc-c++",
}];

/// To count instructions.
const COUNT: &[Need] = &[
    Need {
        sign: Sign::Program("valgrind"),
        why: "to count the instructions of a site",
        apt: "valgrind",
        dnf: "valgrind",
    },
    Need {
        sign: Sign::Program("objdump"),
        why: "to tell how long instructions are",
        apt: "binutils",
        dnf: "binutils",
    },
];

/// To run the tests on other kernels.
const EMULATE: &[Need] = &[
    Need {
        sign: Sign::Program("qemu-system-x86_64"),
        why: "to run other kernels",
        apt: "qemu-system-x86",
        dnf: "qemu-system-x86-core",
    },
    Need {
        sign: Sign::Program("busybox"),
        why: "the first program that those kernels start",
        apt: "busybox-static",
        dnf: "busybox",
    },
    Need {
        sign: Sign::Program("cpio"),
        why: "to pack the tests for them",
        apt: "cpio",
        dnf: "cpio",
    },
    Need {
        sign: Sign::Program("strip"),
        why: "to make the tests small for them",
        apt: "binutils",
        dnf: "binutils",
    },
    Need {
        sign: Sign::Program("xz"),
        why: "their modules are compressed",
        apt: "xz-utils",
        dnf: "xz",
    },
];

/// To have others beside us in the same run.
const PEERS: &[Need] = &[
    Need {
        sign: Sign::Program("lttng-sessiond"),
        why: "to record LTTng-UST's events",
        apt: "lttng-tools",
        dnf: "lttng-tools",
    },
    Need {
        sign: Sign::Header("lttng/tracepoint.h"),
        why: "to build LTTng-UST's events",
        apt: "liblttng-ust-dev",
        dnf: "lttng-ust-devel",
    },
    Need {
        sign: Sign::Program("c++"),
        why: "to build Tracy's client",
        apt: "g++",
        dnf: "gcc-c++",
    },
    Need {
        sign: Sign::Program("strace"),
        why: "to trace the example service with it",
        apt: "strace",
        dnf: "strace",
    },
    Need {
        sign: Sign::Program("bpftrace"),
        why: "to trace the example service with it",
        apt: "bpftrace",
        dnf: "bpftrace",
    },
    Need {
        sign: Sign::Program("perf"),
        why: "to trace the example service with it",
        apt: "linux-perf",
        dnf: "perf",
    },
];

/// To lint: what rustup brings.
const LINTERS: &[(&str, &str)] = &[("rustfmt", "fmt"), ("clippy", "clippy")];

/// Makes the machine able to build the workspace.
///
/// # Errors
/// Something is missing and cannot be installed; the error names it.
pub(crate) fn build() -> Result<(), Error> {
    install(BUILD)?;
    println!("everything that the build needs is here");
    Ok(())
}

/// Makes the machine able to compile C++: to run all tests, and to fuzz.
///
/// # Errors
/// As [`build`].
pub(crate) fn cpp() -> Result<(), Error> {
    install(CPP)
}

/// Makes the machine able to count instructions, if it can be: what counts them says so where not.
pub(crate) fn counting() {
    if let Err(error) = install(COUNT) {
        println!("instructions will not be counted: {error}");
    }
}

/// Makes the machine able to run other kernels under emulation.
///
/// # Errors
/// As [`build`].
pub(crate) fn emulation() -> Result<(), Error> {
    install(EMULATE)
}

/// Installs the peers of the benches, as far as they are to be had: a row of one that is not says so.
pub(crate) fn peers() {
    // One at a time: a distribution that has no package of a name refuses all that is asked with it.
    for need in PEERS {
        if let Err(error) = install(std::slice::from_ref(need)) {
            println!("not measured beside us: {}: {error}", need.sign.name());
        }
    }
}

/// Whether Tracy's client can be built.
pub(crate) fn has_cpp() -> bool {
    process::find_program("c++").is_some()
}

/// Installs those needs that are not met.
fn install(needs: &[Need]) -> Result<(), Error> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.sign.is_here()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("missing on this machine:");
    for need in &missing {
        println!("  {:<12} {}", need.sign.name(), need.why);
    }
    let Some(manager) = Manager::find() else {
        let names: Vec<&str> = missing.iter().map(|need| need.sign.name()).collect();
        return Err(Error::failed(format!(
            "neither apt-get nor dnf is here; please install {} and try again",
            names.join(", ")
        )));
    };
    let package = |need: &&Need| match manager {
        Manager::Apt => need.apt,
        Manager::Dnf => need.dnf,
    };
    manager.install(&missing.iter().map(package).collect::<Vec<_>>())?;
    match missing.iter().find(|need| !need.sign.is_here()) {
        None => Ok(()),
        Some(need) => Err(Error::failed(format!(
            "{} is still missing",
            need.sign.name()
        ))),
    }
}

/// Makes the toolchain able to format and lint.
///
/// # Errors
/// A component is missing and rustup cannot add it.
pub(crate) fn linters() -> Result<(), Error> {
    for (component, command) in LINTERS {
        if process::succeeds(&mut crate::cargo::cargo(&[command, "--version"])) {
            continue;
        }
        println!("missing: {component}, which `cargo {command}` runs");
        process::run(Command::new("rustup").args(["component", "add", component]))?;
    }
    Ok(())
}

/// Whether the standard library for a target is here.
pub(crate) fn has_target(target: &str) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    process::read(&mut rustc).is_ok_and(|directory| Path::new(directory.trim()).is_dir())
}

/// Gets the standard library for a target.
///
/// # Errors
/// It is not here and rustup cannot add it.
pub(crate) fn target(target: &str) -> Result<(), Error> {
    if has_target(target) {
        return Ok(());
    }
    process::run(Command::new("rustup").args(["target", "add", target]))?;
    // Where rustc is not rustup's, that has not helped.
    if has_target(target) {
        return Ok(());
    }
    Err(Error::failed("rustc does not see what rustup has added"))
}

impl Sign {
    fn name(&self) -> &'static str {
        match self {
            Sign::Program(name) | Sign::Header(name) => name,
        }
    }

    fn is_here(&self) -> bool {
        match self {
            Sign::Program(name) => process::find_program(name).is_some(),
            Sign::Header(name) => compiles(&format!("#include <{name}>\n")),
        }
    }
}

/// Whether the C compiler's preprocessor accepts the text; false without a compiler.
fn compiles(text: &str) -> bool {
    let child = Command::new("cc")
        .args(["-E", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let written = child
        .stdin
        .take()
        .is_some_and(|mut pipe| pipe.write_all(text.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| status.success()) && written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_here_when_the_compiler_finds_it_and_not_otherwise() {
        assert!(Sign::Header("stdlib.h").is_here());
        assert!(!Sign::Header("no/such/header/anywhere.h").is_here());
    }

    #[test]
    fn a_program_is_here_when_it_is_in_path_and_not_otherwise() {
        assert!(Sign::Program("sh").is_here());
        assert!(!Sign::Program("no-such-program-anywhere").is_here());
    }
}
