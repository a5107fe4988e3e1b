//! A pattern of `list`: whose tracepoints it is about, and which of them.

use super::{Request, Scope};
use crate::definition::files_here::FilesHere;
use crate::error::{Error, ErrorKind, Result};
use crate::glob::Glob;
use crate::selector::{self, Selector};
use crate::target::{Binary, Process};

/// What is asked for, read.
pub(super) struct Asked {
    pub(super) filter: Option<Filter>,
    pub(super) of: Of,
    /// The file that the pattern names.
    pub(super) file: Option<Binary>,
}

/// Whose tracepoints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// The target's, then the kernel's.
    Both,
    /// `usdt:…`.
    Target,
    /// `tracepoint:…`.
    Kernel,
}

impl Asked {
    pub(super) fn read(request: &Request) -> Result<Asked> {
        let mut asked = Asked {
            filter: None,
            of: Of::Both,
            file: None,
        };
        let Some(pattern) = &request.pattern else {
            return Ok(asked);
        };
        let form = pattern.split(':').next().unwrap_or("");
        if !matches!(form, "usdt" | "tracepoint" | "tp") {
            asked.filter = Some(Filter::new(pattern));
            return Ok(asked);
        }
        let selector = Selector::parse(pattern)?;
        asked.of = match selector.scope {
            selector::Scope::Kernel => Of::Kernel,
            _ => Of::Target,
        };
        if let selector::Scope::File(path) = selector.scope {
            let process = match request.scope {
                Scope::Process(pid) => Some(Process::open(pid)?),
                _ => None,
            };
            let files = FilesHere::of(process.as_ref());
            let place = files.place(&path.to_string_lossy());
            asked.file = Some(Binary::open_as(&place, &path)?);
        } else if asked.of == Of::Target && request.scope == Scope::Kernel {
            let message = format!("{pattern}: usdt:* means the files of a process");
            return Err(Error::new(ErrorKind::Usage, message)
                .hint("name the process with -p, or a file: usdt:/PATH:PROVIDER:NAME"));
        }
        asked.filter = Some(Filter {
            group: Some(selector.group),
            name: selector.name,
        });
        Ok(asked)
    }
}

/// `PROVIDER:NAME`, or a name of any provider.
pub(super) struct Filter {
    group: Option<Glob>,
    name: Glob,
}

impl Filter {
    fn new(pattern: &str) -> Filter {
        match pattern.split_once(':') {
            Some((group, name)) => Filter {
                group: Some(Glob::new(group)),
                name: Glob::new(name),
            },
            None => Filter {
                group: None,
                name: Glob::new(pattern),
            },
        }
    }

    pub(super) fn matches(&self, group: &str, name: &str) -> bool {
        self.group.as_ref().is_none_or(|glob| glob.matches(group)) && self.name.matches(name)
    }
}
