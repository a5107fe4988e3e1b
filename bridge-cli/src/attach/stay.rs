//! Being attached, and ending it in order.

use std::collections::{HashMap, HashSet};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tracebraid_bpf::spec::{ProbeId, Spec};

use super::counting::{Counter, Intervals};
use super::descent::Descent;
use super::follow::Follow;
use super::outside::Outside;
use super::pump::{Finished, Pump};
use super::recorder::FlightRecorder;
use super::stacks::Stacks;
use super::wake::{Wake, Waker};
use super::writer::{Finish, Writer};
use super::{Ended, Note, Recorder, ways};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, What};
use crate::filter::Filters;
use crate::launch::Running;
use crate::resolve::Resolved;
use crate::source::bpf_ring::{BpfRings, How};
use crate::source::decode::Decoders;
use crate::source::sdk_ring::SdkRings;
use crate::target::{Binary, Process};

/// How often the rings are drained: the largest part of an event's way to the output. A round costs
/// tens of microseconds where there is nothing to do.
const TICK: Duration = Duration::from_millis(10);
/// A round with so many events is followed by the next at once: the rings may be filling up.
const BUSY: usize = 2048;
/// How long a command that was sent a signal is traced further, so that its end is seen.
const GRACE: Duration = Duration::from_secs(1);
/// Events of one hand-over to the writer at the end, when there may be more than in any round.
const CHUNK: usize = 16 * 1024;

/// Everything that is in place.
pub(super) struct Attached {
    // Before `outside`: what is undone follows from there being no probes any more.
    pub(super) pump: Pump,
    /// Keys of processes in which nobody switches them.
    outside: Outside,
    /// Tracepoints of the SDK are attached through USDT probes.
    has_keys: bool,
    /// Whom sessions are about where children are followed.
    descent: Descent,
    /// What is mapped where stacks are taken.
    stacks: Option<Stacks>,
    /// Filter and sizes of further sessions.
    spec: Spec,
    pub(super) names: HashMap<ProbeId, String>,
    /// How many probes have a filter that is evaluated over their decoded events.
    filters: usize,
    kernel_filters: usize,
    /// Whether anything is filtered.
    pub(super) has_filters: bool,
    /// Where hits are counted and no events are wanted.
    counting: Option<Counter>,
    pub(super) follow: Option<Follow>,
    /// Where only snapshots are printed.
    recorder: Option<FlightRecorder>,
    /// All targets have ended, and others are followed.
    target_is_gone: bool,
    /// A command that makes no rings after all is attached through its USDT probes.
    pub(super) may_fall_back: bool,
    /// The command that was started, if one was.
    pub(super) command: Option<Running>,
}

/// Where events are to come from.
pub(super) struct Sources {
    /// The rings of the target's SDK.
    pub(super) sdk: Option<SdkRings>,
    /// Filter and sizes of all sessions.
    pub(super) spec: Spec,
    /// Whom sessions are about where children are followed.
    pub(super) descent: Descent,
    /// Who switches the keys of programs that do not.
    pub(super) outside: Outside,
    /// Hits are counted and no events are wanted.
    pub(super) counting: Option<Counter>,
    /// What is mapped where stacks are taken.
    pub(super) stacks: Option<Stacks>,
}

impl Attached {
    /// Attaches what was resolved.
    ///
    /// # Errors
    /// Why it cannot be attached; a target that has ended meanwhile is named as the reason.
    pub(super) fn start(
        resolved: Resolved,
        sources: Sources,
        follow: Option<Follow>,
        recorder: Option<&Recorder>,
        say: &mut dyn FnMut(Note),
    ) -> Result<Attached> {
        let Sources {
            sdk,
            spec,
            descent,
            outside,
            counting,
            stacks,
        } = sources;
        let mut pump = Pump::new();
        sdk.into_iter().for_each(|rings| pump.add_sdk(rings));
        let mut attached = Attached {
            pump,
            outside,
            has_keys: false,
            descent,
            stacks,
            spec,
            names: HashMap::new(),
            filters: 0,
            kernel_filters: 0,
            has_filters: false,
            counting,
            follow,
            recorder: recorder.map(FlightRecorder::new),
            target_is_gone: false,
            may_fall_back: false,
            command: None,
        };
        match attached.add(resolved, say) {
            Ok(()) => Ok(attached),
            Err(error) => Err(match &attached.follow {
                Some(follow) if !follow.is_alive() => Error::new(
                    ErrorKind::Target,
                    "the target ended while it was being attached",
                )
                .because(error),
                _ => error,
            }),
        }
    }

    /// How many probes there are.
    pub(super) fn probes(&self) -> usize {
        self.names.len()
    }

    /// Attaches what was resolved later.
    ///
    /// # Errors
    /// Why it cannot be attached.
    pub(super) fn add(&mut self, resolved: Resolved, say: &mut dyn FnMut(Note)) -> Result<()> {
        if resolved.is_empty() {
            return Ok(());
        }
        // The binaries stay open until their probes are attached: probes name them by descriptor.
        let Resolved {
            spec: probes,
            decoders,
            names,
            binaries,
            recorded,
            has_keys,
            filters,
            ..
        } = resolved;
        self.names.extend(names);
        self.filters += filters.len();
        let in_kernel: HashSet<ProbeId> = probes.hits.keys().map(|(id, _)| *id).collect();
        self.kernel_filters += in_kernel.len();
        self.has_filters |= !filters.is_empty()
            || !in_kernel.is_empty()
            || recorded.iter().any(|it| it.filter.is_some());
        if !probes.is_empty() {
            let ways = self.probe(probes, decoders, filters, &binaries)?;
            ways.into_iter().for_each(|line| say(Note::Detail(line)));
        }
        drop(binaries);
        // After the kernel's events are there: what the kernel did between two events of the program must
        // stand between them from the first one on.
        if let Some(rings) = self.pump.sdk().filter(|_| !recorded.is_empty()) {
            rings.want(recorded);
        }
        self.has_keys |= has_keys;
        if has_keys {
            let followed = self.followed();
            self.outside.look_and_wait(&followed, say);
        }
        Ok(())
    }

    /// Starts a session of probes; gives how those of kernel functions were attached, in words.
    fn probe(
        &mut self,
        probes: Spec,
        decoders: Decoders,
        filters: Filters,
        binaries: &[Binary],
    ) -> Result<Vec<String>> {
        let spec = Spec {
            filter: self.spec.filter.clone(),
            ring_bytes: self.spec.ring_bytes,
            string_limit: self.spec.string_limit,
            stacks: self.spec.stacks,
            ..probes
        };
        let targets = self.follow.as_ref().map(|follow| follow.targets().pids());
        let family = self.descent.family(&targets.unwrap_or_default())?;
        let how = How {
            family,
            // What the bridge filters it looks at.
            count_only: self.counting.is_some() && filters.is_empty(),
            is_metered: self.counting.as_ref().is_some_and(Counter::is_metered),
        };
        let rings = BpfRings::start(&spec, decoders, filters, how).map_err(|error| {
            let shown = |error: Error, binary: &Binary| {
                let internal = binary.open_path().display().to_string();
                error.showing(&internal, &binary.path().display().to_string())
            };
            binaries.iter().fold(error, shown)
        })?;
        let mut ways = ways::describe(rings.chosen(), &self.names);
        ways.extend(rings.fetching());
        self.pump.add(rings);
        Ok(ways)
    }

    /// Who evaluates filters, where there are any.
    pub(super) fn filters(&mut self) -> Option<String> {
        let (programs, bridge) = self.pump.sdk().map_or((0, 0), |rings| rings.filters());
        let bridge = bridge + self.filters;
        let kernel = self.kernel_filters;
        (programs + kernel + bridge > 0).then(|| {
            format!(
                "filters of {programs} tracepoints are evaluated by the program, of {kernel} by the kernel, \
                 of {bridge} by the bridge"
            )
        })
    }

    /// Hands events over until something ends it.
    ///
    /// # Errors
    /// What failed. It is still attached then: [`Attached::end`] comes in any case.
    pub(super) fn stay(
        &mut self,
        duration: Option<Duration>,
        waker: &mut Waker,
        writer: &Writer,
        intervals: &mut Intervals<'_>,
        say: &mut dyn FnMut(Note),
    ) -> Result<()> {
        let mut deadline = duration.and_then(|duration| Instant::now().checked_add(duration));
        let mut signalled = false;
        let mut pause = TICK;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let pause_now = pause.min(intervals.left());
            match waker.wait(left.map_or(pause_now, |left| left.min(pause_now)))? {
                Wake::TargetGone { last } => self.target_is_gone = last,
                Wake::Signal {
                    signal,
                    by_terminal,
                } => match &self.command {
                    Some(command) if !signalled => {
                        signalled = true;
                        if !by_terminal {
                            command.signal(signal);
                        }
                        let grace = Instant::now() + GRACE;
                        deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
                    }
                    _ => return Ok(()),
                },
                Wake::Tick => {}
            }
            if !writer.is_open() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(());
            }
            if self.target_is_gone && !self.is_followed_alive() {
                return Ok(());
            }
            pause = TICK;
            if writer.has_room() {
                let events = self.pump.round()?;
                self.look_at_mappings(&events, say);
                let has_backlog = self.pump.sdk().is_some_and(|rings| rings.has_backlog());
                if events.len() >= BUSY || has_backlog {
                    pause = Duration::ZERO;
                }
                let events = self.recorded(events);
                hand_over(events, writer, || true);
            }
            if intervals.is_due() && intervals.tell(self.rows_by_now()).is_break() {
                return Ok(());
            }
            self.pump
                .take_warnings()
                .into_iter()
                .for_each(|warning| say(Note::Warning(warning)));
            if !self.target_is_gone {
                self.follow_target(say);
            }
            self.look_at_rings(say);
            if self.outside.is_time() {
                self.look_at_processes(say);
            }
            self.descent
                .warning()
                .into_iter()
                .for_each(|warning| say(Note::Warning(warning)));
        }
    }

    /// The processes whose tracepoints are wanted.
    fn followed(&self) -> Vec<u32> {
        self.descent.living().unwrap_or_else(|| {
            let follow = self.follow.iter().filter(|_| !self.target_is_gone);
            let living = follow.flat_map(|it| it.targets().living());
            living.map(Process::pid).collect()
        })
    }

    /// Looks after the processes that are followed.
    fn look_at_processes(&mut self, say: &mut dyn FnMut(Note)) {
        let followed = self.followed();
        if let Some(rings) = self.pump.sdk() {
            rings.know_kin(&followed);
        }
        match self.has_keys {
            true => self.outside.look(&followed, say),
            false => self.outside.look(&[], say),
        }
    }

    /// Whether somebody who is followed lives although the targets have ended.
    fn is_followed_alive(&mut self) -> bool {
        let descends = self.descent.living().is_some_and(|pids| !pids.is_empty());
        descends || self.pump.sdk().is_some_and(SdkRings::is_followed_alive)
    }

    fn look_at_mappings(&mut self, events: &[Event], say: &mut dyn FnMut(Note)) {
        if let Some(stacks) = &mut self.stacks {
            stacks.look(events, say);
        }
    }

    /// What is to be printed of a round's events: all, or of a flight recorder what a snapshot takes.
    fn recorded(&mut self, events: Vec<Event>) -> Vec<Event> {
        match (&mut self.recorder, self.pump.sdk()) {
            (Some(recorder), Some(rings)) => recorder.round(events, rings),
            _ => events,
        }
    }

    /// Detaches, hands over what is left, and sums up. A further signal stops waiting for a writer that
    /// does not get on.
    pub(super) fn end(
        mut self,
        waker: &mut Waker,
        writer: Writer,
        say: &mut dyn FnMut(Note),
    ) -> Ended {
        let mut patient = true;
        let mut go_on = || {
            patient = patient && !matches!(waker.wait(Duration::ZERO), Ok(Wake::Signal { .. }));
            patient
        };
        let mut failure = None;
        self.empty_rings(&writer, &mut go_on, say);
        let pump = std::mem::replace(&mut self.pump, Pump::new());
        let finished = pump.finish().unwrap_or_else(|error| {
            failure = Some(error);
            Finished::default()
        });
        self.look_at_mappings(&finished.events, say);
        // Not when the output has been written: that may take its time.
        self.outside.undo();
        let Finished {
            events,
            counts,
            merge,
            warnings,
        } = finished;
        warnings
            .into_iter()
            .for_each(|warning| say(Note::Warning(warning)));
        // A flight recorder's last snapshot has been taken; what the kernel's rings still held is no part of it.
        let events = match self.recorder {
            Some(_) => Vec::new(),
            None => events,
        };
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let chunk = events.by_ref().take(CHUNK).collect();
            hand_over(chunk, &writer, &mut go_on);
        }
        let (output, written) = writer.finish(&mut go_on);
        let delivered: u64 = counts.iter().map(|count| count.delivered).sum();
        let mut summary = self.summary(counts);
        summary.late = merge.late;
        match output {
            Ok(Finish::Whole) => {}
            Ok(Finish::ReaderGone | Finish::Abandoned) => {
                summary.unwritten = delivered.saturating_sub(written)
            }
            Err(error) => {
                summary.unwritten = delivered.saturating_sub(written);
                failure = Some(error);
            }
        }
        Ended {
            summary,
            failure,
            command: self.command_end(),
        }
    }

    /// Wants nothing any more of the target's rings, and hands over what they hold, a round at a time: it may
    /// be more than is good to have at once.
    fn empty_rings(
        &mut self,
        writer: &Writer,
        mut go_on: impl FnMut() -> bool,
        say: &mut dyn FnMut(Note),
    ) {
        let gone = self.target_is_gone;
        let Some(rings) = self.pump.sdk() else { return };
        if let Some(recorder) = self.recorder.as_mut().filter(|_| gone) {
            let last = recorder.last(rings);
            hand_over(last, writer, &mut go_on);
        } else if self.recorder.is_some() {
            // What asked for a snapshot since the last round: one finds new tracepoints, one how far the rings
            // are by then, and one shows what they hold up to there.
            for _ in 0..3 {
                let events = self.pump.round().unwrap_or_default();
                let events = self.recorded(events);
                hand_over(events, writer, &mut go_on);
                self.look_through(say);
            }
        }
        let Some(rings) = self.pump.sdk() else { return };
        rings.stop();
        // Tracepoints may have been made since the last round.
        self.look_through(say);
        while self.pump.sdk().is_some_and(|rings| rings.has_backlog()) && writer.is_open() {
            // What fails here fails again when all is ended, and is said then.
            let Ok(events) = self.pump.round() else {
                return;
            };
            self.look_at_mappings(&events, say);
            hand_over(events, writer, &mut go_on);
            if !go_on() {
                return;
            }
        }
    }

    /// How the command ended. One that goes on is left alone.
    fn command_end(&mut self) -> Option<ExitStatus> {
        let command = self.command.as_mut()?;
        // It is told to have ended by its descriptor a moment before it can be waited for.
        for _ in 0..20 {
            match command.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if command.has_ended() => std::thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
        None
    }
}

/// Gives events to the writer.
fn hand_over(events: Vec<Event>, writer: &Writer, go_on: impl FnMut() -> bool) {
    if events.is_empty() {
        return;
    }
    for event in &events {
        if let What::Lost { count, .. } = &event.what {
            probe::probe!(bridge, lost, *count as isize, event.cpu as isize);
        }
    }
    probe::probe!(bridge, batch, events.len() as isize);
    writer.send(events, go_on);
}
