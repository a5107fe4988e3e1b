//! The output formats: golden lines, JSON that strict parsers take whatever a program sends, and readers
//! that go away.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bridge::event::{Comm, Event, Field, Origin, Print, Probe, UNKNOWN_LENGTH, Value, What};
use bridge::export::{self, Outcome, Sink};
use proptest::prelude::*;
use tracebraid_bpf::record::LostReason;

/// A sink whose bytes can be read afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(format: &str, events: &[Event]) -> String {
    let sink = Shared::default();
    let mut exporter = (export::format(format).unwrap().create)(Box::new(sink.clone()) as Sink);
    for event in events {
        assert_eq!(exporter.event(event).unwrap(), Outcome::Open);
    }
    assert_eq!(exporter.finish().unwrap(), Outcome::Open);
    let bytes = sink.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn probe(group: &str, name: &str, fields: &[&str]) -> Arc<Probe> {
    Arc::new(Probe {
        group: group.into(),
        name: name.into(),
        origin: Origin::Application,
        fields: fields.iter().map(|name| Field::new(*name, "u64")).collect(),
        print: Print::Plain,
    })
}

fn hit(probe: &Arc<Probe>, comm: &[u8], values: Vec<Value>) -> Event {
    Event {
        time: 5_131_204_881_307,
        cpu: 1,
        pid: 4242,
        tid: 4243,
        comm: Comm::new(comm),
        late: false,
        what: What::Hit {
            probe: Arc::clone(probe),
            values,
        },
        stack: None,
    }
}

fn lost(probe: &Arc<Probe>, count: u64, reason: LostReason) -> Event {
    let what = What::Lost {
        probe: Arc::clone(probe),
        count,
        after: 5_131_203_678_307,
        reason,
    };
    Event {
        what,
        ..hit(probe, b"", Vec::new())
    }
}

/// One event of each sort.
fn sample() -> Vec<Event> {
    let charge = probe("orders", "charge", &["order_id", "cents"]);
    let mut late = hit(
        &charge,
        b"orders",
        vec![Value::Unsigned(18), Value::Signed(-5)],
    );
    late.late = true;
    vec![
        hit(
            &charge,
            b"orders",
            vec![Value::Unsigned(17), Value::Signed(4200)],
        ),
        hit(
            &charge,
            b"exactly15bytes!",
            vec![Value::Unsigned(u64::MAX), Value::Signed(i64::MIN)],
        ),
        late,
        lost(&charge, 17, LostReason::RingFull),
        lost(&charge, 1, LostReason::Recursion),
    ]
}

#[test]
fn text_lines_stand_in_the_columns_of_trace_pipe() {
    assert_eq!(
        written("text", &sample()),
        "          orders-4243    [001]   5131.204881307: orders:charge: order_id=17 cents=4200
 exactly15bytes!-4243    [001]   5131.204881307: orders:charge: order_id=18446744073709551615 cents=-9223372036854775808
          orders-4243    [001]   5131.204881307: orders:charge: (late) order_id=18 cents=-5
          <lost>-0       [001]   5131.204881307: orders:charge: LOST 17 events in 1.203ms: the ring was full
          <lost>-0       [001]   5131.204881307: orders:charge: LOST 1 event in 1.203ms: hit inside another event of its kind on that CPU
"
    );
}

#[test]
fn json_lines_have_the_documented_keys_in_their_order() {
    assert_eq!(
        written("json", &sample()),
        r#"{"time_ns":5131204881307,"cpu":1,"pid":4242,"tid":4243,"comm":"orders","event":"orders:charge","origin":"application","fields":{"order_id":17,"cents":4200}}
{"time_ns":5131204881307,"cpu":1,"pid":4242,"tid":4243,"comm":"exactly15bytes!","event":"orders:charge","origin":"application","fields":{"order_id":18446744073709551615,"cents":-9223372036854775808}}
{"time_ns":5131204881307,"cpu":1,"pid":4242,"tid":4243,"comm":"orders","event":"orders:charge","origin":"application","late":true,"fields":{"order_id":18,"cents":-5}}
{"time_ns":5131204881307,"cpu":1,"event":"orders:charge","origin":"application","lost":17,"after_ns":5131203678307,"reason":"ring_full"}
{"time_ns":5131204881307,"cpu":1,"event":"orders:charge","origin":"application","lost":1,"after_ns":5131203678307,"reason":"recursion"}
"#
    );
}

#[test]
fn every_format_is_in_the_table_once_with_a_name_that_can_be_typed() {
    let names: Vec<&str> = export::formats().iter().map(|format| format.name).collect();
    assert_eq!(names, ["json", "text"]);
    for format in export::formats() {
        assert!(format.name.bytes().all(|byte| byte.is_ascii_lowercase()));
        assert!(!format.description.is_empty());
    }
    assert!(export::format("xml").is_none());
}

#[test]
fn the_documentation_has_every_format_and_the_lines_that_are_really_written() {
    let page = include_str!("../../docs/formats.md");
    for format in export::formats() {
        let row = format!("| `{}` | {} |", format.name, format.description);
        assert!(page.contains(&row), "{row}");
        assert!(page.contains(&format!("\n## {}\n", format.name)));
    }
    let events = sample();
    let (json, text) = (written("json", &events), written("text", &events));
    for line in [json.lines().next(), json.lines().nth(3)] {
        assert!(page.contains(&format!("\n    {}\n", line.unwrap())));
    }
    assert!(
        page.contains(
            text.lines()
                .next()
                .unwrap()
                .trim_start()
                .split_once("[001]")
                .unwrap()
                .1
        )
    );
}

#[test]
fn a_name_of_any_bytes_takes_sixteen_columns_and_one_line() {
    let names: [(&[u8], &str); 9] = [
        (b"two words", "       two words-4243 "),
        (b"nl\nname", "        nl\\nname-4243 "),
        (b"paren) (x", "       paren) (x-4243 "),
        (b"\xff\xfe bad", "    \\xff\\xfe bad-4243 "),
        (b"123 45/6", "        123 45/6-4243 "),
        (b"", "                -4243 "),
        ("café".as_bytes(), "            café-4243 "),
        ("日本".as_bytes(), "            日本-4243 "),
        (b"\x1b[31m", "        \\x1b[31m-4243 "),
    ];
    let probe = probe("corpus", "comm", &["k"]);
    for (name, shown) in names {
        let text = written("text", &[hit(&probe, name, vec![Value::Unsigned(0)])]);
        assert!(text.starts_with(shown), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}

#[test]
fn json_says_what_it_cannot_hold_in_a_documented_form() {
    let cut = |bytes: &[u8], full_length| Value::Text {
        bytes: bytes.into(),
        full_length,
    };
    let duration = |seconds, nanos| Value::Duration(std::time::Duration::new(seconds, nanos));
    let values = [
        (
            Value::Unsigned128(u128::MAX),
            r#""340282366920938463463374607431768211455""#,
        ),
        (
            Value::Signed128(i128::MIN),
            r#""-170141183460469231731687303715884105728""#,
        ),
        (Value::F64(f64::NAN), r#""NaN""#),
        (Value::F64(f64::INFINITY), r#""inf""#),
        (Value::F32(f32::NEG_INFINITY), r#""-inf""#),
        (Value::F32(0.1), "0.1"),
        (Value::F64(1e300), "1e300"),
        (Value::Bool(true), "true"),
        (Value::Char('"'), r#""\"""#),
        (Value::text(*b"\xff\xfe"), r#"{"hex":"fffe"}"#),
        (Value::text(*b"a\x1b\x7f\n"), r#""a\u001b\u007f\n""#),
        (
            cut("abé".as_bytes().split_last().unwrap().1, 9),
            r#"{"text":"ab","full_length":9}"#,
        ),
        (
            cut(b"ab", UNKNOWN_LENGTH),
            r#"{"text":"ab","full_length":null}"#,
        ),
        (cut(b"\xff", 2), r#"{"hex":"ff","full_length":2}"#),
        (Value::bytes(*b"\x00\xff"), r#"{"hex":"00ff"}"#),
        (Value::Pointer(0x7f00), r#""0x7f00""#),
        (duration(1, 5), "1000000005"),
        (duration(u64::MAX, 0), r#""18446744073709551615000000000""#),
        (
            Value::Array(vec![Value::Signed(-1), Value::Absent]),
            "[-1,null]",
        ),
        (Value::Fault, r#"{"error":"fault"}"#),
        (Value::Unsupported, r#"{"error":"unsupported"}"#),
        (Value::NotCaptured, r#"{"error":"not_captured"}"#),
    ];
    let probe = probe("a", "b", &["v"]);
    for (value, expected) in values {
        let line = written("json", &[hit(&probe, b"c", vec![value.clone()])]);
        let fields = line.split_once("\"fields\":").unwrap().1;
        assert_eq!(
            fields.trim_end(),
            format!("{{\"v\":{expected}}}}}"),
            "{value:?}"
        );
        serde_json::from_str::<serde_json::Value>(&line).unwrap();
    }
}

#[test]
fn fields_of_one_name_stay_apart_in_json() {
    let probe = probe("a", "b", &["x", "x", "x#2"]);
    let values = vec![Value::Unsigned(1), Value::Unsigned(2), Value::Unsigned(3)];
    let line = written("json", &[hit(&probe, b"c", values)]);
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        parsed["fields"],
        serde_json::json!({"x": 1, "x#2": 2, "x#2#2": 3})
    );
}

/// The strings are those of a corpus of control bytes, quotes and broken UTF-8.
#[test]
fn python_s_strict_parser_reads_back_what_was_sent() {
    let texts: [&[u8]; 15] = [
        b"plain",
        "café".as_bytes(),
        b"\xff\xfe",
        b"trunc\xe2\x82",
        b"over\xc0\xaf",
        b"\x01\x02\x1b[31mred\x1b[0m",
        b"line1\nline2\ttab\rcr",
        b"q\"uo'te\\back",
        b"a;b c",
        b"<&>]]>",
        b"\x7f",
        b"\xed\xa0\x80surrogate",
        b"\xef\xbf\xbd",
        b"%s%n",
        "emoji 😀".as_bytes(),
    ];
    let probe = probe("corpus", "bytes\u{1b}\"", &["s\n"]);
    let event = |text: &&[u8]| hit(&probe, text, vec![Value::text(*text)]);
    let lines = written("json", &texts.iter().map(event).collect::<Vec<_>>());
    let script = r#"
import json, sys
for line in sys.stdin.buffer.read().split(b"\n")[:-1]:
    text = json.loads(line.decode("utf-8"), parse_constant=lambda name: 1 / 0)["fields"]["s\n"]
    print(text.encode("utf-8").hex() if isinstance(text, str) else text["hex"])
"#;
    let mut python = std::process::Command::new("python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    python
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let hex = |text: &&[u8]| {
        text.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let expected: Vec<String> = texts.iter().map(hex).collect();
    let read = String::from_utf8(output.stdout).unwrap();
    assert_eq!(read.lines().collect::<Vec<_>>(), expected);
}

fn any_value() -> impl Strategy<Value = Value> {
    let cut = (any::<Vec<u8>>(), any::<u64>());
    let leaf = prop_oneof![
        any::<u64>().prop_map(Value::Unsigned),
        any::<i64>().prop_map(Value::Signed),
        any::<u128>().prop_map(Value::Unsigned128),
        any::<i128>().prop_map(Value::Signed128),
        any::<bool>().prop_map(Value::Bool),
        any::<char>().prop_map(Value::Char),
        any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        any::<Vec<u8>>().prop_map(Value::text),
        any::<String>().prop_map(|text| Value::text(text.into_bytes())),
        cut.clone().prop_map(|(bytes, full_length)| Value::Text {
            bytes: bytes.into(),
            full_length
        }),
        cut.prop_map(|(bytes, full_length)| Value::Bytes {
            bytes: bytes.into(),
            full_length
        }),
        any::<u64>().prop_map(Value::Pointer),
        (any::<u64>(), 0..1_000_000_000_u32)
            .prop_map(|(seconds, nanos)| Value::Duration(std::time::Duration::new(seconds, nanos))),
        Just(Value::Absent),
        Just(Value::Fault),
        Just(Value::Unsupported),
        Just(Value::NotCaptured),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Value::Array)
    })
}

proptest! {
    #[test]
    fn any_event_is_one_line_of_printable_text(
        comm in any::<Vec<u8>>(), group in any::<String>(), field in any::<String>(), value in any_value()
    ) {
        let event = hit(&probe(&group, "n", &[&field]), &comm, vec![value]);
        for format in export::formats() {
            let line = written(format.name, std::slice::from_ref(&event));
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert!(line.ends_with('\n'));
            prop_assert!(!line.trim_end_matches('\n').chars().any(char::is_control), "{}", line);
        }
    }

    #[test]
    fn any_event_is_valid_json_with_its_numbers_intact(
        comm in any::<Vec<u8>>(), field in any::<String>(), value in any_value(), number in any::<u64>()
    ) {
        let values = vec![value, Value::Unsigned(number)];
        let line = written("json", &[hit(&probe("g", "n", &[&field, "number"]), &comm, values)]);
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        let key = if field == "number" { "number#2" } else { "number" };
        prop_assert_eq!(parsed["fields"][key].as_u64(), Some(number));
    }
}

/// A reader that takes some bytes and goes.
struct Leaving(usize);

impl Write for Leaving {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_goes_away_is_an_outcome_and_no_error() {
    let charge = probe("orders", "charge", &["id"]);
    for format in export::formats() {
        let mut exporter = (format.create)(Box::new(Leaving(100_000)));
        let mut events = 0_u32;
        while exporter
            .event(&hit(&charge, b"x", vec![Value::Unsigned(1)]))
            .unwrap()
            == Outcome::Open
        {
            events += 1;
            assert!(
                events < 10_000,
                "{}: the end was never noticed",
                format.name
            );
        }
        assert_eq!(exporter.finish().unwrap(), Outcome::ReaderGone);
    }
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_itself() {
    let charge = probe("orders", "charge", &[]);
    for format in export::formats() {
        let mut exporter = (format.create)(Box::new(Full));
        assert_eq!(
            exporter.event(&hit(&charge, b"x", Vec::new())).unwrap(),
            Outcome::Open
        );
        assert_eq!(
            exporter.flush().unwrap_err().raw_os_error(),
            Some(libc::ENOSPC)
        );
    }
}

#[test]
fn a_flush_hands_over_what_is_there() {
    let sink = Shared::default();
    let mut exporter = (export::format("text").unwrap().create)(Box::new(sink.clone()) as Sink);
    let event = hit(&probe("a", "b", &[]), b"c", Vec::new());
    assert_eq!(exporter.event(&event).unwrap(), Outcome::Open);
    assert!(sink.0.lock().unwrap().is_empty());
    assert_eq!(exporter.flush().unwrap(), Outcome::Open);
    assert!(sink.0.lock().unwrap().ends_with(b"a:b: \n"));
}
