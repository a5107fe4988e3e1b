//! Filters made at random, the same ones each time: comparisons of given fields, joined and negated.

/// What a field is compared with.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// Numbers, these among them.
    Numbers(&'static [i128]),
    /// Text: whole ones, and patterns.
    Texts(&'static [&'static str]),
    /// Sets of CPUs.
    Cpus(&'static [&'static str]),
}

/// A source of numbers that is the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A filter of up to `comparisons` comparisons.
pub(crate) fn filter(random: &mut Random, fields: &[(&str, Of)], comparisons: usize) -> String {
    if comparisons > 1 {
        let left = 1 + random.below(comparisons - 1);
        let joined = format!(
            "{} {} {}",
            filter(random, fields, left),
            random.one_of(&["&&", "||"]),
            filter(random, fields, comparisons - left)
        );
        return match random.below(3) {
            0 => joined,
            1 => format!("({joined})"),
            _ => format!("!({joined})"),
        };
    }
    let (name, of) = random.one_of(fields);
    let comparison = match of {
        Of::Numbers(values) => {
            let operator = random.one_of(&["==", "!=", "<", "<=", ">", ">=", "&"]);
            let mut value = random.one_of(values) + random.below(3) as i128 - 1;
            if values.iter().all(|value| *value >= 0) {
                value = value.clamp(0, u64::MAX.into());
            } else {
                value = value.clamp(i64::MIN.into(), i64::MAX.into());
            }
            format!("{name} {operator} {value}")
        }
        Of::Texts(texts) => {
            let text = random.one_of(texts);
            let is_pattern = text.contains(['*', '?', '[', '!']);
            match random.below(4) {
                0 if !is_pattern => format!("{name} == \"{text}\""),
                1 if !is_pattern => format!("{name} != \"{text}\""),
                _ => format!("{name} ~ \"{text}\""),
            }
        }
        Of::Cpus(sets) => {
            let operator = random.one_of(&["&", "==", "!="]);
            format!("{name} {operator} CPUS{{{}}}", random.one_of(sets))
        }
    };
    match random.below(4) {
        0 => format!("!({comparison})"),
        _ => comparison,
    }
}
