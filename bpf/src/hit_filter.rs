//! Which hits of a probe the kernel is to record, as plain data: builds without clang and without rights.
//!
//! A filter is a row of checks with two ways on each, as `tracebraid-filter` has them:
//!
//! ```text
//! 0  word 0 == 17      holds: check 1     otherwise: reject
//! 1  text 0 ~ "al*"    holds: accept      otherwise: reject
//! ```
//! Each value is one of those that the probe fetches anyway, or of the thread that hits it. A value that is
//! not there (memory that cannot be read, an absent field) passes no check.

/// Which hits are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitFilter {
    /// What it begins with.
    pub first: Next,
    /// Each leads to later ones only.
    pub checks: Vec<Check>,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is compared, and with what.
    pub test: Test,
    /// Where to go where it holds.
    pub then: Next,
    /// Where to go where it does not.
    pub otherwise: Next,
}

/// A way on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To the check with this index.
    Check(usize),
    /// The hit is recorded.
    Accept,
    /// It is counted as filtered, and nothing is written.
    Reject,
}

/// A value and what it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Holds of no hit: what it asks for is never there.
    Never,
    /// A number.
    Number(Number, Condition),
    /// A text.
    Text(Text, Pattern),
}

/// A number: where it is, and how its bits become a value of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Where it is.
    pub source: Source,
    /// In this order. With none it is a word as it stands.
    pub cuts: Vec<Cut>,
    /// Of [`Fetch::Slots`](crate::spec::Fetch::Slots): a slot that is 0 where there is no value.
    pub present: Option<u8>,
}

/// One step from bits to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The lowest bytes (1, 2, 4 or 8), with their sign where there is one.
    Low {
        /// How many.
        bytes: u8,
        /// Whether the highest bit is a sign.
        signed: bool,
    },
    /// So many bits (1 to 64) from bit `first` (0 to 63) on.
    Bits {
        /// The lowest.
        first: u8,
        /// How many.
        count: u8,
    },
    /// 1 for anything but 0.
    Truth,
}

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A slot of [`Fetch::Slots`](crate::spec::Fetch::Slots) or an argument of
    /// [`Fetch::Arguments`](crate::spec::Fetch::Arguments).
    Word(u8),
    /// An output of a fetch [`Program`](crate::spec::Program), by its number among them.
    Output {
        /// Which.
        number: u16,
        /// Its lowest bytes that count: 1, 2, 4 or 8.
        bytes: u8,
    },
    /// Of a tracepoint's record.
    Record {
        /// Bytes from its beginning, at least 8.
        offset: u32,
        /// How many: 1, 2, 4 or 8.
        bytes: u8,
    },
    /// Of an event with a record of its own.
    Event(Member),
    /// The thread that hits the probe.
    Thread,
    /// The CPU that it is on.
    Cpu,
}

/// What an event with a record of its own carries; see [`Body`](crate::record::Body).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The thread's number of a task.
    Tid(Who),
    /// The priority of a task.
    Priority(Who),
    /// `SchedSwitch::prev_state`.
    State,
    /// `Wake::target_cpu`, `Migrate::from`, `Exit::group_dead`.
    First,
    /// `Migrate::to`.
    Second,
    /// `Exec::old_tid`.
    OldTid,
    /// One of the six arguments of a system call.
    Argument(u8),
    /// What a system call returns.
    Result,
}

/// Which task of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The only one, who leaves the CPU, or the parent.
    First,
    /// Who comes, or the child.
    Second,
}

/// What a number has to fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Compared as signed numbers.
    Signed(Compare, i64),
    /// Compared as unsigned ones.
    Unsigned(Compare, u64),
    /// It has one of these bits.
    Bits(u64),
    /// It is in one of these ranges of unsigned numbers, both ends included; or, negated, in none.
    Ranges {
        /// Ascending.
        ranges: Vec<(u64, u64)>,
        /// Whether numbers elsewhere are wanted.
        negated: bool,
    },
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`
    Differs,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// One of the texts of [`Fetch::Slots`](crate::spec::Fetch::Slots), by its number.
    Slot(u8),
    /// An output of a fetch [`Program`](crate::spec::Program), by its number among them.
    Output(u16),
    /// Bytes of such an output that is no text, up to the first NUL.
    Within {
        /// The output's number.
        number: u16,
        /// How many bytes it has: 1 to 512.
        bytes: u16,
    },
    /// Bytes of a tracepoint's record, up to the first NUL.
    Record {
        /// Bytes from its beginning, at least 8.
        offset: u32,
        /// How many.
        bytes: u32,
    },
    /// A field of variable length of a tracepoint's record, up to the first NUL.
    Dynamic(crate::spec::Dynamic),
    /// The name of a task of an event with a record of its own.
    Task(Who),
    /// The name of the thread that hits the probe.
    Thread,
}

/// What a text is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What it is.
    pub like: Like,
    /// Whether text that does not fit is wanted.
    pub negated: bool,
}

/// See [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Like {
    /// At most 255 bytes, and how text is compared with them.
    Bytes(Shape, Vec<u8>),
    /// Characters and runs of them, which together are the whole text. At most 255, of which each range of a
    /// character counts as one.
    Parts(Vec<Part>),
}

/// How a text is compared with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It is these bytes.
    Whole,
    /// It begins with them.
    Front,
    /// It ends with them.
    End,
    /// It has them in it.
    Middle,
}

/// What one place of a pattern stands for; see `tracebraid_filter::Part`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Any run of characters.
    Run,
    /// One character in these ranges or, negated, outside of all; a byte that begins no UTF-8 sequence is
    /// `char::MAX` and the byte, added.
    Character {
        /// First and last; at least one.
        ranges: Vec<(u32, u32)>,
        /// Whether the others are meant.
        negated: bool,
    },
}

impl HitFilter {
    /// Hits that this one wants and another one too.
    #[must_use]
    pub fn and(mut self, other: HitFilter) -> HitFilter {
        let behind = self.checks.len();
        let moved = |next| match next {
            Next::Check(index) => Next::Check(index + behind),
            end => end,
        };
        let first = moved(other.first);
        let joined = |next: &mut Next| {
            if *next == Next::Accept {
                *next = first;
            }
        };
        joined(&mut self.first);
        for check in &mut self.checks {
            joined(&mut check.then);
            joined(&mut check.otherwise);
        }
        self.checks
            .extend(other.checks.into_iter().map(|check| Check {
                test: check.test,
                then: moved(check.then),
                otherwise: moved(check.otherwise),
            }));
        self
    }

    /// The outputs of a fetch program that it looks at, ascending, each once.
    pub fn outputs(&self) -> Vec<u16> {
        let number = |check: &Check| match &check.test {
            Test::Number(
                Number {
                    source: Source::Output { number, .. },
                    ..
                },
                _,
            )
            | Test::Text(Text::Output(number) | Text::Within { number, .. }, _) => Some(*number),
            _ => None,
        };
        let mut outputs: Vec<u16> = self.checks.iter().filter_map(number).collect();
        outputs.sort_unstable();
        outputs.dedup();
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_filters_the_second_begins_where_the_first_accepts() {
        let check = |then, otherwise| Check {
            test: Test::Never,
            then,
            otherwise,
        };
        let of = |first, checks: &[(Next, Next)]| HitFilter {
            first,
            checks: checks
                .iter()
                .map(|&(then, otherwise)| check(then, otherwise))
                .collect(),
        };
        let one = of(
            Next::Check(0),
            &[(Next::Accept, Next::Check(1)), (Next::Reject, Next::Accept)],
        );
        let two = of(Next::Check(0), &[(Next::Accept, Next::Reject)]);
        let all = of(Next::Accept, &[]);
        let joined = of(
            Next::Check(0),
            &[
                (Next::Check(2), Next::Check(1)),
                (Next::Reject, Next::Check(2)),
                (Next::Accept, Next::Reject),
            ],
        );
        assert_eq!(one.clone().and(two.clone()), joined);
        assert_eq!(all.clone().and(two.clone()), two);
        assert_eq!(two.clone().and(all), two);
    }
}
