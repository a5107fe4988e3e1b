//! Where the values are that a filter looks at, and how they come into registers.

use super::checks::OneFilter;
use super::{AT, LENGTH, RESULT, SPARE, Step, VALUE, VALUES, Values, WANTED};
use crate::abi::{self, record};
use crate::assembler::{Label, Operation, Reg, When};
use crate::hit_filter::{Cut, Member, Number, Source, Text, Who};
use crate::plan::Shape;

const GET_PID_TGID: i32 = 14;
const GET_COMM: i32 = 16;
const GET_CPU: i32 = 8;

/// Of records: the header's thread and its name.
const HEADER_TID: i16 = 16;
const HEADER_COMM: i16 = 24;
/// Of a task in a record.
const TASK_PRIORITY: i16 = 8;
const TASK_COMM: i16 = 16;

impl OneFilter<'_> {
    /// The value of a number, or to `missing`.
    pub(super) fn number(&mut self, number: &Number, missing: Label) -> Step<()> {
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
            Shape::Program { texts, hidden } => texts.len() + hidden,
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
    pub(super) fn text(&mut self, text: Text, missing: Label) -> Step<()> {
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
            Text::Within { number, bytes } => {
                if !(1..=abi::ARRAY_BYTES).contains(&usize::from(bytes)) {
                    return Err(format!("asks for {bytes} bytes of an output"));
                }
                let head = self.output(number, missing)?;
                let code = &mut *self.code;
                code.load(LENGTH, head, record::SCRATCH as i16 + 4, 4);
                code.jump_if_number(When::Differs, LENGTH, abi::TEXT_READ as i32, missing);
                let begin = record::SCRATCH + abi::OUTPUT_HEAD;
                code.by_number(Operation::Add, AT, begin as i32);
                let length = i32::from(bytes) | abi::TEXT_ENDS_IN_NUL;
                code.by_number(Operation::Move, LENGTH, length);
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
fn checked_width(bytes: u8) -> Step<u8> {
    match bytes {
        1 | 2 | 4 | 8 => Ok(bytes),
        other => Err(format!("compares numbers of {other} bytes")),
    }
}
