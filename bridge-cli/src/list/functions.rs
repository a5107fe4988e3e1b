//! Functions that probes can be set on, by the short forms of definitions:
//!
//! ```text
//! kprobe:[MODULE:]GLOB  kretprobe:…  fentry:…  fexit:…     functions of the kernel
//! uprobe:FILE:GLOB  uretprobe:…                            functions of a program or a library
//! ```
//! A row is what `-e` takes. FILE without a `/` is looked for among the files of the process, or where
//! programs and libraries are.

use std::path::{Path, PathBuf};

use tracebraid_bpf::capability;

use super::{Listing, Row, Scope};
use crate::definition::dwarf::{DebugInfo, FunctionType};
use crate::definition::files_here::{FilesHere, PROLOGUE};
use crate::definition::kernel_functions::{KernelFunction, Written};
use crate::definition::kernel_here::KernelHere;
use crate::definition::knowledge::{Files, Probeable};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Origin;
use crate::glob::Glob;
use crate::nearest::{nearest, suggestion};
use crate::target::functions::Function;
use crate::target::{Binary, Process};
use crate::tracefs::Tracefs;

/// What a pattern with one of the forms asks for.
pub(super) enum Functions<'t> {
    /// The form, the module's pattern if there is one, and the function's.
    OfKernel(&'static str, Option<&'t str>, &'t str),
    /// The form, the file, and the function's pattern.
    OfFile(&'static str, &'t str, &'t str),
}

const KERNEL: [&str; 4] = ["kprobe", "kretprobe", "fentry", "fexit"];
const USER: [&str; 2] = ["uprobe", "uretprobe"];

/// Reads a pattern; `None` where it is about tracepoints.
///
/// # Errors
/// [`ErrorKind::Usage`] where a part is missing.
pub(super) fn read(pattern: &str) -> Result<Option<Functions<'_>>> {
    let Some((form, rest)) = pattern.split_once(':') else {
        return Ok(None);
    };
    let own = |forms: &[&'static str]| forms.iter().copied().find(|own| *own == form);
    if let Some(form) = own(&KERNEL) {
        return match rest.split_once(':') {
            _ if rest.is_empty() => Err(incomplete(pattern)),
            Some((module, symbol)) => Ok(Some(Functions::OfKernel(form, Some(module), symbol))),
            None => Ok(Some(Functions::OfKernel(form, None, rest))),
        };
    }
    let Some(form) = own(&USER) else {
        return Ok(None);
    };
    match crate::definition::split_place(rest) {
        Some((file, symbol)) if !file.is_empty() => Ok(Some(Functions::OfFile(form, file, symbol))),
        _ => Err(incomplete(pattern)),
    }
}

fn incomplete(pattern: &str) -> Error {
    let message = format!("{pattern}: a part is missing");
    Error::new(ErrorKind::Usage, message).hint("write kprobe:GLOB, fentry:GLOB or uprobe:FILE:GLOB")
}

/// Lists the functions.
///
/// # Errors
/// Those of opening the process or the file; [`ErrorKind::NoMatch`] where nothing matches.
pub(super) fn list(wanted: &Functions<'_>, scope: &Scope, details: bool) -> Result<Listing> {
    match *wanted {
        Functions::OfKernel(form, module, symbol) => of_kernel(form, module, symbol, details),
        Functions::OfFile(form, file, symbol) => {
            let process = match scope {
                Scope::Process(pid) => Some(Process::open(*pid)?),
                _ => None,
            };
            of_file(form, &opened(file, process.as_ref())?, symbol, details)
        }
    }
}

fn of_kernel(form: &str, module: Option<&str>, symbol: &str, details: bool) -> Result<Listing> {
    let kernel = KernelHere::new(Tracefs::find().ok());
    // Through ftrace a function is reached by its type only.
    let by_type = form.starts_with('f');
    let pattern = Glob::new(symbol);
    let module = module.map(Glob::new);
    let mut found = kernel.functions(module.as_ref(), &pattern, details || by_type);
    found.retain(|function| !by_type || function.prototype.is_some());
    let mut listing = Listing::default();
    let mut unfit = 0;
    for function in found {
        // With details it is said why they cannot be probed.
        if function.probeable != Probeable::Yes && !details {
            unfit += 1;
            continue;
        }
        listing.rows.push(Row {
            origin: Origin::Probe,
            group: form.to_owned(),
            details: match details {
                true => kernel_details(&function, form.contains("ret") || form == "fexit"),
                false => Vec::new(),
            },
            name: function.name,
        });
    }
    if unfit != 0 {
        listing.remarks.push(format!(
            "{unfit} more match and cannot be probed (notrace, blacklisted): list -v shows them"
        ));
    }
    if listing.rows.is_empty() && unfit == 0 {
        let near = kernel.similar(symbol);
        return Err(none("no kernel function", symbol, &near));
    }
    listing.remarks.extend(
        capability::no_function_probes()
            .map(|why| format!("{why}; what is listed cannot be attached to here")),
    );
    Ok(listing)
}

fn kernel_details(function: &KernelFunction, at_return: bool) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(Written {
        parameters,
        returns,
    }) = &function.prototype
    {
        for (index, (name, type_name)) in parameters.iter().enumerate() {
            let name = match name {
                Some(name) => name.clone(),
                None => format!("$arg{}", index + 1),
            };
            lines.push(("field", format!("{name}: {type_name}")));
        }
        if at_return && returns != "void" {
            lines.push(("field", format!("$retval: {returns}")));
        }
        if !at_return {
            lines.push(("returns", returns.clone()));
        }
    }
    if let Some(module) = &function.module {
        lines.push(("module", module.clone()));
    }
    if let [first, .., last] = function.addresses[..] {
        let count = function.addresses.len();
        lines.push((
            "ambiguous",
            match first {
                0 => format!("{count} functions have this name"),
                _ => format!("{count} functions have this name, at {first:#x} to {last:#x}"),
            },
        ));
    }
    if !function.aliases.is_empty() {
        lines.push(("alias", function.aliases.join(", ")));
    }
    match function.probeable {
        Probeable::Yes => {}
        Probeable::NoTrace => lines.push(("refused", "notrace: ftrace cannot reach it".to_owned())),
        Probeable::Blacklisted => lines.push((
            "refused",
            "it is on the blacklist of kprobes: probing machinery, or entry code".to_owned(),
        )),
    }
    lines
}

/// The file of a process, or of this machine.
fn opened(file: &str, process: Option<&Process>) -> Result<Binary> {
    let files = FilesHere::of(process);
    let path = match file.contains('/') {
        true => PathBuf::from(file),
        false => files.find(file).ok_or_else(|| {
            let place = match process {
                Some(process) => format!("process {} maps no file", process.pid()),
                None => "there is no program or library".to_owned(),
            };
            let message = format!("{place} that is called {file}");
            Error::new(ErrorKind::NoMatch, message).hint("name it by its path: uprobe:/PATH:GLOB")
        })?,
    };
    Binary::open_as(&files.place(&path.to_string_lossy()), &path)
}

fn of_file(form: &str, binary: &Binary, symbol: &str, details: bool) -> Result<Listing> {
    let pattern = Glob::new(symbol);
    let functions = binary.functions();
    let mut listing = Listing::default();
    let path = binary.path().display();
    if functions.is_empty() {
        let message = format!("{path} has no symbols of functions");
        return Err(Error::new(ErrorKind::NoMatch, message)
            .hint("it is stripped: a probe can still be set by an offset of the file"));
    }
    if let Some(unfit) = binary.unfit() {
        listing.remarks.push(format!("{path}: {unfit}"));
    }
    let debug_info = match details {
        true => DebugInfo::of(binary).ok(),
        false => None,
    };
    for function in &functions {
        if !function.is_matched_by(&pattern) {
            continue;
        }
        let details = match details {
            true => user_details(binary, function, debug_info.as_ref(), form == "uretprobe"),
            false => Vec::new(),
        };
        listing.rows.push(Row {
            origin: Origin::Probe,
            group: format!("{form}:{path}"),
            name: function.asked().into_owned(),
            details,
        });
    }
    listing.rows.sort_by(|a, b| a.name.cmp(&b.name));
    listing.rows.dedup();
    if details && debug_info.is_none() {
        listing.remarks.push(format!(
            "{path}: no debug information, so that parameters are not known: build with -g"
        ));
    }
    if listing.rows.is_empty() {
        let near = nearest(symbol, functions.iter().map(Function::shown));
        return Err(none(&format!("no function of {path}"), symbol, &near));
    }
    Ok(listing)
}

fn user_details(
    binary: &Binary,
    function: &Function,
    debug_info: Option<&DebugInfo>,
    at_return: bool,
) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let known = debug_info.and_then(|debug_info| {
        let code = binary.code(function.address, PROLOGUE).unwrap_or_default();
        debug_info.function_type(function.address, &code)
    });
    if let Some(FunctionType {
        parameters,
        returns,
    }) = known
    {
        // A return probe has no names for what was passed.
        for parameter in parameters.into_iter().filter(|_| !at_return) {
            let missing = parameter.missing.map_or(String::new(), |why| {
                format!(" (not to be had at the entry: {why})")
            });
            let (name, type_name) = (parameter.name, parameter.type_name);
            lines.push(("field", format!("{name}: {type_name}{missing}")));
        }
        match returns {
            Some(returns) if at_return => lines.push(("field", format!("$retval: {returns}"))),
            Some(returns) => lines.push(("returns", returns)),
            None => {}
        }
    }
    if function.name.is_some() {
        lines.push(("symbol", function.symbol.clone()));
    }
    if let Some(version) = &function.version {
        let default = match version.is_default {
            true => " (the one that programs are linked with)",
            false => "",
        };
        lines.push(("version", format!("{}{default}", version.name)));
    }
    let (address, offset, size) = (function.address, function.offset, function.size);
    let size = match size {
        0 => String::new(),
        size => format!(", {size} bytes"),
    };
    lines.push(("probe", format!("{address:#x} (offset {offset:#x}{size})")));
    lines
}

fn none(of: &str, symbol: &str, near: &[String]) -> Error {
    let error = Error::new(ErrorKind::NoMatch, format!("{of} matches {symbol}"));
    match suggestion(near) {
        Some(names) => error.hint(names),
        None => error,
    }
}

/// Whether an operand of `list` is a pattern although it has the `/` of a path.
pub(crate) fn is_form(operand: &str) -> bool {
    let forms = KERNEL
        .iter()
        .chain(&USER)
        .chain(&["usdt", "tracepoint", "tp"]);
    let begins = |form: &str| {
        operand
            .strip_prefix(form)
            .is_some_and(|rest| rest.starts_with(':'))
    };
    forms.copied().any(begins) && !Path::new(operand).exists()
}
