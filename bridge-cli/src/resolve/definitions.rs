//! Probe definitions of `-e` and `--probes`: read, judged against this machine, and turned into probes.

use std::sync::Arc;

use tracebraid_bpf::hit_filter::HitFilter;
use tracebraid_bpf::spec::{
    EventProbe, Fetch, FunctionPlace, FunctionProbe, Location, ProbeId, RawTracepointProbe, Seat,
    UserProbe,
};

use super::asking::not_in_kernel;
use super::{Resolved, Resolver, event_filter};
use crate::definition::compile::Compiled;
use crate::definition::files_here::FilesHere;
use crate::definition::kernel_here::KernelHere;
use crate::definition::knowledge::Knowledge;
use crate::definition::rejection::Rejection;
use crate::definition::{Definition, Kind, Language, Line, Place, Reader, compile};

pub use crate::definition::is_definition;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Probe;
use crate::filter::{Hits, Machine, ProbeFilter, Refusals};
use crate::mount::ensure_tracefs;
use crate::source::decode::Decoder;
use crate::target::{Binary, Targets, shows_returns_to_seccomp};
use crate::tracefs::Tracefs;
use crate::tracefs::symbols::Symbols;

/// Definitions as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where: `-e`, or a file.
    pub place: String,
    /// One a line.
    pub text: String,
    /// What hits of them must fulfil, all of it.
    pub filters: Vec<String>,
}

/// A definition that can be attached.
pub(super) struct Ready {
    definition: Definition,
    compiled: Compiled,
    /// Of a kernel function.
    seat: Seat,
    /// What names addresses of the kernel, where it is one there.
    symbols: Option<Arc<Symbols>>,
    /// What is behind `if`.
    hits: Option<HitFilter>,
}

impl Resolver {
    /// Reads the definitions; gives what is good of them, and what is wrong.
    pub(super) fn read_definitions(&self, targets: &Targets) -> (Vec<Ready>, Vec<Error>) {
        if self.written.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut errors = Vec::new();
        let tracefs = match self.written.iter().any(|it| names_events(&it.text)) {
            true => ensure_tracefs()
                .and_then(|()| Tracefs::find())
                .map_err(|why| errors.push(why))
                .ok(),
            false => Tracefs::find().ok(),
        };
        let symbols = tracefs
            .as_ref()
            .map(|tracefs| Arc::clone(tracefs.symbols()));
        let symbols = symbols.unwrap_or_else(|| Arc::new(Symbols::new("/proc/kallsyms", "")));
        let kernel = KernelHere::new(tracefs);
        let files = FilesHere::of(targets.iter());
        let knowledge = Knowledge {
            kernel: &kernel,
            files: &files,
        };
        let mut reader = Reader::new(knowledge, Language::Dynamic);
        for written in &self.written {
            for (line, read) in reader.read(&written.text) {
                let place = match &*written.place {
                    "-e" => "-e".to_owned(),
                    file => format!("{file}:{line}"),
                };
                match read {
                    Line::Refused(rejection) => errors.push(refused(&place, &rejection)),
                    Line::Defined(definition) => errors.extend(not_attachable(&place, &definition)),
                    Line::Empty | Line::TakenBack => {}
                }
            }
        }
        let mut ready = Vec::new();
        for mut definition in reader.finish().into_definitions() {
            let seat = seat(&mut definition, &kernel);
            match compile::compile(&definition, &kernel) {
                Ok(mut compiled) => {
                    let machine = Machine::this(Some(Arc::clone(&symbols)));
                    match event_filter::compile(&definition, &kernel, &machine, &mut compiled) {
                        Ok(hits) => ready.push(Ready {
                            symbols: (definition.kind != Kind::File).then(|| Arc::clone(&symbols)),
                            definition,
                            compiled,
                            seat,
                            hits,
                        }),
                        Err(error) => errors.push(error),
                    }
                }
                Err(why) => {
                    let message = format!("-e {}: {why}", definition.text);
                    errors.push(Error::new(ErrorKind::Unsupported, message));
                }
            }
        }
        (ready, errors)
    }

    /// Adds user probes for definitions.
    ///
    /// # Errors
    /// All files that cannot be opened, and filters that cannot be read.
    pub(super) fn add_definitions(
        &mut self,
        ready: Vec<Ready>,
        targets: &Targets,
        resolved: &mut Resolved,
    ) -> Result<()> {
        let mut errors = Vec::new();
        let mut refusals = Refusals::default();
        let files = FilesHere::of(targets.iter());
        for one in ready {
            let Ready {
                definition,
                compiled,
                seat,
                symbols,
                hits,
            } = one;
            let program = compiled.program.clone();
            let decoder = Decoder::definition(&definition, compiled, symbols);
            let what = Arc::clone(decoder.probe());
            let filter = self.filter_of(&definition, &what, &mut refusals);
            if let (Kind::Tracepoint, Place::Symbol { symbol, .. }) =
                (definition.kind, &definition.place)
            {
                let name = symbol.clone();
                resolved.warnings.extend(definition.warnings);
                let id = resolved.add(&mut self.next, decoder, Vec::new());
                let probe = RawTracepointProbe { id, name, program };
                resolved.spec.raw_tracepoints.push(probe);
                errors.extend(set_filter(resolved, id, &what, filter, &definition.text));
                continue;
            }
            if let Place::Event { group, name, .. } = &definition.place {
                let (category, name) = (group.clone(), name.clone());
                let id = resolved.add(&mut self.next, decoder, Vec::new());
                resolved.spec.events.push(EventProbe {
                    id,
                    category,
                    name,
                    program,
                });
                errors.extend(set_filter(resolved, id, &what, filter, &definition.text));
                if let Some(own) = hits {
                    let behind = resolved.spec.hits.remove(&(id, 0));
                    let all = match behind {
                        Some(behind) => own.and(behind),
                        None => own,
                    };
                    resolved.spec.hits.insert((id, 0), all);
                }
                continue;
            }
            let function = match &definition.place {
                Place::Symbol { symbol, offset } => {
                    Some(FunctionPlace::Symbol(symbol.clone(), *offset))
                }
                Place::Address(address) => Some(FunctionPlace::Address(*address)),
                Place::File { .. } | Place::Event { .. } => None,
            };
            if let Some(place) = function {
                resolved.warnings.extend(definition.warnings);
                let id = resolved.add(&mut self.next, decoder, Vec::new());
                resolved.spec.functions.push(FunctionProbe {
                    id,
                    place,
                    seat,
                    program,
                });
                errors.extend(set_filter(resolved, id, &what, filter, &definition.text));
                continue;
            }
            let Place::File {
                path,
                offset,
                counter,
                ..
            } = &definition.place
            else {
                continue;
            };
            let opened = match resolved
                .binaries
                .iter()
                .position(|own| own.path().as_os_str() == &**path)
            {
                Some(index) => Ok(index),
                None => open(path, &files).map(|binary| {
                    resolved.binaries.push(binary);
                    resolved.binaries.len() - 1
                }),
            };
            let index = match opened {
                Ok(index) => index,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let binary = &resolved.binaries[index];
            let open_path = binary.open_path();
            let mut warnings = definition.warnings.clone();
            if definition.is_return && binary.has_unwind_tables() {
                warnings.push(format!(
                    "{}:{}: a panic or exception that goes through the function while its return is probed \
                     ends the process; #[tracepoint] times functions without that risk",
                    definition.group, definition.event
                ));
            }
            if definition.is_return && may_be_killed_by_return(targets) {
                warnings.push(format!(
                    "{}:{}: the target's seccomp filter sees the system call by which functions return on this \
                     kernel while their return is probed, and may end the process",
                    definition.group, definition.event
                ));
            }
            for pid in files.elsewhere(path) {
                warnings.push(format!(
                    "{}:{}: {path} is another file for process {pid}, and not probed there",
                    definition.group, definition.event
                ));
            }
            resolved.warnings.extend(warnings);
            let id = resolved.add(&mut self.next, decoder, Vec::new());
            resolved.spec.user.push(UserProbe {
                id,
                binary: open_path,
                locations: vec![Location {
                    offset: *offset,
                    semaphore: *counter,
                    fetch: Fetch::Program(program),
                }],
            });
            errors.extend(set_filter(resolved, id, &what, filter, &definition.text));
        }
        errors.extend(
            refusals.into_errors(|refusal| match self.written.get(refusal.of) {
                Some(written) => format!("-e {}", written.text),
                None => "--filter".to_owned(),
            }),
        );
        Error::several(errors).map_or(Ok(()), Err)
    }

    /// The filter behind a definition. What cannot be read is among the refusals.
    fn filter_of(
        &self,
        definition: &Definition,
        what: &Arc<Probe>,
        refusals: &mut Refusals,
    ) -> Option<ProbeFilter> {
        let index = definition.source;
        let filters = self.written.get(index).map(|written| &written.filters[..]);
        let filters = filters.filter(|filters| !filters.is_empty())?;
        let by = std::iter::once((index, filters));
        match ProbeFilter::read(by, what, &Machine::this(None), refusals) {
            Hits::Some(filter) => Some(filter),
            Hits::All | Hits::None => None,
        }
    }
}

/// What is known of the function that a definition names. One of a module is named with it from here on.
fn seat(definition: &mut Definition, kernel: &KernelHere) -> Seat {
    let Place::Symbol { symbol, .. } = &mut definition.place else {
        return Seat::Traced;
    };
    if definition.kind == Kind::Tracepoint {
        return Seat::Traced;
    }
    if !symbol.contains(':')
        && let Some(module) = kernel.module_of(symbol)
    {
        *symbol = format!("{module}:{symbol}");
    }
    match symbol.contains(':') {
        true => Seat::Module,
        false if kernel.is_traced(symbol) == Some(false) => Seat::Untraced,
        false => Seat::Traced,
    }
}

/// Sets the filter of a definition's probe; says why it cannot be.
fn set_filter(
    resolved: &mut Resolved,
    id: ProbeId,
    what: &Arc<Probe>,
    filter: Option<ProbeFilter>,
    text: &str,
) -> Option<Error> {
    let why = resolved.filter(id, what, filter?).err()?;
    Some(not_in_kernel(&text, what, &why))
}

/// Whether a target makes some system calls only, and a return probe adds one here.
fn may_be_killed_by_return(targets: &Targets) -> bool {
    let mut living = targets.living();
    shows_returns_to_seccomp() && living.any(|target| target.has_seccomp().unwrap_or(false))
}

/// The file that a path means, as the definitions were judged by it.
fn open(path: &str, files: &FilesHere) -> Result<Binary> {
    Binary::open_as(&files.place(path), std::path::Path::new(path))
}

fn refused(place: &str, rejection: &Rejection) -> Error {
    let text = rejection.render();
    let (message, hint) = text.split_once('\n').unwrap_or((&text, ""));
    let error = Error::new(ErrorKind::Usage, format!("{place}: {message}"));
    // The caret stands below the command whatever stands before the hint.
    error.hint(hint.trim_end())
}

fn not_attachable(place: &str, definition: &Definition) -> Option<Error> {
    if let Some(obstacle) = &definition.obstacle {
        let message = format!("{place}: {} cannot be probed: {obstacle}", definition.place);
        return Some(Error::new(ErrorKind::Usage, message));
    }
    None
}

/// Whether a text may have probes at events in it, for which the kernel's descriptions are needed.
fn names_events(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with('e'))
}

#[cfg(test)]
mod tests {
    use super::is_definition;

    #[test]
    fn definitions_are_told_from_names_of_tracepoints() {
        for text in [
            "p /bin/app:main",
            "p:up /bin/app:0x10 %di",
            "r:g/e /bin/app:main $retval",
            "uprobe:libc:mallo?",
            "uretprobe:/bin/app:main n=$retval",
            "kprobe:vfs_read",
            "usdt:/bin/app:p:n arg0:string",
        ] {
            assert!(is_definition(text), "{text}");
        }
        for text in [
            "orders:charge",
            "p:name",
            "usdt:/bin/app:p:n",
            "tp:sched:*",
            "charge",
        ] {
            assert!(!is_definition(text), "{text}");
        }
    }
}
