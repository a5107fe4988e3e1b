//! Arguments of USDT probes have the values that the program passed, whatever the compiler wrote.

mod case_program;
mod traced_run;

use case_program::build;
use traced_run::{Hit, hits};

/// The values of the one hit of a probe.
fn of<'a>(hits: &'a [Hit], name: &str) -> &'a [Option<u64>] {
    let mut found = hits
        .iter()
        .filter(|(hit, _)| hit == &format!("shop:{name}"));
    let (_, values) = found.next().unwrap_or_else(|| panic!("no hit of {name}"));
    assert!(found.next().is_none(), "{name} was hit twice");
    values
}

fn some(values: &[i64]) -> Vec<Option<u64>> {
    values.iter().map(|&value| Some(value as u64)).collect()
}

#[test]
fn memory_operands_are_read_with_any_part_missing() {
    let hits = hits(&build(&["usdt/addressing.c"], &[]));
    assert_eq!(of(&hits, "bare"), some(&[0x1234, -9, 0xffff_fff7]));
    assert_eq!(of(&hits, "frame"), some(&[0x61]));
    assert_eq!(of(&hits, "no_scale"), some(&[250, -6]));
    assert_eq!(of(&hits, "displaced"), some(&[244, 244]));
    let wide = 0xc8c9_cacb_cccd_cecf_u64 as i64;
    assert_eq!(
        of(&hits, "scaled"),
        some(&[0xe8e9_eaeb, 0xe8e9_eaeb_u32 as i32 as i64, 0xf6f7, wide])
    );
    assert_eq!(of(&hits, "no_base"), some(&[248]));
}

#[test]
fn registers_are_read_at_their_width_and_sign() {
    let hits = hits(&build(&["usdt/registers.c"], &[]));
    let all = 0x8877_6655_4433_8211_u64 as i64;
    assert_eq!(
        of(&hits, "wide"),
        some(&[all, all, 0x4433_8211, 0x4433_8211])
    );
    assert_eq!(
        of(&hits, "narrow"),
        some(&[0x8211, -0x7def, 0x11, 0x11, 0x82, -0x7e, 0x11])
    );
    assert_eq!(of(&hits, "widened"), some(&[0x8211, -0x7def, 0x11]));
}

#[test]
fn constants_keep_all_their_bits_and_follow_the_declared_sign() {
    let hits = hits(&build(&["usdt/constants.c"], &[]));
    assert_eq!(of(&hits, "small"), some(&[-9, 255, 200, 44, -32768, 65535]));
    assert_eq!(of(&hits, "word"), some(&[-1, 0xffff_ffff, 0xffff_ffff]));
    assert_eq!(of(&hits, "wide"), some(&[-1, -1, i64::MIN, i64::MIN]));
    assert_eq!(of(&hits, "radix"), some(&[16, -9, 8]));
}

#[test]
fn symbols_are_found_wherever_the_file_is_mapped_and_never_mistaken() {
    for flags in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let hits = hits(&build(&["usdt/symbols.c", "usdt/symbols_twin.c"], &flags));
        assert_eq!(of(&hits, "by_rip"), some(&[-20]), "{flags:?}");
        assert_eq!(of(&hits, "by_address"), some(&[30]), "{flags:?}");
        let addresses = of(&hits, "address_of");
        assert_eq!(addresses[1].unwrap() - addresses[0].unwrap(), 12);
        assert_eq!(of(&hits, "unknown"), [None, None, Some(7)]);
        assert_eq!(of(&hits, "by_number"), some(&[0x7777]));
        assert_eq!(of(&hits, "ambiguous"), [None, Some(8)]);
    }
}

#[test]
fn a_stripped_program_loses_its_symbolic_arguments_and_nothing_else() {
    let hits = hits(&build(&["usdt/symbols.c", "usdt/symbols_twin.c"], &["-s"]));
    for name in ["by_rip", "by_address"] {
        assert_eq!(of(&hits, name), [None]);
    }
    assert_eq!(of(&hits, "unknown"), [None, None, Some(7)]);
    assert_eq!(of(&hits, "by_number"), some(&[0x7777]));
}

#[test]
fn floats_are_read_in_memory_and_in_general_registers_only() {
    let hits = hits(&build(&["usdt/floats.c"], &[]));
    let (whole, half) = (
        Some(3.25_f64.to_bits()),
        Some(u64::from((-0.5_f32).to_bits())),
    );
    assert_eq!(of(&hits, "vector"), [None, None, None, Some(77)]);
    assert_eq!(of(&hits, "memory"), [whole, half, Some(78)]);
    assert_eq!(of(&hits, "general"), [whole, half]);
}

#[test]
fn no_argument_and_seventeen_arguments_are_both_legal() {
    let hits = hits(&build(&["usdt/counts.c"], &[]));
    let mut seventeen: Vec<i64> = (1..=16).collect();
    seventeen.push(4711);
    assert_eq!(of(&hits, "seventeen"), some(&seventeen));
    assert_eq!(of(&hits, "none"), []);
    assert_eq!(of(&hits, "blanks"), some(&[1, 2]));
}

#[test]
fn each_location_of_a_probe_is_read_by_its_own_argument_string() {
    let hits = hits(&build(&["usdt/locations.c"], &[]));
    let sold: Vec<Option<u64>> = hits
        .iter()
        .filter(|(name, _)| name == "shop:sold")
        .map(|(_, values)| values[0])
        .collect();
    assert_eq!(sold, some(&[11, 22, 33, 300]));
    assert_eq!(of(&hits, "priced"), some(&[2]));
}
