//! The running kernel as definitions see it, without what is looked up only to help people: the names that
//! resemble an unknown one, which takes an emulated CPU longer than the whole verdict.

use bridge::definition::kernel_here::KernelHere;
use bridge::definition::knowledge::{EventField, Kernel, Prototype, Symbol, Type, TypeId, Types};
use bridge::glob::Glob;

/// See the module's page.
pub(crate) struct Silent<'a>(pub(crate) &'a KernelHere);

impl Types for Silent<'_> {
    fn look(&self, id: TypeId) -> Option<Type> {
        self.0.look(id)
    }
}

impl Kernel for Silent<'_> {
    fn symbols(&self, module: Option<&str>, name: &str) -> Vec<Symbol> {
        self.0.symbols(module, name)
    }

    fn has_module(&self, name: &str) -> bool {
        self.0.has_module(name)
    }

    fn symbol_at(&self, address: u64) -> Option<(Symbol, u64)> {
        self.0.symbol_at(address)
    }

    fn is_boundary(&self, symbol: &Symbol, offset: u64) -> Option<bool> {
        self.0.is_boundary(symbol, offset)
    }

    fn is_traced(&self, function: &str) -> Option<bool> {
        Kernel::is_traced(self.0, function)
    }

    fn is_entry(&self, symbol: &Symbol, offset: u64) -> bool {
        self.0.is_entry(symbol, offset)
    }

    fn prototype(&self, function: &str) -> Option<Prototype> {
        self.0.prototype(function)
    }

    fn structure(&self, name: &str) -> Option<TypeId> {
        self.0.structure(name)
    }

    fn tracepoint_function(&self, tracepoint: &str) -> Option<String> {
        self.0.tracepoint_function(tracepoint)
    }

    fn event(&self, group: &str, name: &str) -> Option<Vec<EventField>> {
        self.0.event(group, name)
    }

    fn similar_functions(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }

    fn matching_functions(&self, pattern: &Glob) -> Vec<String> {
        self.0.matching_functions(pattern)
    }
}
