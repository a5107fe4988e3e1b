//! USDT notes lead to the right bytes of the file, in files of every making, and damaged files to a word.

mod case_program;
mod traced_run;

use std::path::{Path, PathBuf};
use std::process::Command;

use bridge::error::ErrorKind;
use bridge::target::{Binary, Machine, Semaphore, UsdtNotes, UsdtProbe, Warning};
use case_program::{build, lld_flags, run, scratch};
use tracebraid_bpf::spec::Place;
use traced_run::hits;

fn open(path: &Path) -> Binary {
    Binary::open(path).unwrap()
}

fn probe<'a>(binary: &'a Binary, name: &str) -> &'a UsdtProbe {
    binary
        .usdt_probes()
        .iter()
        .find(|probe| probe.name == name)
        .unwrap()
}

/// A copy of a file after a change of its bytes.
fn changed(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    let copy = scratch("changed").join(path.file_name().unwrap());
    std::fs::write(&copy, bytes).unwrap();
    run(Command::new("chmod").arg("+x").arg(&copy));
    copy
}

/// Where the bytes stand; they have to stand in one place.
fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    let places: Vec<usize> = (0..=bytes.len() - wanted.len())
        .filter(|&at| bytes[at..].starts_with(wanted))
        .collect();
    assert_eq!(places.len(), 1);
    places[0]
}

fn put(bytes: &mut [u8], at: usize, number: impl Into<u64>, width: usize) {
    bytes[at..at + width].copy_from_slice(&number.into().to_le_bytes()[..width]);
}

/// Where the description of a probe's note begins in the file.
fn description(bytes: &[u8], name: &str) -> usize {
    find(bytes, format!("shop\0{name}\0").as_bytes()) - 24
}

#[test]
fn a_base_of_zero_is_believed_beside_notes_that_have_one() {
    for flags in [
        &["-pie", "-fPIE"][..],
        &["-no-pie", "-fno-pie"],
        &["-static"],
        &["-static-pie", "-fPIE"],
    ] {
        let hits = hits(&build(&["usdt/bases.c"], flags));
        let value = |name: &str| {
            hits.iter()
                .find(|(hit, _)| hit == &format!("shop:{name}"))
                .map(|(_, values)| values.clone())
        };
        assert_eq!(value("with_base"), Some(vec![Some(1)]));
        assert_eq!(value("zero_base"), Some(vec![Some(2)]));
        assert_eq!(value("zero_base_guarded"), Some(vec![Some(3)]));
        assert_eq!(
            value("switches"),
            Some(vec![Some(1), Some(1)]),
            "both semaphores are raised"
        );
    }
}

#[test]
fn code_at_an_address_that_is_not_its_file_offset_is_hit() {
    let mut flags = lld_flags();
    flags.push("-Wl,--gc-sections".to_owned());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let program = build(&["usdt/baseless.c"], &flags);
    let binary = open(&program);
    let [location] = &probe(&binary, "baseless").locations[..] else {
        panic!()
    };
    assert_ne!(location.offset(), Some(location.address));
    assert_eq!(
        hits(&program),
        [("shop:baseless".to_owned(), vec![Some(5)])]
    );
}

#[test]
fn an_image_that_was_moved_after_linking_is_hit_where_it_is_now() {
    let program = build(&["usdt/bases.c"], &["-fno-pie", "-no-pie"]);
    let before = open(&program);
    let moved = changed(&program, |bytes| {
        for name in ["with_base", "switches"] {
            let at = description(bytes, name);
            for word in [0, 8, 16] {
                let old = u64::from_le_bytes(bytes[at + word..at + word + 8].try_into().unwrap());
                put(bytes, at + word, old.saturating_sub(0x10_0000), 8);
            }
        }
    });
    let after = open(&moved);
    for name in ["with_base", "switches"] {
        let (old, new) = (
            &probe(&before, name).locations[0],
            &probe(&after, name).locations[0],
        );
        assert_eq!((old.address, old.semaphore), (new.address, new.semaphore));
    }
    assert_eq!(hits(&moved), hits(&program));
}

#[test]
fn a_semaphore_that_the_kernel_cannot_raise_is_said_so_and_the_probe_still_attached() {
    let binary = open(&build(&["usdt/guards.c"], &["-fno-pie", "-no-pie"]));
    let one = |name: &str| {
        let ready = probe(&binary, name).attachable();
        (
            ready.locations.first().map(|location| location.semaphore),
            ready.warnings,
        )
    };
    let (semaphore, warnings) = one("data");
    assert!(semaphore.unwrap() != 0 && warnings.is_empty());
    for name in ["bss", "far_bss"] {
        let (semaphore, warnings) = one(name);
        assert_eq!(semaphore, Some(0));
        let expected = format!("semaphore of shop:{name} is in .bss, cannot be set by the kernel");
        assert_eq!(warnings[0].to_string(), expected);
    }
    for name in ["rodata", "outside"] {
        let (semaphore, warnings) = one(name);
        assert_eq!(semaphore, Some(0));
        let Warning::Semaphore {
            semaphore: Semaphore::Unusable { .. },
            ..
        } = warnings[0]
        else {
            panic!("{warnings:?}");
        };
    }
    let (semaphore, warnings) = one("in_data");
    assert_eq!(semaphore, None, "nothing is attached to what is no code");
    assert!(matches!(warnings[..], [Warning::NoCode { .. }]));
}

#[test]
fn a_location_is_attached_once_and_names_that_share_it_are_known() {
    let binary = open(&build(&["usdt/locations.c"], &[]));
    assert_eq!(probe(&binary, "sold").locations.len(), 4);
    assert_eq!(
        probe(&binary, "priced").locations.len(),
        1,
        "two notes say the same"
    );
    let [(offset, names)] = &binary.usdt().shared_addresses()[..] else {
        panic!()
    };
    assert_eq!(probe(&binary, "sold").locations[3].offset(), Some(*offset));
    let names: Vec<_> = names
        .iter()
        .map(|&index| binary.usdt_probes()[index].full_name())
        .collect();
    assert_eq!(names, ["shop:sold", "shop:priced"]);
}

#[test]
fn a_file_without_notes_or_without_the_way_to_them_says_which() {
    let program = build(&["usdt/counts.c"], &["-s"]);
    assert_eq!(
        open(&program).usdt_probes().len(),
        3,
        "stripping takes symbols, not notes"
    );

    let noteless = scratch("noteless").join("noteless");
    run(Command::new("objcopy")
        .arg("--remove-section=.note.stapsdt")
        .arg(&program)
        .arg(&noteless));
    let found = open(&noteless);
    assert!(matches!(found.usdt(), UsdtNotes::None));
    assert_eq!(found.usdt().to_string(), "no USDT notes");

    let headless = changed(&program, |bytes| {
        put(bytes, 0x28, 0u64, 8); // e_shoff
        put(bytes, 0x3c, 0u64, 4); // e_shnum, e_shstrndx
    });
    let found = open(&headless);
    assert!(matches!(found.usdt(), UsdtNotes::NoSectionHeaders));
    assert_eq!(
        found.usdt().to_string(),
        "no section headers, cannot look for USDT notes"
    );
    assert!(!found.segments().is_empty());
}

#[test]
fn symbols_that_went_to_a_debug_file_are_found_there_and_only_in_the_right_one() {
    for (checked_by, build_id) in [
        ("build id", "-Wl,--build-id"),
        ("checksum", "-Wl,--build-id=none"),
    ] {
        let program = build(&["usdt/symbols.c", "usdt/symbols_twin.c"], &[build_id]);
        let debug = program.with_extension("debug");
        run(Command::new("objcopy")
            .arg("--only-keep-debug")
            .arg(&program)
            .arg(&debug));
        run(Command::new("strip").arg("-s").arg(&program));
        let link = format!("--add-gnu-debuglink={}", debug.display());
        run(Command::new("objcopy").arg(link).arg(&program));
        let place = |path: &Path| {
            probe(&open(path), "by_rip").locations[0].arguments[0]
                .place
                .clone()
        };
        assert!(
            matches!(place(&program), Place::ProbeRelative { .. }),
            "by {checked_by}"
        );
        assert_eq!(
            hits(&program)[0],
            ("shop:by_rip".to_owned(), vec![Some(-20i64 as u64)])
        );

        // A debug file of another build has other addresses.
        let other = build(
            &["usdt/symbols_twin.c", "usdt/symbols.c"],
            &[build_id, "-O0"],
        );
        std::fs::copy(other, &debug).unwrap();
        assert!(
            matches!(place(&program), Place::Unsupported(_)),
            "by {checked_by}"
        );
    }
}

#[test]
fn a_damaged_note_costs_itself_and_is_counted() {
    let program = build(&["usdt/counts.c"], &[]);
    let count = |change: &dyn Fn(&mut [u8], usize)| {
        let copy = changed(&program, |bytes| {
            let at = description(bytes, "none");
            change(bytes, at);
        });
        let binary = open(&copy);
        let UsdtNotes::Found { probes, malformed } = binary.usdt() else {
            panic!("{:?}", binary.usdt());
        };
        (probes.len(), *malformed)
    };
    assert_eq!(count(&|_, _| {}), (3, 0));
    // The header is 12 bytes, the owner 8; `none` is the second of three notes.
    let header = 20;
    assert_eq!(
        count(&|bytes, at| put(bytes, at - header, 0xffff_fff0_u32, 4)),
        (1, 1)
    );
    assert_eq!(
        count(&|bytes, at| put(bytes, at - header + 4, 0xffff_fff0_u32, 4)),
        (1, 1)
    );
    assert_eq!(
        count(&|bytes, at| put(bytes, at - header + 8, 4u32, 4)),
        (2, 0),
        "another type"
    );
    assert_eq!(
        count(&|bytes, at| bytes[at - 8] = b'n'),
        (2, 0),
        "another owner"
    );
    assert_eq!(
        count(&|bytes, at| bytes[at + 24..at + 36].fill(b'A')),
        (2, 1),
        "no NUL"
    );
}

#[test]
fn probes_that_point_nowhere_are_listed_and_never_attached() {
    let program = build(&["usdt/counts.c"], &[]);
    let nowhere = changed(&program, |bytes| {
        let at = description(bytes, "none");
        put(bytes, at, 0x7fff_ffff_0000_u64, 8);
    });
    let binary = open(&nowhere);
    let ready = probe(&binary, "none").attachable();
    assert!(ready.locations.is_empty());
    assert_eq!(
        ready.warnings[0].to_string(),
        "shop:none points at 0x7fffffff0000, which is no code of the file"
    );
}

#[test]
fn lying_headers_and_files_that_are_no_program_are_each_refused_with_the_reason() {
    let program = build(&["usdt/counts.c"], &[]);
    let length = std::fs::metadata(&program).unwrap().len();
    for (at, number, width) in [
        (0x3c, 60_000, 2),
        (0x28, length - 3, 8),
        (0x28, u64::MAX, 8),
    ] {
        let binary = open(&changed(&program, |bytes| put(bytes, at, number, width)));
        assert!(matches!(binary.usdt(), UsdtNotes::DamagedSectionHeaders(_)));
    }
    let half = open(&changed(&program, |bytes| bytes.truncate(bytes.len() / 2)));
    assert!(matches!(half.usdt(), UsdtNotes::DamagedSectionHeaders(_)));

    let refused = |content: &[u8]| {
        let path = scratch("refused").join("file");
        std::fs::write(&path, content).unwrap();
        let error = Binary::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Binary);
        format!("{error:?}")
    };
    assert!(refused(b"").contains("the file is empty"));
    assert!(refused(b"#!/bin/sh\necho\n").contains("a script"));
    assert!(refused(b"hello").contains("not an ELF file"));
    assert!(refused(b"\x7fELF").contains("damaged ELF"));
    let object = changed(&program, |bytes| put(bytes, 0x10, 1u64, 2));
    assert!(refused(&std::fs::read(object).unwrap()).contains("object file"));

    let missing = Binary::open(Path::new("/no/such/file")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Binary);
}

#[test]
fn a_fifo_does_not_block_and_a_directory_is_no_binary() {
    let directory = scratch("fifo");
    let fifo = directory.join("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    for path in [fifo, directory, PathBuf::from("/dev/zero")] {
        let error = Binary::open(&path).unwrap_err();
        assert!(
            error.to_string().contains("not an ordinary file"),
            "{error}"
        );
    }
}

#[test]
fn a_binary_for_another_machine_is_listed_and_said_to_be_unfit() {
    let program = build(&["usdt/counts.c"], &[]);
    let foreign = open(&changed(&program, |bytes| put(bytes, 0x12, 183u64, 2)));
    assert_eq!(foreign.machine(), Machine::Aarch64);
    assert_eq!(foreign.usdt_probes().len(), 3);
    assert_eq!(
        probe(&foreign, "seventeen").locations[0].arguments.len(),
        17
    );
    let unfit = foreign.unfit().unwrap().to_string();
    assert_eq!(
        unfit,
        "for aarch64, and cannot be attached to on this machine"
    );
    assert!(open(&program).unfit().is_none());
}

#[test]
fn the_build_id_is_the_linker_s() {
    let wanted = "00112233445566778899aabbccddeeff";
    let flag = format!("-Wl,--build-id=0x{wanted}");
    let binary = open(&build(&["usdt/counts.c"], &[&flag]));
    let found: String = binary
        .build_id()
        .unwrap()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(found, wanted);
}
