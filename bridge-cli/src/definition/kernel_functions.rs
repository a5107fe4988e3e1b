//! Functions of the running kernel as a listing shows them: all that a pattern matches, with what is
//! known of each.

use std::collections::BTreeMap;

use super::kernel_here::KernelHere;
use super::knowledge::{Probeable, Prototype};
use crate::glob::Glob;

/// A function of the kernel, or several of one name in one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFunction {
    /// Its name.
    pub name: String,
    /// The module that it is in; `None` for the kernel proper.
    pub module: Option<String>,
    /// Where it is, more than one where the name alone is ambiguous; 0 where the right to see it is
    /// missing (CAP_SYSLOG).
    pub addresses: Vec<u64>,
    /// Other names of the same code.
    pub aliases: Vec<String>,
    /// Whether it can be probed, as far as that is known.
    pub probeable: Probeable,
    /// What it takes and returns; `None` where the type information does not hold the function.
    pub prototype: Option<Written>,
}

/// A function's type as C writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Names (where they have one) and types of its parameters.
    pub parameters: Vec<(Option<String>, String)>,
    /// What it returns, `void` included.
    pub returns: String,
}

impl KernelHere {
    /// The functions whose name a pattern matches, in order, of one module or of all. `prototypes` are
    /// looked up if they are wanted.
    pub fn functions(
        &self,
        module: Option<&Glob>,
        pattern: &Glob,
        prototypes: bool,
    ) -> Vec<KernelFunction> {
        let symbols = self.all();
        let mut found: BTreeMap<(&str, Option<&str>), KernelFunction> = BTreeMap::new();
        for row in symbols.rows.iter().filter(|row| row.is_code()) {
            let own = row.module.as_deref();
            let is_wanted = pattern.matches(&row.name)
                && module.is_none_or(|module| own.is_some_and(|own| module.matches(own)));
            if !is_wanted {
                continue;
            }
            if let Some(other) = found.get_mut(&(&*row.name, own)) {
                other.addresses.push(row.address);
                continue;
            }
            let others = symbols.at(row.address).iter();
            let others = others.filter(|other| other.is_code() && other.name != row.name);
            let prototype = match prototypes {
                true => self.written_prototype(&row.name),
                false => None,
            };
            let function = KernelFunction {
                name: row.name.to_string(),
                module: own.map(str::to_owned),
                addresses: vec![row.address],
                aliases: others.map(|other| other.name.to_string()).collect(),
                probeable: self.probeable(row),
                prototype,
            };
            found.insert((&row.name, own), function);
        }
        found.into_values().collect()
    }

    fn written_prototype(&self, name: &str) -> Option<Written> {
        let Prototype {
            parameters,
            returns,
        } = self.btf().prototype(name)?;
        let parameters = parameters
            .into_iter()
            .map(|(name, id)| (name, self.btf().type_name(id)));
        Some(Written {
            parameters: parameters.collect(),
            returns: returns.map_or_else(|| "void".to_owned(), |id| self.btf().type_name(id)),
        })
    }
}
