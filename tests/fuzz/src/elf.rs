//! A binary with notes of USDT probes and of the SDK.

use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bridge::target::Binary;

/// A file in memory.
#[allow(unsafe_code)]
pub(crate) fn memory_file() -> File {
    unsafe extern "C" {
        fn memfd_create(name: *const std::ffi::c_char, flags: u32) -> i32;
    }
    let name = CString::new("fuzz").expect("no NUL");
    // SAFETY: a terminated name; the descriptor that comes back is nobody else's.
    unsafe {
        let file = memfd_create(name.as_ptr(), 0);
        assert!(file >= 0, "{}", std::io::Error::last_os_error());
        File::from_raw_fd(file)
    }
}

/// Reads all that there is to read of a binary.
pub fn check(data: &[u8]) {
    thread_local! {
        static FILE: RefCell<File> = RefCell::new(memory_file());
    }
    FILE.with_borrow(|file| {
        file.set_len(data.len() as u64).expect("a length");
        file.write_all_at(data, 0).expect("a memory file");
        read(&PathBuf::from(format!(
            "/proc/self/fd/{}",
            file.as_raw_fd()
        )));
    });
}

fn read(path: &Path) {
    let Ok(binary) = Binary::open(path) else {
        return;
    };
    let _ = (
        binary.build_id(),
        binary.unfit(),
        binary.usdt().to_string(),
        binary.sdk().remark(),
        binary.usdt().shared_addresses(),
        binary.has_probes(),
    );
    for probe in binary.usdt_probes() {
        let _ = (
            probe.attachable(),
            probe.argument_types(),
            probe.full_name(),
        );
    }
    for point in binary.tracepoints() {
        point.attachable();
        for site in &point.sites {
            binary.sdk().site_at(site.offset, 1);
        }
    }
    for address in [0, 1, 0x40_1000, u64::MAX] {
        let _ = (
            binary.place(address),
            binary.address_of(address),
            binary.sdk().site_at(address, 8),
        );
    }
}

/// Programs of `tests/cases`, as far as there is a compiler.
pub fn seeds() -> Vec<Vec<u8>> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases");
    let sources = [
        "sdk/tables.S",
        "usdt/addressing.c",
        "usdt/constants.c",
        "usdt/registers.c",
        "usdt/floats.c",
        "usdt/guards.c",
    ];
    let output = std::env::temp_dir().join(format!("fuzz-seed-{}", std::process::id()));
    let build = |source: &str| {
        let built = Command::new("cc")
            .args(["-c", "-O1"])
            .arg(cases.join(source))
            .arg("-o")
            .arg(&output)
            .output();
        built.is_ok_and(|it| it.status.success()).then_some(())?;
        let object = std::fs::read(&output).ok();
        let linked = Command::new("cc")
            .args(["-nostdlib", "-static", "-Wl,-z,noseparate-code", "-Wl,-e,0"])
            .args(["-Wl,--build-id", "-Wl,--unresolved-symbols=ignore-all"])
            .arg(cases.join(source))
            .arg("-o")
            .arg(&output)
            .output();
        let program = linked.is_ok_and(|it| it.status.success());
        Some(
            object
                .into_iter()
                .chain(program.then(|| std::fs::read(&output).ok()).flatten()),
        )
    };
    let seeds = sources.into_iter().filter_map(build).flatten().collect();
    let _ = std::fs::remove_file(output);
    seeds
}
