//! What a tracepoint says of itself: names, fields, places.

use tracebraid::{Kind, Tracepoint, event, tracepoint};

use crate::log::{Log, find};

#[test]
fn a_tracepoint_is_described_before_its_first_hit() {
    #[tracepoint(print = "id={id} {{{depth}}}")]
    fn never_called(id: u64, depth: usize, user: &str);
    if std::hint::black_box(false) {
        never_called(1, 2, "x");
    }
    let found = find("never_called");
    assert_eq!(found.provider(), "behaviour");
    assert_eq!(found.print(), "id={id} {{{depth}}}");
    let fields: Vec<_> = found
        .fields()
        .iter()
        .map(|field| (field.name.as_str(), field.kind.kind))
        .collect();
    assert_eq!(
        fields,
        [("id", Kind::U64), ("depth", Kind::U64), ("user", Kind::Str)]
    );
    assert!(!found.is_return());
    let site = &found.sites()[0];
    assert!(
        site.file.ends_with("tests/behaviour/description.rs"),
        "{}",
        site.file
    );
    let line = include_str!("description.rs")
        .lines()
        .position(|line| line.contains("fn never_called("))
        .unwrap()
        + 1;
    assert_eq!(site.line as usize, line);
}

#[inline(never)]
#[tracepoint]
fn generic<T: tracebraid::Value, const N: usize>(value: T, bytes: [u8; N]) -> usize {
    let _ = value;
    bytes.len()
}

#[test]
fn a_generic_function_is_a_tracepoint_for_each_list_of_kinds() {
    generic(1_u8, [1]);
    generic(2_u8, [1, 2]);
    generic("three", [1, 2, 3]);
    let kinds = |tracepoint: &Tracepoint| {
        tracepoint
            .fields()
            .iter()
            .map(|field| field.kind.kind)
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = tracebraid::tracepoints()
        .into_iter()
        .filter(|tracepoint| tracepoint.name() == "generic")
        .map(|tracepoint| (kinds(&tracepoint), tracepoint.sites().len()))
        .collect();
    all.sort_by_key(|(kinds, _)| kinds[0] as u8);
    assert_eq!(
        all,
        [
            (vec![Kind::U8, Kind::Bytes], 2),
            (vec![Kind::Str, Kind::Bytes], 1)
        ]
    );
    let log = Log::of(&["generic"]);
    generic("four", [1, 32, 31]);
    generic(5_u8, [255, 34]);
    assert_eq!(
        log.take(),
        [
            r"generic value=four bytes=\x01 \x1f",
            "generic__return",
            r#"generic value=5 bytes=\xff\""#,
            "generic__return"
        ]
    );
}

#[test]
fn the_same_event_at_two_places_is_one_tracepoint_and_other_fields_are_another() {
    fn first(x: u32) {
        event!(shared, x);
    }
    fn second(x: u32) {
        event!(shared, x = x + 1);
    }
    fn third(x: u32) {
        event!(shared, y = x);
    }
    for function in [first, second, third] {
        function(std::hint::black_box(1));
    }
    let found: Vec<_> = tracebraid::tracepoints()
        .into_iter()
        .filter(|found| found.name() == "shared")
        .collect();
    let mut sites: Vec<_> = found
        .iter()
        .map(|found| (found.fields()[0].name.clone(), found.sites().len()))
        .collect();
    sites.sort();
    assert_eq!(sites, [("x".to_owned(), 2), ("y".to_owned(), 1)]);
}

#[test]
fn a_gate_that_tests_the_semaphore_opens_too() {
    #[tracepoint(gate = "semaphore")]
    fn tested(n: u8) -> u8 {
        event!(gate: "semaphore", tested_inside, n);
        n
    }
    tested(1);
    let log = Log::of(&["tested", "tested_inside"]);
    tested(2);
    assert_eq!(
        log.take(),
        ["tested n=2", "tested_inside n=2", "tested__return"]
    );
    assert!(
        find("tested")
            .sites()
            .iter()
            .all(|site| site.tests_semaphore)
    );
}

#[test]
fn names_with_any_character_come_back_as_they_were() {
    event!(print: "\"\\{{}}\t\u{1f600} {a\"b\\\u{1f600}1}", odd_names, "a\"b\\\u{1f600}1" = 1, "%d{};#//\t$$" = 2);
    let odd = find("odd_names");
    assert_eq!(odd.print(), "\"\\{{}}\t\u{1f600} {a\"b\\\u{1f600}1}");
    let names: Vec<_> = odd
        .fields()
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["a\"b\\\u{1f600}1", "%d{};#//\t$$"]);
}
