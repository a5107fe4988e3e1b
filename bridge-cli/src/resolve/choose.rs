//! Which of the tracepoints that there are the selectors mean, and what to say of those that mean none.
//!
//! Names only: no file is opened here. Points of the target and of named files are offered with the
//! file they are in, kernel tracepoints in a list that is asked for only when it is needed.

use crate::error::{Error, ErrorKind, Result};
use crate::nearest::{nearest, suggestion};
use crate::print::escaped;
use crate::selector::{Scope, Selector};

/// A tracepoint of a file that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Provider.
    pub(super) group: String,
    /// Name.
    pub(super) name: String,
    /// The file, as an index of the caller's.
    pub(super) file: usize,
}

/// What a selector's file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileOf {
    /// Index of the selector.
    pub(super) selector: usize,
    /// The file.
    pub(super) file: usize,
}

/// A kernel tracepoint's category and name.
pub(super) type KernelName = (String, String);

/// What was chosen.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Indices of candidates, each once, in their order.
    pub(super) points: Vec<usize>,
    /// Kernel tracepoints, each once, in order of selectors.
    pub(super) kernel: Vec<KernelName>,
    /// Selectors that mean nothing yet and wait for a library that provides it.
    pub(super) waiting: Vec<usize>,
    /// Selectors that mean the kernel's tracepoints: what a library loaded later provides is not theirs.
    pub(super) of_kernel: Vec<usize>,
    /// One for each selector that means nothing.
    pub(super) errors: Vec<Error>,
}

/// The process, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target {
    /// There is one, whose libraries may come later.
    pub(super) is_there: bool,
    /// It makes tracepoints at run time.
    pub(super) makes: bool,
}

/// Chooses among the candidates and the kernel's tracepoints.
///
/// Selectors in `broken` are left out: what is wrong with them has been said. `kernel` lists the kernel's tracepoints; it is called at most once, and where it fails the selectors that needed it fail.
pub(super) fn choose(
    selectors: &[Selector],
    candidates: &[Candidate],
    files: &[FileOf],
    broken: &[usize],
    target: Target,
    kernel: impl FnOnce() -> Result<Vec<KernelName>>,
) -> Choice {
    let has_target = target.is_there;
    let mut choice = Choice::default();
    let mut taken = vec![false; candidates.len()];
    let mut unresolved = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        if broken.contains(&index) {
            continue;
        }
        if selector.scope == Scope::Kernel {
            unresolved.push(index);
            continue;
        }
        let mut found = false;
        for (candidate, taken) in candidates.iter().zip(&mut taken) {
            if means(index, selector, candidate, files) {
                *taken = true;
                found = true;
            }
        }
        if found {
            continue;
        }
        match selector.scope {
            Scope::Anywhere => unresolved.push(index),
            Scope::Target if has_target && (selector.waits() || target.makes) => {
                choice.waiting.push(index)
            }
            _ => choice
                .errors
                .push(no_point(selector, index, candidates, files, has_target)),
        }
    }
    choice.points = (0..candidates.len())
        .filter(|&index| taken[index])
        .collect();
    if unresolved.is_empty() {
        return choice;
    }
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(error) => {
            choice.errors.push(error);
            return choice;
        }
    };
    for index in unresolved {
        let selector = &selectors[index];
        let before = choice.kernel.len();
        let mut found = false;
        for (category, name) in kernel
            .iter()
            .filter(|(group, name)| selector.matches(group, name))
        {
            found = true;
            if !choice.kernel[..before]
                .iter()
                .any(|(own, other)| own == category && other == name)
            {
                choice.kernel.push((category.clone(), name.clone()));
            }
        }
        if found {
            choice.of_kernel.push(index);
        } else if target.makes && selector.scope == Scope::Anywhere {
            choice.waiting.push(index);
        } else {
            choice
                .errors
                .push(no_name(selector, candidates, &kernel, has_target));
        }
    }
    choice
}

/// Whether a selector means a candidate: by name, and by file where it names one.
pub(super) fn means(
    index: usize,
    selector: &Selector,
    candidate: &Candidate,
    files: &[FileOf],
) -> bool {
    let in_scope = match selector.scope {
        Scope::Anywhere | Scope::Target => true,
        Scope::File(_) => files.contains(&FileOf {
            selector: index,
            file: candidate.file,
        }),
        Scope::Kernel => false,
    };
    in_scope && selector.matches(&candidate.group, &candidate.name)
}

fn full_names(candidates: &[Candidate]) -> impl Iterator<Item = String> {
    candidates
        .iter()
        .map(|candidate| format!("{}:{}", candidate.group, candidate.name))
}

fn pattern(selector: &Selector) -> String {
    format!("{}:{}", selector.group.as_str(), selector.name.as_str())
}

/// A selector that can only mean points of files means none.
fn no_point(
    selector: &Selector,
    index: usize,
    candidates: &[Candidate],
    files: &[FileOf],
    has_target: bool,
) -> Error {
    let (place, own): (_, Vec<Candidate>) = match &selector.scope {
        Scope::File(path) => {
            let in_file = |candidate: &&Candidate| {
                files.contains(&FileOf {
                    selector: index,
                    file: candidate.file,
                })
            };
            (
                path.display().to_string(),
                candidates.iter().filter(in_file).cloned().collect(),
            )
        }
        _ => ("the target".to_owned(), candidates.to_vec()),
    };
    if own.is_empty() {
        let message = match (&selector.scope, has_target) {
            (Scope::Target, false) => {
                format!("-e {selector}: there is no target whose tracepoints could be meant")
            }
            _ => format!("-e {selector}: {place} has no tracepoints"),
        };
        return Error::new(ErrorKind::NoMatch, message);
    }
    let error = Error::new(
        ErrorKind::NoMatch,
        format!("-e {selector}: {place} has no tracepoint of that name"),
    );
    let names: Vec<String> = full_names(&own).collect();
    match suggestion(&nearest(
        &pattern(selector),
        names.iter().map(String::as_str),
    )) {
        Some(text) => error.hint(text),
        None => error.hint(some_of(&names)),
    }
}

/// Neither the target nor the kernel has it.
fn no_name(
    selector: &Selector,
    candidates: &[Candidate],
    kernel: &[KernelName],
    has_target: bool,
) -> Error {
    let place = match (&selector.scope, has_target) {
        (Scope::Kernel, _) | (_, false) => "the kernel has no",
        _ => "neither the target nor the kernel has a",
    };
    let error = Error::new(
        ErrorKind::NoMatch,
        format!("-e {selector}: {place} tracepoint of that name"),
    );
    let mut names: Vec<String> = match selector.scope {
        Scope::Kernel => Vec::new(),
        _ => full_names(candidates).collect(),
    };
    names.extend(
        kernel
            .iter()
            .map(|(category, name)| format!("{category}:{name}")),
    );
    match suggestion(&nearest(
        &pattern(selector),
        names.iter().map(String::as_str),
    )) {
        Some(text) => error.hint(text),
        None if has_target && selector.scope == Scope::Anywhere => error.hint(format!(
            "if a library that is loaded later provides it, write usdt:*:{}",
            pattern(selector)
        )),
        None => error.hint("list them with: bridge-cli list"),
    }
}

fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<&str> = names.iter().map(String::as_str).collect();
    shown.sort_unstable();
    shown.dedup();
    let more = shown.len().saturating_sub(SHOWN);
    shown.truncate(SHOWN);
    let shown: Vec<String> = shown.into_iter().map(escaped).collect();
    match more {
        0 => format!("there are {}", shown.join(", ")),
        more => format!("there are {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target {
        is_there: true,
        makes: false,
    };

    fn candidates() -> Vec<Candidate> {
        [
            ("orders", "charge", 0),
            ("orders", "charge__return", 0),
            ("sched", "tick", 0),
            ("plug", "load", 1),
        ]
        .map(|(group, name, file)| Candidate {
            group: group.into(),
            name: name.into(),
            file,
        })
        .to_vec()
    }

    fn kernel() -> Result<Vec<KernelName>> {
        Ok([
            ("sched", "sched_switch"),
            ("sched", "sched_waking"),
            ("orders", "charge"),
        ]
        .map(|(category, name)| (category.to_owned(), name.to_owned()))
        .to_vec())
    }

    fn chosen(selectors: &[&str]) -> Choice {
        let selectors: Vec<Selector> = selectors
            .iter()
            .map(|text| Selector::parse(text).unwrap())
            .collect();
        choose(
            &selectors,
            &candidates(),
            &[FileOf {
                selector: 0,
                file: 1,
            }],
            &[],
            TARGET,
            kernel,
        )
    }

    #[test]
    fn the_target_s_tracepoints_go_before_the_kernel_s() {
        let choice = chosen(&["orders:charge"]);
        assert_eq!((choice.points, choice.kernel.len()), (vec![0], 0));
        let choice = chosen(&["sched:*"]);
        assert_eq!((choice.points, choice.kernel.len()), (vec![2], 0));
        let choice = chosen(&["sched:sched_*"]);
        assert_eq!((choice.points.len(), choice.kernel.len()), (0, 2));
    }

    #[test]
    fn a_scope_confines_the_name() {
        let choice = chosen(&["tracepoint:orders:charge"]);
        assert_eq!((choice.points.len(), choice.kernel.len()), (0, 1));
        let choice = chosen(&["usdt:/lib/plug.so:*:*"]);
        assert_eq!(choice.points, [3]);
    }

    #[test]
    fn what_is_named_twice_is_chosen_once() {
        let choice = chosen(&[
            "orders:*",
            "orders:charge",
            "tp:sched:sched_switch",
            "tp:sched:*",
        ]);
        assert_eq!(choice.points, [0, 1]);
        assert_eq!(choice.kernel.len(), 2);
        assert!(choice.errors.is_empty());
    }

    #[test]
    fn all_wrong_names_are_reported_each_with_its_nearest() {
        let choice = chosen(&["orders:chrage", "tp:sched:sched_swich", "zzz:qqqqqqqq"]);
        let texts: Vec<String> = choice
            .errors
            .iter()
            .map(|error| format!("{error} {}", error.hint_text().unwrap_or("")))
            .collect();
        assert_eq!(texts.len(), 3);
        assert!(texts[0].contains("did you mean orders:charge"), "{texts:?}");
        assert!(
            texts[1].contains("did you mean sched:sched_switch"),
            "{texts:?}"
        );
        assert!(texts[2].contains("usdt:*:zzz:qqqqqqqq"), "{texts:?}");
    }

    #[test]
    fn only_a_selector_that_says_so_waits_for_a_library() {
        assert_eq!(chosen(&["usdt:*:later:*"]).waiting, [0]);
        assert_eq!(chosen(&["later"]).errors.len(), 1);
    }

    #[test]
    fn the_kernel_is_not_asked_where_the_target_has_it_all() {
        let selectors = [Selector::parse("orders:*").unwrap()];
        let choice = choose(&selectors, &candidates(), &[], &[], TARGET, || {
            unreachable!("nothing needs the kernel")
        });
        assert!(choice.errors.is_empty());
    }
}
