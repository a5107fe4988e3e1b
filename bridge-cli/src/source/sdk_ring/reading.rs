//! What a region's rings hold: taken out, or only shown.

use std::sync::Arc;

use tracebraid_ring::{Consumer, Damage, Region};
use tracebraid_wire::region::{CLOCK_TSC, Group, MODE_OVERWRITE};

use super::scene::{Round, Scene};
use super::taken::Taken;

/// A ring that is read.
pub(super) struct Reading {
    pub(super) consumer: Consumer<Arc<Region>>,
    pub(super) group: Group,
    /// The time of the last record, ns.
    pub(super) last: u64,
    /// The head when news were last looked for.
    pub(super) seen: u64,
}

impl Taken {
    /// Takes at most `limit` records before `head` from a ring. How many there were.
    pub(super) fn drain(
        &mut self,
        reading: usize,
        head: u64,
        limit: usize,
        round: &mut Round<'_>,
    ) -> usize {
        let mut taken = 0;
        let (consumer, mut scene) = self.scene(reading);
        let cpu = scene.cpu;
        let damage = consumer.drain_some(head, limit, |record| {
            taken += 1;
            scene.record(record, round);
        });
        if let Err(damage) = damage {
            self.say_damaged(cpu, damage, &mut round.findings.warnings);
        }
        taken
    }

    /// Shows what is new in the rings of a flight recorder, or with `all` everything that they hold,
    /// without taking it. New is what was there when news were last looked for: all of these tracepoints
    /// have been told of since.
    pub(super) fn look(&mut self, all: bool, round: &mut Round<'_>) {
        let (own, chosen) = (self.shared.mode(), self.shared.header().mode);
        for reading in 0..self.readings.len() {
            let head = self.readings[reading].consumer.head();
            let until = match all {
                true => u64::MAX,
                false => std::mem::replace(&mut self.readings[reading].seen, head),
            };
            let (consumer, mut scene) = self.scene(reading);
            let cpu = scene.cpu;
            // Rings of children do as the program chose; they are not changed.
            let mode = if scene.of_child { chosen } else { own };
            let each = |record: &[u64]| scene.record(record, round);
            let shown = match (all, mode) {
                (true, MODE_OVERWRITE) => consumer.snapshot(each),
                (true, _) => consumer.peek(each),
                (false, MODE_OVERWRITE) => consumer.news(until, each),
                (false, _) => Ok(()),
            };
            if let Err(damage) = shown {
                self.say_damaged(cpu, damage, &mut round.findings.warnings);
            }
        }
    }

    /// A ring, and what its records are read with.
    fn scene(&mut self, reading: usize) -> (&mut Consumer<Arc<Region>>, Scene<'_>) {
        let cpus = self.shared.cpus().max(1);
        let Reading {
            consumer,
            group,
            last,
            ..
        } = &mut self.readings[reading];
        let scene = Scene {
            is_tsc: self.shared.header().clock == CLOCK_TSC,
            ahead: self.ahead,
            cpu: (consumer.ring() % cpus) as u32,
            of_child: group.is_of_children(),
            points: &self.points,
            filtering: &self.filtering,
            people: &mut self.people,
            lies: &mut self.lies,
            last,
        };
        (consumer, scene)
    }

    fn say_damaged(&self, cpu: u32, damage: Damage, warnings: &mut Vec<String>) {
        warnings.push(format!(
            "damaged ring on CPU {cpu} of process {}: {damage:?}; the others go on",
            self.pid
        ));
    }
}
