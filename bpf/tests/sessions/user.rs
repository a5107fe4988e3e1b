//! User probes.

use tracebraid_bpf::record::{Body, Record, Text};
use tracebraid_bpf::spec::{Argument, Fetch, Location, Place, ProbeId, Register, Spec, UserProbe};
use tracebraid_bpf::{ErrorKind, Options, Session};

use crate::{Outcome, UserTest, mine, same, stubs, under};

/// Each is run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[
    ("the_slots_of_a_tracepoint_arrive_with_their_text", slots),
    ("every_place_of_an_argument_is_read", arguments),
    (
        "an_address_outside_the_file_is_refused_with_its_offset",
        outside,
    ),
];

pub(crate) fn slot_probe(id: u32, count: u8, text: &[(u8, u8)]) -> UserProbe {
    stubs::probe(
        id,
        stubs::slots_offset(),
        0,
        Fetch::Slots {
            count,
            text: text.to_vec(),
        },
    )
}

pub(crate) fn user(probes: Vec<UserProbe>) -> Spec {
    Spec {
        user: probes,
        filter: mine(),
        ..Spec::default()
    }
}

pub(crate) fn texts(record: &Record) -> Result<Vec<Text>, String> {
    match &record.body {
        Body::Slots {
            slots: Some(_),
            texts,
        } => Ok(texts.clone()),
        other => Err(format!("{other:?} has no slots")),
    }
}

pub(crate) fn whole(text: &[u8]) -> Text {
    Text::Bytes {
        bytes: text.into(),
        full_length: text.len() as u64,
    }
}

fn slots(options: &Options) -> Outcome {
    let text = "grüße";
    let spec = user(vec![slot_probe(7, 4, &[(1, 2)])]);
    let words = [
        u64::MAX,
        text.as_ptr() as u64,
        text.len() as u64,
        i64::MIN as u64,
    ];
    let seen = under(&spec, options, || stubs::hit_slots(&words))?;
    same("records", seen.records.len(), 1)?;
    let record = &seen.records[0];
    same("probe", record.probe, ProbeId(7))?;
    same(
        "thread",
        (record.tgid, record.tid),
        (std::process::id(), crate::tid()),
    )?;
    let texts = vec![whole(text.as_bytes())];
    same(
        "body",
        &record.body,
        &Body::Slots {
            slots: Some(words.to_vec()),
            texts,
        },
    )
}

fn arguments(options: &Options) -> Outcome {
    use Place::{Constant, Memory, ProbeRelative, Unsupported};
    let argument = |width, signed, place| Argument {
        width,
        signed,
        float: false,
        place,
    };
    let register = |register| Place::Register {
        register,
        high: false,
    };
    let memory = |base, index, displacement| Memory {
        base,
        index,
        displacement,
    };
    let data = [0x8877_6655_4433_2211, 0xfedc_ba98_7654_3210u64];
    let (rdi, rsi, rdx) = (Register::Rdi, Register::Rsi, Register::Rdx);
    // What is fetched, and what it is; rdi = 0xfff6, rsi = &data, rdx = 1, rcx = 8.
    let places = [
        (argument(8, false, register(rdi)), Some(0xfff6)),
        (argument(2, true, register(rdi)), Some(-10i64 as u64)),
        (argument(1, false, register(rdi)), Some(0xf6)),
        (
            argument(
                1,
                true,
                Place::Register {
                    register: rdi,
                    high: true,
                },
            ),
            Some(u64::MAX),
        ),
        (
            argument(8, true, register(Register::R8)),
            Some(-2i64 as u64),
        ),
        (
            argument(4, false, register(Register::R8)),
            Some(0xffff_fffe),
        ),
        (
            argument(
                1,
                false,
                Place::Register {
                    register: Register::Rax,
                    high: true,
                },
            ),
            Some(0x33),
        ),
        (
            argument(8, false, memory(Some(rsi), None, 0)),
            Some(data[0]),
        ),
        (
            argument(4, true, memory(Some(rsi), None, 4)),
            Some(0xffff_ffff_8877_6655),
        ),
        (
            argument(2, false, memory(Some(rsi), Some((rdx, 8)), 0)),
            Some(0x3210),
        ),
        (
            argument(1, false, memory(Some(rsi), Some((rdx, 4)), -1)),
            Some(0x44),
        ),
        (
            argument(8, false, memory(Some(rsi), Some((Register::Rcx, 1)), 0)),
            Some(data[1]),
        ),
        (argument(8, false, memory(None, Some((rdx, 8)), 0)), None),
        (argument(8, false, memory(Some(rdx), None, 0)), None),
        (argument(1, false, Constant(-56)), Some(200)),
        (argument(8, true, Constant(i64::MIN)), Some(i64::MIN as u64)),
        (argument(4, false, Constant(-1)), Some(0xffff_ffff)),
        (
            argument(
                8,
                false,
                ProbeRelative {
                    displacement: 0,
                    address_only: true,
                },
            ),
            None,
        ),
        (
            argument(
                8,
                false,
                ProbeRelative {
                    displacement: 12,
                    address_only: false,
                },
            ),
            Some(0x7777_8888_9999_0000),
        ),
        (argument(8, false, Unsupported("%xmm0".into())), None),
        (
            argument(4, true, memory(Some(rsi), None, 4)),
            Some(0xffff_ffff_8877_6655),
        ),
    ];
    let fetch = Fetch::Arguments(
        places
            .iter()
            .map(|(argument, _)| argument.clone())
            .collect(),
    );
    let spec = user(vec![stubs::probe(3, stubs::arguments_offset(), 0, fetch)]);
    let seen = under(&spec, options, || stubs::hit_arguments(0xfff6, &data, 1, 8))?;
    same("records", seen.records.len(), 1)?;
    let Body::Arguments {
        location: 0,
        values,
    } = &seen.records[0].body
    else {
        return Err(format!("{:?}", seen.records[0].body).into());
    };
    for (index, ((argument, wanted), value)) in places.iter().zip(values).enumerate() {
        let wanted = match argument.place {
            Place::ProbeRelative {
                address_only: true, ..
            } => Some(stubs::arguments_address()),
            _ => *wanted,
        };
        same(&format!("argument {index}, {argument:?}"), *value, wanted)?;
    }
    Ok(())
}

fn outside(options: &Options) -> Outcome {
    let fetch = Fetch::Slots {
        count: 0,
        text: vec![],
    };
    let mut probe = stubs::probe(0, stubs::slots_offset(), 0, fetch.clone());
    probe.locations.push(Location {
        offset: 1 << 40,
        semaphore: 0,
        fetch,
    });
    let Err(error) = Session::start_with(&user(vec![probe.clone()]), options) else {
        return Err("an offset of a terabyte was accepted".into());
    };
    let offset = Some(1 << 40);
    same(
        "kind",
        error.kind(),
        &ErrorKind::Attach {
            file: Some(stubs::binary()),
            offset,
        },
    )?;
    let mut gone = probe;
    gone.binary = "/nonexistent/file".into();
    let Err(error) = Session::start_with(&user(vec![gone]), options) else {
        return Err("a file that is not there was accepted".into());
    };
    let file = Some("/nonexistent/file".into());
    same(
        "kind",
        error.kind(),
        &ErrorKind::Attach { file, offset: None },
    )
}
