//! Types of the kernel as C writes them, from its type information: `const struct iovec *`,
//! `int (*)(struct page *, void *)`.
//!
//! C writes a type around the name that is declared, from the inside out: what a pointer points to stands
//! before it, the elements of an array and the parameters of a function behind it.

use super::btf::AllBtf;
use super::knowledge::TypeId;

/// Pointers, qualifiers and arrays around one another; a type with more is damaged.
const DEEPEST: usize = 24;

impl AllBtf {
    /// A type's name; `?` stands for what cannot be read.
    pub(super) fn type_name(&self, id: TypeId) -> String {
        let mut declarator = String::new();
        let base = self.declare(id, &mut declarator, DEEPEST);
        match declarator.as_str() {
            "" => base,
            declarator if declarator.starts_with('[') => format!("{base}{declarator}"),
            declarator => format!("{base} {declarator}"),
        }
    }

    /// Puts what surrounds the declared name into `declarator`, and gives the type that all begins with.
    fn declare(&self, id: TypeId, declarator: &mut String, depth: usize) -> String {
        let unknown = || "?".to_owned();
        if id.0 as u32 == 0 {
            return "void".to_owned();
        }
        let Some((file, _, word)) = self.words(id) else {
            return unknown();
        };
        let (Some(name), Some(info), Some(to)) = (word(0), word(4), word(8)) else {
            return unknown();
        };
        let Some(depth) = depth.checked_sub(1) else {
            return unknown();
        };
        let name = || match self.name(file, name) {
            Some("") | None => "{…}".to_owned(),
            Some(name) => name.to_owned(),
        };
        let same_file = |number: u32| TypeId(id.0 >> 32 << 32 | u64::from(number));
        match info >> 24 & 31 {
            2 => {
                declarator.insert(0, '*');
                self.declare(same_file(to), declarator, depth)
            }
            3 => {
                embrace(declarator);
                let count = word(20).map_or_else(unknown, |count| count.to_string());
                declarator.push_str(&format!("[{count}]"));
                self.declare(same_file(word(12).unwrap_or(0)), declarator, depth)
            }
            4 => format!("struct {}", name()),
            5 => format!("union {}", name()),
            6 | 19 => format!("enum {}", name()),
            7 if info >> 31 == 1 => format!("union {}", name()),
            7 => format!("struct {}", name()),
            kind @ 9..=11 => {
                let word = ["volatile", "const", "restrict"][kind as usize - 9];
                // Of a pointer it stands behind the star, else before the name.
                let next = self.words(same_file(to)).and_then(|(_, _, word)| word(4));
                if next.is_some_and(|info| info >> 24 & 31 == 2) {
                    let gap = if declarator.is_empty() { "" } else { " " };
                    declarator.insert_str(0, &format!("{word}{gap}"));
                    return self.declare(same_file(to), declarator, depth);
                }
                let base = self.declare(same_file(to), declarator, depth);
                format!("{word} {base}")
            }
            12 => self.declare(same_file(to), declarator, depth),
            13 => {
                embrace(declarator);
                let parameters: Vec<String> = (0..(info & 0xffff) as usize)
                    .map(|index| match word(16 + 8 * index) {
                        Some(0) => "...".to_owned(),
                        Some(id) => self.parameter_name(same_file(id), depth),
                        None => unknown(),
                    })
                    .collect();
                let parameters = match parameters[..] {
                    [] => "void".to_owned(),
                    _ => parameters.join(", "),
                };
                declarator.push_str(&format!("({parameters})"));
                self.declare(same_file(to), declarator, depth)
            }
            18 => self.declare(same_file(to), declarator, depth),
            // Integers, floats and typedefs have their names.
            _ => name(),
        }
    }

    fn parameter_name(&self, id: TypeId, depth: usize) -> String {
        let mut declarator = String::new();
        let base = self.declare(id, &mut declarator, depth);
        match declarator.as_str() {
            "" => base,
            declarator => format!("{base} {declarator}"),
        }
    }
}

/// A pointer to an array or a function stands in parentheses.
fn embrace(declarator: &mut String) {
    if declarator.starts_with(|c: char| c == '*' || c.is_ascii_alphabetic()) {
        declarator.insert(0, '(');
        declarator.push(')');
    }
}

#[cfg(test)]
mod tests {
    use super::super::btf::tests::file;
    use super::*;

    const POINTER: u32 = 2 << 24;

    /// `int`, `char`, `struct file`, and what can be made of them.
    fn types() -> AllBtf {
        let strings = b"\0int\0char\0file\0size_t\0p\0";
        let mut all = AllBtf::default();
        all.add(file(
            strings,
            &[
                &[1, 1 << 24, 4, 1 << 24 | 32],
                &[5, 1 << 24, 1, 8],
                &[10, 4 << 24, 8],
                &[0, POINTER, 3],
                &[0, 10 << 24, 2],
                &[0, POINTER, 5],
                &[0, 10 << 24, 6],
                &[15, 8 << 24, 1],
                &[0, 3 << 24, 0, 4, 1, 7],
                &[0, 13 << 24 | 2, 1, 0, 4, 0, 0],
                &[0, POINTER, 10],
                &[0, POINTER, 9],
                &[0, POINTER, 0],
                &[0, 13 << 24, 0],
            ],
        ));
        all
    }

    #[test]
    fn types_are_written_as_c_writes_them() {
        let all = types();
        let expected = [
            (0, "void"),
            (1, "int"),
            (3, "struct file"),
            (4, "struct file *"),
            (6, "const char *"),
            (7, "const char *const"),
            (8, "size_t"),
            (9, "struct file *[7]"),
            (11, "int (*)(struct file *, ...)"),
            (12, "struct file *(*)[7]"),
            (13, "void *"),
            (14, "void (void)"),
            (99, "?"),
        ];
        for (number, name) in expected {
            assert_eq!(all.type_name(TypeId(number)), name);
        }
    }

    #[test]
    fn a_type_that_leads_to_itself_ends() {
        let mut all = AllBtf::default();
        all.add(file(b"\0", &[&[0, POINTER, 1]]));
        assert!(all.type_name(TypeId(1)).starts_with("? *"));
    }
}
