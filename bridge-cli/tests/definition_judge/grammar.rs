//! Definitions as the documented language has them, each with some of what it offers.
//!
//! Most are valid, as far as one can know without judging them; where a rule has a limit, some lie on it
//! and some behind it.

use bridge::definition::knowledge::{Kernel, TypeId};

use crate::random::Random;
use crate::vocabulary::Vocabulary;

/// A definition that was made, or several that stand beside one another.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The file of tracefs that they are for.
    pub(crate) file: &'static str,
    pub(crate) lines: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Kernel,
    File,
    Function,
    Tracepoint,
    Event,
}

/// What is known of the place while its arguments are made.
pub(crate) struct At {
    pub(crate) sort: Sort,
    pub(crate) is_return: bool,
    pub(crate) parameters: Vec<(String, TypeId)>,
    pub(crate) returns: Option<TypeId>,
    pub(crate) fields: Vec<String>,
}

/// See the module's page.
pub(crate) struct Grammar<'a> {
    pub(crate) words: &'a Vocabulary<'a>,
    pub(crate) random: Random,
    /// Nothing is written that is known to be refused everywhere.
    pub(crate) is_careful: bool,
    /// Only memory is named that does not change.
    pub(crate) is_steady: bool,
    /// Arguments that have been named.
    pub(crate) named: usize,
}

impl<'a> Grammar<'a> {
    pub(crate) fn new(words: &'a Vocabulary<'a>, mut random: Random) -> Grammar<'a> {
        let is_careful = random.percent(70);
        Grammar {
            words,
            random,
            is_careful,
            is_steady: false,
            named: 0,
        }
    }

    /// Whether something is to be odd, in so many of a hundred cases.
    pub(crate) fn odd(&mut self, of_a_hundred: usize) -> bool {
        !self.is_careful && self.random.percent(of_a_hundred)
    }

    pub(crate) fn definition(&mut self) -> Made {
        let sort = self.random.weighted(&[
            (40, Sort::Kernel),
            (22, Sort::File),
            (16, Sort::Function),
            (11, Sort::Tracepoint),
            (11, Sort::Event),
        ]);
        let own = match sort {
            Sort::Kernel => "kprobe_events",
            Sort::File => "uprobe_events",
            _ => "dynamic_events",
        };
        let file = match self.random.below(20) {
            0 => self.random.text(&["kprobe_events", "uprobe_events"]),
            1..=8 => "dynamic_events",
            _ => own,
        };
        Made {
            file,
            lines: vec![self.line(sort)],
        }
    }

    fn line(&mut self, sort: Sort) -> String {
        let mut at = At {
            sort,
            is_return: false,
            parameters: Vec::new(),
            returns: None,
            fields: Vec::new(),
        };
        let mut letter = match sort {
            Sort::Kernel | Sort::File => {
                at.is_return = self.random.percent(30);
                if at.is_return { "r" } else { "p" }
            }
            Sort::Function => "f",
            Sort::Tracepoint => "t",
            Sort::Event => "e",
        }
        .to_owned();
        let place = match sort {
            Sort::Kernel => self.kernel_place(&mut at, &mut letter),
            Sort::File => self.file_place(&mut at),
            Sort::Function => self.function_place(&mut at),
            Sort::Tracepoint => {
                let name = self.words.tracepoint(&mut self.random);
                self.know(&mut at, &format!("__probestub_{name}"));
                name
            }
            Sort::Event => {
                let event = self.words.event(&mut self.random);
                at.fields = self.words.fields(&event);
                let separator = self.random.text(&[".", ".", "/"]);
                format!("{}{separator}{}", event.0, event.1)
            }
        };
        let most_active = match sort {
            Sort::Kernel if at.is_return => 15,
            _ => 1,
        };
        if (sort == Sort::Kernel && at.is_return || !self.is_careful)
            && self.random.percent(most_active)
        {
            let number = ["1", "10", "0x10", "4096", "4097", "0", "010"];
            letter.push_str(self.random.text(&number));
        }
        let mut line = format!("{letter}{} {place}", self.name());
        let count = self
            .random
            .weighted(&[(15, 0), (40, 1), (25, 2), (15, 3), (4, 6), (1, 20)]);
        for _ in 0..count {
            let argument = self.argument(&at);
            line.push(' ');
            line.push_str(&argument);
        }
        if sort == Sort::Event && self.random.percent(20) {
            line.push_str(" if");
            let filter = self.filter(&at);
            line.push_str(&filter);
        }
        line
    }

    fn name(&mut self) -> String {
        let last = if self.is_careful { 63 } else { 66 };
        let start = if self.is_careful { 2 } else { 0 };
        let event = |random: &mut Random| match random.between(start, 14) {
            2 => "x".repeat(random.between(61, last)),
            0 | 1 => (random.text(&["_", "r2", "2r", "a-b", "a*", "sched_switch"])).to_owned(),
            _ => (random.text(&["ev", "probe", "Ev_1", "rd"])).to_owned(),
        };
        let group = |random: &mut Random| match random.between(start, 14) {
            2 => "g".repeat(random.between(61, last)),
            0 | 1 => (random.text(&["g-1", "_g", "1g", "sched", "kprobes", "-g"])).to_owned(),
            _ => (random.text(&["grp", "own", "Grp_2"])).to_owned(),
        };
        let random = &mut self.random;
        match random.below(20) {
            0..=5 => String::new(),
            6..=12 => format!(":{}", event(random)),
            13..=15 => format!(":{}/{}", group(random), event(random)),
            16 => format!(":{}.{}", group(random), event(random)),
            17 => format!(":{}/", group(random)),
            18 => format!(":{}.", group(random)),
            _ if self.is_careful => String::new(),
            _ => random
                .text(&[":", ":/", ":/ev", ":g/h/ev", "::ev", "x:ev"])
                .to_owned(),
        }
    }

    pub(crate) fn know(&mut self, at: &mut At, function: &str) {
        let Some(prototype) = self.words.kernel.prototype(function) else {
            return;
        };
        let named = |(name, id): (Option<String>, TypeId)| Some((name?, id));
        at.parameters = prototype.parameters.into_iter().filter_map(named).collect();
        at.returns = prototype.returns;
    }

    fn kernel_place(&mut self, at: &mut At, letter: &mut String) -> String {
        let mut symbol = self.function();
        self.know(at, &symbol.clone());
        match self.random.below(24) {
            0..=3 => {
                let offset = self.random.weighted(&[
                    (if self.is_careful { 60 } else { 6 }, "+0"),
                    (6, "+4"),
                    (3, "+5"),
                    (3, "+9"),
                    (2, "+0x10"),
                    (2, "+010"),
                    (2, "+1"),
                    (1, "-1"),
                    (1, "+99999"),
                    (1, "+4294967296"),
                    (1, "+0x"),
                    (1, "+-4"),
                    (1, "++4"),
                ]);
                symbol.push_str(offset);
            }
            4 if !self.is_careful => {
                let addresses = [
                    "0",
                    "0xffffffffffffffff",
                    "0xffffffff80000000",
                    "18446744073709551616",
                    "1",
                ];
                symbol = (self.random.text(&addresses)).to_owned();
            }
            5..=7 => {
                symbol.push_str("%return");
                if self.is_careful || self.random.percent(85) {
                    *letter = "p".to_owned();
                }
                at.is_return = true;
            }
            8 if !self.is_careful => symbol.push_str(self.random.text(&[
                "%retur",
                "%",
                "%return+4",
                "+4%return",
                "%return%return",
            ])),
            _ => {}
        }
        symbol
    }

    fn function_place(&mut self, at: &mut At) -> String {
        let mut symbol = self.function();
        self.know(at, &symbol.clone());
        match self.random.below(20) {
            0..=7 => {
                symbol.push_str("%return");
                at.is_return = true;
            }
            8 if !self.is_careful => {
                symbol.push_str(
                    self.random
                        .text(&["%retur", "%", "+4", "*", "%return%return"]),
                )
            }
            9 => at.is_return = true,
            _ => {}
        }
        symbol
    }

    fn file_place(&mut self, at: &mut At) -> String {
        let words = self.words;
        let (path, offsets) = self.random.one(&words.files);
        let mut place = path.display().to_string();
        match self.random.below(30) {
            _ if self.is_careful => {}
            0 => place = "/no/such/file".to_owned(),
            1 => place = "/tmp".to_owned(),
            2 => place = "/dev/null".to_owned(),
            _ => {}
        }
        place.push(':');
        let offset = *self.random.one(offsets);
        place.push_str(&match self.random.below(16) {
            0 => offset.to_string(),
            1 => format!("{offset:#o}").replace('o', ""),
            2 if !self.is_careful => (self.random.text(&[
                "0",
                "0x",
                "0x10000000",
                "18446744073709551616",
                "-4",
                "+4",
                "4 ",
                "0x10g",
            ]))
            .to_owned(),
            _ => format!("{offset:#x}"),
        });
        let is_careful = self.is_careful;
        let mut suffix = |random: &mut Random| match random.below(12) {
            0 | 1 => {
                at.is_return = true;
                "%return"
            }
            2 if !is_careful => random.text(&["%retur", "%", "%%return", "+4"]),
            _ => "",
        };
        place.push_str(suffix(&mut self.random));
        match self.random.below(16) {
            0 => place.push_str("(0x3010)"),
            1 if !self.is_careful => place.push_str(self.random.text(&[
                "(",
                "()",
                "(0)",
                "(0x",
                "(x)",
                "(4)5",
                "(4)%return",
                "((4))",
                "(-4)",
            ])),
            _ => {}
        }
        place
    }

    /// A symbol to be probed.
    fn function(&mut self) -> String {
        match self.is_careful {
            true => self.words.good_function(&mut self.random),
            false => self.words.function(&mut self.random),
        }
    }
}
