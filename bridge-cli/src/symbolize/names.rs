//! What is at an offset of a file: functions, inlined ones too, and their places in the source.

use std::collections::HashMap;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::module::Module;

/// Answers that are kept; then they are found anew.
const KEPT: usize = 1 << 17;

/// See the module's page.
pub(super) struct Names {
    symbolizer: Symbolizer,
    source_lines: bool,
    known: HashMap<(u32, u64), Arc<[Name]>>,
}

/// A function.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: Arc<str>,
    /// Bytes from where it begins.
    pub(super) offset: u64,
    /// Its code stands in the next one's.
    pub(super) inlined: bool,
    pub(super) source: Option<Arc<str>>,
}

impl Names {
    pub(super) fn new(source_lines: bool) -> Names {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(true)
            .build();
        Names {
            symbolizer,
            source_lines,
            known: HashMap::new(),
        }
    }

    /// The functions that an offset of a file lies in, innermost first; none where it has no symbols.
    pub(super) fn of(&mut self, module: &Module, offset: u64) -> Arc<[Name]> {
        if let Some(known) = self.known.get(&(module.id, offset)) {
            return Arc::clone(known);
        }
        let found: Arc<[Name]> = self.find(module, offset).unwrap_or_default().into();
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert((module.id, offset), Arc::clone(&found));
        found
    }

    fn find(&self, module: &Module, offset: u64) -> Option<Vec<Name>> {
        let source = Source::Elf(Elf::new(module.path()?));
        // A file that cannot be read has no names.
        let found = self
            .symbolizer
            .symbolize_single(&source, Input::FileOffset(offset));
        match found.ok()? {
            Symbolized::Sym(symbol) => {
                let mut names = self.nested(&symbol);
                if let Some(around) = names.last_mut() {
                    self.complete(around, module, offset);
                }
                Some(names)
            }
            Symbolized::Unknown(_) => None,
        }
    }

    /// Debug information has the bare name of what only its own file can call, such as a function in a namespace
    /// without a name; the symbol says where it belongs.
    fn complete(&self, name: &mut Name, module: &Module, offset: u64) {
        if name.text.contains("::") {
            return;
        }
        let Some(path) = module.path() else { return };
        let mut elf = Elf::new(path);
        elf.debug_syms = false;
        let source = Source::Elf(elf);
        let found = self
            .symbolizer
            .symbolize_single(&source, Input::FileOffset(offset));
        if let Ok(Symbolized::Sym(symbol)) = found
            && symbol.name.contains(&format!("::{}", name.text))
        {
            name.text = (*symbol.name).into();
        }
    }

    fn nested(&self, symbol: &Sym<'_>) -> Vec<Name> {
        let source = |place: Option<&CodeInfo<'_>>| {
            let place = place.filter(|_| self.source_lines)?;
            let path = place.to_path().display().to_string();
            Some(match place.line {
                Some(line) => format!("{path}:{line}").into(),
                None => path.into(),
            })
        };
        let inlined = symbol.inlined.iter().rev().map(|function| Name {
            text: (*function.name).into(),
            offset: 0,
            inlined: true,
            source: source(function.code_info.as_ref()),
        });
        let around = Name {
            text: (*symbol.name).into(),
            offset: symbol.offset as u64,
            inlined: false,
            source: source(symbol.code_info.as_deref()),
        };
        inlined.chain([around]).collect()
    }
}
