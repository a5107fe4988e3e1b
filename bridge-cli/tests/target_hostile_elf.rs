//! A binary with any byte wrong is read or refused, and never brings the reader down.

mod case_program;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bridge::target::Binary;
use case_program::build;

/// Reads all that there is to read.
fn exercise(path: &Path) -> bool {
    let Ok(binary) = Binary::open(path) else {
        return false;
    };
    let _ = (
        binary.build_id(),
        binary.unfit(),
        binary.usdt().to_string(),
        binary.sdk().remark(),
    );
    binary.usdt().shared_addresses();
    for probe in binary.usdt_probes() {
        let _ = (probe.attachable(), probe.argument_types());
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
    binary.has_probes()
}

#[test]
fn every_byte_wrong_in_turn() {
    let flags = [
        "-nostdlib",
        "-static",
        "-Wl,-z,noseparate-code",
        "-Wl,--build-id",
    ];
    let path = build(&["sdk/tables.S"], &flags);
    let good = std::fs::read(&path).unwrap();
    assert!(exercise(&path));
    let file = File::options().write(true).open(&path).unwrap();
    let mut unharmed = 0u32;
    for (at, &byte) in good.iter().enumerate() {
        for wrong in [0x00, 0xff, byte ^ 0x01, byte ^ 0x80] {
            file.write_all_at(&[wrong], at as u64).unwrap();
            unharmed += u32::from(exercise(&path));
        }
        file.write_all_at(&[byte], at as u64).unwrap();
    }
    assert!(unharmed > 0);
    assert!(exercise(&path), "the file is whole again");
}

#[test]
fn a_file_that_ends_anywhere_is_read_or_refused() {
    let path = build(
        &["sdk/tables.S"],
        &["-nostdlib", "-static", "-Wl,-z,noseparate-code"],
    );
    let length = std::fs::metadata(&path).unwrap().len();
    let file = File::options().write(true).open(&path).unwrap();
    for length in (0..length).rev() {
        file.set_len(length).unwrap();
        exercise(&path);
    }
}

#[test]
fn a_file_that_claims_terabytes_costs_no_memory() {
    let path = build(&["sdk/tables.S"], &["-nostdlib", "-static"]);
    let mut bytes = std::fs::read(&path).unwrap();
    let sections = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    // Every section and segment is made as large as the file claims to be.
    let count = usize::from(u16::from_le_bytes(bytes[0x3c..0x3e].try_into().unwrap()));
    for index in 1..count {
        let size = sections + index * 64 + 32;
        bytes[size..size + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    // Where the file system takes no such file, the claim is all that is tested.
    let _ = file.set_len(1 << 42);
    exercise(&path);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kilobytes: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 512 << 10, "{peak}");
}
