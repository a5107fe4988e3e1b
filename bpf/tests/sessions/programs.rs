//! What fetch programs give out: those that have code of their own, and those whose steps are followed.

use tracebraid_bpf::record::{Body, Output};
use tracebraid_bpf::spec::{Fetch, Filter, Program, Register, Spec, Step};
use tracebraid_bpf::{FetchBy, Options, Session};

use crate::{Outcome, UserTest, same, stubs, under};

/// Each is run for both ways of attaching, and for each way in which programs can run.
pub(crate) const TESTS: &[UserTest] = &[
    (
        "a_fetch_program_gives_the_same_with_code_of_its_own_and_step_by_step",
        both_ways,
    ),
    (
        "values_behind_text_stand_behind_it_and_those_without_room_say_so",
        behind_text,
    ),
];

/// More programs than can have code, all of them other ones.
const OTHERS: u64 = 300;

/// What a program gives out in a process that calls with these arguments: alone, and as one of many.
fn outputs(
    options: &Options,
    steps: &[Step],
    call: (u64, u64, u64),
) -> Result<Vec<Output>, libtest_mimic::Failed> {
    let probe = |id, place, steps: &[Step]| {
        let program = Program {
            steps: steps.to_vec(),
            for_filters: Vec::new(),
            at_return: false,
        };
        stubs::probe(id, stubs::many_offset(place), 0, Fetch::Program(program))
    };
    let mut alone = Spec {
        filter: Filter {
            processes: vec![std::process::id()],
            ..Filter::default()
        },
        string_limit: 16,
        ..Spec::default()
    };
    alone.user = vec![probe(0, stubs::LAST, steps)];
    let mut among_many = alone.clone();
    // With perf each takes a grace period to detach, and one program that is long is enough.
    let others = match options.force_perf_uprobes {
        true => vec![probe(1, 0, &[Step::Constant(7), Step::Store].repeat(100))],
        false => (0..OTHERS)
            .map(|place| {
                probe(
                    1 + place as u32,
                    place,
                    &[Step::Constant(place), Step::Store],
                )
            })
            .collect(),
    };
    among_many.user.splice(0..0, others);
    let of = |spec: &Spec| -> Result<Vec<Output>, libtest_mimic::Failed> {
        let seen = under(spec, options, || stubs::hit_last(call.0, call.1, call.2))?;
        let session = seen.session.as_ref().ok_or("no session")?;
        runs_as_asked(session, options.fetch_by, spec.user.len())?;
        match &seen.records[..] {
            [only] => match &only.body {
                Body::Program(outputs) => Ok(outputs.clone()),
                other => Err(format!("{other:?}").into()),
            },
            all => Err(format!("{} records", all.len()).into()),
        }
    };
    let (with, without) = (of(&alone)?, of(&among_many)?);
    let differing = with.iter().zip(&without).find(|(own, other)| own != other);
    same("one that differs as one of many", differing, None)?;
    same("outputs as one of many", without.len(), with.len())?;
    Ok(with)
}

/// Of so many programs.
fn runs_as_asked(session: &Session, by: FetchBy, programs: usize) -> Outcome {
    let fetching = session.fetching().ok_or("there is no fetch program")?;
    let has_room = fetching.followed == 0;
    let is_so = match by {
        FetchBy::Code => fetching.coded > 0 && has_room == (programs == 1),
        FetchBy::Steps => fetching.coded == 0,
        FetchBy::RefusedCode => fetching.refused.is_some(),
    };
    let is_refused = fetching.refused.is_some() && by != FetchBy::RefusedCode;
    match is_so && !is_refused {
        true => Ok(()),
        false => Err(format!("{fetching:?} of {programs}").into()),
    }
}

fn both_ways(options: &Options) -> Outcome {
    let words: [u64; 3] = [11, 22, 33];
    let text = c"of a program";
    let (first, second, third) = (
        Step::Register(Register::Rdi, 0),
        Step::Register(Register::Rsi, 0),
        Step::Register(Register::Rdx, 0),
    );
    let far = 1 << 40;
    let steps = [
        // Numbers, of which none needs anything but a register.
        first,
        Step::Store,
        Step::Register(Register::Rdi, -3),
        Step::Store,
        Step::Register(Register::Rdi, far),
        Step::Store,
        Step::Constant(u64::MAX - 1),
        Step::Store,
        Step::Constant(0x1234_5678_9abc_def0),
        Step::Store,
        // Memory, text, and numbers again.
        second,
        Step::Read(8),
        Step::Store,
        third,
        Step::StoreText(3),
        first,
        Step::Store,
        Step::Store,
        second,
        Step::Keep,
        Step::Read(16),
        Step::Store,
        Step::Back,
        Step::StoreMemory { offset: 0, size: 4 },
        Step::Read(0),
        Step::Store,
        // What cannot be read is a fault, and the next argument begins anew.
        Step::Constant(8),
        Step::Read(0),
        Step::Store,
        Step::Keep,
        Step::StoreText(0),
        first,
        Step::Store,
        Step::Back,
        Step::Store,
        Step::Constant(8),
        Step::StoreText(0),
    ];
    let call = (7, words.as_ptr() as u64, text.as_ptr() as u64);
    let word = |value: u64| Output::Read(value.to_ne_bytes().to_vec());
    let expected = [
        word(7),
        word(4),
        word(7 + far as u64),
        word(u64::MAX - 1),
        word(0x1234_5678_9abc_def0),
        word(22),
        Output::Read(b"a program".to_vec()),
        word(7),
        word(7),
        word(33),
        Output::Read(11u32.to_ne_bytes().to_vec()),
        word(11),
        Output::Fault,
        Output::Fault,
        word(7),
        Output::Fault,
        Output::Fault,
    ];
    same("outputs", &outputs(options, &steps, call)?[..], &expected)
}

fn behind_text(options: &Options) -> Outcome {
    // A record has room for 48 KiB of output, and code for 203 steps.
    let many = 97;
    let mut steps = vec![Step::Register(Register::Rsi, 0), Step::StoreText(0)];
    for _ in 0..many {
        steps.extend([
            Step::StoreMemory {
                offset: 0,
                size: 512,
            },
            Step::Store,
        ]);
    }
    let text = [b'x'; 512];
    let address = text.as_ptr() as u64;
    let call = (5, address, 0);
    let outputs = outputs(options, &steps, call)?;
    same("outputs", outputs.len(), 1 + 2 * many)?;
    same("text", &outputs[0], &Output::Cut(vec![b'x'; 15]))?;
    let memory = outputs[1..].iter().step_by(2);
    let whole = memory.clone().take_while(|it| **it != Output::NoRoom);
    let whole = whole.count();
    if !(80..many).contains(&whole) {
        return Err(format!("{whole} pieces of memory found room").into());
    }
    let after = memory.skip(whole).find(|it| **it != Output::NoRoom);
    same("memory behind the room's end", after, None)?;
    let number = Output::Read(address.to_ne_bytes().to_vec());
    let mut numbers = outputs[2..].iter().step_by(2);
    let until = numbers.position(|it| *it != number).unwrap_or(many);
    if until < whole {
        return Err(format!("number {until} is missing, though there was room").into());
    }
    let after = numbers.find(|it| **it != Output::NoRoom);
    same("numbers behind the room's end", after, None)
}
