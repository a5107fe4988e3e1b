//! Probes at events: a tracepoint's program that runs a fetch program over its record. Each has a copy of its
//! own, so that it is known what each of them missed.

use std::os::fd::{AsFd as _, OwnedFd};

use super::tracepoint;
use crate::capability;
use crate::cost::Meter;
use crate::error::Result;
use crate::load::{self, Object, Program};
use crate::maps::Maps;
use crate::mechanism::{Chosen, Mechanism};
use crate::misses::Guarded;
use crate::plan::Event;

/// One that is attached.
pub(crate) struct Attached {
    pub(crate) link: OwnedFd,
    pub(crate) guarded: Guarded,
    pub(crate) meter: Meter,
    pub(crate) chosen: Chosen,
}

/// Attaches all of them; `cpu` is one that is online.
pub(crate) fn attach(events: &[Event], maps: &Maps, cpu: u32) -> Result<Vec<Attached>> {
    let name = "event";
    let more = events.len().saturating_sub(1);
    let mut programs = load::programs(Object::Event, &[name], more, maps)?;
    let Program { fd, copies } = load::take(&mut programs, name)?;
    let is_counted = capability::tracepoint_misses_are_counted();
    let programs = std::iter::once(fd).chain(copies);
    let mut attached = Vec::with_capacity(events.len());
    for (event, program) in events.iter().zip(programs) {
        let called = (&*event.category, &*event.name);
        let link = tracepoint::attach(called, event.location.into(), program.as_fd(), cpu)?;
        let probes = vec![event.probe];
        let meter = Meter::new(&program, probes.clone())?;
        let guarded = Guarded::program(program, probes, is_counted);
        let chosen = Chosen {
            probe: event.probe,
            mechanism: Mechanism::Tracepoint,
            because: None,
        };
        attached.push(Attached {
            link,
            guarded,
            meter,
            chosen,
        });
    }
    Ok(attached)
}
