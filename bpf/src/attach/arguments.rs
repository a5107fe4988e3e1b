//! Tracepoints by the arguments that they are handed: a program each, since before 6.10 there is no cookie.

use std::ffi::CString;

use super::raw;
use crate::cost::Meter;
use crate::error::{Error, Result};
use crate::load::{self, Object};
use crate::maps::Maps;
use crate::mechanism::{Chosen, Mechanism};
use crate::misses::Guarded;
use crate::plan::RawTracepoint;

/// Attaches one.
pub(crate) fn attach(tracepoint: &RawTracepoint, maps: &Maps) -> Result<(Guarded, Meter, Chosen)> {
    let name = CString::new(tracepoint.name.as_str()).map_err(|_| {
        Error::bad_spec(format!("{:?} is no name of a tracepoint", tracepoint.name))
    })?;
    let mut constants = maps.constants.clone();
    constants.insert(
        ".rodata.location",
        tracepoint.location.to_ne_bytes().to_vec(),
    );
    let program = "tracepoint_arguments";
    let mut programs = load::with(
        Object::Arguments,
        &[program],
        0,
        &maps.shared,
        &constants,
        &maps.code,
    )?;
    let program = load::take(&mut programs, program)?;
    let link = raw::link(&name, &program)?;
    let probe = tracepoint.probe;
    let chosen = Chosen {
        probe,
        mechanism: Mechanism::RawTracepoint,
        because: None,
    };
    let meter = Meter::new(&program.fd, vec![probe])?;
    let guarded = Guarded::link(link, Some(program.fd), vec![probe], true);
    Ok((guarded, meter, chosen))
}
