//! Places in the kernel's code, tracepoints by their arguments, and events by the fields of their records.

use super::place::{ARGUMENTS, check_program};
use super::{Keep, Plan, Wanted};
use crate::error::{Error, Result};
use crate::spec::{Fetch, FunctionPlace, Kept, ProbeId, Program, Register, Seat, Spec, Step};

/// A place in the kernel's code. `location` is its cookie.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) probe: ProbeId,
    pub(crate) place: FunctionPlace,
    pub(crate) seat: Seat,
    pub(crate) at_return: bool,
    pub(crate) needs: Needs,
    pub(crate) location: u32,
    /// Of a return that takes arguments of the entry: how it has them without a trampoline.
    pub(crate) pair: Option<Pair>,
}

/// A return probe and one at the entry that keeps arguments for it. Both are cookies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) entry: u32,
    pub(crate) at_return: u32,
}

/// What a fetch program takes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// Arguments, and at a return what is returned.
    Call,
    /// Registers in which arguments are handed over, by their names.
    ArgumentRegisters,
    /// Any others, or the stack.
    Registers,
    /// At a return, arguments of the entry.
    EntryArguments,
    /// At a return, arguments of the entry and registers.
    Both,
}

impl Needs {
    fn of(program: &Program) -> Needs {
        let at_return = program.at_return;
        let of_step = |step: &Step| match step {
            Step::Argument(_) if at_return => Needs::EntryArguments,
            // The address, and what is returned.
            Step::Register(Register::Rip, _) => Needs::Call,
            Step::Register(Register::Rax, _) if at_return => Needs::Call,
            Step::Register(register, _) if !at_return && ARGUMENTS.contains(register) => {
                Needs::ArgumentRegisters
            }
            Step::Register(..) => Needs::Registers,
            _ => Needs::Call,
        };
        let all = || program.steps.iter().map(of_step);
        match all().max() {
            Some(Needs::EntryArguments) if all().any(|needs| needs == Needs::Registers) => {
                Needs::Both
            }
            most => most.unwrap_or(Needs::Call),
        }
    }
}

/// A tracepoint of the kernel's code. `location` is a constant of its program.
#[derive(Debug)]
pub(crate) struct RawTracepoint {
    pub(crate) probe: ProbeId,
    pub(crate) name: String,
    pub(crate) location: u32,
}

/// An event of which fields are fetched. `location` is its cookie.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) probe: ProbeId,
    pub(crate) category: String,
    pub(crate) name: String,
    pub(crate) location: u32,
}

impl Plan {
    pub(super) fn functions(&mut self, spec: &Spec) -> Result<()> {
        for probe in &spec.functions {
            let what = || format!("{:?}", probe.place);
            let location = self.alone(spec, probe.id, &probe.program, what)?;
            let pair = self.pair(&probe.program, location);
            self.functions.push(Function {
                probe: probe.id,
                place: probe.place.clone(),
                seat: probe.seat,
                at_return: probe.program.at_return,
                needs: Needs::of(&probe.program),
                location,
                pair,
            });
        }
        for probe in &spec.raw_tracepoints {
            let what = || probe.name.clone();
            let location = self.alone(spec, probe.id, &probe.program, what)?;
            self.raw_tracepoints.push(RawTracepoint {
                probe: probe.id,
                name: probe.name.clone(),
                location,
            });
        }
        for probe in &spec.events {
            let what = || format!("{}:{}", probe.category, probe.name);
            let location = self.alone(spec, probe.id, &probe.program, what)?;
            self.events.push(Event {
                probe: probe.id,
                category: probe.category.clone(),
                name: probe.name.clone(),
                location,
            });
        }
        Ok(())
    }

    /// The same hits of a return as those of a location, with arguments that a probe at the entry has kept.
    fn pair(&mut self, program: &Program, location: u32) -> Option<Pair> {
        let by_kept = |step: &Step| match *step {
            Step::Argument(number) => {
                let register = ARGUMENTS.get(usize::from(number)).copied();
                Step::AtEntry(Kept::Register(register.unwrap_or(Register::Rdi)))
            }
            other => other,
        };
        if !program.at_return || program.steps.iter().all(|step| by_kept(step) == *step) {
            return None;
        }
        let entry = self.locations[location as usize].entry;
        let filter = self.entries[entry as usize].filter.clone();
        let wanted = Wanted {
            fetch: Fetch::Program(Program {
                steps: program.steps.iter().map(by_kept).collect(),
                for_filters: program.for_filters.iter().map(by_kept).collect(),
                at_return: true,
            }),
            filter,
            probes: Vec::new(),
        };
        let words = wanted.kept();
        let at_return = self.chain_into(Some(entry), vec![wanted], Vec::new());
        let keep = Keep {
            location: at_return,
            words,
        };
        Some(Pair {
            entry: self.chain(Vec::new(), vec![keep]),
            at_return,
        })
    }

    /// The location of a program that shares its place with no other.
    fn alone(
        &mut self,
        spec: &Spec,
        probe: ProbeId,
        program: &Program,
        what: impl FnOnce() -> String,
    ) -> Result<u32> {
        check_program(program).map_err(|why| Error::bad_spec(format!("{}: {why}", what())))?;
        let wanted = vec![Wanted {
            fetch: Fetch::Program(program.clone()),
            filter: spec.hits.get(&(probe, 0)).cloned(),
            probes: vec![(probe, 0)],
        }];
        Ok(self.chain(wanted, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(at_return: bool, steps: &[Step]) -> Needs {
        Needs::of(&Program {
            steps: steps.to_vec(),
            at_return,
            ..Program::default()
        })
    }

    #[test]
    fn what_a_program_takes_of_a_call_is_the_most_that_a_step_takes() {
        let di = Step::Register(Register::Rdi, 0);
        let ax = Step::Register(Register::Rax, 0);
        let ip = Step::Register(Register::Rip, -1);
        let argument = Step::Argument(1);
        assert_eq!(needs(false, &[ip, Step::Store, argument]), Needs::Call);
        assert_eq!(needs(false, &[argument, di]), Needs::ArgumentRegisters);
        assert_eq!(needs(false, &[di, ax]), Needs::Registers);
        assert_eq!(needs(true, &[Step::Function(0), ip, ax]), Needs::Call);
        // What the registers of arguments hold at a return is no argument.
        assert_eq!(needs(true, &[di]), Needs::Registers);
        assert_eq!(needs(true, &[argument, ax]), Needs::EntryArguments);
        assert_eq!(needs(true, &[argument, di]), Needs::Both);
        assert_eq!(needs(true, &[]), Needs::Call);
    }
}
