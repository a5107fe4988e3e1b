//! Being attached, and ending it in order.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tracebraid_bpf::spec::{ProbeId, Spec};

use super::follow::Follow;
use super::pump::{Finished, Pump};
use super::wake::{Wake, Waker};
use super::writer::{Finish, Writer};
use super::{Ended, Note};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, What};
use crate::launch::Running;
use crate::resolve::Resolved;
use crate::source::bpf_ring::BpfRings;
use crate::source::sdk_ring::{SdkRings, Wanted};
use crate::source::{Count, LostPlaces};
use crate::summary::{Row, Summary};
use crate::target::Binary;

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
    pump: Pump,
    /// Filter and sizes of further sessions.
    spec: Spec,
    names: HashMap<ProbeId, String>,
    follow: Option<Follow>,
    /// The command that was started, if one was.
    pub(super) command: Option<Running>,
}

impl Attached {
    /// Attaches what was resolved.
    ///
    /// # Errors
    /// Why it cannot be attached; a target that has ended meanwhile is named as the reason.
    pub(super) fn start(
        resolved: Resolved,
        regions: Vec<SdkRings>,
        spec: Spec,
        follow: Option<Follow>,
    ) -> Result<Attached> {
        let mut pump = Pump::new();
        for region in regions {
            pump.add_region(region);
        }
        let mut attached = Attached {
            pump,
            spec,
            names: HashMap::new(),
            follow,
            command: None,
        };
        match attached.add(resolved) {
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

    fn add(&mut self, resolved: Resolved) -> Result<()> {
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
            ..
        } = resolved;
        self.names.extend(names);
        self.want(recorded);
        if probes.is_empty() {
            return Ok(());
        }
        let spec = Spec {
            filter: self.spec.filter.clone(),
            ring_bytes: self.spec.ring_bytes,
            string_limit: self.spec.string_limit,
            ..probes
        };
        let rings = BpfRings::start(&spec, decoders).map_err(|error| {
            let shown = |error: Error, binary: &Binary| {
                let internal = binary.open_path().display().to_string();
                error.showing(&internal, &binary.path().display().to_string())
            };
            binaries.iter().fold(error, shown)
        })?;
        drop(binaries);
        self.pump.add(rings);
        Ok(())
    }

    /// Wants events of the target's own rings.
    fn want(&mut self, recorded: Vec<(usize, Wanted)>) {
        for (index, region) in self.pump.regions().enumerate() {
            let own = recorded
                .iter()
                .filter(|(region, _)| *region == index)
                .map(|(_, wanted)| wanted.clone());
            let own: Vec<Wanted> = own.collect();
            if !own.is_empty() {
                region.want(own);
            }
        }
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
        say: &mut dyn FnMut(Note),
    ) -> Result<()> {
        let mut deadline = duration.and_then(|duration| Instant::now().checked_add(duration));
        let mut signalled = false;
        let mut pause = TICK;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match waker.wait(left.map_or(pause, |left| left.min(pause)))? {
                Wake::TargetGone => return Ok(()),
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
            pause = TICK;
            if writer.has_room() {
                let events = self.pump.round()?;
                if events.len() >= BUSY {
                    pause = Duration::ZERO;
                }
                hand_over(events, writer, || true);
            }
            self.pump
                .take_warnings()
                .into_iter()
                .for_each(|warning| say(Note::Warning(warning)));
            self.follow_target(say);
        }
    }

    /// Attaches what the target has loaded meanwhile. That something cannot be attached stops nothing.
    fn follow_target(&mut self, say: &mut dyn FnMut(Note)) {
        let Some(follow) = &mut self.follow else {
            return;
        };
        let pump = &mut self.pump;
        let listed = || pump.regions().map(|region| region.listed()).collect();
        let added = match follow.look(listed) {
            Ok(None) => return,
            Ok(Some(mut resolved)) => {
                let names: Vec<String> = resolved
                    .names
                    .iter()
                    .map(|(_, name)| name.clone())
                    .collect();
                resolved
                    .warnings
                    .drain(..)
                    .for_each(|warning| say(Note::Warning(warning)));
                self.add(resolved).map(|()| names)
            }
            Err(error) => Err(error),
        };
        say(match added {
            Ok(names) => Note::Detail(format!(
                "attached to what was loaded meanwhile: {}",
                some_of(&names)
            )),
            Err(error) => Note::Warning(format!(
                "what was loaded meanwhile is not attached: {}",
                error.with_causes()
            )),
        });
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
        let pump = std::mem::replace(&mut self.pump, Pump::new());
        let mut failure = None;
        let finished = pump.finish().unwrap_or_else(|error| {
            failure = Some(error);
            Finished::default()
        });
        let Finished {
            events,
            counts,
            merge,
            warnings,
        } = finished;
        warnings
            .into_iter()
            .for_each(|warning| say(Note::Warning(warning)));
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let chunk = events.by_ref().take(CHUNK).collect();
            hand_over(chunk, &writer, &mut go_on);
        }
        let (output, written) = writer.finish(&mut go_on);
        let delivered: u64 = counts.iter().map(|(count, _)| count.delivered).sum();
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

    fn summary(&self, counts: Vec<(Count, LostPlaces)>) -> Summary {
        let mut rows: Vec<Row> = Vec::new();
        let mut silent = 0;
        for (count, lost) in counts {
            if count.hits == 0 && count.missed.unwrap_or(0) == 0 {
                silent += 1;
                continue;
            }
            rows.push(Row {
                name: self.names.get(&count.probe).cloned().unwrap_or_default(),
                events: count.delivered,
                hits: count.hits,
                misses: count.missed,
                lost,
            });
        }
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        Summary {
            rows,
            silent,
            ..Summary::default()
        }
    }
}

/// The first few names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", names[..SHOWN].join(", ")),
        _ => names.join(", "),
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
