//! Many kernel functions through one link.
//!
//! A link finds a hit's cookie by the function's address, so that a function stands in it once: of several
//! probes of one function each goes into a link of its own.

use std::collections::HashSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::kernel;
use crate::plan::Function;
use crate::rights;
use crate::spec::FunctionPlace;

/// What came of it: a link and whose it is, and functions that the kernel will not have, with the reason.
pub(crate) struct Came<'a> {
    pub(crate) link: Option<OwnedFd>,
    pub(crate) functions: Vec<&'a Function>,
    pub(crate) refused: Vec<(&'a Function, io::Error)>,
}

/// Functions that can stand in one link.
pub(crate) fn groups<'a>(functions: &[&'a Function]) -> Vec<Vec<&'a Function>> {
    let mut groups: Vec<(HashSet<&str>, Vec<&Function>)> = Vec::new();
    for &function in functions {
        let name = name(function);
        match groups.iter_mut().find(|(names, _)| !names.contains(name)) {
            Some((names, group)) => {
                names.insert(name);
                group.push(function);
            }
            None => groups.push((HashSet::from([name]), vec![function])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// One link for all of a group; where the kernel refuses, what is at fault is found by halves and left out.
pub(crate) fn attach<'a>(
    group: Vec<&'a Function>,
    at_return: bool,
    program: BorrowedFd<'_>,
) -> Came<'a> {
    let mut came = Came {
        link: None,
        functions: Vec::new(),
        refused: Vec::new(),
    };
    let error = match link(&group, at_return, program) {
        Ok(link) => {
            came.link = Some(link);
            came.functions = group;
            return came;
        }
        Err(error) => error,
    };
    if rights::is_refusal(&error) {
        came.refuse(group, &error);
        return came;
    }
    divide(&group, at_return, program, error, &mut came);
    let good = std::mem::take(&mut came.functions);
    if !good.is_empty() {
        match link(&good, at_return, program) {
            Ok(link) => {
                came.link = Some(link);
                came.functions = good;
            }
            Err(error) => came.refuse(good, &error),
        }
    }
    came
}

impl<'a> Came<'a> {
    fn refuse(&mut self, functions: Vec<&'a Function>, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(libc::EINVAL);
        let again = || io::Error::from_raw_os_error(number);
        let all = functions.into_iter().map(|function| (function, again()));
        self.refused.extend(all);
    }
}

fn divide<'a>(
    group: &[&'a Function],
    at_return: bool,
    program: BorrowedFd<'_>,
    error: io::Error,
    came: &mut Came<'a>,
) {
    if let [function] = group {
        came.refused.push((function, error));
        return;
    }
    let (left, right) = group.split_at(group.len() / 2);
    for half in [left, right] {
        match link(half, at_return, program) {
            Ok(_) => came.functions.extend(half),
            Err(error) => divide(half, at_return, program, error, came),
        }
    }
}

fn link(group: &[&Function], at_return: bool, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let functions = group
        .iter()
        .map(|function| (name(function), function.location.into()));
    kernel::link_kprobe_multi(program, functions, at_return)
}

fn name(function: &Function) -> &str {
    match &function.place {
        FunctionPlace::Symbol(name, _) => name,
        FunctionPlace::Address(_) => "",
    }
}
