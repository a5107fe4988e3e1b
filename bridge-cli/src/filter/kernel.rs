//! A filter for the kernel: the same checks, over what the probe's program fetches.
//!
//! All that an `-e` says of a probe becomes one row of checks. Where one check cannot be made in the kernel
//! the whole filter cannot: half of it would let the wrong hits through.

use tracebraid_bpf::hit_filter::{
    Check, Compare, Condition, Cut, HitFilter, Like, Next, Number, Part, Pattern, Shape, Source,
    Test, Text,
};
use tracebraid_filter::{self as language, CpuCompare, Filter};

use super::ProbeFilter;
use crate::event::Probe;
use crate::source::kernel_value::InKernel;

/// Where the kernel has a field, or what the field is that it has not.
pub(crate) type FindField<'a> = &'a dyn Fn(usize) -> Result<InKernel, &'static str>;

impl ProbeFilter {
    /// The filter as the kernel evaluates it.
    ///
    /// # Errors
    /// What of it the kernel cannot decide, as a sentence.
    pub(crate) fn in_kernel(
        &self,
        probe: &Probe,
        find: FindField<'_>,
    ) -> Result<HitFilter, String> {
        let mut linked = Linked {
            any: &self.any,
            starts: Vec::new(),
        };
        let mut length = 0;
        for all in &self.any {
            let mut starts = Vec::new();
            for filter in all {
                starts.push(length);
                length += filter.program().steps.len();
            }
            linked.starts.push(starts);
        }
        let mut checks = Vec::with_capacity(length);
        for (group, all) in self.any.iter().enumerate() {
            for (place, filter) in all.iter().enumerate() {
                for step in filter.program().steps {
                    checks.push(Check {
                        test: test(filter, step, probe, find)?,
                        then: linked.next(step.then, group, place),
                        otherwise: linked.next(step.otherwise, group, place),
                    });
                }
            }
        }
        Ok(HitFilter {
            first: linked.begin(0, 0),
            checks,
        })
    }
}

/// Filters one behind the other.
struct Linked<'a> {
    any: &'a [Vec<Filter>],
    /// The number of the first check of each.
    starts: Vec<Vec<usize>>,
}

impl Linked<'_> {
    fn begin(&self, group: usize, place: usize) -> Next {
        match self.any.get(group).and_then(|all| all.get(place)) {
            Some(filter) => self.next(filter.program().first, group, place),
            None => Next::Accept,
        }
    }

    /// Where a filter's way leads: all of a group have to accept, and of the groups one.
    fn next(&self, way: language::Next, group: usize, place: usize) -> Next {
        match way {
            language::Next::Step(step) => {
                Next::Check(self.starts[group][place] + usize::from(step))
            }
            language::Next::Accept if place + 1 < self.any[group].len() => {
                self.begin(group, place + 1)
            }
            language::Next::Accept => Next::Accept,
            language::Next::Reject if group + 1 < self.any.len() => self.begin(group + 1, 0),
            language::Next::Reject => Next::Reject,
        }
    }
}

fn test(
    filter: &Filter,
    step: &language::Step,
    probe: &Probe,
    find: FindField<'_>,
) -> Result<Test, String> {
    let plain = |source, cuts| {
        InKernel::Number(Number {
            source,
            cuts,
            present: None,
        })
    };
    let (name, value) = match step.source {
        language::Source::Field(index) => {
            let index = usize::from(index);
            let name = probe.fields.get(index).map_or("", |field| &*field.name);
            let value = find(index).map_err(|what| format!("{name} is {what}"))?;
            (name, value)
        }
        language::Source::Thread => {
            let signed = Cut::Low {
                bytes: 4,
                signed: true,
            };
            ("common_pid", plain(Source::Thread, vec![signed]))
        }
        language::Source::Cpu => ("cpu", plain(Source::Cpu, Vec::new())),
        language::Source::Comm => ("comm", InKernel::Text(Text::Thread)),
    };
    match value {
        InKernel::Missing => Ok(Test::Never),
        InKernel::Number(number) => Ok(match condition(filter, &step.test, name)? {
            Some(condition) => Test::Number(number, condition),
            None => Test::Never,
        }),
        InKernel::Text(text) => match step.test {
            language::Test::Text {
                shape,
                pattern,
                negated,
            } => {
                let bytes = filter.program().pattern(pattern);
                let like = match shape {
                    language::Shape::Whole => Like::Bytes(Shape::Whole, bytes.to_vec()),
                    language::Shape::Front => Like::Bytes(Shape::Front, bytes.to_vec()),
                    language::Shape::End => Like::Bytes(Shape::End, bytes.to_vec()),
                    language::Shape::Middle => Like::Bytes(Shape::Middle, bytes.to_vec()),
                    language::Shape::Glob => Like::Parts(parts(bytes)),
                };
                let pattern = Pattern { like, negated };
                Ok(Test::Text(text, pattern))
            }
            _ => Ok(Test::Never),
        },
    }
}

/// What a number has to fulfil; `None` where no number does.
fn condition(
    filter: &Filter,
    test: &language::Test,
    name: &str,
) -> Result<Option<Condition>, String> {
    Ok(Some(match *test {
        language::Test::Signed(how, wanted) => Condition::Signed(compare(how), wanted),
        language::Test::Unsigned(how, wanted) => Condition::Unsigned(compare(how), wanted),
        language::Test::Bits(0) | language::Test::Never => return Ok(None),
        language::Test::Bits(bits) => Condition::Bits(bits),
        language::Test::Cpus {
            compare,
            words,
            cpus,
        } => match compare {
            CpuCompare::Equal => return Ok(None),
            CpuCompare::Differs => Condition::Unsigned(Compare::Less, cpus.into()),
            CpuCompare::Within => {
                let ranges = ranges(filter.program().set(words), cpus);
                match ranges.is_empty() {
                    true => return Ok(None),
                    false => Condition::Ranges {
                        ranges,
                        negated: false,
                    },
                }
            }
        },
        language::Test::Function {
            start,
            end,
            negated,
        } => match (end.checked_sub(1).filter(|last| *last >= start), negated) {
            (Some(last), negated) => Condition::Ranges {
                ranges: vec![(start, last)],
                negated,
            },
            (None, false) => return Ok(None),
            (None, true) => Condition::Unsigned(Compare::AtLeast, 0),
        },
        language::Test::Float(..) => return Err(format!("{name} is a floating-point number")),
        language::Test::SignedWide(..)
        | language::Test::UnsignedWide(..)
        | language::Test::BitsWide(_) => return Err(format!("{name} is a number of 16 bytes")),
        language::Test::Text { .. } => return Ok(None),
    }))
}

fn compare(how: language::Compare) -> Compare {
    match how {
        language::Compare::Equal => Compare::Equal,
        language::Compare::Differs => Compare::Differs,
        language::Compare::Less => Compare::Less,
        language::Compare::AtMost => Compare::AtMost,
        language::Compare::Greater => Compare::Greater,
        language::Compare::AtLeast => Compare::AtLeast,
    }
}

/// The numbers in a set, as runs.
fn ranges(words: &[u64], cpus: u16) -> Vec<(u64, u64)> {
    let is_in = |cpu: &u64| {
        words
            .get(*cpu as usize / 64)
            .is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    };
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for cpu in (0..u64::from(cpus)).filter(is_in) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    ranges
}

fn parts(pattern: &[u8]) -> Vec<Part> {
    let parts = language::parts(pattern).into_iter();
    parts
        .map(|part| match part {
            language::Part::Run => Part::Run,
            language::Part::Character { ranges, negated } => Part::Character { ranges, negated },
        })
        .collect()
}
