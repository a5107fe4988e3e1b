//! What kernel addresses mean: function names from `/proc/kallsyms`, and the constant texts that
//! tracefs publishes in `printk_formats` so that tools can print a `const char *` of a record.
//!
//! Both are read on first need. Without the rights (`kptr_restrict`, no CAP_SYSLOG) every address in
//! kallsyms is 0; then an address is printed as a number, as the kernel does for one it cannot name.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use tracebraid_filter::Function;

/// The names of a kernel's addresses.
#[derive(Debug, Default)]
pub struct Symbols {
    kallsyms: Option<PathBuf>,
    printk_formats: Option<PathBuf>,
    functions: OnceLock<Functions>,
    strings: OnceLock<HashMap<u64, Box<[u8]>>>,
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its module in brackets, `[xfs]`.
    pub module: Option<&'a str>,
    /// Bytes from where it begins.
    pub offset: u64,
}

/// Where a function goes back to when return probes stand on it: those of kprobes, and of fprobe (since 6.14).
const RETURN_PROBES: [&str; 2] = ["arch_rethook_trampoline", "return_to_handler"];

const PAGE: u64 = 4096;

#[derive(Debug, Default)]
struct Functions {
    /// In order of address; of several at one address the first stands first.
    rows: Vec<(u64, u32)>,
    /// `name` or `name [module]`, each ended by a newline.
    names: String,
}

impl Symbols {
    /// Names nothing.
    pub fn none() -> Symbols {
        Symbols::default()
    }

    /// Reads these two files when a name is asked for.
    pub fn new(kallsyms: impl Into<PathBuf>, printk_formats: impl Into<PathBuf>) -> Symbols {
        Symbols {
            kallsyms: Some(kallsyms.into()),
            printk_formats: Some(printk_formats.into()),
            ..Symbols::default()
        }
    }

    /// Appends `name+0x10/0x40 [module]` or `name [module]`; `0x…` where the address has no name.
    pub fn write(&self, address: u64, with_offset: bool, out: &mut Vec<u8>) {
        let Some((name, module, offset, size)) = self.functions().find(address) else {
            return crate::print::hexadecimal(address, out);
        };
        out.extend_from_slice(name.as_bytes());
        if with_offset {
            let _ = write!(out, "+{offset:#x}/{size:#x}");
        }
        if let Some(module) = module {
            out.push(b' ');
            out.extend_from_slice(module.as_bytes());
        }
    }

    /// The same of where a function goes back to. Return probes put code of the kernel's there; it stands for a
    /// caller that is not known, and is called so by the kernel too.
    pub fn write_caller(&self, address: u64, out: &mut Vec<u8>) {
        match self.functions().find(address) {
            Some((name, ..)) if RETURN_PROBES.contains(&name) => {
                out.extend_from_slice(b"[unknown/kretprobe'd]");
            }
            _ => self.write(address, true, out),
        }
    }

    /// The addresses of the function that a filter names.
    pub fn function(&self, wanted: Function<'_>) -> Option<Range<u64>> {
        let functions = self.functions();
        let address = match wanted {
            Function::At(address) => address,
            Function::Name(name) => functions.address(name)?,
        };
        let (_, _, offset, size) = functions.find(address)?;
        let start = address - offset;
        Some(start..start + size)
    }

    /// The function that an address lies in.
    pub fn find(&self, address: u64) -> Option<Found<'_>> {
        let (name, module, offset, _) = self.functions().find(address)?;
        Some(Found {
            name,
            module,
            offset,
        })
    }

    fn functions(&self) -> &Functions {
        self.functions.get_or_init(|| {
            let text = self
                .kallsyms
                .as_ref()
                .and_then(|path| std::fs::read(path).ok());
            Functions::parse(&String::from_utf8_lossy(&text.unwrap_or_default()))
        })
    }

    /// The constant text at an address.
    pub fn string(&self, address: u64) -> Option<&[u8]> {
        let strings = self.strings.get_or_init(|| {
            let text = self
                .printk_formats
                .as_ref()
                .and_then(|path| std::fs::read(path).ok());
            strings(&text.unwrap_or_default())
        });
        strings.get(&address).map(|text| &**text)
    }
}

impl Functions {
    /// `ffffffff81000000 T name\t[module]` a line.
    fn parse(text: &str) -> Functions {
        let mut functions = Functions::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ' ');
            let address = parts
                .next()
                .and_then(|text| u64::from_str_radix(text, 16).ok());
            let (Some(address), Some(_kind), Some(name)) = (address, parts.next(), parts.next())
            else {
                continue;
            };
            // Older kernels list what per-CPU variables are named after as well: offsets, which are no
            // addresses of the kernel. Those have the highest bit set, and without the rights all are 0.
            if address >> 63 == 1 {
                functions.rows.push((address, functions.names.len() as u32));
                functions.names.push_str(name);
                functions.names.push('\n');
            }
        }
        functions.rows.sort_by_key(|row| row.0);
        functions
    }

    /// Where a symbol is: `name`, or `module:name` of one in a module.
    fn address(&self, wanted: &str) -> Option<u64> {
        let (module, wanted) = match wanted.split_once(':') {
            Some((module, name)) => (Some(module), name),
            None => (None, wanted),
        };
        let is_it = |row: &&(u64, u32)| {
            let line = self.names[row.1 as usize..].lines().next().unwrap_or("");
            let (name, of) = line.split_once('\t').unwrap_or((line, ""));
            let of = of.trim_matches(['[', ']']);
            name == wanted && module.is_none_or(|module| module == of)
        };
        self.rows.iter().find(is_it).map(|row| row.0)
    }

    /// Name, module in brackets, offset in the symbol and its size.
    fn find(&self, address: u64) -> Option<(&str, Option<&str>, u64, u64)> {
        let after = self.rows.partition_point(|row| row.0 <= address);
        let start = self.rows.get(after.checked_sub(1)?)?.0;
        // As the kernel, which gives no size to what nothing follows.
        let next = self.rows.get(after)?;
        let first = self.rows.partition_point(|row| row.0 < start);
        let (name, module) = self.name(&self.rows[first])?;
        // Code that nobody has named follows the kernel's, and that of each module: what is compiled at run
        // time. A module ends with a page.
        let end = match (module, self.name(next)?.1) {
            (None, None) => next.0,
            (None, Some(_)) => return None,
            (module, other) if module == other => next.0,
            _ => next.0.min((start | (PAGE - 1)) + 1),
        };
        (address < end).then_some((name, module, address - start, end - start))
    }

    /// Name, and module in brackets.
    fn name(&self, row: &(u64, u32)) -> Option<(&str, Option<&str>)> {
        let line = self.names[row.1 as usize..].lines().next()?;
        Some(match line.split_once('\t') {
            Some((name, module)) => (name, Some(module)),
            None => (line, None),
        })
    }
}

/// `0xffffffff828195af : "thaw_processes"` a line.
fn strings(text: &[u8]) -> HashMap<u64, Box<[u8]>> {
    let row = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        Some((address, text.as_bytes().into()))
    };
    text.split(|&byte| byte == b'\n').filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_the_first_symbol_below_it() {
        let functions = Functions::parse(
            "ffffffff81000000 T first\nffffffff81000000 T alias\nffffffff81000040 t next\n\
             ffffffffc0000010 t inside\t[module]\nffffffffc0000020 t last\t[module]\n0 T hidden\n\
             1000 A fixed_percpu_data\n36000 A __per_cpu_end\n",
        );
        assert_eq!(
            functions.find(0xffff_ffff_8100_0010),
            Some(("first", None, 0x10, 0x40))
        );
        assert_eq!(
            functions.find(0xffff_ffff_c000_0010),
            Some(("inside", Some("[module]"), 0, 0x10))
        );
        assert_eq!(functions.address("next"), Some(0xffff_ffff_8100_0040));
        assert_eq!(
            functions.address("module:inside"),
            Some(0xffff_ffff_c000_0010)
        );
        assert_eq!(functions.address("module:next"), None);
        for user in [0x1000, 0x40000, 0x7f6a_3595_5ff8] {
            assert_eq!(functions.find(user), None);
        }
        assert_eq!(functions.find(u64::MAX), None);
    }

    #[test]
    fn code_behind_the_kernels_and_behind_a_modules_has_no_name() {
        let functions = Functions::parse(
            "ffffffff81000000 T first\nffffffff81000040 T _end\nffffffffc0000010 t inside\t[one]\n\
             ffffffffc0000f00 t last\t[one]\nffffffffc0010000 t other\t[two]\nffffffffc0010020 t end\t[two]\n",
        );
        let find = |address| functions.find(address).map(|it| (it.0, it.2, it.3));
        assert_eq!(find(0xffff_ffff_8100_003f), Some(("first", 0x3f, 0x40)));
        assert_eq!(find(0xffff_ffff_8100_0041), None);
        assert_eq!(find(0xffff_ffff_bfff_0000), None);
        assert_eq!(find(0xffff_ffff_c000_0fff), Some(("last", 0xff, 0x100)));
        assert_eq!(find(0xffff_ffff_c000_1000), None);
        assert_eq!(find(0xffff_ffff_c001_0010), Some(("other", 0x10, 0x20)));
    }

    #[test]
    fn a_caller_that_a_return_probe_stands_for_is_not_known() {
        let symbols = Symbols::none();
        let rows = "ffffffff81000000 T caller\nffffffff81000040 T arch_rethook_trampoline\nffffffff81000080 T next\n";
        symbols.functions.set(Functions::parse(rows)).unwrap();
        let written = |address| {
            let mut out = Vec::new();
            symbols.write_caller(address, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(0xffff_ffff_8100_0010), "caller+0x10/0x40");
        assert_eq!(written(0xffff_ffff_8100_0040), "[unknown/kretprobe'd]");
    }

    #[test]
    fn published_texts_are_found_by_address() {
        let strings = strings(b"0xff10 : \"rcu_preempt\"\nnonsense\n0xff20 : \"a \" b\"\n");
        assert_eq!(&*strings[&0xff10], b"rcu_preempt");
        assert_eq!(&*strings[&0xff20], b"a \" b");
        assert_eq!(strings.len(), 2);
    }

    #[test]
    fn without_any_file_an_address_is_a_number() {
        let mut out = Vec::new();
        Symbols::none().write(0xabc, true, &mut out);
        assert_eq!(out, b"0xabc");
        assert_eq!(Symbols::none().string(1), None);
    }
}
