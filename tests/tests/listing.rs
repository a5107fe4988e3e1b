//! What `tracepoints()` says of each tracepoint, before its first hit.

use tracebraid::{FieldKind, Kind, Tracepoint, event, tracepoint};

/// Where the function's name stands.
const LINE_OF_CHECK_OUT: u32 = line!() + 3;

#[tracepoint(name = "checkout", provider = "shop", fields(total = cents * 2, %note), print = "id={id}", ret, err)]
fn check_out(id: u64, cents: i64, note: &str) -> Result<u32, String> {
    if id == 0 {
        return Err(note.to_owned());
    }
    Ok(1)
}

#[tracepoint(provider = "shop")]
fn apart(n: u8) {
    let _ = n;
}

#[tracepoint]
fn declared(order: Option<u32>, name: &str);

fn two_places(n: u8) {
    event!(places::same, n);
    event!(places::same, n);
    event!(places::same, n, more = 1_u8);
}

fn wide(n: u64) {
    event!(
        wide,
        a = "1",
        b = "3",
        c = "5",
        d = "7",
        e = "9",
        f = n,
        g = "12",
        h = n
    );
}

fn generic<T: tracebraid::Value>(value: T) {
    event!(generic, value);
}

fn find(provider: &str, name: &str) -> Vec<Tracepoint> {
    let mut found = tracebraid::tracepoints();
    found.retain(|point| point.provider() == provider && point.name() == name);
    found
}

fn fields(point: &Tracepoint) -> Vec<(&str, FieldKind)> {
    let fields = point.fields().iter();
    fields
        .map(|field| (field.name.as_str(), field.kind))
        .collect()
}

fn kind(kind: Kind) -> FieldKind {
    FieldKind {
        kind,
        optional: false,
    }
}

fn optional(kind: Kind) -> FieldKind {
    FieldKind {
        kind,
        optional: true,
    }
}

#[test]
fn an_annotated_function_is_listed_with_all_that_was_said_of_it() {
    let found = find("shop", "checkout");
    let [entry] = &found[..] else {
        panic!("{found:?}")
    };
    let expected = [
        ("id", kind(Kind::U64)),
        ("cents", kind(Kind::I64)),
        ("total", kind(Kind::I64)),
        ("note", kind(Kind::Formatted)),
    ];
    let mut listed = fields(entry);
    listed.sort_unstable_by_key(|(name, _)| expected.iter().position(|(known, _)| known == name));
    assert_eq!(listed, expected);
    assert_eq!(entry.print(), "id={id}");
    assert!(!entry.is_return() && !entry.is_enabled());
    for site in entry.sites() {
        assert!(site.file.ends_with("tests/listing.rs"), "{site:?}");
        assert_eq!(site.line, LINE_OF_CHECK_OUT, "{site:?}");
        assert!(!site.tests_semaphore);
    }
    assert!(!entry.sites().is_empty());

    let found = find("shop", "checkout__return");
    let [exit] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(exit.is_return());
    let names: Vec<&str> = exit
        .fields()
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["ns", "end", "ret", "err"]);
    assert_eq!(exit.sites().len(), entry.sites().len());
    assert!(check_out(0, 1, "no").is_err() && check_out(1, 1, "").is_ok());
}

#[test]
fn a_return_is_enabled_for_itself_though_it_shares_its_entry_s_place() {
    tracebraid::enable("shop:apart").unwrap();
    assert!(tracebraid::is_enabled("apart") && !tracebraid::is_enabled("apart__return"));
    tracebraid::enable("shop:apart__return").unwrap();
    tracebraid::disable("shop:apart").unwrap();
    assert!(!tracebraid::is_enabled("apart") && tracebraid::is_enabled("apart__return"));
    tracebraid::disable("shop:apart__return").unwrap();
    assert!(!find("shop", "apart__return")[0].is_enabled());
    apart(1);
}

#[test]
fn a_declared_event_is_listed_under_the_crate_s_name() {
    let found = find("listing", "declared");
    let [point] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        fields(point),
        [("order", optional(Kind::U32)), ("name", kind(Kind::Str))]
    );
    assert_eq!(point.print(), "");
    assert!(find("listing", "declared__return").is_empty());
    declared(None, "");
}

#[test]
fn one_name_with_the_same_fields_is_one_tracepoint_and_with_others_another() {
    let found = find("places", "same");
    assert_eq!(found.len(), 2, "{found:?}");
    let mut sites: Vec<usize> = found.iter().map(|point| point.sites().len()).collect();
    sites.sort_unstable();
    assert_eq!(sites, [1, 2]);
    two_places(1);
}

#[test]
fn fields_past_the_twelfth_slot_are_said_to_be_out_of_reach_of_usdt() {
    let found = find("listing", "wide");
    let seen: Vec<(&str, bool)> = found[0]
        .fields()
        .iter()
        .map(|field| (field.name.as_str(), field.in_usdt))
        .collect();
    let expected = ["a", "b", "c", "d", "e", "f"].map(|name| (name, true));
    assert_eq!(
        seen,
        [&expected[..], &[("g", false), ("h", false)]].concat()
    );
    wide(1);
}

#[test]
fn a_generic_function_has_a_tracepoint_for_each_kind_it_is_used_with() {
    let mut kinds: Vec<Kind> = find("listing", "generic")
        .iter()
        .map(|point| point.fields()[0].kind.kind)
        .collect();
    kinds.sort_unstable_by_key(|kind| *kind as u8);
    // `usize` and `u64` are one kind.
    assert_eq!(kinds, [Kind::U64, Kind::Char]);
    generic(1_usize);
    generic(1_u64);
    generic('x');
}
