//! Debug information: its sections, one behind the other, and addresses that are asked about.
//!
//! ```text
//! count of addresses (1) │ addresses (8 each) │ for each section: length (2), bytes
//! ```
//! They are put into a file with headers that are right, so that what changes is the debug information.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bridge::definition::dwarf::DebugInfo;
use bridge::definition::knowledge::Types;
use bridge::target::Binary;

use crate::elf::memory_file;

const SECTIONS: [&str; 9] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_loclists",
    ".debug_rnglists",
    ".debug_addr",
    ".debug_str_offsets",
    ".debug_loc",
];
/// Addresses that are asked about at most.
const ADDRESSES: usize = 8;
/// Types that are looked at for each parameter, by way of their members.
const TYPES: usize = 64;
/// `push %rbp; mov %rsp,%rbp; sub $0x20,%rsp; mov %edi,-0x14(%rbp); ret`: where parameters go.
const CODE: [u8; 12] = [
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0x89, 0x7d, 0xec, 0xc3,
];

/// Asks for everything that is known of functions.
pub fn check(data: &[u8]) {
    thread_local! {
        static FILE: RefCell<File> = RefCell::new(memory_file());
    }
    let Some((count, rest)) = data.split_first() else {
        return;
    };
    let count = usize::from(*count).min(ADDRESSES);
    let Some((addresses, mut rest)) = rest.split_at_checked(count * 8) else {
        return;
    };
    let mut contents = Vec::new();
    for _ in SECTIONS {
        let length = rest
            .split_first_chunk::<2>()
            .map_or(0, |(length, _)| u16::from_le_bytes(*length));
        let all = rest.get(2..).unwrap_or(&[]);
        let (own, others) = all.split_at(usize::from(length).min(all.len()));
        contents.push(own);
        rest = others;
    }
    let file = elf(&contents);
    FILE.with_borrow(|memory| {
        memory.set_len(file.len() as u64).expect("a length");
        memory.write_all_at(&file, 0).expect("a memory file");
        let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        let binary = Binary::open(&path).expect("its headers are right");
        if let Ok(debug_info) = DebugInfo::of(&binary) {
            for address in addresses.chunks_exact(8) {
                ask(
                    &debug_info,
                    u64::from_le_bytes(address.try_into().expect("eight bytes")),
                );
            }
            let _ = debug_info.inlined("folded");
        }
    });
}

fn ask(debug_info: &DebugInfo, address: u64) {
    let _ = debug_info.function_type(address, &CODE);
    for parameter in debug_info.parameters(address, &CODE).unwrap_or_default() {
        let _ = debug_info.type_name(parameter.type_id);
        let mut open = vec![parameter.type_id];
        for _ in 0..TYPES {
            use bridge::definition::knowledge::Type;
            let Some(id) = open.pop() else { break };
            match debug_info.look(id) {
                Some(Type::Composite(members)) => {
                    open.extend(members.iter().map(|member| member.type_id));
                }
                Some(Type::Pointer(of) | Type::Array(of)) => open.push(of),
                _ => {}
            }
        }
    }
}

/// A file with a header, a segment, and these sections.
pub(crate) fn elf(contents: &[&[u8]]) -> Vec<u8> {
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    let mut names = b"\0.names\0".to_vec();
    let mut bytes = vec![0; HEADER + SEGMENT];
    let mut rows = vec![[0; 64]];
    let mut row = |name: usize, kind: u32, offset: usize, size: usize| {
        let mut row = [0; 64];
        row[..4].copy_from_slice(&(name as u32).to_le_bytes());
        row[4..8].copy_from_slice(&kind.to_le_bytes());
        row[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        row[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        row[48..56].copy_from_slice(&1_u64.to_le_bytes());
        rows.push(row);
    };
    for (name, content) in SECTIONS.iter().zip(contents) {
        row(names.len(), 1, bytes.len(), content.len());
        names.extend(name.bytes().chain([0]));
        bytes.extend(*content);
    }
    row(1, 3, bytes.len(), names.len());
    bytes.extend(&names);
    let table = bytes.len().next_multiple_of(8);
    bytes.resize(table, 0);
    bytes.extend(rows.iter().flatten());
    let length = bytes.len() as u64;
    let mut put = |at: usize, number: &[u8]| bytes[at..at + number.len()].copy_from_slice(number);
    put(0, b"\x7fELF\x02\x01\x01");
    // An executable for x86-64.
    put(16, &2_u16.to_le_bytes());
    put(18, &62_u16.to_le_bytes());
    put(20, &1_u32.to_le_bytes());
    put(32, &(HEADER as u64).to_le_bytes());
    put(40, &(table as u64).to_le_bytes());
    for (at, number) in [
        (52, HEADER),
        (54, SEGMENT),
        (56, 1),
        (58, 64),
        (60, rows.len()),
        (62, rows.len() - 1),
    ] {
        put(at, &(number as u16).to_le_bytes());
    }
    // The whole file, readable and executable.
    put(HEADER, &1_u32.to_le_bytes());
    put(HEADER + 4, &5_u32.to_le_bytes());
    put(HEADER + 16, &0x40_0000_u64.to_le_bytes());
    put(HEADER + 32, &length.to_le_bytes());
    put(HEADER + 40, &length.to_le_bytes());
    bytes
}

/// The debug information of programs that the bridge's tests have, as far as there are compilers.
pub fn seeds() -> Vec<Vec<u8>> {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bridge-cli/tests/targets");
    let output = std::env::temp_dir().join(format!("fuzz-dwarf-{}", std::process::id()));
    let builds: [(&str, &str, &[&str]); 5] = [
        ("cc", "named.c", &["-O0", "-gdwarf-4"]),
        ("cc", "named.c", &["-O2", "-gdwarf-5"]),
        ("cc", "typed.c", &["-O2", "-gdwarf-4"]),
        ("c++", "names.cc", &["-O1", "-gdwarf-5"]),
        (
            "rustc",
            "named.rs",
            &["--edition", "2024", "-O", "-Cdebuginfo=2"],
        ),
    ];
    let seed = |(compiler, source, flags): &(&str, &str, &[&str])| {
        let built = Command::new(compiler)
            .args(*flags)
            .arg(targets.join(source))
            .arg("-o")
            .arg(&output)
            .output();
        built.is_ok_and(|it| it.status.success()).then_some(())?;
        let binary = Binary::open(&output).ok()?;
        let sections = binary.debug_sections()?;
        let functions = binary.functions();
        let own = functions.iter().filter(|function| {
            ["order", "by_value", "floating", "folds", "put", "total"]
                .iter()
                .any(|name| function.shown().contains(name))
        });
        let addresses: Vec<u64> = own
            .map(|function| function.address)
            .take(ADDRESSES)
            .collect();
        let mut bytes = vec![addresses.len() as u8];
        bytes.extend(addresses.iter().flat_map(|address| address.to_le_bytes()));
        for name in SECTIONS {
            let section = sections.section(name).unwrap_or_default();
            // Of what is linked in, such as Rust's library, the beginning.
            let length = section.len().min(usize::from(u16::MAX));
            bytes.extend((length as u16).to_le_bytes());
            bytes.extend(&section[..length]);
        }
        Some(bytes)
    };
    let seeds = builds.iter().filter_map(seed).collect();
    let _ = std::fs::remove_file(output);
    seeds
}
