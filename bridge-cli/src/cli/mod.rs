//! The command line: arguments in, plain option structs out, an exit status back.

mod args;
mod events;
mod report;
mod stacks;
mod stat;
mod values;
mod what;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::attach::{self, Note};
use crate::doctor;
use crate::error::{Error, ErrorKind, Result};
use crate::keys;
use crate::launch::shell_status;
use crate::list;
use crate::mount::ensure_tracefs;
use crate::probe;
use crate::snapshot;
use crate::tracefs::Tracefs;

use args::{AnswerFormat, AttachArgs, Cli, Command, DoctorArgs, ListArgs, ProbeArgs, SnapshotArgs};

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, and are no errors.
            let _ = error.print();
            let status = if error.use_stderr() {
                ErrorKind::Usage.exit_status()
            } else {
                0
            };
            return ExitCode::from(status);
        }
    };
    let result = match cli.command {
        Command::List(args) => list(args),
        Command::Attach(args) => attach(args),
        Command::Stat(args) => stat::run(args),
        Command::Snapshot(args) => snapshot(args),
        Command::Probe(args) => probe(args),
        Command::Doctor(args) => doctor(&args),
        Command::Janitor(args) => keys::serve(args.bridge).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        complain(&error);
        ExitCode::from(error.kind().exit_status())
    })
}

fn complain(error: &Error) {
    // Where even that cannot be written, the exit status has to do.
    let _ = io::stderr().write_all(report::render(error).as_bytes());
}

fn say(text: &str) {
    let _ = io::stderr().write_all(report::line(text).as_bytes());
}

/// Prints a whole answer. That the reader has gone is no error.
fn print(text: &[u8]) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::Output, "cannot write the standard output").because(error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn list(args: ListArgs) -> Result<ExitCode> {
    let (format, details) = (args.format, args.verbose);
    let listing = list::list(&args.into_request()?, || {
        ensure_tracefs()?;
        Ok(Box::new(Tracefs::find()?))
    })?;
    listing.remarks.iter().for_each(|remark| say(remark));
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = match format {
        AnswerFormat::Text => listing.write(&mut text),
        AnswerFormat::Json => listing.write_json(details, &mut text),
    };
    print(&text)
}

fn snapshot(args: SnapshotArgs) -> Result<ExitCode> {
    let taken = snapshot::run(&args.into_options()?)?;
    taken.warnings.iter().for_each(|warning| say(warning));
    say(&format!(
        "{} events of {:.6} s",
        taken.events,
        Duration::from_nanos(taken.span).as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}

fn probe(args: ProbeArgs) -> Result<ExitCode> {
    let options = args.into_options()?;
    // Without tracefs nothing is known of the kernel's events; only definitions that need them miss it.
    let tracefs = ensure_tracefs().and_then(|()| Tracefs::find()).ok();
    let checked = probe::check(&options, tracefs)?;
    let printed = print(checked.text.as_bytes())?;
    checked.complaints.iter().for_each(|text| {
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    });
    match checked.refused {
        0 => Ok(printed),
        _ => Ok(ExitCode::from(ErrorKind::Usage.exit_status())),
    }
}

fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    let capabilities = doctor::examine();
    let answer = match args.format {
        AnswerFormat::Text => doctor::text(&capabilities),
        AnswerFormat::Json => doctor::json(&capabilities),
    };
    print(answer.as_bytes())
}

/// Says what came up; details only where they are asked for.
fn say_note(note: Note, verbose: bool) {
    match note {
        Note::Warning(text) => say(&text),
        Note::Attached { probes, took } if verbose => {
            say(&format!(
                "attached {probes} probes in {} ms",
                took.as_millis()
            ));
        }
        Note::Detail(text) if verbose => say(&text),
        Note::Attached { .. } | Note::Detail(_) => {}
    }
}

fn attach(args: AttachArgs) -> Result<ExitCode> {
    let verbose = args.verbose;
    let options = args.into_options()?;
    let command = options
        .command
        .first()
        .map(|program| program.display().to_string());
    let ended = attach::run(&options, &mut |note| say_note(note, verbose))?;
    let _ = io::stderr().write_all(report::table(&ended.summary.render()).as_bytes());
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
