//! A process and all that descends from it, known to the kernel from each child's first instruction on.
//!
//! ```text
//! fork in a member ─▶ the child is a member      (before it runs)
//! exec             ─▶ stays one
//! end, waited for  ─▶ is none any more
//! ```
//! The set lives in the kernel, where programs of its own keep it. Sessions that are given a family
//! ([`Options::family`](crate::Options)) take it in place of their filter's list of processes.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::attach::raw;
use crate::error::{Error, ErrorKind, Result};
use crate::load::{self, Object};
use crate::maps;
use crate::namespace;
use crate::plan::Code;

/// How many processes a family can have at a time.
const MEMBERS: u32 = 16 * 1024;

/// See the module's page. It is followed until this is dropped.
#[derive(Debug)]
pub struct Family {
    processes: MapHandle,
    left_out: MapHandle,
    _links: Vec<OwnedFd>,
}

impl Family {
    /// Follows a process, as our pid namespace numbers it, from now on. Children that it has by
    /// now are [`add`](Family::add)ed by the caller.
    ///
    /// # Errors
    /// As for [`Session::start`](crate::Session::start).
    pub fn of(process: u32) -> Result<Family> {
        let processes = maps::set("processes", MEMBERS)?;
        let left_out = maps::count("left_out")?;
        let shared = BTreeMap::from([
            ("processes", maps::handle(&processes)?),
            ("left_out", maps::handle(&left_out)?),
        ]);
        let mut tracepoints = vec![
            ("family_fork", c"sched_process_fork"),
            ("family_free", c"sched_process_free"),
        ];
        if namespace::inner().is_some() {
            tracepoints.push(("family_exit", c"sched_process_exit"));
        }
        let names: Vec<&str> = tracepoints.iter().map(|&(name, _)| name).collect();
        let mut programs = load::with(
            Object::Family,
            &names,
            0,
            &shared,
            &BTreeMap::from([namespace::constant()]),
            &Code::default(),
        )?;
        let mut family = Family {
            processes,
            left_out,
            _links: Vec::new(),
        };
        family.add(process)?;
        for (name, tracepoint) in tracepoints {
            let program = load::take(&mut programs, name)?;
            family._links.push(raw::link(tracepoint, &program)?);
        }
        Ok(family)
    }

    /// Takes a process in, and what it forks from now on.
    ///
    /// # Errors
    /// [`System`](ErrorKind::System) where there is no room for it.
    pub fn add(&self, process: u32) -> Result<()> {
        self.processes
            .update(&process.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| {
                let message = format!("cannot follow process {process}");
                Error::new(ErrorKind::System, message).because(error)
            })
    }

    /// Takes a process out.
    pub fn remove(&self, process: u32) {
        // That it is not there is what is wanted.
        let _ = self.processes.delete(&process.to_ne_bytes());
    }

    /// The members by now. One that has ended is among them until its parent has waited for it.
    pub fn members(&self) -> Vec<u32> {
        let number = |key: Vec<u8>| Some(u32::from_ne_bytes(key.try_into().ok()?));
        self.processes.keys().filter_map(number).collect()
    }

    /// How many children are not followed, since there were too many at a time.
    pub fn left_out(&self) -> u64 {
        let value = self.left_out.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = value.ok().flatten().and_then(|it| it.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }

    /// The set, for a session.
    pub(crate) fn set(&self) -> Result<MapHandle> {
        maps::handle(&self.processes)
    }
}
