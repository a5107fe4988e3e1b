//! Filters as instructions: what stands in the room that `filter_code` of `bpf/filter.bpf.h` keeps.
//!
//! ```text
//! filter_code(values, entry):   to the filter of the entry; without one: accept
//!   check 0:   load, cut to width, compare ──holds──▶ `then`
//!              otherwise ──▶ `otherwise`
//!   …
//!   accept:    return 1           reject:    return 0
//! ```
//! A program then has just the comparisons that were asked for, and hits that no filter wants end before
//! anything is reserved. `values` is what the program has fetched: the scratch slot of a probe, a tracepoint's
//! record, or a copy of a record of its own; all are values of maps, so that the verifier knows their size.
//! What cannot be read leads to `otherwise`.

use crate::abi::{self, record};
use crate::assembler::{Assembler, Label, Operation, Reg, When};
use crate::error::{Error, Result};
use crate::hit_filter::{
    Check, Compare, Condition, Cut, HitFilter, Like, Member, Next, Number, Part,
    Shape as TextShape, Source, Test, Text, Who,
};
use crate::plan::{Entry, Shape};

/// What a filter is told where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// A scratch slot.
    Scratch,
    /// A tracepoint's record, with room for the name of a thread behind it.
    Tracepoint,
    /// A record with a header.
    Record,
}

impl Values {
    fn of(shape: &Shape) -> Values {
        match shape {
            Shape::Slots | Shape::Arguments(_) | Shape::Program(_) => Values::Scratch,
            Shape::Tracepoint => Values::Tracepoint,
            Shape::Switch
            | Shape::Wake
            | Shape::Migrate
            | Shape::Fork
            | Shape::Exec
            | Shape::Exit
            | Shape::SysEnter
            | Shape::SysExit => Values::Record,
        }
    }
}

/// The code of all filters of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterCode {
    of: Vec<(Values, Assembler)>,
    /// What texts are compared with, by the numbers that the code calls them.
    pub(crate) texts: Vec<abi::TextTest>,
}

const RESULT: Reg = Reg(0);
/// The value that is compared, and what it is compared with.
const VALUE: Reg = Reg(1);
const WANTED: Reg = Reg(2);
/// Arguments of a comparison of text, beside the first.
const AT: Reg = Reg(2);
const LENGTH: Reg = Reg(3);
const NUMBER: Reg = Reg(4);
const SPARE: Reg = Reg(5);
/// Survive calls.
const VALUES: Reg = Reg(6);

const GET_PID_TGID: i32 = 14;
const GET_COMM: i32 = 16;
const GET_CPU: i32 = 8;

/// Of records: the header's thread and its name.
const HEADER_TID: i16 = 16;
const HEADER_COMM: i16 = 24;
/// Of a task in a record.
const TASK_PRIORITY: i16 = 8;
const TASK_COMM: i16 = 16;

impl FilterCode {
    /// Compiles the filters of these entries. `text_bytes` of text stand behind a scratch slot.
    ///
    /// # Errors
    /// [`BadSpec`](crate::ErrorKind::BadSpec) for a filter that asks for what its entry does not have, and
    /// for filters that are too long together.
    pub(crate) fn compile(entries: &[Entry], text_bytes: u32) -> Result<FilterCode> {
        let mut code = FilterCode::default();
        for values in [Values::Scratch, Values::Tracepoint, Values::Record] {
            let filtered: Vec<(u32, &Entry, &HitFilter)> = (0..)
                .zip(entries)
                .filter(|(_, entry)| Values::of(&entry.shape) == values)
                .filter_map(|(number, entry)| Some((number, entry, entry.filter.as_ref()?)))
                .collect();
            let assembler = compile(&filtered, values, text_bytes, &mut code.texts)?;
            code.of.push((values, assembler));
        }
        Ok(code)
    }

    /// Writes the code for programs that filter such values into their object.
    ///
    /// # Errors
    /// [`Load`](crate::ErrorKind::Load) where the object is not as it was compiled.
    pub(crate) fn write_into(&self, object: &mut [u8], values: Values) -> Result<()> {
        let damaged = || {
            let message = "a BPF object has no room for filters";
            Error::new(crate::ErrorKind::Load, message)
        };
        const INSTRUCTION: usize = 8;
        let mark = mark();
        let room = abi::FILTER_ROOM * INSTRUCTION;
        let start = (0..object.len())
            .step_by(INSTRUCTION)
            .find(|&at| object[at..].starts_with(&mark))
            .ok_or_else(damaged)?;
        let (place, behind) = object[start..]
            .split_at_mut_checked(room)
            .ok_or_else(damaged)?;
        let call = behind.first_chunk::<INSTRUCTION>().ok_or_else(damaged)?;
        let is_own_call = call[0] == 0x85 && call[1] >> 4 == 1;
        if !is_own_call || place.chunks_exact(INSTRUCTION).any(|one| one != mark) {
            return Err(damaged());
        }
        let distance = i32::from_ne_bytes([call[4], call[5], call[6], call[7]]);
        let function = abi::FILTER_ROOM as i32 + 1 + distance;
        let assembler = self.of.iter().find(|(own, _)| *own == values);
        let (_, assembler) = assembler.ok_or_else(damaged)?;
        let bytes = assembler.finish(function).ok_or_else(damaged)?;
        place
            .get_mut(..bytes.len())
            .ok_or_else(damaged)?
            .copy_from_slice(&bytes);
        Ok(())
    }
}

/// `r0 = ABI_FILTER_MARK`
fn mark() -> [u8; 8] {
    let [a, b, c, d] = abi::FILTER_MARK.to_ne_bytes();
    [0xb7, 0, 0, 0, a, b, c, d]
}

fn compile(
    filtered: &[(u32, &Entry, &HitFilter)],
    values: Values,
    text_bytes: u32,
    texts: &mut Vec<abi::TextTest>,
) -> Result<Assembler> {
    let mut code = Assembler::default();
    let (accept, reject, end) = (code.label(), code.label(), code.label());
    // What is left of the room must be reachable, and never is: the verifier takes it out.
    code.by_number(Operation::Move, RESULT, 1);
    code.jump_if_number(When::Equal, RESULT, 0, end);
    code.by_register(Operation::Move, VALUES, VALUE);
    let starts: Vec<(u32, Label)> = filtered
        .iter()
        .map(|&(number, ..)| (number, code.label()))
        .collect();
    choose(&mut code, &starts, accept);
    code.place(accept);
    code.by_number(Operation::Move, RESULT, 1);
    code.exit();
    let mut rejects = false;
    for (&(_, entry, filter), &(_, start)) in filtered.iter().zip(&starts) {
        let mut one = OneFilter {
            code: &mut code,
            entry,
            values,
            text_bytes,
            texts,
            outputs: filter.outputs(),
            accept,
            reject,
            rejects: false,
        };
        one.compile(filter, start)
            .map_err(|what| Error::bad_spec(format!("a filter {what}")))?;
        rejects |= one.rejects;
    }
    if rejects {
        code.place(reject);
        code.by_number(Operation::Move, RESULT, 0);
        code.exit();
    }
    code.place(end);
    if code.len() > abi::FILTER_ROOM {
        return Err(Error::bad_spec(format!(
            "the filters together take {} instructions; there is room for {}",
            code.len(),
            abi::FILTER_ROOM
        )));
    }
    Ok(code)
}

/// To the filter of the entry, by halves.
fn choose(code: &mut Assembler, starts: &[(u32, Label)], accept: Label) {
    match starts {
        [] => {}
        [(number, start)] => {
            code.jump_if_number(When::Equal, WANTED, *number as i32, *start);
            code.jump(accept);
        }
        several => {
            let (low, high) = several.split_at(several.len() / 2);
            let upper = code.label();
            code.jump_if_number(When::AtLeast, WANTED, high[0].0 as i32, upper);
            choose(code, low, accept);
            code.place(upper);
            choose(code, high, accept);
        }
    }
}

type Step<T> = std::result::Result<T, String>;

/// The filter of one entry while it is compiled.
struct OneFilter<'a> {
    code: &'a mut Assembler,
    entry: &'a Entry,
    values: Values,
    text_bytes: u32,
    texts: &'a mut Vec<abi::TextTest>,
    /// Outputs that are looked at: the word of that place says where each is.
    outputs: Vec<u16>,
    accept: Label,
    reject: Label,
    /// Whether anything leads to `reject`.
    rejects: bool,
}

impl OneFilter<'_> {
    fn compile(&mut self, filter: &HitFilter, start: Label) -> Step<()> {
        let checks = &filter.checks;
        let labels: Vec<Label> = checks.iter().map(|_| self.code.label()).collect();
        // Code that nothing leads to would be refused by the verifier.
        let mut reached = vec![false; checks.len()];
        self.code.place(start);
        let mut last = filter.first;
        reach(last, &mut reached, 0)?;
        for (index, check) in checks.iter().enumerate() {
            if !reached[index] {
                continue;
            }
            // From the start, or from the check before.
            if last != Next::Check(index) {
                self.go(last, &labels);
            }
            self.code.place(labels[index]);
            last = check.otherwise;
            reach(check.otherwise, &mut reached, index + 1)?;
            if check.test != Test::Never {
                reach(check.then, &mut reached, index + 1)?;
                self.check(check, &labels)?;
            }
        }
        self.go(last, &labels);
        Ok(())
    }

    fn way(&mut self, next: Next, labels: &[Label]) -> Label {
        match next {
            Next::Check(index) => labels[index],
            Next::Accept => self.accept,
            Next::Reject => {
                self.rejects = true;
                self.reject
            }
        }
    }

    fn go(&mut self, next: Next, labels: &[Label]) {
        let label = self.way(next, labels);
        self.code.jump(label);
    }

    /// Jumps to `then` where the check holds; what follows is `otherwise`.
    fn check(&mut self, check: &Check, labels: &[Label]) -> Step<()> {
        let then = self.way(check.then, labels);
        let otherwise = self.code.label();
        match &check.test {
            Test::Never => {}
            Test::Number(number, condition) => {
                if matches!(condition, Condition::Ranges { ranges, .. } if ranges.is_empty()) {
                    return Err("compares with no range".to_owned());
                }
                self.number(number, otherwise)?;
                self.condition(condition, then, otherwise);
            }
            Test::Text(text, pattern) => {
                let test = self.text_test(&pattern.like)?;
                self.text(*text, otherwise)?;
                self.code
                    .by_number(Operation::Move, NUMBER, i32::from(test));
                self.code.by_register(Operation::Move, VALUE, VALUES);
                self.code.call();
                let when = match pattern.negated {
                    true => When::Equal,
                    false => When::Differs,
                };
                self.code.jump_if_number(when, RESULT, 0, then);
            }
        }
        self.code.place(otherwise);
        Ok(())
    }

    /// The number of a test among all.
    fn text_test(&mut self, like: &Like) -> Step<u16> {
        let test = text_test(like)?;
        let key = |test: &abi::TextTest| (test.shape, test.length, test.words);
        let known = self.texts.iter().position(|own| key(own) == key(&test));
        let number = known.unwrap_or_else(|| {
            self.texts.push(test);
            self.texts.len() - 1
        });
        u16::try_from(number).map_err(|_| "is one of too many".to_owned())
    }

    fn condition(&mut self, condition: &Condition, then: Label, otherwise: Label) {
        let code = &mut *self.code;
        match condition {
            Condition::Signed(compare, wanted) => {
                let when = match compare {
                    Compare::Equal => When::Equal,
                    Compare::Differs => When::Differs,
                    Compare::Less => When::Less,
                    Compare::AtMost => When::LessOrEqual,
                    Compare::Greater => When::Greater,
                    Compare::AtLeast => When::GreaterOrEqual,
                };
                compare_with(code, when, *wanted as u64, then);
            }
            Condition::Unsigned(compare, wanted) => {
                let when = match compare {
                    Compare::Equal => When::Equal,
                    Compare::Differs => When::Differs,
                    Compare::Less => When::Below,
                    Compare::AtMost => When::AtMost,
                    Compare::Greater => When::Above,
                    Compare::AtLeast => When::AtLeast,
                };
                compare_with(code, when, *wanted, then);
            }
            Condition::Bits(bits) => compare_with(code, When::AnyBit, *bits, then),
            Condition::Ranges { ranges, negated } => {
                let (inside, outside) = match negated {
                    true => (otherwise, then),
                    false => (then, otherwise),
                };
                for (low, high) in ranges {
                    let above = code.label();
                    compare_with(code, When::Below, *low, outside);
                    compare_with(code, When::Above, *high, above);
                    code.jump(inside);
                    code.place(above);
                }
                if *negated {
                    code.jump(then);
                }
            }
        }
    }

    /// The value of a number, or to `missing`.
    fn number(&mut self, number: &Number, missing: Label) -> Step<()> {
        if let Some(slot) = number.present {
            self.word(slot, missing)?;
            self.code.jump_if_number(When::Equal, VALUE, 0, missing);
        }
        match number.source {
            Source::Word(word) => self.word(word, missing)?,
            Source::Output { number, bytes } => {
                let head = self.output(number, missing)?;
                let code = &mut *self.code;
                code.load(WANTED, head, record::SCRATCH as i16 + 4, 4);
                code.jump_if_number(When::Differs, WANTED, abi::TEXT_READ as i32, missing);
                let value = (record::SCRATCH + abi::OUTPUT_HEAD) as i16;
                code.load(VALUE, head, value, checked_width(bytes)?);
            }
            Source::Record { offset, bytes } => {
                let offset = self.in_record(offset, bytes.into())?;
                self.code.load(VALUE, VALUES, offset, checked_width(bytes)?);
            }
            Source::Event(member) => {
                let (offset, bytes) = self.member(member)?;
                self.code.load(VALUE, VALUES, offset, bytes);
            }
            Source::Thread if self.values == Values::Record => {
                self.code.load(VALUE, VALUES, HEADER_TID, 4);
            }
            Source::Thread => {
                self.code.call_helper(GET_PID_TGID);
                self.code.by_register(Operation::Move, VALUE, RESULT);
                let thread = Cut::Low {
                    bytes: 4,
                    signed: false,
                };
                self.cut(thread)?;
            }
            Source::Cpu => {
                self.code.call_helper(GET_CPU);
                self.code.by_register(Operation::Move, VALUE, RESULT);
            }
        }
        number.cuts.iter().try_for_each(|&cut| self.cut(cut))
    }

    fn cut(&mut self, cut: Cut) -> Step<()> {
        let code = &mut *self.code;
        match cut {
            Cut::Low { bytes: 8, .. } => {}
            Cut::Low { bytes, signed } => {
                let unused = 64 - 8 * i32::from(checked_width(bytes)?);
                let back = match signed {
                    true => Operation::ShiftRightSigned,
                    false => Operation::ShiftRight,
                };
                code.by_number(Operation::ShiftLeft, VALUE, unused);
                code.by_number(back, VALUE, unused);
            }
            Cut::Bits { first, count } => {
                if first > 63 || !(1..=64).contains(&count) {
                    return Err(format!("asks for {count} bits from bit {first} on"));
                }
                if first > 0 {
                    code.by_number(Operation::ShiftRight, VALUE, first.into());
                }
                if count < 64 {
                    code.by_number(Operation::ShiftLeft, VALUE, 64 - i32::from(count));
                    code.by_number(Operation::ShiftRight, VALUE, 64 - i32::from(count));
                }
            }
            Cut::Truth => {
                let zero = code.label();
                code.jump_if_number(When::Equal, VALUE, 0, zero);
                code.by_number(Operation::Move, VALUE, 1);
                code.place(zero);
            }
        }
        Ok(())
    }

    /// A word of the scratch slot, if it was read.
    fn word(&mut self, word: u8, missing: Label) -> Step<()> {
        let words = match &self.entry.shape {
            Shape::Slots => abi::WORDS,
            Shape::Arguments(arguments) => arguments.len(),
            _ => 0,
        };
        if usize::from(word) >= words {
            return Err(format!("asks for word {word} of {words}"));
        }
        self.valid(word, missing);
        let offset = record::SCRATCH_WORDS as i16 + 8 * i16::from(word);
        self.code.load(VALUE, VALUES, offset, 8);
        Ok(())
    }

    fn valid(&mut self, word: u8, missing: Label) {
        let code = &mut *self.code;
        let valid = (record::SCRATCH_RECORD + record::HEADER) as i16;
        code.load(WANTED, VALUES, valid, 8);
        code.by_number(Operation::ShiftRight, WANTED, word.into());
        code.by_number(Operation::And, WANTED, 1);
        code.jump_if_number(When::Equal, WANTED, 0, missing);
    }

    /// Where an output of a fetch program is, less the size of the scratch slot.
    fn output(&mut self, number: u16, missing: Label) -> Step<Reg> {
        let outputs = match &self.entry.shape {
            Shape::Program(outputs) => outputs.len(),
            _ => 0,
        };
        let word = self.outputs.iter().position(|own| *own == number);
        let word = word.filter(|word| usize::from(number) < outputs && *word < abi::WORDS);
        let word = word.ok_or_else(|| format!("asks for output {number} of {outputs}"))?;
        let code = &mut *self.code;
        let offset = (record::SCRATCH_WORDS + 8 * word) as i16;
        code.load(AT, VALUES, offset, 8);
        // An output that found no room has no head.
        let last = self.text_bytes as i32 - 16;
        code.jump_if_number(When::Above, AT, last, missing);
        code.by_register(Operation::Move, SPARE, VALUES);
        code.by_register(Operation::Add, SPARE, AT);
        Ok(SPARE)
    }

    /// An offset in a tracepoint's record.
    fn in_record(&self, offset: u32, bytes: u32) -> Step<i16> {
        let end = u64::from(offset) + u64::from(bytes);
        let fits = self.values == Values::Tracepoint && end <= abi::TRACEPOINT_BYTES as u64;
        match fits && offset >= 8 {
            true => Ok(offset as i16),
            false => Err(format!("asks for {bytes} bytes at {offset} of a record")),
        }
    }

    /// Where a task is that has a place of its own.
    fn task(&self, who: Who) -> Step<i16> {
        match (&self.entry.shape, who) {
            (Shape::Fork | Shape::Wake | Shape::Migrate | Shape::Exit, Who::First) => {
                Ok(record::HEADER as i16)
            }
            (Shape::Switch, Who::Second) => Ok(record::HEADER as i16 + 8),
            (Shape::Fork, Who::Second) => Ok((record::HEADER + record::TASK) as i16),
            _ => Err("asks for a task that the event does not have".to_owned()),
        }
    }

    /// Offset and width.
    fn member(&self, member: Member) -> Step<(i16, u8)> {
        let header = record::HEADER as i16;
        let task = record::TASK as i16;
        Ok(match (member, &self.entry.shape) {
            // Who leaves is the one that the header names.
            (Member::Tid(Who::First), Shape::Switch) => (HEADER_TID, 4),
            (Member::Priority(Who::First), Shape::Switch) => (header, 4),
            (Member::State, Shape::Switch) => (header + 4, 4),
            (Member::Tid(who), _) => (self.task(who)?, 4),
            (Member::Priority(who), _) => (self.task(who)? + TASK_PRIORITY, 4),
            (Member::First, Shape::Wake | Shape::Migrate | Shape::Exit) => (header + task, 4),
            (Member::Second, Shape::Migrate) => (header + task + 4, 4),
            (Member::OldTid, Shape::Exec) => (header, 4),
            (Member::Argument(argument @ 0..6), Shape::SysEnter) => {
                (header + 8 + 8 * i16::from(argument), 8)
            }
            (Member::Result, Shape::SysExit) => (header + 8, 8),
            _ => {
                return Err(format!(
                    "asks for {member:?}, which the event does not have"
                ));
            }
        })
    }

    /// Place and length of a text, or to `missing`.
    fn text(&mut self, text: Text, missing: Label) -> Step<()> {
        match text {
            Text::Slot(number) => self.slot_text(number, missing)?,
            Text::Output(number) => {
                let head = self.output(number, missing)?;
                let code = &mut *self.code;
                code.load(LENGTH, head, record::SCRATCH as i16 + 4, 4);
                let read = code.label();
                code.jump_if_number(When::Equal, LENGTH, abi::TEXT_READ as i32, read);
                code.jump_if_number(When::Differs, LENGTH, abi::TEXT_CUT as i32, missing);
                code.place(read);
                code.load(LENGTH, head, record::SCRATCH as i16, 4);
                // The NUL does not count.
                let empty = code.label();
                code.jump_if_number(When::Equal, LENGTH, 0, empty);
                code.by_number(Operation::Add, LENGTH, -1);
                code.place(empty);
                let begin = record::SCRATCH + abi::OUTPUT_HEAD;
                code.by_number(Operation::Add, AT, begin as i32);
            }
            Text::Record { offset, bytes } => {
                let offset = self.in_record(offset, bytes)?;
                self.ends_in_nul(offset, bytes as i32);
            }
            Text::Dynamic(field) => {
                let offset = self.in_record(field.offset, 4)?;
                let code = &mut *self.code;
                code.load(AT, VALUES, offset, 4);
                code.by_register(Operation::Move, LENGTH, AT);
                code.by_number(Operation::ShiftRight, LENGTH, 16);
                code.by_number(Operation::And, AT, 0xffff);
                if field.relative {
                    code.by_number(Operation::Add, AT, i32::from(offset) + 4);
                }
                code.by_register(Operation::Move, SPARE, AT);
                code.by_register(Operation::Add, SPARE, LENGTH);
                let end = abi::TRACEPOINT_BYTES as i32;
                code.jump_if_number(When::Above, SPARE, end, missing);
                code.by_number(Operation::Or, LENGTH, abi::TEXT_ENDS_IN_NUL);
            }
            Text::Task(who) => {
                let offset = match (&self.entry.shape, who) {
                    (Shape::Switch, Who::First) => HEADER_COMM,
                    _ => self.task(who)? + TASK_COMM,
                };
                self.ends_in_nul(offset, abi::COMM as i32);
            }
            Text::Thread => {
                let offset = match self.values {
                    Values::Record => HEADER_COMM,
                    Values::Scratch => record::SCRATCH_RECORD as i16 + HEADER_COMM,
                    Values::Tracepoint => abi::TRACEPOINT_BYTES as i16,
                };
                if self.values != Values::Record {
                    let code = &mut *self.code;
                    code.by_register(Operation::Move, VALUE, VALUES);
                    code.by_number(Operation::Add, VALUE, offset.into());
                    code.by_number(Operation::Move, WANTED, abi::COMM as i32);
                    code.call_helper(GET_COMM);
                }
                self.ends_in_nul(offset, abi::COMM as i32);
            }
        }
        Ok(())
    }

    fn ends_in_nul(&mut self, at: i16, most: i32) {
        let code = &mut *self.code;
        code.by_number(Operation::Move, AT, at.into());
        code.by_number(Operation::Move, LENGTH, most | abi::TEXT_ENDS_IN_NUL);
    }

    fn slot_text(&mut self, number: u8, missing: Label) -> Step<()> {
        if self.entry.shape != Shape::Slots || usize::from(number) >= abi::TEXTS {
            return Err(format!("asks for text {number}"));
        }
        self.valid(0, missing);
        let code = &mut *self.code;
        let head = |number: u8| record::SCRATCH_HEADS as i16 + 16 * i16::from(number);
        code.load(LENGTH, VALUES, head(number) + 12, 4);
        code.jump_if_number(When::Differs, LENGTH, abi::TEXT_READ as i32, missing);
        // Texts stand in a row.
        code.by_number(Operation::Move, AT, record::SCRATCH as i32);
        for before in 0..number {
            code.load(SPARE, VALUES, head(before) + 8, 4);
            code.by_register(Operation::Add, AT, SPARE);
        }
        code.load(LENGTH, VALUES, head(number) + 8, 4);
        Ok(())
    }
}

fn text_test(like: &Like) -> Step<abi::TextTest> {
    let (shape, length, words): (u32, usize, Vec<u64>) = match like {
        Like::Bytes(shape, bytes) => {
            let shape = match shape {
                TextShape::Whole => abi::SHAPE_WHOLE,
                TextShape::Front => abi::SHAPE_FRONT,
                TextShape::End => abi::SHAPE_END,
                TextShape::Middle => abi::SHAPE_MIDDLE,
            };
            let word = |part: &[u8]| {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                u64::from_ne_bytes(word)
            };
            (shape, bytes.len(), bytes.chunks(8).map(word).collect())
        }
        Like::Parts(parts) => {
            let words: Vec<u64> = parts.iter().flat_map(part_words).collect();
            (abi::SHAPE_PARTS, words.len(), words)
        }
    };
    if length >= abi::PATTERN {
        return Err(format!("compares text with a pattern of {length} parts"));
    }
    let mut test = abi::TextTest {
        shape,
        length: length as u32,
        words: [0; abi::PATTERN],
    };
    test.words[..words.len()].copy_from_slice(&words);
    Ok(test)
}

/// One word a range.
fn part_words(part: &Part) -> Vec<u64> {
    const LARGEST: u32 = 0xff_ffff;
    match part {
        Part::Run => vec![abi::PART_RUN],
        Part::Character { ranges, negated } => {
            let last = ranges.len().saturating_sub(1);
            let word = |(index, &(low, high)): (usize, &(u32, u32))| {
                let mut word = u64::from(low.min(LARGEST)) | u64::from(high.min(LARGEST)) << 24;
                if *negated {
                    word |= abi::PART_NEGATED;
                }
                if index < last {
                    word |= abi::PART_MORE;
                }
                word
            };
            ranges.iter().enumerate().map(word).collect()
        }
    }
}

/// Marks where a check leads, which must be to a later one: from `from` on.
fn reach(next: Next, reached: &mut [bool], from: usize) -> Step<()> {
    let Next::Check(index) = next else {
        return Ok(());
    };
    match reached.get_mut(index).filter(|_| index >= from) {
        Some(reached) => *reached = true,
        None => return Err(format!("leads to check {index}")),
    }
    Ok(())
}

fn checked_width(bytes: u8) -> Step<u8> {
    match bytes {
        1 | 2 | 4 | 8 => Ok(bytes),
        other => Err(format!("compares numbers of {other} bytes")),
    }
}

fn compare_with(code: &mut Assembler, when: When, wanted: u64, then: Label) {
    match i32::try_from(wanted as i64) {
        Ok(small) => code.jump_if_number(when, VALUE, small, then),
        Err(_) => {
            code.constant(WANTED, LENGTH, wanted);
            code.jump_if(when, VALUE, WANTED, then);
        }
    }
}
