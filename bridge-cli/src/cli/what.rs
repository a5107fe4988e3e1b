//! What is attached to, and whose hits are meant: options that `attach` and `stat` share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::attach::{self, Via};
use crate::error::{Error, ErrorKind, Result};
use crate::probe;
use crate::resolve::definitions::Written;

use super::events::EventArgs;
use super::values::{CpuList, cpu_list, seconds};

#[derive(Debug, Args)]
pub(super) struct WhatArgs {
    /// The processes to attach to
    #[arg(
        short = 'p',
        visible_short_alias = 'x',
        long = "pid",
        value_name = "PID,…",
        value_delimiter = ','
    )]
    pids: Vec<u32>,
    #[command(flatten)]
    events: EventArgs,
    /// Probe definitions, one a line, as one would write them into uprobe_events
    #[arg(long, value_name = "FILE")]
    probes: Vec<PathBuf>,
    /// Kernel events of all processes, not only the target's
    #[arg(short, long)]
    all: bool,
    /// Only events of this thread
    #[arg(short, long = "tid", value_name = "TID")]
    tid: Option<u32>,
    /// Only events of these CPUs, such as 0-3,5
    #[arg(short = 'C', long = "cpu", value_name = "CPULIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Only events of tasks in this cgroup and below: a path, or its number
    #[arg(short = 'G', long, value_name = "CGROUP")]
    cgroup: Option<String>,
    /// End after so many seconds; fractions are allowed
    #[arg(short = 'T', visible_short_alias = 'd', long, value_name = "SECS", value_parser = seconds)]
    duration: Option<Duration>,
    /// How the target's own tracepoints come
    #[arg(long, value_enum, value_name = "WAY", default_value_t = ViaArg::Auto)]
    via: ViaArg,
    /// Let the bridge evaluate the filters of kernel events and probes, and not the kernel: whatever the
    /// filter, each hit is recorded first
    #[arg(long)]
    user_filter: bool,
    /// Application events of the target's children too, and of what they start
    #[arg(short, long)]
    follow: bool,
    /// Start this command, attached before its main
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ViaArg {
    /// Through its rings where it has some, else through USDT
    Auto,
    /// Through its rings, or not at all
    Ring,
    /// Through their USDT probes
    Usdt,
}

impl From<ViaArg> for Via {
    fn from(via: ViaArg) -> Via {
        match via {
            ViaArg::Auto => Via::Auto,
            ViaArg::Ring => Via::Ring,
            ViaArg::Usdt => Via::Usdt,
        }
    }
}

impl WhatArgs {
    /// The options the library works with, as far as these say; wrong `-e` are all reported in one go.
    pub(super) fn into_options(self) -> Result<attach::Options> {
        let mut events = self.events;
        let mut definitions = Vec::with_capacity(self.probes.len());
        for path in self.probes {
            definitions.push(Written {
                text: probe::read(&path)?,
                place: path.display().to_string(),
                filters: Vec::new(),
            });
        }
        definitions.extend(events.take_definitions());
        let selectors = events.selectors()?;
        if !self.pids.is_empty() && !self.command.is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                "a process (-p) and a command (-- CMD) are given; one of them is the target",
            ));
        }
        Ok(attach::Options {
            pids: self.pids,
            command: self.command,
            selectors,
            definitions,
            all_processes: self.all,
            thread: self.tid,
            cpus: self.cpus.map(|list| list.0).unwrap_or_default(),
            duration: self.duration,
            via: self.via.into(),
            cgroup: self.cgroup,
            user_filter: self.user_filter,
            follow: self.follow,
            // The file that runs, whatever its name leads to by now.
            janitor: Some(PathBuf::from("/proc/self/exe")),
            ..attach::Options::default()
        })
    }
}
