//! Records of the rings into events: every field kind at its limits, arguments of foreign probes, and records
//! that make no sense.

mod decoded;

use std::sync::Arc;
use std::time::Duration;

use bridge::event::{Value, What};
use bridge::source::decode::{Decoder, Decoders};
use bridge::source::spare::Spare;
use decoded::{body, record};
use proptest::prelude::*;
use tracebraid_bpf::record::{Body, Lost, LostReason, Text};
use tracebraid_bpf::spec::{Argument, Fetch, KernelEvent, Location, Place, ProbeId};
use tracebraid_wire::kind::{FieldKind, Kind};

fn plain(kind: Kind) -> FieldKind {
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

fn text(bytes: &[u8]) -> Text {
    Text::Bytes {
        bytes: bytes.to_vec(),
        full_length: bytes.len() as u64,
    }
}

/// What one field of this kind is printed as.
fn field(kind: FieldKind, slots: &[u64], texts: Vec<Text>) -> String {
    let decoder = Decoder::application("app", "point", "", [("v", kind)]);
    let body_ = Body::Slots {
        slots: Some(slots.to_vec()),
        texts,
    };
    body(&decoder.event(record(body_), &mut Spare::default()))
        .strip_prefix("v=")
        .unwrap()
        .to_owned()
}

#[test]
fn every_integer_kind_is_right_at_its_limits_whatever_the_rest_of_its_slot_holds() {
    let dirty = 0xdead_beef_0000_0000_u64;
    assert_eq!(field(plain(Kind::U8), &[dirty | 0xff], vec![]), "255");
    assert_eq!(field(plain(Kind::U16), &[dirty | 0xffff], vec![]), "65535");
    assert_eq!(
        field(plain(Kind::U32), &[dirty | 0xffff_ffff], vec![]),
        "4294967295"
    );
    assert_eq!(
        field(plain(Kind::U64), &[u64::MAX], vec![]),
        "18446744073709551615"
    );
    assert_eq!(field(plain(Kind::I8), &[dirty | 0x80], vec![]), "-128");
    assert_eq!(
        field(plain(Kind::I16), &[i16::MIN as u64], vec![]),
        "-32768"
    );
    assert_eq!(
        field(plain(Kind::I32), &[i32::MIN as u64], vec![]),
        "-2147483648"
    );
    assert_eq!(
        field(plain(Kind::I64), &[i64::MIN as u64], vec![]),
        "-9223372036854775808"
    );
    assert_eq!(
        field(plain(Kind::U128), &[u64::MAX, u64::MAX], vec![]),
        u128::MAX.to_string()
    );
    assert_eq!(
        field(plain(Kind::U128), &[0, 1], vec![]),
        (1_u128 << 64).to_string()
    );
    assert_eq!(
        field(plain(Kind::I128), &[0, 1 << 63], vec![]),
        i128::MIN.to_string()
    );
}

#[test]
fn every_other_kind_is_right_at_its_limits() {
    assert_eq!(field(plain(Kind::Bool), &[1], vec![]), "true");
    assert_eq!(field(plain(Kind::Bool), &[0xff00], vec![]), "false");
    assert_eq!(
        field(plain(Kind::Char), &[u64::from(char::MAX as u32)], vec![]),
        "\u{10ffff}"
    );
    assert_eq!(field(plain(Kind::Char), &[0xd800], vec![]), "55296");
    assert_eq!(
        field(
            plain(Kind::F32),
            &[u64::from(f32::MIN_POSITIVE.to_bits())],
            vec![]
        ),
        "1.1754944e-38"
    );
    assert_eq!(
        field(plain(Kind::F64), &[f64::NAN.to_bits()], vec![]),
        "NaN"
    );
    assert_eq!(
        field(plain(Kind::F64), &[(-0.0_f64).to_bits()], vec![]),
        "-0.0"
    );
    assert_eq!(
        field(plain(Kind::Pointer), &[u64::MAX], vec![]),
        "0xffffffffffffffff"
    );
    let longest = Duration::new(u64::MAX, 999_999_999);
    assert_eq!(
        field(plain(Kind::Duration), &[u64::MAX, 999_999_999], vec![]),
        format!("{longest:?}")
    );
    assert_eq!(
        field(plain(Kind::Duration), &[u64::MAX, u64::MAX], vec![]),
        format!("{:?}", Duration::MAX)
    );
}

#[test]
fn text_is_whole_cut_empty_absent_or_a_fault_and_says_which() {
    let long = vec![b'x'; 300];
    let cut = Text::Bytes {
        bytes: long[..256].to_vec(),
        full_length: 300,
    };
    let shown = |text_| field(plain(Kind::Str), &[0x1000, 300], vec![text_]);
    assert_eq!(shown(text(&long)), "x".repeat(300));
    assert_eq!(shown(cut), format!("{}…(300 bytes)", "x".repeat(256)));
    assert_eq!(shown(text(b"")), "\"\"");
    assert_eq!(shown(text("naïve".as_bytes())), "naïve");
    assert_eq!(shown(text(b"ab\0cd\0ef")), r"ab\0cd\0ef");
    assert_eq!(shown(Text::Fault), "<fault>");
    assert_eq!(
        field(optional(Kind::Str), &[0, 0], vec![Text::Null]),
        "None"
    );
    assert_eq!(
        field(plain(Kind::Bytes), &[1, 2], vec![text(b"\x00\xff")]),
        "00ff"
    );
    assert_eq!(
        field(plain(Kind::Formatted), &[1, 2], vec![text(b"E(1)")]),
        "E(1)"
    );
}

#[test]
fn an_optional_value_is_there_or_not() {
    assert_eq!(field(optional(Kind::U64), &[1, 0], vec![]), "0");
    assert_eq!(field(optional(Kind::U64), &[0, 17], vec![]), "None");
    assert_eq!(
        field(optional(Kind::I128), &[1, u64::MAX, u64::MAX], vec![]),
        "-1"
    );
    assert_eq!(field(optional(Kind::Duration), &[1, 1, 0], vec![]), "1s");
}

#[test]
fn texts_find_their_fields_between_fields_of_other_widths() {
    let fields = [
        ("a", plain(Kind::U128)),
        ("b", plain(Kind::Str)),
        ("c", optional(Kind::U8)),
        ("d", optional(Kind::Bytes)),
        ("e", plain(Kind::I8)),
    ];
    let decoder = Decoder::application("app", "point", "", fields);
    let slots = Some(vec![1, 0, 0x10, 2, 1, 7, 0x20, 1, -1_i64 as u64]);
    let event = decoder.event(
        record(Body::Slots {
            slots,
            texts: vec![text(b"hi"), text(b"\x01")],
        }),
        &mut Spare::default(),
    );
    assert_eq!(body(&event), "a=1 b=hi c=7 d=01 e=-1");
}

#[test]
fn fields_beyond_what_was_fetched_say_so() {
    let decoder = Decoder::application(
        "app",
        "point",
        "",
        [("a", plain(Kind::U8)), ("b", plain(Kind::Str))],
    );
    let few = decoder.event(
        record(Body::Slots {
            slots: Some(vec![1, 2]),
            texts: vec![],
        }),
        &mut Spare::default(),
    );
    assert_eq!(body(&few), "a=1 b=<not captured>");
    let none = decoder.event(
        record(Body::Slots {
            slots: None,
            texts: vec![],
        }),
        &mut Spare::default(),
    );
    assert_eq!(body(&none), "a=<fault> b=<fault>");
}

#[test]
fn a_template_is_the_application_s_own_form() {
    let fields = [
        ("id", plain(Kind::U64)),
        ("depth", plain(Kind::U64)),
        ("user", plain(Kind::Str)),
    ];
    let decoder = Decoder::application("orders", "queued", "id={id} depth={depth}", fields);
    let slots = Some(vec![17, 3, 1, 5]);
    let event = decoder.event(
        record(Body::Slots {
            slots,
            texts: vec![text(b"alice")],
        }),
        &mut Spare::default(),
    );
    assert_eq!(body(&event), "id=17 depth=3");
    assert_eq!(
        (event.time, event.cpu, event.pid, event.tid),
        (5_000, 1, 4242, 4243)
    );
    assert_eq!(event.comm.bytes(), b"orders");
}

fn argument(width: u8, signed: bool, place: Place) -> Argument {
    Argument {
        width,
        signed,
        float: false,
        place,
    }
}

fn location(arguments: Vec<Argument>) -> Location {
    Location {
        offset: 0,
        semaphore: 0,
        fetch: Fetch::Arguments(arguments),
    }
}

#[test]
fn arguments_of_foreign_probes_are_read_by_the_width_and_sign_of_their_location() {
    let rax = || Place::Constant(0);
    let float = |width| Argument {
        width,
        signed: false,
        float: true,
        place: rax(),
    };
    let decoder = Decoder::usdt(
        "corpus",
        "multi",
        &[
            location(vec![argument(4, true, rax())]),
            location(vec![
                argument(1, false, rax()),
                argument(8, false, Place::Unsupported("xmm0".into())),
                float(8),
                float(4),
            ]),
        ],
    );
    let shown = |location, values: Vec<Option<u64>>| {
        body(&decoder.event(
            record(Body::Arguments { location, values }),
            &mut Spare::default(),
        ))
    };
    assert_eq!(
        shown(0, vec![Some(0xffff_ffff)]),
        "arg0=-1 arg1=None arg2=None arg3=None"
    );
    let bits = vec![
        Some(0x1c8),
        None,
        Some(3.25_f64.to_bits()),
        Some((-0.5_f32).to_bits().into()),
    ];
    assert_eq!(
        shown(1, bits),
        "arg0=200 arg1=<unsupported> arg2=3.25 arg3=-0.5"
    );
    assert_eq!(
        shown(1, vec![None]),
        "arg0=<fault> arg1=<unsupported> arg2=<not captured> arg3=<not captured>"
    );
    assert_eq!(
        shown(9, vec![Some(1)]),
        "arg0=None arg1=None arg2=None arg3=None"
    );
    let types: Vec<&str> = decoder
        .probe()
        .fields
        .iter()
        .map(|field| field.type_name.as_str())
        .collect();
    assert_eq!(types, ["u8", "u64", "f64", "f32"]);
}

#[test]
fn a_loss_is_an_event_at_its_end_and_names_its_probe() {
    let mut decoders = Decoders::default();
    decoders.insert(ProbeId(7), Decoder::kernel(&KernelEvent::SchedSwitch, None));
    let lost = Lost {
        probe: ProbeId(7),
        cpu: 1,
        count: 5,
        after: 10,
        before: 90,
        reason: LostReason::RingFull,
    };
    let event = decoders.lost(&lost).unwrap();
    assert_eq!((event.time, event.cpu), (90, 1));
    assert!(matches!(
        event.what,
        What::Lost {
            count: 5,
            after: 10,
            ..
        }
    ));
    assert!(
        decoders
            .lost(&Lost {
                probe: ProbeId(8),
                ..lost
            })
            .is_none()
    );
    assert!(decoders.get(ProbeId(7)).is_some());
}

#[test]
fn a_record_of_another_sort_than_its_probe_has_faults_for_values() {
    let decoders = [
        Decoder::application("a", "b", "", [("v", plain(Kind::U8))]),
        Decoder::usdt(
            "a",
            "b",
            &[location(vec![argument(8, false, Place::Constant(1))])],
        ),
        Decoder::kernel(&KernelEvent::SchedSwitch, None),
        Decoder::kernel(&KernelEvent::SysEnter(vec![]), None),
    ];
    for decoder in &decoders {
        let event = decoder.event(
            record(Body::Tracepoint(vec![1, 2, 3])),
            &mut Spare::default(),
        );
        let What::Hit { probe, values } = event.what else {
            panic!("a hit")
        };
        assert!(Arc::ptr_eq(&probe, decoder.probe()));
        assert_eq!(values, vec![Value::Fault; probe.fields.len()]);
    }
}

proptest! {
    #[test]
    fn whatever_the_slots_hold_there_is_one_value_a_field(
        kinds in proptest::collection::vec(any::<u8>(), 0..20),
        slots in proptest::option::of(proptest::collection::vec(any::<u64>(), 0..70)),
        texts in proptest::collection::vec(any::<Vec<u8>>(), 0..5),
    ) {
        let kinds: Vec<FieldKind> = kinds.into_iter().filter_map(FieldKind::from_byte).collect();
        let decoder = Decoder::application("a", "b", "", kinds.iter().map(|kind| ("v", *kind)));
        let texts = texts.iter().map(|bytes| text(bytes)).collect();
        let event = decoder.event(record(Body::Slots { slots, texts }), &mut Spare::default());
        body(&event);
        let What::Hit { values, .. } = event.what else { panic!("a hit") };
        prop_assert_eq!(values.len(), kinds.len());
    }
}
