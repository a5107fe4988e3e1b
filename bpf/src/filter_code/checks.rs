//! The checks of one filter: each falls through to what it does not hold for, and jumps where it holds.

use super::pattern::text_test;
use super::{FILTER_TEXT, LENGTH, NUMBER, RESULT, Step, VALUE, VALUES, Values, WANTED};
use crate::abi;
use crate::assembler::{Assembler, Label, Operation, When};
use crate::hit_filter::{Check, Compare, Condition, HitFilter, Like, Next, Test};
use crate::plan::Entry;

/// The filter of one entry while it is compiled.
pub(super) struct OneFilter<'a> {
    pub(super) code: &'a mut Assembler,
    pub(super) entry: &'a Entry,
    pub(super) values: Values,
    pub(super) text_bytes: u32,
    pub(super) texts: &'a mut Vec<abi::TextTest>,
    /// Outputs that are looked at: the word of that place says where each is.
    pub(super) outputs: Vec<u16>,
    pub(super) accept: Label,
    pub(super) reject: Label,
    /// Whether anything leads to `reject`.
    pub(super) rejects: bool,
}

impl OneFilter<'_> {
    pub(super) fn compile(&mut self, filter: &HitFilter, start: Label) -> Step<()> {
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
                self.code.call(FILTER_TEXT);
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
fn compare_with(code: &mut Assembler, when: When, wanted: u64, then: Label) {
    match i32::try_from(wanted as i64) {
        Ok(small) => code.jump_if_number(when, VALUE, small, then),
        Err(_) => {
            code.constant(WANTED, LENGTH, wanted);
            code.jump_if(when, VALUE, WANTED, then);
        }
    }
}
