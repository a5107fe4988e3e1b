//! Kernel events: tracepoints by name, events with records of their own, and system calls by number.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plan, Shape};
use crate::abi;
use crate::error::{Error, Result};
use crate::hit_filter::HitFilter;
use crate::spec::{KernelEvent, ProbeId, Spec, TracepointProbe};

#[derive(Debug)]
pub(crate) struct Tracepoint {
    pub(crate) category: String,
    pub(crate) name: String,
    pub(crate) entry: u32,
    pub(crate) config: abi::Tracepoint,
}

/// System calls by number. `all` holds the probes that want every call.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) numbers: abi::Numbers,
    /// Whose are the kernel's guard's misses, which are counted for the program as a whole.
    pub(crate) probe: ProbeId,
}

impl Plan {
    pub(super) fn tracepoints(&mut self, spec: &Spec) -> Result<()> {
        // Probes of one tracepoint share its records where they want the same hits.
        let mut filters: Vec<Option<&HitFilter>> = Vec::new();
        let mut known: BTreeMap<(&str, &str, usize), Vec<&TracepointProbe>> = BTreeMap::new();
        for probe in &spec.tracepoints {
            let filter = spec.hits.get(&(probe.id, 0));
            let number = filters.iter().position(|own| *own == filter);
            let number = number.unwrap_or_else(|| {
                filters.push(filter);
                filters.len() - 1
            });
            known
                .entry((&probe.category, &probe.name, number))
                .or_default()
                .push(probe);
        }
        for ((category, name, filter), same) in known {
            let first = same[0];
            if same
                .iter()
                .any(|probe| probe.size != first.size || probe.dynamic != first.dynamic)
            {
                return Err(Error::bad_spec(format!(
                    "two descriptions of {category}:{name} differ in their layout"
                )));
            }
            let size = first.size as usize;
            if !(8..=abi::TRACEPOINT_BYTES).contains(&size) || first.dynamic.len() > abi::DYNAMIC {
                return Err(Error::bad_spec(format!(
                    "{category}:{name} has {size} bytes and {} variable-length fields; from 8 to {} \
                     bytes and up to {} such fields can be recorded",
                    first.dynamic.len(),
                    abi::TRACEPOINT_BYTES,
                    abi::DYNAMIC
                )));
            }
            let mut dynamic = [0; abi::DYNAMIC];
            for (slot, field) in dynamic.iter_mut().zip(&first.dynamic) {
                if u64::from(field.offset) + 4 > size as u64 {
                    return Err(Error::bad_spec(format!(
                        "{category}:{name} has a variable-length field at {}, beyond its {size} bytes",
                        field.offset
                    )));
                }
                *slot = field.offset | if field.relative { abi::RELATIVE } else { 0 };
            }
            let ids = same.iter().map(|probe| (probe.id, 0)).collect();
            let entry = self.entry(ids, Shape::Tracepoint, filters[filter].cloned());
            self.tracepoints.push(Tracepoint {
                category: category.into(),
                name: name.into(),
                entry,
                config: abi::Tracepoint {
                    entry,
                    size: first.size,
                    dynamic_count: first.dynamic.len() as u32,
                    dynamic,
                },
            });
        }
        Ok(())
    }

    pub(super) fn kernel(&mut self, spec: &Spec) -> Result<()> {
        let mut typed: BTreeMap<usize, (Shape, Vec<(ProbeId, u32)>)> = BTreeMap::new();
        let (mut enter, mut exit) = (Vec::new(), Vec::new());
        for probe in &spec.kernel {
            let (event, shape) = match &probe.event {
                KernelEvent::SchedSwitch => (abi::SCHED_SWITCH, Shape::Switch),
                KernelEvent::SchedWaking => (abi::SCHED_WAKING, Shape::Wake),
                KernelEvent::SchedWakeup => (abi::SCHED_WAKEUP, Shape::Wake),
                KernelEvent::SchedWakeupNew => (abi::SCHED_WAKEUP_NEW, Shape::Wake),
                KernelEvent::SchedMigrateTask => (abi::SCHED_MIGRATE_TASK, Shape::Migrate),
                KernelEvent::ProcessFork => (abi::PROCESS_FORK, Shape::Fork),
                KernelEvent::ProcessExec => (abi::PROCESS_EXEC, Shape::Exec),
                KernelEvent::ProcessExit => (abi::PROCESS_EXIT, Shape::Exit),
                KernelEvent::SysEnter(numbers) => {
                    enter.push((probe.id, numbers.as_slice()));
                    continue;
                }
                KernelEvent::SysExit(numbers) => {
                    exit.push((probe.id, numbers.as_slice()));
                    continue;
                }
            };
            typed
                .entry(event)
                .or_insert((shape, Vec::new()))
                .1
                .push((probe.id, 0));
        }
        for (event, (shape, probes)) in typed {
            let ids = probes.iter().map(|&(id, _)| id);
            let filter = common_filter(spec, ids, 0)?.cloned();
            self.typed[event] = self.entry(probes, shape, filter);
        }
        self.enter = self.calls(spec, &enter, &Shape::SysEnter)?;
        self.exit = self.calls(spec, &exit, &Shape::SysExit)?;
        Ok(())
    }

    fn calls(
        &mut self,
        spec: &Spec,
        probes: &[(ProbeId, &[u32])],
        shape: &Shape,
    ) -> Result<Option<Calls>> {
        let Some(probe) = probes.iter().map(|&(id, _)| id).min() else {
            return Ok(None);
        };
        let mut shared: Vec<(BTreeSet<ProbeId>, Option<&HitFilter>, u32)> = Vec::new();
        let mut numbers = abi::Numbers {
            entry: [abi::NO_ENTRY; abi::SYSCALLS + 1],
        };
        for (number, slot) in numbers.entry.iter_mut().enumerate() {
            let wanted: BTreeSet<ProbeId> = probes
                .iter()
                .filter(|(_, list)| {
                    list.is_empty() || (number < abi::SYSCALLS && list.contains(&(number as u32)))
                })
                .map(|&(id, _)| id)
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let filter = common_filter(spec, wanted.iter().copied(), number as u32)?;
            let known = shared
                .iter()
                .find(|(probes, own, _)| *probes == wanted && *own == filter);
            *slot = match known {
                Some(&(.., entry)) => entry,
                None => {
                    let ids = wanted.iter().map(|&id| (id, 0)).collect();
                    let entry = self.entry(ids, shape.clone(), filter.cloned());
                    shared.push((wanted, filter, entry));
                    entry
                }
            };
        }
        Ok(Some(Calls { numbers, probe }))
    }
}

/// The filter of an event that has one record for all probes.
fn common_filter(
    spec: &Spec,
    probes: impl Iterator<Item = ProbeId>,
    part: u32,
) -> Result<Option<&HitFilter>> {
    let mut filters = probes.map(|id| spec.hits.get(&(id, part)));
    let first = filters.next().flatten();
    match filters.all(|filter| filter == first) {
        true => Ok(first),
        false => Err(Error::bad_spec(
            "two probes want different hits of one kernel event that is recorded once",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::spec::{Dynamic, KernelProbe};

    #[test]
    fn a_system_call_has_an_entry_for_each_set_of_probes_that_want_it() {
        let probe = |id, numbers: &[u32]| KernelProbe {
            id: ProbeId(id),
            event: KernelEvent::SysEnter(numbers.to_vec()),
        };
        let kernel = vec![probe(1, &[3, 5]), probe(2, &[5]), probe(3, &[3, 5, 2000])];
        let plan = Plan::new(&Spec {
            kernel,
            ..Spec::default()
        })
        .unwrap();
        let numbers = plan.enter.unwrap().numbers.entry;
        let whose = |number: usize| -> Vec<u32> {
            let entry = plan.entries.get(numbers[number] as usize);
            entry
                .iter()
                .flat_map(|entry| entry.probes.iter().map(|(id, _)| id.0))
                .collect()
        };
        assert_eq!(
            (whose(3), whose(5), whose(4)),
            (vec![1, 3], vec![1, 2, 3], vec![])
        );
        assert!(plan.exit.is_none());
        let kernel = vec![probe(1, &[]), probe(2, &[5])];
        let plan = Plan::new(&Spec {
            kernel,
            ..Spec::default()
        })
        .unwrap();
        let numbers = plan.enter.unwrap().numbers.entry;
        assert_ne!(numbers[5], numbers[4]);
        assert_eq!(numbers[4], numbers[abi::SYSCALLS]);
    }

    #[test]
    fn a_tracepoint_whose_layout_makes_no_sense_is_refused() {
        let probe = |size, offsets: &[u32]| TracepointProbe {
            id: ProbeId(0),
            category: "a".into(),
            name: "b".into(),
            size,
            dynamic: offsets
                .iter()
                .map(|&offset| Dynamic {
                    offset,
                    relative: false,
                })
                .collect(),
        };
        let plan = |tracepoints| {
            Plan::new(&Spec {
                tracepoints,
                ..Spec::default()
            })
        };
        for bad in [
            vec![probe(7, &[])],
            vec![probe(8193, &[])],
            vec![probe(16, &[13])],
            vec![probe(16, &[u32::MAX])],
            vec![probe(16, &[8; 17])],
            vec![probe(16, &[8]), probe(24, &[8])],
        ] {
            assert_eq!(plan(bad).unwrap_err().kind(), &ErrorKind::BadSpec);
        }
        assert_eq!(
            plan(vec![probe(16, &[8, 12]), probe(16, &[8, 12])])
                .unwrap()
                .entries
                .len(),
            1
        );
    }
}
