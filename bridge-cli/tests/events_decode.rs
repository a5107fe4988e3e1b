//! Records of the rings into events: every field kind at its limits, arguments of foreign probes, kernel
//! events, and records that make no sense.

use std::sync::Arc;
use std::time::Duration;

use bridge::event::{Event, Value, What};
use bridge::print;
use bridge::source::decode::{Decoder, Decoders, tracepoint_probe};
use bridge::tracefs::Tracefs;
use bridge::tracefs::format::Format;
use proptest::prelude::*;
use tracebraid_bpf::record::{Body, Lost, LostReason, Record, Task, Text};
use tracebraid_bpf::spec::{Argument, Fetch, KernelEvent, Location, Place, ProbeId};
use tracebraid_wire::kind::{FieldKind, Kind};

fn record(body: Body) -> Record {
    let mut comm = [0; 16];
    comm[..6].copy_from_slice(b"orders");
    Record {
        time: 5_000,
        cpu: 1,
        tgid: 4242,
        tid: 4243,
        comm,
        probe: ProbeId(7),
        body,
    }
}

fn body(event: &Event) -> String {
    let What::Hit { probe, values } = &event.what else {
        panic!("not a hit: {event:?}");
    };
    let mut out = Vec::new();
    print::body(probe, values, &mut out);
    String::from_utf8(out).unwrap()
}

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
    body(&decoder.event(record(body_)))
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
    let event = decoder.event(record(Body::Slots {
        slots,
        texts: vec![text(b"hi"), text(b"\x01")],
    }));
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
    let few = decoder.event(record(Body::Slots {
        slots: Some(vec![1, 2]),
        texts: vec![],
    }));
    assert_eq!(body(&few), "a=1 b=<not captured>");
    let none = decoder.event(record(Body::Slots {
        slots: None,
        texts: vec![],
    }));
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
    let event = decoder.event(record(Body::Slots {
        slots,
        texts: vec![text(b"alice")],
    }));
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
        body(&decoder.event(record(Body::Arguments { location, values })))
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

fn task(name: &[u8], tid: u32) -> Task {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    Task {
        tid,
        tgid: 4242,
        prio: 120,
        comm,
    }
}

fn kernel(event: KernelEvent, body_: Body) -> (String, String) {
    let decoder = Decoder::kernel(&event, None);
    let event = decoder.event(record(body_));
    let probe = event.probe();
    (format!("{}:{}", probe.group, probe.name), body(&event))
}

#[test]
fn kernel_events_carry_the_kernel_s_names_and_print_as_it_does() {
    let orders = || task(b"orders", 4242);
    let idle = task(b"swapper/1", 0);
    let switch = Body::SchedSwitch {
        prev: orders(),
        prev_state: 1,
        next: idle,
    };
    assert_eq!(
        kernel(KernelEvent::SchedSwitch, switch),
        (
            "sched:sched_switch".into(),
            "prev_comm=orders prev_pid=4242 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120".into()
        )
    );
    let wake = |event| {
        kernel(
            event,
            Body::Wake {
                task: orders(),
                target_cpu: 1,
            },
        )
    };
    for (event, name) in [
        (KernelEvent::SchedWaking, "sched:sched_waking"),
        (KernelEvent::SchedWakeup, "sched:sched_wakeup"),
        (KernelEvent::SchedWakeupNew, "sched:sched_wakeup_new"),
    ] {
        assert_eq!(
            wake(event),
            (
                name.into(),
                "comm=orders pid=4242 prio=120 target_cpu=001".into()
            )
        );
    }
    let (_, migrate) = kernel(
        KernelEvent::SchedMigrateTask,
        Body::Migrate {
            task: orders(),
            from: 0,
            to: 1,
        },
    );
    assert_eq!(
        migrate,
        "comm=orders pid=4242 prio=120 orig_cpu=0 dest_cpu=1"
    );
    let child = task(b"ch\nild", 4300);
    let (_, fork) = kernel(
        KernelEvent::ProcessFork,
        Body::Fork {
            parent: orders(),
            child,
        },
    );
    assert_eq!(
        fork,
        r"comm=orders pid=4242 child_comm=ch\nild child_pid=4300"
    );
    let filename = Text::Bytes {
        bytes: b"/bin/x".to_vec(),
        full_length: 6,
    };
    let (_, exec) = kernel(
        KernelEvent::ProcessExec,
        Body::Exec {
            filename,
            old_tid: 4250,
        },
    );
    assert_eq!(exec, "filename=/bin/x pid=4243 old_pid=4250");
    let (_, exit) = kernel(
        KernelEvent::ProcessExit,
        Body::Exit {
            task: orders(),
            group_dead: true,
        },
    );
    assert_eq!(exit, "comm=orders pid=4242 prio=120 group_dead=true");
}

#[test]
fn system_calls_are_events_of_their_own_names() {
    let enter = |number| Body::SysEnter {
        number,
        args: [9, 0, 0, 0, 0, 0],
    };
    let (name, body) = kernel(KernelEvent::SysEnter(vec![]), enter(74));
    assert_eq!(name, "syscalls:sys_enter_fsync");
    assert!(body.starts_with("arg0=0x9 arg1=0x0"), "{body}");
    let (name, body) = kernel(
        KernelEvent::SysExit(vec![74]),
        Body::SysExit {
            number: 74,
            result: -5,
        },
    );
    assert_eq!(
        (name.as_str(), body.as_str()),
        ("syscalls:sys_exit_fsync", "ret=-5")
    );
}

const CMD: &str = "name: block_x\nID: 9\nformat:\n\
    field:unsigned int bytes;offset:8;size:4;signed:0;\n\
    field:__data_loc char[] cmd;offset:12;size:4;signed:0;\n\
    field:__rel_loc u8[] raw;offset:16;size:4;signed:0;\n\n\
    print fmt: \"%u (%s) %s\", REC->bytes, __get_str(cmd), __print_hex(__get_rel_dynamic_array(raw), 2)";

#[test]
fn a_kernel_tracepoint_is_read_by_its_format_and_printed_by_its_print_fmt() {
    let tracefs = Tracefs::at("/nonexistent");
    let format = Format::parse(CMD).unwrap();
    let probe = tracepoint_probe(ProbeId(3), "block", &format);
    assert_eq!(
        (probe.size, probe.dynamic.len(), probe.dynamic[1].relative),
        (20, 2, true)
    );
    let (decoder, unknown) = Decoder::tracepoint(&tracefs, "block", format);
    assert_eq!(unknown, None);
    // 20 bytes fixed; text at 20, three bytes at 24, which is 4 behind the second descriptor's end.
    let mut bytes = vec![0xee; 8];
    bytes.extend_from_slice(&512_u32.to_le_bytes());
    bytes.extend_from_slice(&(4_u32 << 16 | 20).to_le_bytes());
    bytes.extend_from_slice(&(3_u32 << 16 | 4).to_le_bytes());
    bytes.extend_from_slice(b"rq\0\0\x01\x02\x03");
    assert_eq!(
        body(&decoder.event(record(Body::Tracepoint(bytes)))),
        "512 (rq) 01 02"
    );
    assert_eq!(
        body(&decoder.event(record(Body::Tracepoint(vec![])))),
        "<fault> (<fault>) "
    );
}

#[test]
fn a_print_fmt_that_is_not_understood_gives_names_and_values_and_the_reason() {
    let text = CMD.replace("REC->bytes", "some_function(REC->bytes)");
    let tracefs = Tracefs::at("/nonexistent");
    let (decoder, unknown) = Decoder::tracepoint(&tracefs, "block", Format::parse(&text).unwrap());
    assert_eq!(
        unknown.unwrap().to_string(),
        "print fmt not understood: the function some_function"
    );
    assert!(
        body(&decoder.event(record(Body::Tracepoint(vec![0; 20])))).starts_with("bytes=0 cmd=")
    );
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
        let event = decoder.event(record(Body::Tracepoint(vec![1, 2, 3])));
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
        let event = decoder.event(record(Body::Slots { slots, texts }));
        body(&event);
        let What::Hit { values, .. } = event.what else { panic!("a hit") };
        prop_assert_eq!(values.len(), kinds.len());
    }
}
