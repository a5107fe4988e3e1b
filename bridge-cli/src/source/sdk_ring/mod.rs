//! The rings of the SDK in a process as a source: application events at the price of a clock reading.
//!
//! ```text
//! start   find the memfd, check it, take it, want events, ask the helper
//! round   T0 ─▶ flush (membarrier in the target) ─▶ heads ─▶ drain up to them ─▶ clock pair ─▶ events
//! finish  want nothing, ask, drain what is left
//! ```
//! After the flush every append that began before T0 is before the heads, so nothing older than T0 can
//! come later. Without a helper thread (a child of fork) nobody flushes: then a window is held back.
//! When the target dies, the mapping stays: what was committed is still given.

mod clock;
mod shared;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebraid_bpf::record::{LostReason, Text};
use tracebraid_bpf::spec::{Filter, ProbeId};
use tracebraid_ring::{Consumer, Region};
use tracebraid_wire::kind::FieldKind;
use tracebraid_wire::record::{FieldRef, Fields, Header};
use tracebraid_wire::region::{self, CLOCK_TSC};
use tracebraid_wire::schema::Schema;

use super::slots::{slot_value, text_value};
use super::{Count, LostPlaces, Rings, Share, note_loss};
use crate::error::Result;
use crate::event::{Comm, Event, Probe, Value, What};

pub use clock::{Fit, Pair, now, read};
use shared::Shared;

/// How long the helper may take to switch keys.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a flush may take; past it a round goes on with the hold-back.
const FLUSH: Duration = Duration::from_millis(5);
/// What is held back where nobody flushes, ns. An append takes far less, unless its thread is preempted in
/// the middle of it: then it starts again.
const HOLD_BACK: u64 = 2_000_000;
/// How long a thread's name is believed.
const NAME: Duration = Duration::from_millis(500);

/// A tracepoint that a region's directory lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its event id.
    pub event: u16,
    /// Where its row is in the target's memory, which says in which object it is.
    pub row: u64,
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Fields in order.
    pub fields: Vec<(String, FieldKind)>,
}

/// A tracepoint that is wanted from the rings.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its number in the session.
    pub probe: ProbeId,
    /// Its event id.
    pub event: u16,
    /// What it is called and how it prints.
    pub what: Arc<Probe>,
    /// Its fields' kinds.
    pub kinds: Vec<FieldKind>,
}

/// The rings of one region.
pub struct SdkRings {
    shared: Shared,
    consumers: Vec<Consumer<Arc<Region>>>,
    fit: Fit,
    /// What the target's CLOCK_MONOTONIC is ahead of ours (a time namespace), ns.
    ahead: i64,
    pid: u32,
    wanted: HashMap<u16, Wanted>,
    delivered: HashMap<u16, u64>,
    losses: HashMap<(usize, u16), u32>,
    places: BTreeMap<u16, LostPlaces>,
    names: HashMap<u32, (Comm, Instant)>,
    last_round: u64,
    ended: Vec<usize>,
    warnings: Vec<String>,
    /// Only events of these threads; empty means all.
    threads: Vec<u32>,
    /// Only events of these CPUs; empty means all.
    cpus: Vec<u32>,
}

/// Where the regions of a process are; empty where its program was not initialised for rings.
pub fn regions(pid: u32) -> Vec<PathBuf> {
    shared::of_process(pid)
}

impl SdkRings {
    /// Takes a region of a process. Nothing is wanted yet.
    ///
    /// # Errors
    /// It is none that we know, or somebody else has it.
    pub fn take(path: &PathBuf, pid: u32, filter: &Filter) -> Result<SdkRings> {
        let shared = Shared::take(path, pid)?;
        let region = shared.region();
        let rings = region.geometry().rings();
        // What an earlier reader left behind is nobody's.
        let consumers: Vec<_> = (0..rings)
            .map(|ring| Consumer::new(Arc::clone(region), ring))
            .collect();
        let mut fit = Fit::default();
        fit.add(read());
        let mut taken = SdkRings {
            consumers,
            fit,
            ahead: time_offset(pid),
            pid,
            wanted: HashMap::new(),
            delivered: HashMap::new(),
            losses: HashMap::new(),
            places: BTreeMap::new(),
            names: HashMap::new(),
            last_round: now(),
            ended: Vec::new(),
            warnings: Vec::new(),
            threads: filter.threads.clone(),
            cpus: filter.cpus.clone(),
            shared,
        };
        taken.empty();
        Ok(taken)
    }

    /// The tracepoints that the region lists by now. The helper is asked to look for new libraries first.
    pub fn listed(&self) -> Vec<Listed> {
        self.shared.ask(ANSWER);
        let directory = self.shared.directory();
        region::listed(&directory)
            .filter_map(|point| {
                let schema = Schema::parse(point.schema).ok()?;
                Some(Listed {
                    event: point.event,
                    row: point.row,
                    provider: schema.provider.to_owned(),
                    name: schema.name.to_owned(),
                    fields: schema
                        .fields()
                        .map(|(name, kind)| (name.to_owned(), kind))
                        .collect(),
                })
            })
            .collect()
    }

    /// Wants further events.
    pub fn want(&mut self, wanted: Vec<Wanted>) {
        for one in wanted {
            for ring in 0..self.cpu_rings() {
                self.losses
                    .insert((ring, one.event), self.shared.losses(ring, one.event));
            }
            self.shared.want(one.event, true);
            self.wanted.insert(one.event, one);
        }
        if !self.shared.ask(ANSWER) {
            self.warnings.push(format!(
                "the helper thread of process {} does not answer: its tracepoints may not be on",
                self.pid
            ));
        }
    }

    fn cpu_rings(&self) -> usize {
        self.shared.header().cpu_rings as usize
    }

    /// Throws away what the rings hold from before.
    fn empty(&mut self) {
        for consumer in &mut self.consumers {
            // A damaged ring is reported when it is read for somebody.
            let _ = consumer.drain(consumer.head(), |_| ());
        }
    }

    /// Drains what the rings hold; with a promise for each.
    fn drain(&mut self, shares: &mut Vec<Share>, ended: &mut Vec<usize>) {
        let begin = now();
        let flushed = self.shared.flush(FLUSH);
        let until = if flushed {
            begin
        } else {
            begin.saturating_sub(HOLD_BACK)
        };
        let heads: Vec<u64> = self.consumers.iter().map(Consumer::head).collect();
        self.fit.add(read());
        let mut raw: Vec<(usize, Vec<u64>)> = Vec::new();
        let (cpus, pid) = (self.cpu_rings().max(1), self.pid);
        for (consumer, head) in self.consumers.iter_mut().zip(heads) {
            let ring = consumer.ring();
            if consumer.is_damaged() {
                continue;
            }
            if let Err(damage) = consumer.drain(head, |record| raw.push((ring, record.to_vec()))) {
                self.warnings.push(format!(
                    "damaged ring on CPU {} of process {pid}: {damage:?}; the others go on",
                    ring % cpus
                ));
                ended.push(ring);
                self.ended.push(ring);
            }
        }
        let first = shares.len();
        shares.extend(
            (0..self.consumers.len())
                .filter(|ring| !self.ended.contains(ring))
                .map(|ring| Share {
                    ring,
                    until,
                    events: Vec::new(),
                }),
        );
        for (ring, record) in raw {
            let Some(event) = self.event(ring, &record) else {
                continue;
            };
            if let Some(share) = shares[first..].iter_mut().find(|share| share.ring == ring) {
                share.events.push(event);
            }
        }
        self.lost_since(begin, &mut shares[first..]);
        self.last_round = begin;
    }

    fn event(&mut self, ring: usize, record: &[u64]) -> Option<Event> {
        let header = Header::parse(record[0], record[1])?;
        let time = match self.shared.header().clock {
            CLOCK_TSC => self.fit.nanoseconds(header.time)?,
            _ => header.time.saturating_add_signed(-self.ahead),
        };
        let cpu = (ring % self.cpu_rings().max(1)) as u32;
        let asked = |list: &[u32], one| list.is_empty() || list.contains(&one);
        if !asked(&self.threads, header.tid) || !asked(&self.cpus, cpu) {
            return None;
        }
        let comm = self.name_of(header.tid);
        let wanted = self.wanted.get(&header.event)?;
        let body: Vec<u8> = record[2..]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let mut fields = Fields::new(&body);
        let values = wanted.kinds.iter().map(|&kind| {
            fields
                .next(kind)
                .map_or(Value::NotCaptured, |field| value(kind, field))
        });
        let values = values.collect();
        *self.delivered.entry(header.event).or_default() += 1;
        Some(Event {
            time,
            cpu,
            pid: self.pid,
            tid: header.tid,
            comm,
            late: false,
            what: What::Hit {
                probe: Arc::clone(&wanted.what),
                values,
            },
        })
    }

    /// What the target counted as lost since the last round.
    fn lost_since(&mut self, before: u64, shares: &mut [Share]) {
        let events: Vec<u16> = self.wanted.keys().copied().collect();
        for ring in 0..self.cpu_rings() {
            for &event in &events {
                let now = self.shared.losses(ring, event);
                let last = self.losses.insert((ring, event), now).unwrap_or(now);
                let count = now.wrapping_sub(last);
                if count == 0 {
                    continue;
                }
                note_loss(
                    &mut self.places,
                    event,
                    LostReason::RingFull,
                    ring as u32,
                    count.into(),
                );
                let Some(wanted) = self.wanted.get(&event) else {
                    continue;
                };
                let lost = Event {
                    time: before,
                    cpu: ring as u32,
                    pid: 0,
                    tid: 0,
                    comm: Comm::default(),
                    late: false,
                    what: What::Lost {
                        probe: Arc::clone(&wanted.what),
                        count: count.into(),
                        after: self.last_round,
                        reason: LostReason::RingFull,
                    },
                };
                if let Some(share) = shares.iter_mut().find(|share| share.ring == ring) {
                    share.events.push(lost);
                }
            }
        }
    }

    /// The thread's name, as it was within the last half second.
    fn name_of(&mut self, tid: u32) -> Comm {
        let now = Instant::now();
        if let Some((name, read)) = self.names.get(&tid)
            && now.duration_since(*read) < NAME
        {
            return *name;
        }
        let known = self.names.get(&tid).map(|(name, _)| *name);
        let name = read_name(self.pid, tid).or(known).unwrap_or_default();
        self.names.insert(tid, (name, now));
        name
    }
}

impl Rings for SdkRings {
    fn rings(&self) -> usize {
        self.consumers.len()
    }

    fn round(&mut self, shares: &mut Vec<Share>, ended: &mut Vec<usize>) -> Result<()> {
        self.drain(shares, ended);
        Ok(())
    }

    fn finish(&mut self, shares: &mut Vec<Share>) -> Result<()> {
        for &event in self.wanted.keys() {
            self.shared.want(event, false);
        }
        // A target that has died does not answer; its rings are read all the same.
        self.shared.ask(ANSWER);
        let mut ended = Vec::new();
        self.drain(shares, &mut ended);
        for share in shares.iter_mut() {
            share.until = u64::MAX;
        }
        Ok(())
    }

    fn counts(&self) -> Vec<(Count, LostPlaces)> {
        let count = |wanted: &Wanted| {
            let delivered = self.delivered.get(&wanted.event).copied().unwrap_or(0);
            let places = self.places.get(&wanted.event).cloned().unwrap_or_default();
            let lost = places.iter().map(|place| place.2).sum();
            let count = Count {
                probe: wanted.probe,
                hits: delivered + lost,
                delivered,
                lost,
                missed: Some(0),
            };
            (count, places)
        };
        self.wanted.values().map(count).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

fn value(kind: FieldKind, field: FieldRef<'_>) -> Value {
    let required = FieldKind {
        optional: false,
        ..kind
    };
    match field {
        FieldRef::Absent => Value::Absent,
        FieldRef::Word(word) => slot_value(required, &[word]),
        FieldRef::Wide(wide) => slot_value(required, &[wide as u64, (wide >> 64) as u64]),
        FieldRef::Duration(seconds, fraction) => slot_value(required, &[seconds, fraction.into()]),
        FieldRef::Bytes(bytes, full_length) => {
            let text = Text::Bytes {
                bytes: bytes.to_vec(),
                full_length: full_length.into(),
            };
            text_value(kind.kind, Some(text))
        }
    }
}

fn read_name(pid: u32, tid: u32) -> Option<Comm> {
    let bytes = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    let mut name = [0; 16];
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let length = bytes.len().min(15);
    name[..length].copy_from_slice(&bytes[..length]);
    Some(Comm(name))
}

/// What a time namespace adds to the target's CLOCK_MONOTONIC beyond ours, ns.
fn time_offset(pid: u32) -> i64 {
    let offset = |who: &str| -> Option<i64> {
        let text = std::fs::read_to_string(format!("/proc/{who}/timens_offsets")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("monotonic"))?;
        let mut numbers = line.split_whitespace().map(str::parse::<i64>);
        let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    };
    offset(&pid.to_string()).unwrap_or(0) - offset("self").unwrap_or(0)
}
