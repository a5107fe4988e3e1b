//! The SDK's tracepoints are read from the file alone, in files of every making.

mod case_program;

use bridge::target::{Binary, Semaphore, Tracepoint};
use case_program::build;
use tracebraid_bpf::spec::Fetch;
use tracebraid_wire::kind::Kind;

const FREESTANDING: [&str; 2] = ["-nostdlib", "-static"];

fn point<'a>(binary: &'a Binary, name: &str) -> &'a Tracepoint {
    binary
        .tracepoints()
        .iter()
        .find(|point| point.name == name)
        .unwrap()
}

fn check(binary: &Binary) {
    assert!(binary.sdk().remark().is_none());
    assert_eq!(binary.tracepoints().len(), 2);
    let paid = point(binary, "paid");
    assert_eq!(
        (paid.provider.as_str(), paid.print.as_str()),
        ("till", "order={order}")
    );
    let types: Vec<(&str, String)> = paid
        .fields
        .iter()
        .map(|field| (field.name.as_str(), field.type_name()))
        .collect();
    assert_eq!(
        types,
        [("order", "u64".to_owned()), ("who", "str".to_owned())]
    );
    let lines: Vec<(u32, bool)> = paid
        .sites
        .iter()
        .map(|site| (site.line, site.tests_semaphore))
        .collect();
    assert_eq!(lines, [(12, false), (40, false), (41, true)]);
    assert_eq!(paid.sites[0].file, "src/pay\x1b[31m.rs");

    let ready = paid.attachable();
    assert!(ready.warnings.is_empty());
    let [location] = &ready.locations[..] else {
        panic!("{ready:?}")
    };
    let Fetch::Slots { count, text } = &location.fetch else {
        panic!()
    };
    assert_eq!((*count, text.as_slice()), (3, &[(1, 2)][..]));
    let Semaphore::InFile { offset, .. } = paid.locations[0].semaphore else {
        panic!()
    };
    assert_eq!(location.semaphore, offset);
    let file = std::fs::read(binary.path()).unwrap();
    assert_eq!(
        file[location.offset as usize], 0x90,
        "the offset leads to the nop"
    );
}

#[test]
fn static_position_independent_shared_and_stripped_files_read_the_same() {
    let source = ["sdk/tables.S"];
    for flags in [
        &["-nostdlib", "-static"][..],
        &["-nostdlib", "-static-pie"],
        &["-nostdlib", "-shared", "-fPIC"],
        &["-nostdlib", "-static", "-s"],
        &["-nostdlib", "-static", "-Wl,-z,noseparate-code"],
    ] {
        check(&Binary::open(&build(&source, flags)).unwrap());
    }
    let lld = case_program::lld_flags();
    let mut flags: Vec<&str> = lld.iter().map(String::as_str).collect();
    flags.extend(["-nostdlib", "-static-pie"]);
    check(&Binary::open(&build(&source, &flags)).unwrap());
}

#[test]
fn a_file_without_section_headers_still_has_its_tracepoints() {
    let path = build(&["sdk/tables.S"], &FREESTANDING);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    std::fs::write(&path, bytes).unwrap();
    check(&Binary::open(&path).unwrap());
}

#[test]
fn a_tracepoint_is_not_listed_again_by_its_note() {
    let binary = Binary::open(&build(&["sdk/tables.S"], &FREESTANDING)).unwrap();
    let names: Vec<&str> = binary
        .usdt_probes()
        .iter()
        .map(|probe| probe.name.as_str())
        .collect();
    assert_eq!(names, ["foreign"]);
}

#[test]
fn fields_behind_the_twelfth_slot_are_marked_and_still_fetched() {
    let binary = Binary::open(&build(&["sdk/tables.S"], &FREESTANDING)).unwrap();
    let wide = point(&binary, "wide__return");
    assert!(wide.is_return);
    assert_eq!(wide.fields[0].type_name(), "Option<u64>");
    let last = wide.fields.last().unwrap();
    assert_eq!(
        (last.name.as_str(), last.kind.kind, last.first_slot),
        ("l", Kind::I64, 12)
    );
    let undescribed: Vec<&str> = wide
        .fields
        .iter()
        .filter(|field| !field.described)
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(undescribed, ["l"]);
    let Fetch::Slots { count, .. } = wide.fetch() else {
        panic!()
    };
    assert_eq!(count, 13);
}

#[test]
fn code_that_the_process_switches_is_known_to_the_byte() {
    let binary = Binary::open(&build(&["sdk/tables.S"], &FREESTANDING)).unwrap();
    let sites = &point(&binary, "paid").sites;
    let (first, testing) = (sites[0].offset, sites[2].offset);
    let tables = binary.sdk();
    assert!(tables.site_at(first - 1, 1).is_none());
    assert_eq!(tables.site_at(first, 1).unwrap().line, 12);
    assert_eq!(tables.site_at(first - 4, 5).unwrap().line, 12);
    assert_eq!(tables.site_at(first + 7, 1).unwrap().line, 12);
    assert_eq!(tables.site_at(first + 8, 1).unwrap().line, 40);
    assert!(
        tables.site_at(testing, 1).is_none(),
        "a test is not rewritten"
    );
    assert!(tables.site_at(u64::MAX, 8).is_none());
}

#[test]
fn a_later_version_is_said_so() {
    let binary = Binary::open(&build(
        &["sdk/tables.S"],
        &["-nostdlib", "-static", "-DVERSION=9"],
    ));
    let remark = binary.unwrap().sdk().remark().unwrap();
    assert_eq!(
        remark,
        "built with version 9 of the tracebraid format; this program knows 1"
    );
}
