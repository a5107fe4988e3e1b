//! Hits that the kernel kept from a program: its guard against programs that hit themselves, a kprobe inside
//! another one, a return probe of which no more were to be had.
//!
//! A program counts its own, a link those that did not come so far as a program. Both are read while they are
//! there, and a link's once more before it goes.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use crate::kernel;
use crate::spec::ProbeId;

/// What is hit, and what is missed there.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) probes: Vec<ProbeId>,
    /// One that is these probes' alone.
    program: Option<OwnedFd>,
    links: Vec<OwnedFd>,
    /// Whether this kernel counts them.
    is_counted: bool,
    /// The probes stand in different places: what is missed is missed by one of them, and nobody knows which.
    is_group: bool,
    missed: u64,
    told: u64,
}

impl Guarded {
    /// A program that probes of one place share.
    pub(crate) fn program(program: OwnedFd, probes: Vec<ProbeId>, is_counted: bool) -> Guarded {
        Guarded {
            probes,
            program: Some(program),
            links: Vec::new(),
            is_counted,
            is_group: false,
            missed: 0,
            told: 0,
        }
    }

    /// One link of probes of different places, with its program, if it is no other's.
    pub(crate) fn link(
        link: OwnedFd,
        program: Option<OwnedFd>,
        probes: Vec<ProbeId>,
        is_counted: bool,
    ) -> Guarded {
        Guarded {
            is_group: probes.len() > 1,
            probes,
            program,
            links: vec![link],
            is_counted,
            missed: 0,
            told: 0,
        }
    }

    /// What is missed, of each of the probes; `None`: not known.
    pub(crate) fn of_each(&self) -> Option<u64> {
        let is_known = self.is_counted && (!self.is_group || self.missed == 0);
        is_known.then_some(self.missed)
    }

    /// What came since the last call, where it is known whose it is.
    pub(crate) fn take(&mut self) -> io::Result<u64> {
        self.look()?;
        if self.of_each().is_none() {
            return Ok(0);
        }
        Ok(self
            .missed
            .wrapping_sub(std::mem::replace(&mut self.told, self.missed)))
    }

    /// Takes the probes away; what they missed stays known.
    pub(crate) fn detach(&mut self) {
        // Where it cannot be read what was read last stays.
        let _ = self.look();
        self.links.clear();
    }

    fn look(&mut self) -> io::Result<()> {
        if !self.is_counted {
            return Ok(());
        }
        let mut missed = 0;
        if let Some(program) = &self.program {
            missed += kernel::recursion_misses(program.as_fd())?;
        }
        for link in &self.links {
            missed += kernel::link_misses(link.as_fd()).unwrap_or(0);
        }
        // A link that has gone took its count with it.
        self.missed = self.missed.max(missed);
        Ok(())
    }
}
