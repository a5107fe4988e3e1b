//! `bridge-cli list`: what can be attached to, in the kernel, a process or a binary.
//!
//! ```text
//! list                    the kernel's tracepoints
//! list GLOB               those that match
//! list -p PID | BINARY    the tracepoints and USDT probes of the process or the file
//! list GLOB -p PID        what `attach -p PID -e GLOB` would find: the target's, then the kernel's
//! list kprobe:GLOB        functions that can be probed, of the kernel; also kretprobe:, fentry:, fexit:
//! list uprobe:FILE:GLOB   functions of a file; also uretprobe:
//! ```
//! GLOB is `PROVIDER:NAME` or a name alone, or one of the other forms that `-e` takes. A row is a name;
//! with details it is followed by its fields and where it is. Names, file names and print formats are other
//! people's bytes: they are printed with everything escaped that a terminal might obey.

mod asked;
mod functions;
mod json;
mod of_target;

use std::io;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Origin;
use crate::nearest::{nearest, suggestion};
use crate::print::escape;
use crate::target::{Binary, Process};
use crate::tracefs::{self, Tracefs};
pub(crate) use functions::is_form;

use asked::{Asked, Filter, Of};
use of_target::Candidates;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `PROVIDER:NAME` or a name, with `*`, `?` and `[…]`.
    pub pattern: Option<String>,
    /// Whose tracepoints.
    pub scope: Scope,
    /// Whether details are wanted; those of the kernel's tracepoints cost a file each.
    pub details: bool,
}

/// Whose tracepoints are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The kernel's.
    #[default]
    Kernel,
    /// Those of a process.
    Process(u32),
    /// Those of a file.
    Binary(PathBuf),
}

/// Where kernel tracepoints come from.
pub trait KernelTracepoints {
    /// Category and name of each.
    ///
    /// # Errors
    /// Where they cannot be read; the error says what to do.
    fn names(&self) -> Result<Vec<(String, String)>>;

    /// The fields of one: name and type.
    ///
    /// # Errors
    /// Where its format cannot be read.
    fn fields(&self, category: &str, name: &str) -> Result<Vec<(String, String)>>;

    /// Why its events are printed as `name=value` and not as the kernel prints them, where that is so.
    fn not_as_the_kernel(&self, _category: &str, _name: &str) -> Option<String> {
        None
    }
}

impl KernelTracepoints for Tracefs {
    fn names(&self) -> Result<Vec<(String, String)>> {
        Ok(self
            .tracepoints()?
            .into_iter()
            .map(|found| (found.category, found.name))
            .collect())
    }

    fn fields(&self, category: &str, name: &str) -> Result<Vec<(String, String)>> {
        let format = self.format(category, name)?;
        let fields = tracefs::fields(&format);
        Ok(fields
            .into_iter()
            .map(|field| (field.name, field.type_name))
            .collect())
    }

    fn not_as_the_kernel(&self, category: &str, name: &str) -> Option<String> {
        let format = self.format(category, name).ok()?;
        self.print_fmt(&format)
            .err()
            .map(|unknown| unknown.to_string())
    }
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The target's by group and name, then the kernel's.
    pub rows: Vec<Row>,
    /// What the reader should know beside them, for the standard error. Not escaped: they quote file names.
    pub remarks: Vec<String>,
}

/// A tracepoint or probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it comes from.
    pub origin: Origin,
    /// Provider or category.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Lines that describe it: what a line is about, and the text. Empty unless asked for.
    pub details: Vec<(&'static str, String)>,
}

/// Lists what is asked for. `kernel` gives the kernel's tracepoints; it is called when they are wanted.
///
/// # Errors
/// Those of opening the process or the binary and, where nothing else is listed, those of `kernel`;
/// [`ErrorKind::NoMatch`] where nothing matches (with the nearest names) or there is nothing at all.
pub fn list(
    request: &Request,
    kernel: impl FnOnce() -> Result<Box<dyn KernelTracepoints>>,
) -> Result<Listing> {
    if let Some(pattern) = &request.pattern
        && let Some(wanted) = functions::read(pattern)?
    {
        return functions::list(&wanted, &request.scope, request.details);
    }
    let Asked { filter, of, file } = Asked::read(request)?;
    let mut all = Candidates {
        details: request.details,
        ..Candidates::default()
    };
    match (&file, &request.scope) {
        _ if of == Of::Kernel => {}
        (Some(binary), _) => all.binary(binary),
        (None, Scope::Kernel) => {}
        (None, Scope::Process(pid)) => all.process(&Process::open(*pid)?)?,
        (None, Scope::Binary(path)) => all.binary(&Binary::open(path)?),
    }
    all.rows
        .sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));

    let mut known = Vec::new();
    let mut listing = Listing {
        rows: Vec::new(),
        remarks: all.remarks,
    };
    for row in all.rows {
        known.push(format!("{}:{}", row.group, row.name));
        if filter
            .as_ref()
            .is_none_or(|filter| filter.matches(&row.group, &row.name))
        {
            listing.rows.push(row);
        }
    }
    let wants_kernel = match of {
        Of::Target => false,
        Of::Kernel => true,
        Of::Both => request.scope == Scope::Kernel || filter.is_some(),
    };
    let mut failed = None;
    if wants_kernel {
        let added = kernel().and_then(|kernel| {
            add_kernel(
                &*kernel,
                filter.as_ref(),
                request.details,
                &mut known,
                &mut listing,
            )
        });
        if let Err(error) = added {
            if listing.rows.is_empty() {
                failed = Some(error);
            } else {
                listing
                    .remarks
                    .push(format!("the kernel's tracepoints are not listed: {error}"));
            }
        }
    }
    if !listing.rows.is_empty() {
        return Ok(listing);
    }
    Err(nothing(request, of, &known, &listing.remarks, failed))
}

fn add_kernel(
    kernel: &dyn KernelTracepoints,
    filter: Option<&Filter>,
    details: bool,
    known: &mut Vec<String>,
    listing: &mut Listing,
) -> Result<()> {
    for (group, name) in kernel.names()? {
        known.push(format!("{group}:{name}"));
        if filter.is_some_and(|filter| !filter.matches(&group, &name)) {
            continue;
        }
        let mut lines = Vec::new();
        if details {
            match kernel.fields(&group, &name) {
                Ok(fields) => lines.extend(
                    fields
                        .iter()
                        .map(|(name, kind)| ("field", format!("{name}: {kind}"))),
                ),
                Err(error) => listing.remarks.push(error.to_string()),
            }
            if let Some(why) = kernel.not_as_the_kernel(&group, &name) {
                lines.push(("print", format!("name=value; {why}")));
            }
        }
        listing.rows.push(Row {
            origin: Origin::Kernel,
            group,
            name,
            details: lines,
        });
    }
    Ok(())
}

/// Why the list is empty.
fn nothing(
    request: &Request,
    of: Of,
    known: &[String],
    remarks: &[String],
    failed: Option<Error>,
) -> Error {
    let target = match &request.scope {
        Scope::Kernel => None,
        Scope::Process(pid) => Some(format!("process {pid}")),
        Scope::Binary(path) => Some(path.display().to_string()),
    };
    match (&request.pattern, failed) {
        (_, Some(error)) if target.is_none() => error,
        (Some(pattern), failed) => {
            let of = match (target, of) {
                (Some(target), Of::Both) => format!(" of {target} or the kernel"),
                (Some(target), Of::Target) => format!(" of {target}"),
                _ => String::new(),
            };
            let message = format!("no tracepoint{of} matches {pattern}");
            let mut error = Error::new(ErrorKind::NoMatch, message);
            if let Some(names) = suggestion(&nearest(pattern, known.iter().map(String::as_str))) {
                error = error.hint(names);
            }
            match failed {
                Some(cause) => error.because(cause),
                None => error,
            }
        }
        (None, _) => {
            let target = target.unwrap_or_else(|| "the kernel".to_owned());
            // The remarks name the file; the message has just done so.
            let prefix = format!("{target}: ");
            let why: Vec<&str> = remarks
                .iter()
                .map(|remark| remark.strip_prefix(&prefix).unwrap_or(remark))
                .collect();
            let why = match why[..] {
                [] => String::new(),
                _ => format!(": {}", why.join("; ")),
            };
            Error::new(
                ErrorKind::NoMatch,
                format!("{target} has no tracepoints{why}"),
            )
        }
    }
}

impl Listing {
    /// Writes the rows, one a line, each followed by its details.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut line = Vec::new();
        for row in &self.rows {
            line.clear();
            escape(row.group.as_bytes(), &mut line);
            line.push(b':');
            escape(row.name.as_bytes(), &mut line);
            line.push(b'\n');
            for (about, text) in &row.details {
                line.extend_from_slice(format!("    {about:<9} ").as_bytes());
                escape(text.as_bytes(), &mut line);
                line.push(b'\n');
            }
            out.write_all(&line)?;
        }
        out.flush()
    }
}
