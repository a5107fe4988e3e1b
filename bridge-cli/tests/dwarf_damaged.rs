//! Debug information with bytes of somebody else in it gives less, or nothing; it ends nothing.

mod case_program;

use std::path::Path;
use std::process::Command;

use bridge::definition::dwarf::DebugInfo;
use bridge::definition::knowledge::Types;
use bridge::target::Binary;
use case_program::{run, scratch};

/// Asks all that can be asked of a file; how many parameters were found.
fn ask(path: &Path) -> usize {
    let Ok(binary) = Binary::open(path) else {
        return 0;
    };
    let Ok(debug_info) = DebugInfo::of(&binary) else {
        return 0;
    };
    let mut found = 0;
    for function in binary.functions() {
        let code = binary.code(function.address, 256).unwrap_or_default();
        for parameter in debug_info
            .parameters(function.address, &code)
            .unwrap_or_default()
        {
            found += 1;
            let _ = debug_info.look(parameter.type_id);
            let _ = debug_info.type_name(parameter.type_id);
        }
        let _ = debug_info.function_type(function.address, &code);
    }
    let _ = debug_info.inlined("folded");
    found
}

/// Where the debugging sections are: the part of the file from the first of them on.
fn debugging(program: &Path) -> std::ops::Range<usize> {
    let output = Command::new("readelf")
        .args(["--wide", "--sections"])
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ranges = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(']').nth(1)?.split_whitespace().collect();
        let is_read = ["info", "abbrev", "loclists", "rnglists", "str"]
            .iter()
            .any(|kind| words[0] == format!(".debug_{kind}"));
        let number = |at: usize| usize::from_str_radix(words.get(at)?, 16).ok();
        is_read.then_some((number(3)?, number(4)?))
    });
    let ranges: Vec<(usize, usize)> = ranges.collect();
    let start = ranges.iter().map(|(start, _)| *start).min().unwrap();
    let end = ranges.iter().map(|(start, size)| start + size).max();
    start..end.unwrap()
}

#[test]
fn damaged_bytes_give_less_and_never_a_panic() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/named.c");
    let program = scratch("damaged").join("damaged");
    run(Command::new("cc")
        .args(["-O2", "-g", "-gdwarf-5"])
        .arg(source)
        .arg("-o")
        .arg(&program));
    let whole = ask(&program);
    assert!(whole >= 20, "{whole} parameters");
    let bytes = std::fs::read(&program).unwrap();
    let part = debugging(&program);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    let mut differing = 0;
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + next() % 8 {
            let at = part.start + next() % part.len();
            damaged[at] = [0, 1, 0x7f, 0x80, 0xff, next() as u8][next() % 6];
        }
        std::fs::write(&program, damaged).unwrap();
        differing += usize::from(ask(&program) != whole);
    }
    assert_ne!(differing, 0, "the damage was never seen");
}

#[test]
fn a_unit_whose_code_would_end_behind_the_last_address_has_none() {
    // A unit without children: where its code begins, and how many bytes it has.
    let source = r#"
        .text
        .globl reaching
        .type reaching, @function
    reaching:
        ret
        .size reaching, 1
        .section .debug_abbrev,"",@progbits
        .byte 1, 0x11, 0, 0x11, 1, 0x12, 7, 0, 0, 0
        .section .debug_info,"",@progbits
        .long 2f - 1f
    1:  .short 4
        .long 0
        .byte 8, 1
        .quad reaching
        .quad -1
    2:
    "#;
    let place = scratch("reaching");
    let (file, program) = (place.join("reaching.s"), place.join("reaching"));
    std::fs::write(&file, source).unwrap();
    run(Command::new("cc")
        .args(["-shared", "-nostdlib"])
        .arg(&file)
        .arg("-o")
        .arg(&program));
    let binary = Binary::open(&program).unwrap();
    assert!(DebugInfo::of(&binary).is_ok(), "it has debug information");
    assert_eq!(ask(&program), 0);
}
