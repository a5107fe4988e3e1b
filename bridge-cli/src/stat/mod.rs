//! How often each probe is hit, and what that costs: the `kprobe_profile` of all kinds of probes.
//!
//! ```text
//! attach, counting ─▶ at intervals: what was added since the last one ─┐
//!                  ─▶ at the end: all of it                            ├─▶ table, json
//! ```
//! Attaching, staying and ending are those of [`attach`]; here is what is written of the counts.

mod json;
mod table;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::attach::{self, Note, Tally};
use crate::error::{Error, ErrorKind, Result};
use crate::summary::Row;

/// What `stat` is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is counted, of whom and for how long. Its output and its format are not used.
    pub attach: attach::Options,
    /// How counts are written.
    pub format: Format,
    /// Where to; `None` is the standard output.
    pub output: Option<PathBuf>,
    /// Probes without a hit have rows in tables too, however many probes there are.
    pub every_probe: bool,
}

/// How counts are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A table, for people.
    #[default]
    Table,
    /// A JSON object a line: one an interval, and one for all.
    Json,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// How long hits were counted.
    pub duration: Duration,
    /// Probes without a hit.
    pub silent: usize,
    /// Of these so many have no row.
    pub left_out: usize,
    /// Why it ended before it should have.
    pub failure: Option<Error>,
    /// The command's end, if one was started and has ended.
    pub command: Option<ExitStatus>,
}

/// More probes than a table lists that were not hit.
const FEW: usize = 20;

/// Counts until a signal, the duration, the target's end, or the output's.
///
/// # Errors
/// Those of [`attach::run`], and an output that cannot be opened. What goes wrong later is
/// [`Ended::failure`].
pub fn run(options: &Options, say: &mut dyn FnMut(Note)) -> Result<Ended> {
    let mut output = Output::open(options)?;
    let mut told = |tally: &Tally| output.interval(tally);
    let ended = attach::run_telling(&options.attach, say, &mut told)?;
    let attach::Ended {
        summary,
        failure,
        command,
    } = ended;
    let all = Tally {
        time: summary.duration,
        rows: summary.rows,
    };
    let left_out = output.total(&all);
    Ok(Ended {
        duration: all.time,
        silent: all.rows.iter().filter(|row| row.is_silent()).count(),
        left_out,
        failure: failure.or(output.failure),
        command,
    })
}

/// Where counts are written.
struct Output<'a> {
    options: &'a Options,
    sink: Box<dyn Write>,
    /// Of intervals: what was counted before.
    before: HashMap<String, Row>,
    begin: Duration,
    /// The reader has gone, or nothing can be written any more.
    is_closed: bool,
    failure: Option<Error>,
}

impl Output<'_> {
    fn open(options: &Options) -> Result<Output<'_>> {
        let sink: Box<dyn Write> = match &options.output {
            None => Box::new(io::stdout()),
            Some(path) => Box::new(File::create(path).map_err(|error| {
                let message = format!("cannot create {}", path.display());
                Error::new(ErrorKind::Output, message).because(error)
            })?),
        };
        Ok(Output {
            options,
            sink,
            before: HashMap::new(),
            begin: Duration::ZERO,
            is_closed: false,
            failure: None,
        })
    }

    /// Writes what was added since the last interval.
    fn interval(&mut self, tally: &Tally) -> ControlFlow<()> {
        let added: Vec<Row> = tally.rows.iter().map(|row| self.added(row)).collect();
        let is_first = self.before.is_empty();
        self.before = tally
            .rows
            .iter()
            .map(|row| (row.name.clone(), row.clone()))
            .collect();
        let begin = std::mem::replace(&mut self.begin, tally.time);
        let text = match self.options.format {
            Format::Json => json::interval(begin, tally.time, &added),
            Format::Table => {
                let rows = self.listed(&added);
                let filters = tally.rows.iter().any(|row| row.filtered > 0);
                table::interval(tally.time, &rows, filters, is_first)
            }
        };
        self.write(&text);
        match self.is_closed {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Writes what was counted in all; how many probes were left out.
    fn total(&mut self, all: &Tally) -> usize {
        let rows = self.listed(&all.rows);
        let (text, left_out) = match self.options.format {
            Format::Json => (json::total(all.time, &all.rows), 0),
            Format::Table => {
                let is_first = self.before.is_empty();
                let left_out = all.rows.len() - rows.len();
                (table::total(&rows, is_first), left_out)
            }
        };
        self.write(&text);
        left_out
    }

    /// The rows of a table: all, or of many those that were hit.
    fn listed<'r>(&self, rows: &'r [Row]) -> Vec<&'r Row> {
        let all = self.options.every_probe || rows.len() <= FEW;
        rows.iter().filter(|row| all || !row.is_silent()).collect()
    }

    fn added(&self, row: &Row) -> Row {
        match self.before.get(&row.name) {
            Some(before) => row.since(before),
            None => row.clone(),
        }
    }

    fn write(&mut self, text: &str) {
        if self.is_closed {
            return;
        }
        let written = self.sink.write_all(text.as_bytes());
        if let Err(error) = written.and_then(|()| self.sink.flush()) {
            self.is_closed = true;
            // That the reader has gone is no error.
            if error.kind() != io::ErrorKind::BrokenPipe {
                let message = match &self.options.output {
                    None => "cannot write the standard output".to_owned(),
                    Some(path) => format!("cannot write {}", path.display()),
                };
                self.failure = Some(Error::new(ErrorKind::Output, message).because(error));
            }
        }
    }
}
