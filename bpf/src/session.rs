//! A session: everything that one [`Spec`] asks for, attached, and the rings it fills.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::attach::user::Way;
use crate::attach::{arguments, event, function, raw, tracepoint, user};
use crate::capability;
use crate::cost::{Cost, Meter};
use crate::counters::Counters;
use crate::cpu_rings::CpuRings;
use crate::decode::decode;
use crate::error::{Error, ErrorKind, Result};
use crate::family::Family;
use crate::fetching::{FetchBy, Fetching};
use crate::kernel;
use crate::load::{self, Object, Program};
use crate::maps::Maps;
use crate::mechanism::Chosen;
use crate::memory::now;
use crate::misses::Guarded;
use crate::plan::{Entry, Plan};
use crate::record::{Lost, LostReason, Record};
use crate::spec::{ProbeId, Spec};

/// How often the kernel is asked what its guard dropped: one system call a program.
const MISSES_EVERY: Duration = Duration::from_millis(100);

/// What is not part of what to probe.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Attach user probes through perf even where the kernel has uprobe_multi links. For tests, and
    /// for kernels whose links misbehave.
    pub force_perf_uprobes: bool,
    /// Whose events are wanted, in place of the filter's list of processes.
    pub family: Option<Arc<Family>>,
    /// Hits are counted and nothing of them is recorded, which is the least that a hit can cost: of each
    /// probe there is what [`Session::counts`] says, and the rings stay empty. With filters the values that they
    /// look at are fetched too.
    pub count_only: bool,
    /// How arguments of definitions are fetched.
    pub fetch_by: FetchBy,
}

/// Probes that are attached, until dropped or detached.
///
/// Whatever ends the bridge, its probes end with it: they are file descriptors and nothing else.
#[derive(Debug)]
pub struct Session {
    user_links: Vec<OwnedFd>,
    kernel_links: Vec<OwnedFd>,
    /// Probes at entries, which keep something for returns.
    entry_links: Vec<OwnedFd>,
    programs: Vec<Guarded>,
    chosen: Vec<Chosen>,
    fetching: Option<Fetching>,
    rings: Vec<CpuRings>,
    counters: Counters,
    entries: Vec<Entry>,
    delivered: Vec<u64>,
    /// Probes whose misses the kernel does not count.
    uncounted: Vec<ProbeId>,
    /// Hits leave no records.
    counts_only: bool,
    meters: Vec<Meter>,
    cpus: Vec<u32>,
    user_way: Option<Way>,
    losses_at: u64,
    misses_at: Instant,
    misses_before: u64,
}

/// What a [drain](Session::drain) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// No record of this CPU with an earlier time (ns, CLOCK_MONOTONIC) will come any more.
    pub until: u64,
    /// Events handed out.
    pub records: usize,
}

/// The sum of one probe: `hits == delivered + filtered + lost` once the session is [finished](Session::finish), unless
/// it [only counts](Options::count_only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Which probe.
    pub probe: ProbeId,
    /// How often its programs found it wanted.
    pub hits: u64,
    /// Records that `drain` has handed out.
    pub delivered: u64,
    /// Hits that its filter did not pass: nothing was written of them.
    pub filtered: u64,
    /// Hits without a record, as reported by [`Session::losses`].
    pub lost: u64,
    /// What the kernel's recursion guard dropped before any program saw it; not among the hits.
    /// `None`: this kernel does not count it (tracepoints before 6.7; returns of functions of programs, of
    /// which it sees no more than 64 in one another).
    pub missed: Option<u64>,
}

impl Session {
    /// Attaches everything in `spec`, or nothing.
    ///
    /// # Errors
    /// [`BadSpec`](ErrorKind::BadSpec) for what cannot be meant; [`Permission`](ErrorKind::Permission)
    /// with the right that is missing; [`Unsupported`](ErrorKind::Unsupported) with what this kernel
    /// would need; [`Attach`](ErrorKind::Attach) with file and offset; [`Load`](ErrorKind::Load) with
    /// the verifier's last words.
    pub fn start(spec: &Spec) -> Result<Session> {
        Session::start_with(spec, &Options::default())
    }

    /// [`start`](Session::start), with options.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_with(spec: &Spec, options: &Options) -> Result<Session> {
        let plan = Plan::new(spec)?.fetching_by(options.fetch_by);
        let plan = match options.count_only {
            false => plan,
            true => plan.only_counting(),
        };
        let maps = Maps::new(&plan, &spec.filter, options.family.as_deref())?;
        let rings = CpuRings::of_all(&plan, &maps)?;
        let counters = Counters::new(
            maps.counters.as_fd(),
            plan.entries.len(),
            maps.cpus as usize,
        )?;
        let mut session = Session {
            user_links: Vec::new(),
            kernel_links: Vec::new(),
            entry_links: Vec::new(),
            programs: Vec::new(),
            chosen: Vec::new(),
            fetching: None,
            cpus: rings.iter().map(|ring| ring.cpu).collect(),
            rings,
            counters,
            delivered: vec![0; plan.entries.len()],
            uncounted: user::uncounted(&spec.user),
            counts_only: plan.count_only,
            meters: Vec::new(),
            user_way: None,
            losses_at: now(),
            misses_at: Instant::now(),
            misses_before: now(),
            entries: Vec::new(),
        };
        session.attach_kernel(&plan, &maps)?;
        session.attach_functions(&plan, &maps)?;
        session.attach_events(&plan, &maps)?;
        session.attach_user(&plan, &maps, spec, options)?;
        session.fetching = plan.fetching(maps.code.refused.get());
        session.entries = plan.entries;
        Ok(session)
    }

    /// The CPUs that have a ring, ascending.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Hands out what one CPU's programs have written, in the order of its rings: times may go back a little on
    /// kernels without `bpf_local_irq_save` (before 6.14), so sort before merging. A record of an address or
    /// event that several probes share comes once for each.
    ///
    /// For a merge: what is older than the smallest `until` of all CPUs is complete.
    ///
    /// # Errors
    /// [`BadSpec`](ErrorKind::BadSpec) for a CPU without a ring; [`Damaged`](ErrorKind::Damaged) where
    /// the ring holds what no program of ours wrote: give that ring up.
    pub fn drain(&mut self, cpu: u32, out: &mut Vec<Record>) -> Result<Drained> {
        let mut rings = self.rings.iter_mut();
        let rings = rings
            .find(|rings| rings.cpu == cpu)
            .ok_or_else(|| Error::bad_spec(format!("CPU {cpu} has no ring")))?;
        let (entries, delivered) = (&self.entries, &mut self.delivered);
        let before = out.len();
        let until = rings.drain(out, |bytes, out| {
            let (number, _) = decode(bytes, cpu, entries, out).ok_or_else(|| {
                let message = format!("the ring of CPU {cpu} holds a record that makes no sense");
                Error::new(ErrorKind::Damaged, message)
            })?;
            delivered[number as usize] += 1;
            Ok(())
        })?;
        Ok(Drained {
            until,
            records: out.len() - before,
        })
    }

    /// Hands out what was lost since the last call. Call it after the drains of a round: a loss then
    /// stands between two of them.
    ///
    /// # Errors
    /// [`System`](ErrorKind::System) where the kernel does not tell what its guard dropped.
    pub fn losses(&mut self, out: &mut Vec<Lost>) -> Result<()> {
        let (after, before) = (self.losses_at, now());
        self.losses_at = before;
        let entries = &self.entries;
        self.counters.take_losses(|cpu, entry, losses| {
            for &(probe, _) in &entries[entry].probes {
                for (count, reason) in [
                    (losses.ring_full, LostReason::RingFull),
                    (losses.no_scratch, LostReason::Busy),
                ] {
                    if count != 0 {
                        out.push(Lost {
                            probe,
                            cpu,
                            count,
                            after,
                            before,
                            reason,
                        });
                    }
                }
            }
        });
        if self.misses_at.elapsed() >= MISSES_EVERY {
            self.misses(out)?;
        }
        Ok(())
    }

    fn misses(&mut self, out: &mut Vec<Lost>) -> Result<()> {
        let (after, before) = (self.misses_before, now());
        self.misses_at = Instant::now();
        self.misses_before = before;
        for program in &mut self.programs {
            let count = program
                .take()
                .map_err(|error| Error::system("cannot ask for a BPF program's misses", error))?;
            if count == 0 {
                continue;
            }
            for &probe in &program.probes {
                let (cpu, reason) = (Lost::UNKNOWN_CPU, LostReason::Recursion);
                out.push(Lost {
                    probe,
                    cpu,
                    count,
                    after,
                    before,
                    reason,
                });
            }
        }
        Ok(())
    }

    /// Takes every probe away, user probes first. Rings and counts stay to be read; a second call does
    /// nothing.
    pub fn detach(&mut self) {
        // Returns before the entries that keep something for them.
        while self.user_links.pop().is_some() {}
        self.kernel_links.clear();
        self.programs.iter_mut().for_each(Guarded::detach);
        self.entry_links.clear();
    }

    /// Detaches, waits for programs that still run, and hands out all that is left, so that then
    /// `hits == delivered + filtered + lost` for every probe.
    ///
    /// # Errors
    /// As [`drain`](Session::drain) and [`losses`](Session::losses); every ring is drained all the same.
    pub fn finish(&mut self, records: &mut Vec<Record>, lost: &mut Vec<Lost>) -> Result<()> {
        const LIMIT: Duration = Duration::from_secs(2);
        self.detach();
        kernel::wait_for_running_programs();
        let start = Instant::now();
        let mut damaged = None;
        loop {
            for cpu in self.cpus.clone() {
                if let Err(error) = self.drain(cpu, records) {
                    damaged = Some(error);
                }
            }
            let mut entries = 0..self.entries.len();
            let settled = entries.all(|entry| {
                let (hits, losses) = self.counters.totals(entry);
                let filtered = self.counters.filtered(entry);
                hits == self.delivered[entry] + filtered + losses.ring_full + losses.no_scratch
            });
            if settled || self.counts_only || damaged.is_some() || start.elapsed() > LIMIT {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.rings.iter_mut().for_each(|rings| rings.rest(records));
        self.losses(lost)?;
        self.misses(lost)?;
        damaged.map_or(Ok(()), Err)
    }

    /// What became of each probe's hits so far, in the order of their numbers.
    pub fn counts(&self) -> Vec<Count> {
        let mut counts: BTreeMap<ProbeId, Count> = BTreeMap::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let (hits, losses) = self.counters.totals(index);
            for &(probe, _) in &entry.probes {
                let zero = Count {
                    probe,
                    hits: 0,
                    delivered: 0,
                    filtered: 0,
                    lost: 0,
                    missed: Some(0),
                };
                let count = counts.entry(probe).or_insert(zero);
                count.hits += hits;
                count.delivered += self.delivered[index];
                count.filtered += self.counters.filtered(index);
                count.lost += losses.ring_full + losses.no_scratch;
            }
        }
        for probe in &self.uncounted {
            if let Some(count) = counts.get_mut(probe) {
                count.missed = None;
            }
        }
        for program in &self.programs {
            for probe in &program.probes {
                if let Some(count) = counts.get_mut(probe) {
                    count.missed = program.of_each();
                }
            }
        }
        counts.into_values().collect()
    }

    /// What the programs have cost so far, as far as somebody [meters](crate::Metering) them.
    ///
    /// # Errors
    /// [`System`](ErrorKind::System) where the kernel does not tell.
    pub fn costs(&self) -> Result<Vec<Cost>> {
        self.meters.iter().map(Meter::read).collect()
    }

    /// How user probes are attached, in words for a summary; `None` where there are none.
    pub fn user_way(&self) -> Option<&'static str> {
        self.user_way.map(|way| match way {
            Way::Multi { .. } => "uprobe_multi",
            Way::Perf { .. } => "perf uprobes",
        })
    }

    /// How each probe of a kernel function, and of a tracepoint's arguments, was attached.
    pub fn chosen(&self) -> &[Chosen] {
        &self.chosen
    }

    /// How arguments of definitions are fetched; `None` where there are none.
    pub fn fetching(&self) -> Option<&Fetching> {
        self.fetching.as_ref()
    }

    fn attach_kernel(&mut self, plan: &Plan, maps: &Maps) -> Result<()> {
        let wanted = raw::wanted(plan);
        for object in [Object::Sched, Object::Process, Object::Syscalls] {
            let here: Vec<&raw::Wanted> = wanted
                .iter()
                .filter(|wanted| wanted.object == object)
                .collect();
            if here.is_empty() {
                continue;
            }
            let names: Vec<&str> = here.iter().map(|wanted| wanted.program).collect();
            let mut programs = load::programs(object, &names, 0, maps)?;
            for wanted in here {
                let program = load::take(&mut programs, wanted.program)?;
                self.kernel_links.push(raw::attach(wanted, &program)?);
                let served = raw::probes(plan, wanted.program);
                self.meters.push(Meter::new(&program.fd, served)?);
                let probes = vec![wanted.probe];
                self.programs
                    .push(Guarded::program(program.fd, probes, true));
            }
        }
        if plan.tracepoints.is_empty() {
            return Ok(());
        }
        let name = "tracepoint";
        let more = plan.tracepoints.len() - 1;
        let mut programs = load::programs(Object::Tracepoint, &[name], more, maps)?;
        let Program { fd, copies } = load::take(&mut programs, name)?;
        let counted = capability::tracepoint_misses_are_counted();
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let programs = std::iter::once(fd).chain(copies);
        for ((index, wanted), fd) in plan.tracepoints.iter().enumerate().zip(programs) {
            let called = (&*wanted.category, &*wanted.name);
            let link = tracepoint::attach(called, index as u64, fd.as_fd(), cpu)?;
            self.kernel_links.push(link);
            let probes = plan.entries[wanted.entry as usize].probes.iter();
            let probes: Vec<ProbeId> = probes.map(|&(id, _)| id).collect();
            self.meters.push(Meter::new(&fd, probes.clone())?);
            self.programs.push(Guarded::program(fd, probes, counted));
        }
        Ok(())
    }

    fn attach_functions(&mut self, plan: &Plan, maps: &Maps) -> Result<()> {
        if !plan.functions.is_empty() {
            let attached = function::attach(&plan.functions, maps)?;
            self.programs.extend(attached.guarded);
            self.meters.extend(attached.meters);
            self.chosen.extend(attached.chosen);
            self.entry_links.extend(attached.entries);
        }
        for tracepoint in &plan.raw_tracepoints {
            let (guarded, meter, chosen) = arguments::attach(tracepoint, maps)?;
            self.programs.push(guarded);
            self.meters.push(meter);
            self.chosen.push(chosen);
        }
        Ok(())
    }

    fn attach_events(&mut self, plan: &Plan, maps: &Maps) -> Result<()> {
        if plan.events.is_empty() {
            return Ok(());
        }
        let cpu = self.cpus.first().copied().unwrap_or(0);
        for attached in event::attach(&plan.events, maps, cpu)? {
            self.kernel_links.push(attached.link);
            self.programs.push(attached.guarded);
            self.meters.push(attached.meter);
            self.chosen.push(attached.chosen);
        }
        Ok(())
    }

    fn attach_user(
        &mut self,
        plan: &Plan,
        maps: &Maps,
        spec: &Spec,
        options: &Options,
    ) -> Result<()> {
        if plan.binaries.is_empty() {
            return Ok(());
        }
        let way = capability::user_way(&spec.filter, options)?;
        let name = match way {
            Way::Multi { .. } => "user_multi",
            Way::Perf { .. } => "user_single",
        };
        let mut programs = load::programs(Object::Usdt, &[name], 0, maps)?;
        let program = load::take(&mut programs, name)?;
        self.user_way = Some(way);
        let served = spec.user.iter().map(|probe| probe.id).collect();
        self.meters.push(Meter::new(&program.fd, served)?);
        for binary in &plan.binaries {
            self.user_links
                .extend(user::attach(binary, program.fd.as_fd(), way)?);
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.detach();
    }
}
