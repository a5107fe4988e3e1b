//! The command line, as clap reads it, and the plain options it becomes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::attach::{self, Recorder, Via};
use crate::condition::Condition;
use crate::definition::Language;
use crate::error::{Error, ErrorKind, Result};
use crate::export::{self, Format};
use crate::list;
use crate::probe;
use crate::snapshot;

use super::events::EventArgs;
use super::stacks::StackArgs;
use super::stat::StatArgs;
use super::values::size;
use super::what::WhatArgs;

/// What an application did, and what the kernel did to it meanwhile, as one stream.
#[derive(Debug, Parser)]
#[command(name = "bridge-cli", version, about, disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the tracepoints of the kernel, of a process or of a binary
    List(ListArgs),
    /// Attach to a process and print its events and the kernel's in order of time
    Attach(AttachArgs),
    /// Attach to a process and count how often each probe is hit, without looking at the events
    Stat(StatArgs),
    /// Print what the rings of a process hold, without stopping it
    Snapshot(SnapshotArgs),
    /// Check probe definitions without running them, and print the fields that each would give
    Probe(ProbeArgs),
    /// Say what this kernel and these rights allow, why not, and what to do
    Doctor(DoctorArgs),
    /// Undo what `attach` wrote to a process, when it is killed: started by `attach` for itself
    #[command(hide = true)]
    Janitor(JanitorArgs),
}

#[derive(Debug, Args)]
pub(super) struct ProbeArgs {
    /// Files with a definition a line, as one would write them into kprobe_events; - is the standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A definition, such as 'p:rd vfs_read count'
    #[arg(short = 'e', long = "event", value_name = "DEFINITION")]
    definitions: Vec<String>,
    /// The file of tracefs whose language is meant: dynamic_events takes every kind of probe
    #[arg(long = "as", value_enum, value_name = "FILE", default_value_t = LanguageArg::Dynamic)]
    language: LanguageArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LanguageArg {
    #[value(name = "kprobe_events")]
    Kprobe,
    #[value(name = "uprobe_events")]
    Uprobe,
    #[value(name = "dynamic_events")]
    Dynamic,
}

impl ProbeArgs {
    pub(super) fn into_options(self) -> Result<probe::Options> {
        if self.files.is_empty() && self.definitions.is_empty() {
            let message = "probe has nothing to check";
            return Err(Error::new(ErrorKind::Usage, message)
                .hint("name a file of definitions, or write -e 'p:NAME PLACE ARGUMENTS'"));
        }
        Ok(probe::Options {
            files: self.files,
            definitions: self.definitions,
            language: match self.language {
                LanguageArg::Kprobe => Language::Kprobe,
                LanguageArg::Uprobe => Language::Uprobe,
                LanguageArg::Dynamic => Language::Dynamic,
            },
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// A pattern such as 'sched:*', 'kprobe:vfs_*' or 'uprobe:libc:mallo*'; else with a '/' in it, the path of a binary
    #[arg(value_name = "GLOB|BINARY")]
    operands: Vec<OsString>,
    /// The tracepoints of this process
    #[arg(short = 'p', visible_short_alias = 'x', long, value_name = "PID")]
    pid: Option<u32>,
    /// Argument names and types, locations and files
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    pub(super) format: AnswerFormat,
}

#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    stacks: StackArgs,
    /// Write to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How events are written
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats())]
    format: String,
    /// Count events and write none: the table at the end is all
    #[arg(short, long)]
    count: bool,
    /// Print nothing but snapshots: the program's rings overwrite what is oldest until it asks for one
    #[arg(long)]
    flight_recorder: bool,
    /// Take a snapshot when such a hit comes, such as 'orders:charge__return if ns > 50000000'; makes it a
    /// flight recorder
    #[arg(long, value_name = "EVENT if FILTER")]
    snapshot_when: Vec<String>,
    /// Size of each CPU's ring in the kernel, such as 512K or 4M
    #[arg(long = "ring", value_name = "SIZE", value_parser = size)]
    ring: Option<usize>,
    /// The longest string copied, in bytes (16 to 4096)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(16..=4096))]
    string_limit: Option<u16>,
    /// Say on the standard error what is attached
    #[arg(short, long)]
    pub(super) verbose: bool,
}

#[derive(Debug, Args)]
pub(super) struct SnapshotArgs {
    /// The process
    #[arg(short = 'p', visible_short_alias = 'x', long, value_name = "PID")]
    pid: Option<u32>,
    /// What is left of a process: its core dump
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    core: Option<PathBuf>,
    #[command(flatten)]
    events: EventArgs,
    /// Write to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How events are written
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats())]
    format: String,
}

#[derive(Debug, Args)]
pub(super) struct JanitorArgs {
    /// The bridge whose end is waited for
    pub(super) bridge: u32,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// How the answer is written
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    pub(super) format: AnswerFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AnswerFormat {
    Text,
    Json,
}

impl ListArgs {
    /// The request the library works with. An operand with a `/` in it is a file, unless it begins as one of
    /// the forms of `-e` does; any other is a pattern.
    pub(super) fn into_request(self) -> Result<list::Request> {
        let mut request = list::Request {
            details: self.verbose,
            ..list::Request::default()
        };
        let twice = |what: &str| Error::new(ErrorKind::Usage, format!("list takes one {what}"));
        if let Some(pid) = self.pid {
            request.scope = list::Scope::Process(pid);
        }
        for operand in self.operands {
            if operand.as_encoded_bytes().contains(&b'/')
                && !list::is_form(&operand.to_string_lossy())
            {
                if request.scope != list::Scope::Kernel {
                    return Err(twice("process or file"));
                }
                request.scope = list::Scope::Binary(operand.into());
            } else if request
                .pattern
                .replace(operand.to_string_lossy().into_owned())
                .is_some()
            {
                return Err(twice("pattern").hint("a file has a / in its name: ./orders"));
            }
        }
        Ok(request)
    }
}

/// Reads each of several texts; wrong ones are all reported in one go.
fn each<T>(texts: &[String], read: fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let mut values = Vec::with_capacity(texts.len());
    let mut wrong = Vec::new();
    for text in texts {
        match read(text) {
            Ok(value) => values.push(value),
            Err(error) => wrong.push(error),
        }
    }
    Error::several(wrong).map_or(Ok(values), Err)
}

impl SnapshotArgs {
    /// The options the library works with.
    pub(super) fn into_options(self) -> Result<snapshot::Options> {
        let of = match (self.pid, self.core) {
            (Some(pid), _) => snapshot::Of::Process(pid),
            (None, Some(core)) => snapshot::Of::Core(core),
            (None, None) => {
                return Err(
                    Error::new(ErrorKind::Usage, "nobody is named whose rings are wanted")
                        .hint("give a process (-p PID) or a core dump (--core FILE)"),
                );
            }
        };
        Ok(snapshot::Options {
            of,
            selectors: self.events.selectors()?,
            output: self.output,
            format: self.format,
        })
    }
}

impl AttachArgs {
    /// The options the library works with; wrong `-e` are all reported in one go.
    pub(super) fn into_options(self) -> Result<attach::Options> {
        let options = self.what.into_options()?;
        let when = each(&self.snapshot_when, Condition::parse)?;
        let recorder = (self.flight_recorder || !when.is_empty()).then_some(Recorder { when });
        if recorder.is_some() && options.via == Via::Usdt {
            return Err(Error::new(
                ErrorKind::Usage,
                "a flight recorder is made of rings, and --via usdt uses none",
            ));
        }
        Ok(attach::Options {
            output: self.output,
            format: self.format,
            count: self.count,
            stacks: self.stacks.wanted()?,
            recorder,
            ring_bytes: self.ring.unwrap_or(0),
            string_limit: self.string_limit.map_or(0, usize::from),
            ..options
        })
    }
}

/// The names of the exporters' table.
fn formats() -> PossibleValuesParser {
    let value = |format: &&Format| PossibleValue::new(format.name).help(format.description);
    PossibleValuesParser::new(export::formats().iter().map(value).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::*;

    fn options(args: &[&str]) -> Result<attach::Options, String> {
        let line = ["bridge-cli", "attach"].iter().chain(args);
        match Cli::try_parse_from(line)
            .map_err(|error| error.to_string())?
            .command
        {
            Command::Attach(args) => args.into_options().map_err(|error| error.to_string()),
            _ => unreachable!("the line says attach"),
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_format_and_every_option_of_attach_and_stat_is_documented() {
        let page = include_str!("../../../docs/cli.md");
        for format in export::formats() {
            assert!(
                page.contains(&format!("\n### {}\n", format.name)),
                "{}",
                format.name
            );
        }
        let command = Cli::command();
        let attach = command.find_subcommand("attach").unwrap();
        let stat = command.find_subcommand("stat").unwrap();
        for option in attach
            .get_arguments()
            .chain(stat.get_arguments())
            .filter_map(|argument| argument.get_long())
        {
            assert!(page.contains(&format!("`--{option}")), "--{option}");
        }
    }

    #[test]
    fn pid_and_duration_have_their_aliases() {
        for pid in [["-p", "42"], ["-x", "42"], ["--pid", "42"]] {
            assert_eq!(options(&pid).unwrap().pids, [42]);
        }
        for duration in [["-T", "1.5"], ["-d", "1.5"], ["--duration", "1.5"]] {
            assert_eq!(
                options(&duration).unwrap().duration,
                Some(Duration::from_millis(1500))
            );
        }
    }

    #[test]
    fn an_operand_of_list_with_a_slash_is_a_file() {
        let request = |args: &[&str]| {
            let line = ["bridge-cli", "list"].iter().chain(args);
            match Cli::try_parse_from(line).unwrap().command {
                Command::List(args) => args.into_request(),
                _ => unreachable!("the line says list"),
            }
        };
        let both = request(&["./a:b", "orders:*"]).unwrap();
        assert_eq!(both.scope, list::Scope::Binary("./a:b".into()));
        assert_eq!(both.pattern.as_deref(), Some("orders:*"));
        assert_eq!(
            request(&["-p", "7"]).unwrap().scope,
            list::Scope::Process(7)
        );
        let function = request(&["-p", "7", "uprobe:/lib/c.so:mallo*"]).unwrap();
        assert_eq!(function.pattern.as_deref(), Some("uprobe:/lib/c.so:mallo*"));
        assert!(request(&["a", "b"]).is_err() && request(&["./a", "/b"]).is_err());
        assert!(request(&["-p", "7", "./a"]).is_err());
    }

    #[test]
    fn what_stands_behind_the_two_dashes_is_the_command() {
        let options = options(&["-e", "a:b", "--", "ls", "-l", "--", "x"]).unwrap();
        assert_eq!(options.command, ["ls", "-l", "--", "x"]);
        assert_eq!(options.selectors.len(), 1);
    }

    #[test]
    fn a_pid_and_a_command_together_are_refused() {
        assert!(options(&["-p", "1", "--", "ls"]).is_err());
    }
}
