//! What `-e` asks for, before it is known what there is.
//!
//! ```text
//! PROVIDER:NAME              the target's tracepoints first, then the kernel's; NAME may be FILE:LINE
//! NAME                       the target's tracepoints of that name, whoever provides them
//! usdt:PATH:PROVIDER:NAME    the tracepoints of one file; PATH `*` is every file of the target
//! tracepoint:CATEGORY:NAME   the kernel's (also `tp:…`)
//! ```
//! PROVIDER, CATEGORY and NAME are patterns ([`Glob`]). Filters behind it say which hits are meant; they are
//! read when it is known of which tracepoints.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::glob::Glob;

/// One `-e`, and the filters behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    /// Where the name is looked for.
    pub scope: Scope,
    /// Provider or category.
    pub group: Glob,
    /// The tracepoint's name.
    pub name: Glob,
    /// What has to hold of a hit, all of it (docs/filters.md).
    pub filters: Vec<String>,
}

/// See [`Selector::scope`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The target's, then the kernel's.
    Anywhere,
    /// The target's only.
    Target,
    /// One file's.
    File(PathBuf),
    /// The kernel's only.
    Kernel,
}

impl Selector {
    /// Reads one `-e`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] where the form is none of those above.
    pub fn parse(text: &str) -> Result<Selector> {
        if text.chars().any(char::is_control) || text.is_empty() {
            return Err(malformed(text, "it is empty or holds control characters"));
        }
        let (scope, group, name) = match text.split_once(':') {
            None => (Scope::Target, "*", text),
            Some(("usdt", rest)) => {
                // The path may hold colons; providers and names never do.
                let (rest, name) = rest.rsplit_once(':').ok_or_else(|| usdt_form(text))?;
                let (path, group) = rest.rsplit_once(':').ok_or_else(|| usdt_form(text))?;
                match path {
                    "" => return Err(usdt_form(text)),
                    "*" => (Scope::Target, group, name),
                    path => (Scope::File(PathBuf::from(path)), group, name),
                }
            }
            Some(("tracepoint" | "tp", rest)) => {
                let (group, name) = rest
                    .split_once(':')
                    .ok_or_else(|| malformed(text, "tracepoint: is followed by CATEGORY:NAME"))?;
                (Scope::Kernel, group, name)
            }
            Some((group, name)) => (Scope::Anywhere, group, name),
        };
        if group.is_empty() || name.is_empty() {
            return Err(malformed(text, "a part of the name is empty"));
        }
        // An event of `tracing` is named by its place, `TARGET:FILE:LINE`.
        let file = match name.rsplit_once(':') {
            Some((file, line)) if scope == Scope::Anywhere && is_line(line) => file,
            _ => name,
        };
        if file.contains(':') || group.contains(':') {
            return Err(malformed(text, "it has too many parts"));
        }
        Ok(Selector {
            text: text.to_owned(),
            scope,
            group: Glob::new(group),
            name: Glob::new(name),
            filters: Vec::new(),
        })
    }

    /// The same with filters that have to hold of a hit.
    #[must_use]
    pub fn with_filters(self, filters: Vec<String>) -> Selector {
        Selector { filters, ..self }
    }

    /// Whether not every hit is meant.
    pub fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Whether it is content with nothing for now: `usdt:*:…` also means what is loaded later.
    pub fn waits(&self) -> bool {
        self.scope == Scope::Target && self.text.starts_with("usdt:")
    }

    /// Whether a tracepoint of this group and name is meant.
    pub fn matches(&self, group: &str, name: &str) -> bool {
        self.group.matches(group) && self.name.matches(name)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether it is a pattern of a line's number.
fn is_line(text: &str) -> bool {
    let in_line = |c: char| c.is_ascii_digit() || "*?[]-!".contains(c);
    !text.is_empty() && text.chars().all(in_line)
}

fn malformed(text: &str, why: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("-e {text:?} is no tracepoint name: {why}")).hint(
        "write PROVIDER:NAME, usdt:PATH:PROVIDER:NAME or tracepoint:CATEGORY:NAME; * and ? are allowed in names",
    )
}

fn usdt_form(text: &str) -> Error {
    malformed(text, "usdt: is followed by PATH:PROVIDER:NAME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Selector {
        Selector::parse(text).unwrap()
    }

    #[test]
    fn each_form_names_its_scope() {
        assert_eq!(parsed("orders:*").scope, Scope::Anywhere);
        assert_eq!(parsed("charge").scope, Scope::Target);
        assert_eq!(parsed("tracepoint:sched:sched_switch").scope, Scope::Kernel);
        assert_eq!(parsed("tp:sched:*").scope, Scope::Kernel);
        assert_eq!(parsed("usdt:*:corpus:loc").scope, Scope::Target);
    }

    #[test]
    fn an_event_of_tracing_is_named_by_its_place() {
        let selector = parsed("shop.cart:cart.rs:1?");
        assert!(selector.matches("shop.cart", "cart.rs:17"));
        assert!(!selector.matches("shop.cart", "cart.rs:7"));
    }

    #[test]
    fn the_path_of_a_usdt_selector_may_hold_colons_and_blanks() {
        let selector = parsed("usdt:/tmp/a b:c/x:corpus:n*");
        assert_eq!(selector.scope, Scope::File(PathBuf::from("/tmp/a b:c/x")));
        assert!(selector.matches("corpus", "nodisp"));
        assert!(!selector.matches("c/x", "nodisp"));
    }

    #[test]
    fn a_malformed_selector_is_a_usage_error_that_quotes_it() {
        for bad in [
            "",
            ":",
            "a:",
            ":b",
            "usdt:x",
            "usdt:/x:p",
            "tracepoint:x",
            "tp:a:b:c",
            "a\x1b[0m:b",
        ] {
            let error = Selector::parse(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{bad}");
            assert!(!error.to_string().contains('\x1b'));
        }
    }
}
