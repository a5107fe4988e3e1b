//! Entries and returns of kernel functions through BPF trampolines: a program each.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::btf::Btf;

use crate::error::Result;
use crate::kernel;
use crate::load;
use crate::maps::Maps;
use crate::mechanism::HARMLESS;
use crate::plan::Function;
use crate::spec::FunctionPlace;

/// A program at its function.
pub(crate) struct Trampoline {
    pub(crate) program: OwnedFd,
    pub(crate) link: OwnedFd,
}

/// Attaches each, or says why that one cannot be attached.
///
/// # Errors
/// None can.
pub(crate) fn attach(
    functions: &[&Function],
    at_return: bool,
    maps: &Maps,
) -> Result<Vec<std::result::Result<Trampoline, String>>> {
    let types = Btf::from_vmlinux().map_err(|error| {
        let error = io::Error::other(error);
        crate::error::Error::system("cannot read the kernel's type information", error)
    })?;
    let mut known: HashMap<&str, Option<u32>> = HashMap::new();
    let mut numbers = Vec::with_capacity(functions.len());
    for function in functions {
        let number = match &function.place {
            FunctionPlace::Symbol(name, 0) => *known
                .entry(name)
                .or_insert_with(|| kernel::function_type(&types, name)),
            _ => None,
        };
        numbers.push(number);
    }
    let found: Vec<u32> = numbers.iter().copied().flatten().collect();
    let name = match at_return {
        true => "function_return",
        false => "function_entry",
    };
    let mut programs = load::trampolines(name, HARMLESS, &found, maps)?.into_iter();
    let one = |(function, number): (&&Function, Option<u32>)| {
        let untyped = "its type is not among the kernel's (static, inlined, or in a module)";
        let program = number.and_then(|_| programs.next()).ok_or(untyped)?;
        let program = program.map_err(|error| format!("the kernel refused fentry: {error}"))?;
        kernel::link_trampoline(program.as_fd(), function.location.into(), at_return)
            .map(|link| Trampoline { program, link })
            .map_err(|error| format!("the kernel refused fentry: {error}"))
    };
    Ok(functions.iter().zip(numbers).map(one).collect())
}
