//! Fetch arguments, as the documented language has them.

use bridge::definition::knowledge::{Kernel, TypeId};

use crate::grammar::{At, Grammar, Sort};

const REGISTERS: [&str; 23] = [
    "di", "si", "dx", "cx", "ax", "bx", "sp", "bp", "ip", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "flags", "cs", "ss", "orig_ax", "di", "si",
];

pub(crate) const PLAIN_TYPES: [&str; 13] = [
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64", "char",
];

impl Grammar<'_> {
    pub(crate) fn argument(&mut self, at: &At) -> String {
        let (is_careful, is_steady) = (self.is_careful, self.is_steady);
        self.named += 1;
        let named = self.named;
        let random = &mut self.random;
        let mut text = match random.below(20) {
            _ if is_steady => format!("v{named}="),
            0 if is_careful => format!("{}{named}=", "n".repeat(random.between(28, 30))),
            1..=9 if is_careful => format!("v{named}="),
            0 => format!("{}=", "n".repeat(random.between(30, 34))),
            1 => format!(
                "{}=",
                random.one(&[
                    "",
                    "1a",
                    "a-b",
                    "common_pid",
                    "__probe_ip",
                    "common_cpu",
                    "a.b",
                    "A",
                    "arg2"
                ])
            ),
            2..=9 => format!(
                "{}=",
                random.one(&["a", "b", "c", "d", "val", "name", "x_1", "arg1"])
            ),
            _ => String::new(),
        };
        let fetch = self.fetch(at, 0);
        if fetch == "$arg*" && is_steady {
            // Each has the name of its own.
            return fetch;
        }
        text.push_str(&fetch);
        // Older kernels have no types of their own.
        if is_steady || self.random.percent(60) {
            text.push(':');
            let type_ = match self.is_careful {
                true => self.fitting_type(at, &fetch),
                false => self.type_(),
            };
            if type_.is_empty() && self.is_careful {
                text.pop();
            }
            text.push_str(&type_);
        }
        text
    }

    fn fetch(&mut self, at: &At, depth: usize) -> String {
        let has_names = match at.sort {
            Sort::Kernel | Sort::Function | Sort::Tracepoint => !at.parameters.is_empty(),
            _ => false,
        };
        let has_registers = matches!(at.sort, Sort::Kernel | Sort::File);
        let odd = usize::from(!self.is_careful);
        let when = |is: bool, weight: usize| if is { weight } else { odd };
        let sorts = [
            (when(has_registers, 26), 0),
            (when(has_registers, 6), 1),
            (when(at.is_return, 14), 2),
            (when(depth == 0, 6), 3),
            (when(has_names, 12), 4),
            (when(at.sort != Sort::Event, 8), 5),
            (when(at.sort != Sort::Event, 8), 6),
            (if depth < 4 { 26 } else { 6 }, 7),
            (when(has_names, 40), 8),
            (when(at.sort == Sort::Event, 40), 9),
            (3 * odd, 10),
        ];
        match self.random.weighted(&sorts) {
            0 if self.odd(8) => format!(
                "%{}",
                self.random.text(&["rdi", "eax", "ds", "Di", "", "di "])
            ),
            0 => format!("%{}", self.random.text(&REGISTERS)),
            1 if self.odd(40) => {
                let words = [
                    "$stack2049",
                    "$stack010",
                    "$stackx",
                    "$stack-1",
                    "$stack99999999999999999999",
                    "$stack4294967296",
                ];
                self.random.text(&words).to_owned()
            }
            1 => {
                let words = [
                    "$stack",
                    "$stack0",
                    "$stack1",
                    "$stack9",
                    "$stack2047",
                    "$stack2048",
                ];
                self.random.text(&words).to_owned()
            }
            2 => self.returned(at),
            3 if self.odd(20) => self
                .random
                .text(&["$Comm", "$command", "$comm1"])
                .to_owned(),
            3 if depth > 0 && self.is_careful => "$stack".to_owned(),
            3 => self.random.text(&["$comm", "$comm", "$COMM"]).to_owned(),
            4 => self.numbered(at),
            5 => self.memory(at),
            6 => self.immediate(depth),
            7 => self.dereference(at, depth),
            8 => self.by_name(at),
            9 => self.field(at),
            _ => self
                .random
                .text(&[
                    "nothing",
                    "5",
                    "*",
                    "=",
                    "&x",
                    "no_such->x",
                    "(file)",
                    "(x)",
                    "()",
                    "[0]",
                    "NULL",
                ])
                .to_owned(),
        }
    }

    fn returned(&mut self, at: &At) -> String {
        let mut text = "$retval".to_owned();
        if self.random.percent(40)
            && let Some(id) = at.returns
        {
            text.push_str(&self.words.way(&mut self.random, id));
        }
        if self.odd(8) {
            text.push_str(self.random.text(&["x", "->no_such", "1", "."]));
        }
        text
    }

    fn numbered(&mut self, at: &At) -> String {
        if self.odd(12) {
            let odd = [
                "$arg0", "$arg", "$argx", "$arg1x", "$arg12", "$arg2049", "$arg**", "$arg01",
                "$arg-1", "$arg1->x",
            ];
            return self.random.text(&odd).to_owned();
        }
        if self.random.percent(15) {
            return "$arg*".to_owned();
        }
        let most = if self.is_careful {
            at.parameters.len().max(1)
        } else {
            5
        };
        format!("$arg{}", self.random.between(1, most))
    }

    fn memory(&mut self, at: &At) -> String {
        if self.odd(20) {
            let odd = [
                "@0x",
                "@18446744073709551616",
                "@",
                "@-4",
                "@4x",
                "@+",
                "@+x",
                "@+-4",
                "@++4",
                "@x+",
                "@jiffies+4-4",
            ];
            return self.random.text(&odd).to_owned();
        }
        if self.is_steady && at.sort != Sort::File {
            return "@linux_banner".to_owned();
        }
        match (self.random.below(5), at.sort) {
            (0, _) => self
                .random
                .text(&["@0xffffffff81000000", "@0", "@010"])
                .to_owned(),
            (_, Sort::File) => self.random.text(&["@+0x3010", "@+0"]).to_owned(),
            (1, _) => {
                let symbol = self.words.symbol(&mut self.random);
                format!("@{symbol}{}", self.random.text(&["+4", "-4", "+0x10"]))
            }
            _ => format!("@{}", self.words.symbol(&mut self.random)),
        }
    }

    fn immediate(&mut self, depth: usize) -> String {
        if self.odd(20) {
            let odd = [
                "\\",
                "\\x",
                "\\-",
                "\\+-5",
                "\\--5",
                "\\0x",
                "\\18446744073709551616",
                "\\-9223372036854775809",
                "\\\"open",
                "\\\"",
                "\\\"a:b\"",
                "\\\"a\"b",
            ];
            return self.random.text(&odd).to_owned();
        }
        if self.random.percent(30) && depth == 0 {
            let texts = [
                "\\\"text\"",
                "\\\"\"",
                "\\\"a=b\"",
                "\\\"a\"b\"",
                "\\\"%d\\n\"",
                "\\\"x.y/z\"",
            ];
            return self.random.text(&texts).to_owned();
        }
        let numbers = [
            "\\5",
            "\\-1",
            "\\0x1234",
            "\\010",
            "\\0",
            "\\+5",
            "\\18446744073709551615",
        ];
        self.random.text(&numbers).to_owned()
    }

    fn dereference(&mut self, at: &At, depth: usize) -> String {
        let odd = [
            "+",
            "-",
            "+x",
            "--8",
            "-+8",
            "+9223372036854775808",
            "+08",
            "+u",
            "u0",
            "+ 8",
        ];
        let rare = [
            "+u-8",
            "+-8",
            "+010",
            "+9223372036854775807",
            "-9223372036854775808",
            "-0",
            "-u8",
            "++8",
        ];
        let common = ["+0", "+8", "-8", "+0x10", "+u0", "+u8", "+4", "+16"];
        let offset = match self.random.below(10) {
            0 => self.random.text(&rare),
            _ if self.odd(8) => self.random.text(&odd),
            _ => self.random.text(&common),
        };
        let mut text = self.fetch(at, depth + 1);
        let is_of_stack = ["$stack", "%sp", "%bp"].contains(&&*text);
        let offset = match self.is_steady && is_of_stack && offset.contains('-') {
            // Below the stack's top there is what the probes themselves do.
            true => "+8",
            false => offset,
        };
        let levels = match self.random.percent(3) {
            true => self.random.between(10, 16),
            false => 1,
        };
        for _ in 0..levels {
            text = format!("{offset}({text})");
        }
        if self.odd(5) {
            text.push_str(self.random.text(&["x", ")", "(", "+4"]));
        }
        text
    }

    fn field(&mut self, at: &At) -> String {
        if at.fields.is_empty() {
            return "$no_such_field".to_owned();
        }
        let field = self.random.one(&at.fields).clone();
        if self.random.percent(12) {
            let structure = self.words.structure(&mut self.random);
            let way = self.way_of(structure);
            return format!("({structure}){field}{way}");
        }
        let before = match self.odd(15) {
            true => self.random.text(&["", "@", "%", "$$"]),
            false => "$",
        };
        format!("{before}{field}")
    }

    fn way_of(&mut self, structure: &str) -> String {
        // As if a pointer to it were there.
        match self.words.kernel.structure(structure) {
            Some(id) => self.words.way_in(&mut self.random, id),
            None => "->x".to_owned(),
        }
    }

    fn by_name(&mut self, at: &At) -> String {
        if at.parameters.is_empty() {
            return self
                .random
                .text(&["nothing", "file", "file->f_mode"])
                .to_owned();
        }
        let (name, id): (String, TypeId) = self.random.one(&at.parameters).clone();
        if self.odd(8) {
            let structure = self.words.structure(&mut self.random);
            let way = self.way_of(structure);
            return format!("({structure}){name}{way}");
        }
        let mut text = name;
        if self.random.percent(75) {
            text.push_str(&self.words.way(&mut self.random, id));
        }
        if self.odd(8) {
            text.push_str(
                self.random
                    .text(&["->no_such", ".x", "-", "->", "-x", "..", "[0]"]),
            );
        }
        text
    }

    /// A type that the value may have, as far as its text shows.
    fn fitting_type(&mut self, at: &At, fetch: &str) -> String {
        if fetch == "$comm" || fetch == "$COMM" || fetch.starts_with("\\\"") {
            return self.random.text(&["string", ""]).to_owned();
        }
        let reads_memory = fetch.starts_with(['+', '-', '@']) || fetch.contains("->");
        let in_kernel = at.sort != Sort::File;
        match self.random.below(20) {
            0..=2 => self.bits(),
            3..=6 if reads_memory => self
                .random
                .text(&["string", "string", "ustring"])
                .to_owned(),
            7..=9 if reads_memory => {
                let arrays = ["[1]", "[2]", "[4]", "[64]", "[0x8]", "[010]"];
                // What lies behind is not the same for both where it is on the stack.
                let end = if self.is_steady { 2 } else { arrays.len() };
                let array = self.random.text(&arrays[..end]);
                let of = match self.random.percent(20) {
                    true => self
                        .random
                        .text(&["string", "ustring", "symbol", "b4@2/16"]),
                    false => self.random.text(&PLAIN_TYPES),
                };
                format!("{of}{array}")
            }
            10 if in_kernel => "symbol".to_owned(),
            11 if in_kernel && at.sort != Sort::Event => "symstr".to_owned(),
            12 if matches!(at.sort, Sort::Kernel | Sort::Function | Sort::Tracepoint) => {
                self.random.text(&["%pd", "%pD"]).to_owned()
            }
            _ => self.random.text(&PLAIN_TYPES).to_owned(),
        }
    }

    fn bits(&mut self) -> String {
        let size = *self.random.one(&[8, 16, 32, 64]);
        let end = if self.is_careful { size } else { size + 2 };
        let offset = match self.random.percent(80) {
            true => self.random.below(size),
            false => 0,
        };
        let width = match end - offset {
            0 => 1,
            most => self.random.between(1, most),
        };
        match self.random.percent(10) {
            true => format!("b{width:#x}@{offset:#x}/{size:#x}"),
            false => format!("b{width}@{offset}/{size}"),
        }
    }

    fn type_(&mut self) -> String {
        let others = [
            "symbol", "symstr", "string", "string", "string", "ustring", "%pd", "%pD",
        ];
        let odd = [
            "",
            "u",
            "u128",
            "int",
            "String",
            "u64x",
            "U8",
            "%p",
            "%pS",
            "x",
            "b",
            "string2",
            "s",
            "char8",
            "b4@/32",
            "b@4/32",
            "b4/32",
            "b4@4",
            "b4@4/32x",
            "b-1@0/8",
            "b18446744073709551615@1/8",
            "b0@0/8",
            "b4@4/24",
            "b4@4/",
        ];
        let mut text = match self.random.below(24) {
            0 | 1 => self.random.text(&odd).to_owned(),
            2..=4 => self.bits(),
            5..=12 => self.random.text(&others).to_owned(),
            _ => self.random.text(&PLAIN_TYPES).to_owned(),
        };
        match self.random.below(20) {
            0 => text.push_str(self.random.text(&[
                "[0]",
                "[65]",
                "[",
                "[]",
                "[4",
                "[x]",
                "[4]x",
                "[-1]",
                "[4][4]",
                "[0x4]",
                "[4294967297]",
                "[+4]",
            ])),
            1 | 2 => text.push_str(
                self.random
                    .text(&["[1]", "[2]", "[4]", "[64]", "[0x8]", "[010]"]),
            ),
            _ => {}
        }
        text
    }
}
