//! Places in the kernel's code.

use super::Plan;
use super::place::check_program;
use crate::error::{Error, Result};
use crate::spec::{Fetch, FunctionPlace, Spec};

/// A place in the kernel's code. `location` is its cookie.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) place: FunctionPlace,
    pub(crate) at_return: bool,
    pub(crate) location: u32,
}

impl Plan {
    pub(super) fn functions(&mut self, spec: &Spec) -> Result<()> {
        for probe in &spec.functions {
            check_program(&probe.program)
                .map_err(|what| Error::bad_spec(format!("{:?}: {what}", probe.place)))?;
            let fetch = Fetch::Program(probe.program.clone());
            let location = self.chain(vec![(fetch, vec![(probe.id, 0)])]);
            self.functions.push(Function {
                place: probe.place.clone(),
                at_return: probe.program.at_return,
                location,
            });
        }
        Ok(())
    }
}
