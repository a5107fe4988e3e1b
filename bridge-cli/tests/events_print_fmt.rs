//! `print fmt` texts, form by form: what the kernel's C would print for the same record.

use std::sync::Arc;

use bridge::tracefs::c_type::Scalar;
use bridge::tracefs::format::Format;
use bridge::tracefs::print_fmt::{Names, NoNames, PrintFmt, UnknownForm};
use bridge::tracefs::record;
use bridge::tracefs::symbols::Symbols;
use proptest::prelude::*;

/// A record with a field of each sort.
const FIELDS: &str = "name: x\nID: 1\nformat:\n\
    field:int i;offset:8;size:4;signed:1;\n\
    field:u32 u;offset:12;size:4;signed:0;\n\
    field:unsigned long l;offset:16;size:8;signed:0;\n\
    field:u8 b;offset:24;size:1;signed:0;\n\
    field:bool yes;offset:25;size:1;signed:0;\n\
    field:s16 h;offset:26;size:2;signed:1;\n\
    field:char comm[8];offset:28;size:8;signed:0;\n\
    field:u8 mac[6];offset:36;size:6;signed:0;\n\
    field:u32 pair[2];offset:44;size:8;signed:0;\n\
    field:void * ptr;offset:56;size:8;signed:0;\n\
    field:__data_loc char[] text;offset:64;size:4;signed:0;\n\
    field:__data_loc u64[] longs;offset:68;size:4;signed:0;\n\
    field:__data_loc u8[] raw;offset:72;size:4;signed:0;\n\
    field:__data_loc cpumask_t cpus;offset:76;size:4;signed:0;\n\
    field:__rel_loc char[] rel;offset:80;size:4;signed:0;\n\
    field:__data_loc u8[] address;offset:84;size:4;signed:0;\n";

fn bytes() -> Vec<u8> {
    let mut bytes = vec![0xee; 8];
    bytes.extend((-5_i32).to_le_bytes());
    bytes.extend(0x8000_0005_u32.to_le_bytes());
    bytes.extend(0xffff_ffff_8000_0000_u64.to_le_bytes());
    bytes.extend([200, 1]);
    bytes.extend((-2_i16).to_le_bytes());
    bytes.extend(b"abc\0zzzz");
    bytes.extend([0, 1, 2, 0xfd, 0xfe, 0xff, 0, 0]);
    bytes.extend([1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0]);
    bytes.extend(0xffff_8880_0000_1000_u64.to_le_bytes());
    let dynamic: [(u32, &[u8]); 6] = [
        (88, b"hello\0--"),
        (96, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        (112, &[0xde, 0xad, 0xbe, 0xef]),
        (116, &[3, 0, 0, 0, 1, 0, 0, 0]),
        (124 - 84, b"relative"),
        (132, &[2, 0, 0x1f, 0x90, 127, 0, 0, 1]),
    ];
    for (offset, data) in dynamic {
        // The kernel's length of a text has its NUL, and no more.
        let length = data
            .iter()
            .position(|byte| *byte == b'-')
            .unwrap_or(data.len()) as u32;
        bytes.extend((length << 16 | offset).to_le_bytes());
    }
    for (_, data) in dynamic {
        bytes.extend(data);
    }
    bytes
}

/// One name of each sort.
struct SomeNames;

impl Names for SomeNames {
    fn constant(&self, name: &str) -> Option<i64> {
        [("ONE", 1), ("BIG", 1 << 40), ("MINUS", -1)]
            .iter()
            .find(|row| row.0 == name)
            .map(|row| row.1)
    }

    fn scalar(&self, name: &str) -> Option<Scalar> {
        (name == "small_t").then_some(Scalar {
            size: 1,
            signed: true,
        })
    }

    fn size_of(&self, type_name: &str) -> Option<u64> {
        (type_name == "struct thing").then_some(40)
    }
}

fn compiled(print_fmt: &str, names: &dyn Names) -> Result<PrintFmt, UnknownForm> {
    let format = Format::parse(&format!("{FIELDS}\nprint fmt: {print_fmt}")).unwrap();
    PrintFmt::compile(
        &format.print_fmt,
        &format.fields,
        names,
        Arc::new(Symbols::none()),
    )
}

#[track_caller]
fn prints(print_fmt: &str, expected: &str) {
    let format = Format::parse(&format!("{FIELDS}\nprint fmt: \"\"")).unwrap();
    let print =
        compiled(print_fmt, &SomeNames).unwrap_or_else(|error| panic!("{print_fmt}: {error}"));
    let mut out = Vec::new();
    print.write(&record::values(&format, &bytes()), &mut out);
    assert_eq!(String::from_utf8_lossy(&out), expected, "{print_fmt}");
}

#[test]
fn fields_are_taken_by_their_own_width_and_converted_by_the_conversion_s() {
    prints(
        r#""%d %u %x", REC->i, REC->i, REC->i"#,
        "-5 4294967291 fffffffb",
    );
    prints(
        r#""%d %u %lld", REC->u, REC->u, REC->u"#,
        "-2147483643 2147483653 2147483653",
    );
    prints(
        r#""%lx %d", REC->l, REC->l"#,
        "ffffffff80000000 -2147483648",
    );
    prints(r#""%d %hhd %c", REC->b, REC->b, 'a' + 1"#, "200 -56 b");
    prints(
        r#""%d %ld %s", REC->h, (long)REC->h, REC->yes ? "yes" : "no""#,
        "-2 -2 yes",
    );
    prints(r#""%d %d", REC->pair[0], REC->pair[1]"#, "1 -1");
    prints(r#""100%% %s", REC->comm"#, "100% abc");
}

#[test]
fn arithmetic_is_that_of_c_with_its_promotions() {
    prints(r#""%d", 2 + 3 * 4 - 10 / 3 % 2"#, "13");
    prints(r#""%llx", 1 << 31"#, "ffffffff80000000");
    prints(r#""%llx", 1UL << 31"#, "80000000");
    prints(r#""%llx %llx", ~0, ~0U"#, "ffffffffffffffff ffffffff");
    prints(r#""%d %d", -1 > 1U, -1 > 1L"#, "1 0");
    prints(r#""%d", REC->b + 100"#, "300");
    prints(r#""%d", (u8)(REC->b + 100)"#, "44");
    prints(r#""%d", (small_t)0x80"#, "-128");
    prints(r#""%d %d", REC->i >> 1, REC->u >> 31"#, "-3 1");
    prints(r#""%d %d", 7 / 0, 7 % 0"#, "0 0");
    prints(r#""%d%d%d%d", 1 && 0, 1 || 0, !5, !!5"#, "0101");
    prints(r#""%d", 0 ? 1 : 0 ? 2 : 3"#, "3");
    prints(r#""%d", REC->i ?: 7"#, "-5");
    prints(r#""%d %lld %d", ONE, BIG, MINUS"#, "1 1099511627776 -1");
    prints(
        r#""%d,%d", ((unsigned int) ((REC->u) >> 20)), ((unsigned int) ((REC->u) & ((1U << 20) - 1)))"#,
        "2048,5",
    );
}

#[test]
fn statements_with_variables_are_evaluated() {
    prints(
        r#""%d", ({ int x = (REC->i); int y = (128); ((x) < (y) ? (x) : (y)); })"#,
        "-5",
    );
    prints(
        r#""%d", ({ __auto_type a = (REC->b); unsigned int b = a + ({ int a = 1; a; }); b; })"#,
        "201",
    );
}

#[test]
fn sizes_are_those_of_the_kernel() {
    prints(
        r#""%d %d %d", sizeof(u64), sizeof(unsigned int), sizeof(void *)"#,
        "8 4 8",
    );
    prints(r#""%d %d", sizeof(struct thing), sizeof(REC->mac)"#, "40 6");
}

#[test]
fn a_line_is_not_ended_by_its_event() {
    prints(r#""%d, DESTROY\n", REC->i"#, "-5, DESTROY");
}

#[test]
fn an_entry_of_a_page_table_is_its_number() {
    prints(
        r#""%0*llx", (int)8 * 2, (unsigned long long)pte_val(native_make_pte(REC->l))"#,
        "ffffffff80000000",
    );
}

#[test]
fn flags_and_symbols_are_named_and_the_rest_is_a_number() {
    let table = r#"{ 1, "A" }, { 4, "C" }, { 8, "D" }"#;
    prints(&format!(r#""%s", __print_flags(5, "|", {table})"#), "A|C");
    prints(
        &format!(r#""%s", __print_flags(0x31, "|", {table})"#),
        "A|0x30",
    );
    prints(
        &format!(r#""%s", __print_flags(0x30, "|", {table})"#),
        "0x30",
    );
    prints(&format!(r#""[%s]", __print_flags(0, "", {table})"#), "[]");
    prints(
        &format!(r#""%s", __print_flags(9, "", {table}, {{ 0, ((void *)0) }})"#),
        "AD",
    );
    prints(
        &format!(r#""%s %s", __print_symbolic(4, {table}), __print_symbolic(5, {table})"#),
        "C 0x5",
    );
    prints(
        r##""%s", __print_symbolic(REC->yes, { 0, "no" }, { 1, "#" "yes" })"##,
        "#yes",
    );
    prints(
        r#""%-4s|%4s|", __print_flags(1, "|", { 1, "A" }), REC->yes ? "x" : "y""#,
        "A   |   x|",
    );
    prints(
        r#""%s", __print_flags(6, "|", { (1 << 1) | (1 << 2), "BOTH" }, { 2, "ONE" })"#,
        "BOTH",
    );
}

#[test]
fn arrays_of_any_length_are_printed() {
    prints(
        r#""%s|%s", __get_str(text), __get_rel_str(rel)"#,
        "hello|relative",
    );
    prints(
        r#""%d %d", __get_dynamic_array_len(text), __get_dynamic_array_len(longs)"#,
        "6 16",
    );
    prints(
        r#""%s", __print_hex(__get_dynamic_array(raw), 3)"#,
        "de ad be",
    );
    prints(r#""%s", __print_hex_str(REC->mac, 6)"#, "000102fdfeff");
    let count = "__get_dynamic_array_len(longs) / sizeof(u64)";
    prints(
        &format!(r#""%s", __print_array(__get_dynamic_array(longs), {count}, sizeof(u64))"#),
        "{0x1,0x8000000000000000}",
    );
    prints(r#""%s", __print_array(REC->mac, 2, 1)"#, "{0x0,0x1}");
    prints(
        r#""%s", __print_dynamic_array(longs, sizeof(u64))"#,
        "{0x1,0x8000000000000000}",
    );
    prints(r#""%s", __get_cpumask(cpus)"#, "00000001,00000003");
    prints(
        r#""%.*s|%.2s|%8s|%-8s|", 3, __get_str(text), __get_str(text), REC->comm, REC->comm"#,
        "hel|he|     abc|abc     |",
    );
    prints(
        r#""%s%s", __get_str(text)[0] ? " " : "", __get_str(text)"#,
        " hello",
    );
    prints(r#""%c", __get_str(text)[99]"#, "\0");
}

#[test]
fn what_a_pointer_leads_to_is_printed_where_it_is_in_the_record() {
    prints(
        r#""%p %px %pK", REC->ptr, REC->ptr, (void *)1"#,
        "ffff888000001000 ffff888000001000 0000000000000001",
    );
    prints(
        r#""%pM %*phC", REC->mac, 2, REC->mac"#,
        "00:01:02:fd:fe:ff 00:01",
    );
    prints(r#""%pI4 %pI4", &REC->u, REC->mac"#, "5.0.0.128 0.1.2.253");
    prints(r#""%pISpc", __get_sockaddr(address)"#, "127.0.0.1:8080");
    prints(
        r#""%pISpc", ((struct sockaddr *)__get_dynamic_array(address))"#,
        "127.0.0.1:8080",
    );
    prints(r#""%*pbl", 40, __get_dynamic_array(cpus)"#, "0-1,32");
    prints(
        r#""%pS|%ps", (void *)REC->l, (void *)REC->l"#,
        "0xffffffff80000000|0xffffffff80000000",
    );
    prints(r#""%pI4", REC->ptr"#, "<fault>");
    prints(r#""%s", REC->ptr"#, "0xffff888000001000");
    prints(r#""%s", (char *)0"#, "(null)");
}

#[test]
fn what_only_the_kernel_knows_is_said_to_be_unsupported_and_the_rest_is_right() {
    prints(
        r#""page=%p n=%d", (((struct page *)vmemmap_base) + (REC->l)), REC->i"#,
        "page=<unsupported> n=-5",
    );
}

#[test]
fn a_form_that_is_not_known_is_named() {
    let error = |text: &str| compiled(text, &NoNames).unwrap_err().to_string();
    assert!(error(r#""%d", function(1)"#).ends_with("the function function"));
    assert!(error(r#""%d", REC->missing"#).contains("the field missing"));
    assert!(error(r#""%d", REC->ptr->next"#).ends_with("a member of a structure"));
    assert!(error(r#""%d", SOME_ENUM"#).ends_with("the name SOME_ENUM"));
    assert!(error(r#""%d""#).ends_with("too few arguments"));
    assert!(error(r#""%pGp", REC->ptr"#).ends_with("the conversion %pGp"));
    assert!(error(r#""%s", __print_symbolic(1, { REC->i, "x" })"#).contains("not constant"));
    assert!(error("REC->i").ends_with("the name REC"));
    assert!(error(r#""%d", (unknown_t)REC->i"#).contains("unknown_t"));
    assert!(error(r#""%d", ({ static int x = 1; x; })"#).contains("the type static int"));
}

#[test]
fn nesting_without_end_is_refused_and_not_followed() {
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("1 ? ", " : 1"),
        ("({ ", "; })"),
        ("REC->pair[", "]"),
    ] {
        let text = format!("\"%d\", {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(compiled(&text, &NoNames).is_err());
    }
    for link in ["+ REC->i", "[0]"] {
        let text = format!("\"%d\", REC->i {}", link.repeat(100_000));
        assert!(compiled(&text, &NoNames).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_compiled_or_refused_and_what_compiles_prints(words in proptest::collection::vec(
        prop_oneof![
            Just("REC->i"), Just("REC->comm"), Just("REC->pair"), Just("__get_str(text)"), Just("1"), Just("0"),
            Just("0xffffffffffffffff"), Just("+"), Just("-"), Just("*"), Just("/"), Just("%"), Just("<<"), Just(">>"),
            Just("?"), Just(":"), Just("("), Just(")"), Just("["), Just("]"), Just("(int)"), Just("~"), Just("!"),
            Just("&"), Just("=="), Just("&&"), Just("__print_flags("), Just(", \"|\", { 1, \"a\" })"), Just(","),
            Just("({ int x = "), Just("; x; })"), Just("sizeof("), Just("\"s\""), Just("__get_bitmask(cpus)"),
        ], 0..12
    )) {
        let format = Format::parse(&format!("{FIELDS}\nprint fmt: \"\"")).unwrap();
        let text = format!("\"%d %s %*pbl %-*.*s\", REC->b, {}, 9, REC->raw, 1, 2, 3", words.join(" "));
        if let Ok(print) = compiled(&text, &SomeNames) {
            for bytes in [bytes(), Vec::new()] {
                print.write(&record::values(&format, &bytes), &mut Vec::new());
            }
        }
    }
}
