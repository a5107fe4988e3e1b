//! A flight recorder: nothing is printed but snapshots of what led up to a moment.
//!
//! The application's events stay in its rings, which overwrite what is oldest; the kernel's of the last
//! seconds are kept here. When the program asks for a snapshot, or a hit fulfils a condition, both are
//! given out in order of time, with a line that says why behind them. What was given out once is not
//! given out again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Recorder;
use crate::condition::Conditions;
use crate::event::{Comm, Event, Field, Origin, Print, Probe, Value, What};
use crate::source::sdk_ring::{SdkRings, now};

/// Kernel events kept at most.
const KEPT: usize = 1 << 18;
/// For how long they are kept, ns.
const KEPT_FOR: u64 = 10_000_000_000;

/// See the module's page.
pub(super) struct FlightRecorder {
    conditions: Conditions,
    kernel: VecDeque<Event>,
    /// What is of this time or older was given out.
    given_out: u64,
    marker: Arc<Probe>,
}

impl FlightRecorder {
    pub(super) fn new(recorder: &Recorder) -> FlightRecorder {
        FlightRecorder {
            conditions: Conditions::new(recorder.when.clone()),
            kernel: VecDeque::new(),
            given_out: 0,
            marker: Arc::new(Probe {
                group: "bridge".into(),
                name: "snapshot".into(),
                origin: Origin::Application,
                fields: vec![Field::new("reason", "str")],
                print: Print::Plain,
            }),
        }
    }

    /// Takes in a round's kernel events; what is to be printed, which is nothing most of the time.
    pub(super) fn round(&mut self, kernel: Vec<Event>, rings: &mut SdkRings) -> Vec<Event> {
        self.kernel.extend(kernel);
        let oldest = now().saturating_sub(KEPT_FOR);
        while self.kernel.len() > KEPT
            || self.kernel.front().is_some_and(|event| event.time < oldest)
        {
            self.kernel.pop_front();
        }
        let mut reasons: Vec<(u32, Comm, String)> = rings
            .asked()
            .into_iter()
            .map(|asked| (asked.pid, Comm::default(), asked.reason))
            .collect();
        if !self.conditions.is_empty() {
            let conditions = &self.conditions;
            let news = rings.news(|group, name| conditions.are_about(group, name));
            for event in &news {
                if let Some(condition) = self.conditions.fulfilled(event) {
                    reasons.push((event.pid, event.comm, condition.to_string()));
                }
            }
            for warning in self.conditions.take_warnings() {
                rings.warn(warning);
            }
        }
        match reasons.is_empty() {
            true => Vec::new(),
            false => self.snapshot(reasons, rings),
        }
    }

    /// What there is when the processes have ended.
    pub(super) fn last(&mut self, rings: &mut SdkRings) -> Vec<Event> {
        let reason = |&pid: &u32| (pid, Comm::default(), "the process has ended".into());
        let reasons = rings.targets().iter().map(reason).collect();
        self.snapshot(reasons, rings)
    }

    fn snapshot(&mut self, reasons: Vec<(u32, Comm, String)>, rings: &mut SdkRings) -> Vec<Event> {
        let time = now();
        let after = self.given_out;
        let mut events = rings.snapshot(after);
        let kernel = self.kernel.drain(..);
        events.extend(kernel.filter(|event| event.time > after));
        events.sort_by_key(|event| event.time);
        self.given_out = events.last().map_or(after, |event| event.time);
        events.extend(reasons.into_iter().map(|(pid, comm, reason)| Event {
            time: time.max(self.given_out),
            cpu: 0,
            pid,
            tid: pid,
            comm,
            late: false,
            what: What::Hit {
                probe: Arc::clone(&self.marker),
                values: vec![Value::text(reason.into_bytes())],
            },
            stack: None,
        }));
        events
    }
}
