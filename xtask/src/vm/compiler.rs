//! The C compiler for the guest: what a compilation here reads.
//!
//! Nobody knows better than the compiler which programs, headers and libraries a small program takes: it is
//! asked to say so. Where it cannot, the guest has no compiler, and tests that want one fail there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::image::Image;
use crate::process;

/// Parts of the compiler that are programs.
const PROGRAMS: [&str; 4] = ["cc1", "collect2", "as", "ld"];

/// Files that the linker is handed by name, for programs and libraries of every kind.
const LINKED: [&str; 16] = [
    "crt1.o",
    "Scrt1.o",
    "rcrt1.o",
    "crti.o",
    "crtn.o",
    "crtbegin.o",
    "crtbeginS.o",
    "crtbeginT.o",
    "crtend.o",
    "crtendS.o",
    "libgcc.a",
    "libgcc_eh.a",
    "libc.a",
    "libdl.a",
    "libpthread.a",
    "liblto_plugin.so",
];

/// Libraries that are linked at run time, and are found by a text that names others.
const SHARED: [&str; 6] = [
    "libc.so",
    "libc.so.6",
    "libc_nonshared.a",
    "libgcc_s.so",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
];

/// Adds the compiler, so that it compiles and links C files like these.
pub(crate) fn add(image: &mut Image, sources: &[PathBuf]) {
    for name in PROGRAMS {
        if let Some(path) = ask(&format!("-print-prog-name={name}")) {
            match path.is_absolute() {
                true => image.add_program(&path),
                false => add_from_path(image, &path),
            }
        }
    }
    for name in LINKED.iter().chain(&SHARED) {
        if let Some(path) =
            ask(&format!("-print-file-name={name}")).filter(|path| path.is_absolute())
        {
            image.add_program(&path);
        }
    }
    // One at a time: a file that does not compile says nothing of the others. Optimised and not: headers
    // include others for inlining.
    for source in sources {
        for level in ["-O0", "-O2"] {
            let mut compiler = Command::new("cc");
            let Ok(text) = process::read(compiler.args(["-M", "-w", level]).arg(source)) else {
                continue;
            };
            for header in text.split_whitespace().filter(|word| word.starts_with('/')) {
                image.add(Path::new(header));
            }
        }
    }
}

fn add_from_path(image: &mut Image, name: &Path) {
    if let Some(path) = name.to_str().and_then(process::find_program) {
        image.add_program(&path);
    }
}

fn ask(question: &str) -> Option<PathBuf> {
    let text = process::read(Command::new("cc").arg(question)).ok()?;
    Some(PathBuf::from(text.trim()))
}
