//! `stat`: its options, and what is said beside the counts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::attach::Counting;
use crate::error::Result;
use crate::launch::shell_status;
use crate::stat::{self, Format};

use super::what::WhatArgs;
use super::{say, say_note};

#[derive(Debug, Args)]
pub(super) struct StatArgs {
    #[command(flatten)]
    what: WhatArgs,
    /// Print what was counted every so many milliseconds (10 or more), and all of it at the end
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    interval: Option<u64>,
    /// How counts are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FormatArg::Text)]
    format: FormatArg,
    /// Write to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not measure what BPF programs cost, which takes two clock readings a hit
    #[arg(long)]
    no_cost: bool,
    /// Rows of probes without a hit too, however many; and on the standard error what is attached
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// A table
    Text,
    /// One JSON object a line: an interval, or all
    Json,
}

impl StatArgs {
    /// The options the library works with; wrong `-e` are all reported in one go.
    pub(super) fn into_options(self) -> Result<stat::Options> {
        let mut attach = self.what.into_options()?;
        attach.counting = Some(Counting {
            interval: self.interval.map(Duration::from_millis),
            cost: !self.no_cost,
        });
        Ok(stat::Options {
            attach,
            format: match self.format {
                FormatArg::Text => Format::Table,
                FormatArg::Json => Format::Json,
            },
            output: self.output,
            every_probe: self.verbose,
        })
    }
}

pub(super) fn run(args: StatArgs) -> Result<ExitCode> {
    let verbose = args.verbose;
    let options = args.into_options()?;
    let command = options.attach.command.first();
    let command = command.map(|program| program.display().to_string());
    let ended = stat::run(&options, &mut |note| say_note(note, verbose))?;
    let mut text = format!(
        "counted for {:.2} s, {} probes without a hit",
        ended.duration.as_secs_f64(),
        ended.silent
    );
    if ended.left_out > 0 {
        text.push_str(", which are left out (-v lists them)");
    }
    say(&text);
    if let Some(command) = command {
        say(&match ended.command {
            Some(status) => format!("{command} ended: {status}"),
            None => format!("{command} goes on"),
        });
    }
    match ended.failure {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(ended.command.map_or(0, shell_status))),
    }
}
