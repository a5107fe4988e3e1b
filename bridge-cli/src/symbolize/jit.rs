//! Names of code that a program made at run time, from the file that it keeps of them for perf:
//! `/tmp/perf-PID.map`, with a line `START SIZE name` for each function, numbers in hexadecimal (Linux,
//! tools/perf/Documentation/jit-interface.txt).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// More of such a file is not read, bytes.
const MOST: u64 = 256 << 20;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct JitNames {
    by_start: BTreeMap<u64, (u64, Arc<str>)>,
    /// Bytes of the file when it was read last.
    length: u64,
}

impl JitNames {
    /// The function at an address of a process, and bytes from its beginning. The file is read again where
    /// it has grown.
    pub(super) fn find(&mut self, process: u32, address: u64) -> Option<(Arc<str>, u64)> {
        if let Some(found) = self.known(address) {
            return Some(found);
        }
        let path = places(process).into_iter().find(|path| path.is_file())?;
        let length = std::fs::metadata(&path).ok()?.len();
        if length == self.length || length > MOST {
            return None;
        }
        self.length = length;
        self.read(&String::from_utf8_lossy(&std::fs::read(path).ok()?));
        self.known(address)
    }

    fn known(&self, address: u64) -> Option<(Arc<str>, u64)> {
        let (start, (size, name)) = self.by_start.range(..=address).next_back()?;
        let offset = address - start;
        (offset < *size).then(|| (Arc::clone(name), offset))
    }

    /// What is written later takes the place of what was there: code is thrown away and made anew.
    fn read(&mut self, text: &str) {
        self.by_start.clear();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut number = || {
                let word = words.next()?;
                u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
            };
            let (Some(start), Some(size)) = (number(), number()) else {
                continue;
            };
            if let Some(name) = words.next() {
                self.by_start.insert(start, (size, name.into()));
            }
        }
    }
}

/// Where the file may be: as the process itself names it, and, when that is gone, here.
fn places(process: u32) -> Vec<PathBuf> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let own = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("NSpid:")?
                .split_ascii_whitespace()
                .next_back()
        })
        .map(|own| format!("/proc/{process}/root/tmp/perf-{own}.map"));
    own.into_iter()
        .chain([format!("/tmp/perf-{process}.map")])
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_any_address_in_it_and_its_name_may_have_blanks() {
        let mut names = JitNames::default();
        names.read(
            "1000 20 LazyCompile:~ add test.js:3\n0x2000 0x10 other\nnonsense\n1000 40 again\n",
        );
        let found = |address| {
            names
                .known(address)
                .map(|(name, offset)| (name.to_string(), offset))
        };
        assert_eq!(found(0x1030), Some(("again".to_owned(), 0x30)));
        assert_eq!(found(0x2000), Some(("other".to_owned(), 0)));
        assert_eq!(found(0x2010), None);
        assert_eq!(found(0xfff), None);
    }
}
