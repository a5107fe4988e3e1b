//! A kernel and files that are written down, for judging definitions without them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use bridge::definition::knowledge::{
    Binary, EventField, FileTrouble, Files, Inlined, Kernel, Member, Probeable, Prototype, Symbol,
    Type, TypeId, Types, UserParameter,
};
use bridge::definition::usdt_probe::UsdtSite;
use bridge::glob::Glob;

/// See `data/kernel_7_2.txt`.
#[derive(Debug, Default)]
pub(crate) struct TableKernel {
    functions: Vec<(Option<String>, Symbol, Vec<u64>)>,
    types: Vec<Type>,
    structures: BTreeMap<String, usize>,
    prototypes: BTreeMap<String, Prototype>,
    events: BTreeMap<(String, String), Vec<EventField>>,
    stubs: BTreeMap<String, String>,
}

impl TableKernel {
    pub(crate) fn parse(text: &str) -> TableKernel {
        let mut kernel = TableKernel::default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                ["function", name, address, size, ref rest @ ..] => {
                    kernel.symbol(None, name, address, Some(size), rest);
                }
                ["module", module, name, address, size] => {
                    kernel.symbol(Some(module), name, address, Some(size), &[]);
                }
                ["data", name, address] => kernel.symbol(None, name, address, None, &["notrace"]),
                ["prototype", name, "(", ref rest @ ..] => kernel.function_type(name, rest),
                ["structure", name, "{", ref rest @ ..] => kernel.structure_type(name, rest),
                ["event", group, name, "{", ref rest @ ..] => kernel.event_of(group, name, rest),
                ["stub", tracepoint, function] => {
                    kernel.stubs.insert(tracepoint.into(), function.into());
                }
                _ => panic!("not understood: {line}"),
            }
        }
        kernel
    }

    fn symbol(
        &mut self,
        module: Option<&str>,
        name: &str,
        address: &str,
        size: Option<&str>,
        rest: &[&str],
    ) {
        let probeable = match rest.first() {
            Some(&"notrace") => Probeable::NoTrace,
            Some(&"blacklisted") => Probeable::Blacklisted,
            _ => Probeable::Yes,
        };
        let boundaries = rest.iter().skip_while(|word| **word != "boundary").skip(1);
        let symbol = Symbol {
            name: name.into(),
            address: u64::from_str_radix(&address[2..], 16).unwrap(),
            size: size.map(|size| size.parse().unwrap()),
            probeable,
        };
        let boundaries = boundaries.map(|word| word.parse().unwrap()).collect();
        self.functions
            .push((module.map(str::to_owned), symbol, boundaries));
    }

    fn add(&mut self, type_: Type) -> TypeId {
        self.types.push(type_);
        TypeId(self.types.len() as u64 - 1)
    }

    /// The place of a structure, whether it is described yet or not.
    fn structure_at(&mut self, name: &str) -> usize {
        if let Some(&at) = self.structures.get(name) {
            return at;
        }
        let at = self.types.len();
        self.types.push(Type::Composite(Vec::new()));
        self.structures.insert(name.into(), at);
        at
    }

    fn type_of(&mut self, text: &str) -> TypeId {
        let integer = |bits, signed| Type::Integer {
            bits,
            bit_offset: 0,
            signed,
        };
        if let Some(name) = text.strip_prefix('=') {
            return TypeId(self.structure_at(name) as u64);
        }
        let made = match text {
            "-" => Type::Void,
            "char" | "bool" => integer(8, false),
            "enum" => Type::Enumeration { bytes: 4 },
            _ => match text.split_at(1) {
                ("*", to) => Type::Pointer(self.type_of(to)),
                ("[", of) => Type::Array(self.type_of(of)),
                ("u", bits) => integer(bits.parse().unwrap(), false),
                ("s", bits) => integer(bits.parse().unwrap(), true),
                _ => panic!("no type: {text}"),
            },
        };
        self.add(made)
    }

    fn function_type(&mut self, name: &str, rest: &[&str]) {
        let end = rest.iter().position(|word| *word == ")").unwrap();
        let mut prototype = Prototype::default();
        for parameter in &rest[..end] {
            let (name, type_) = parameter.split_once(':').unwrap();
            let id = self.type_of(type_);
            prototype.parameters.push((Some(name.into()), id));
        }
        if rest[end + 1] != "-" {
            prototype.returns = Some(self.type_of(rest[end + 1]));
        }
        self.prototypes.insert(name.into(), prototype);
    }

    fn structure_type(&mut self, name: &str, rest: &[&str]) {
        let at = self.structure_at(name);
        let mut members = Vec::new();
        for word in rest.iter().take_while(|word| **word != "}") {
            let (name, type_) = word.split_once(':').unwrap();
            let (type_, bytes) = type_.split_once('@').unwrap();
            members.push(Member {
                name: name.into(),
                type_id: self.type_of(type_),
                bit_offset: 8 * bytes.parse::<u32>().unwrap(),
                bits: 0,
            });
        }
        self.types[at] = Type::Composite(members);
    }

    fn event_of(&mut self, group: &str, name: &str, rest: &[&str]) {
        let mut offset = 8;
        let mut fields = Vec::new();
        for word in rest.iter().take_while(|word| **word != "}") {
            let parts: Vec<&str> = word.split(':').collect();
            let size = parts[1].parse().unwrap();
            fields.push(EventField {
                name: parts[0].into(),
                offset,
                size,
                signed: parts[2] == "s",
                type_name: if parts[2] == "t" { "char[16]" } else { "long" }.into(),
            });
            offset += size;
        }
        self.events.insert((group.into(), name.into()), fields);
    }
}

impl Types for TableKernel {
    fn look(&self, id: TypeId) -> Option<Type> {
        self.types.get(usize::try_from(id.0).ok()?).cloned()
    }
}

impl Kernel for TableKernel {
    fn symbols(&self, module: Option<&str>, name: &str) -> Vec<Symbol> {
        let is_meant = |(own, symbol, _): &&(Option<String>, Symbol, Vec<u64>)| {
            symbol.name == name && (module.is_none() || own.as_deref() == module)
        };
        let found = self.functions.iter().filter(is_meant);
        found.map(|(_, symbol, _)| symbol.clone()).collect()
    }

    fn has_module(&self, name: &str) -> bool {
        self.functions
            .iter()
            .any(|(module, _, _)| module.as_deref() == Some(name))
    }

    fn symbol_at(&self, address: u64) -> Option<(Symbol, u64)> {
        self.functions.iter().find_map(|(_, symbol, _)| {
            let offset = address.checked_sub(symbol.address)?;
            (offset < symbol.size?).then(|| (symbol.clone(), offset))
        })
    }

    fn is_boundary(&self, symbol: &Symbol, offset: u64) -> Option<bool> {
        let (_, _, known) = self
            .functions
            .iter()
            .find(|(_, own, _)| own.address == symbol.address)?;
        (!known.is_empty()).then(|| known.contains(&offset))
    }

    fn is_traced(&self, _function: &str) -> Option<bool> {
        None
    }

    fn is_entry(&self, _symbol: &Symbol, offset: u64) -> bool {
        offset == 4
    }

    fn prototype(&self, function: &str) -> Option<Prototype> {
        self.prototypes.get(function).cloned()
    }

    fn structure(&self, name: &str) -> Option<TypeId> {
        self.structures.get(name).map(|&at| TypeId(at as u64))
    }

    fn tracepoint_function(&self, tracepoint: &str) -> Option<String> {
        self.stubs.get(tracepoint).cloned()
    }

    fn event(&self, group: &str, name: &str) -> Option<Vec<EventField>> {
        self.events.get(&(group.into(), name.into())).cloned()
    }

    fn similar_functions(&self, name: &str) -> Vec<String> {
        let names = self.functions.iter().map(|(_, symbol, _)| &*symbol.name);
        bridge::nearest::nearest(name, names.collect::<Vec<_>>())
    }

    fn matching_functions(&self, pattern: &Glob) -> Vec<String> {
        let names = self
            .functions
            .iter()
            .map(|(_, symbol, _)| symbol.name.clone());
        names.filter(|name| pattern.matches(name)).collect()
    }
}

/// Files by path; each has a number.
#[derive(Debug, Default)]
pub(crate) struct TableFiles(pub(crate) BTreeMap<String, Result<u64, FileTrouble>>);

impl TableFiles {
    /// Files of one machine: what is the same number is the same file.
    pub(crate) fn of(files: &[(&str, u64)], others: &[&str]) -> TableFiles {
        let files = files
            .iter()
            .map(|&(path, number)| (path.to_owned(), Ok(number)));
        let others = others
            .iter()
            .map(|path| ((*path).to_owned(), Err(FileTrouble::NotRegular)));
        TableFiles(files.chain(others).collect())
    }
}

impl Files for TableFiles {
    fn open(&self, path: &str) -> Result<Rc<dyn Binary>, FileTrouble> {
        match self.0.get(path) {
            None => Err(FileTrouble::NotFound),
            Some(&Ok(number)) => Ok(Rc::new(TableBinary(number))),
            Some(&Err(trouble)) => Err(trouble),
        }
    }

    fn find(&self, _name: &str) -> Option<PathBuf> {
        None
    }
}

/// A file of which nothing is known.
#[derive(Debug)]
struct TableBinary(u64);

impl Types for TableBinary {
    fn look(&self, _id: TypeId) -> Option<Type> {
        None
    }
}

impl Binary for TableBinary {
    fn identity(&self) -> (u64, u64) {
        (0, self.0)
    }

    fn unfit(&self) -> Option<String> {
        None
    }

    fn functions(&self, name: &str) -> Vec<(u64, u64)> {
        match name {
            "main" => vec![(0x1665, 0x100)],
            _ => Vec::new(),
        }
    }

    fn similar_functions(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }

    fn matching_functions(&self, _pattern: &Glob) -> Vec<String> {
        Vec::new()
    }

    fn obstacle(&self, _offset: u64) -> Option<String> {
        None
    }

    fn parameters(&self, _offset: u64) -> Result<Vec<UserParameter>, String> {
        Err("nothing is known of it".to_owned())
    }

    fn types(&self) -> &dyn Types {
        self
    }

    fn type_name(&self, _id: TypeId) -> String {
        "?".to_owned()
    }

    fn implementations(&self, _symbol: &str) -> Option<Vec<String>> {
        None
    }

    fn libraries_with(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }

    fn moves_its_stacks(&self) -> bool {
        false
    }

    fn usdt(&self, _provider: &Glob, _name: &Glob) -> Vec<UsdtSite> {
        Vec::new()
    }

    fn inlined(&self, _name: &str) -> Vec<Inlined> {
        Vec::new()
    }

    fn siblings(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
}
