//! What compilers make of a function besides its own code, or instead of it: copies and parts, whose symbols are
//! called after it.
//!
//! ```text
//! charge.isra.0         its parameters are others: those that it needs
//! charge.constprop.0    a copy for arguments that are known
//! charge.part.0         a part; the rest was inlined into its callers
//! charge.cold           what is rarely run
//! ```
//! Where somebody asks for `charge` and there is none, these are what can be probed. (The names are GCC's and LLVM's,
//! which write no list of them; what they do to parameters is why a probe there has no names.)

/// Those that are named.
const NAMED: usize = 8;

/// The symbols that are called after the function, in order.
pub(super) fn of<'a>(name: &str, symbols: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_one = |symbol: &&str| {
        symbol
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.') && what(rest).is_some())
    };
    let mut found: Vec<String> = symbols.filter(is_one).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// What is behind the name, in words; `None` where it is no such thing.
fn what(suffix: &str) -> Option<&'static str> {
    let kinds = [
        (".cold", "what of it is rarely run"),
        (
            ".part.",
            "a part of it; the rest is inlined into its callers",
        ),
        (".constprop.", "a copy for arguments that are known"),
        (".isra.", "with other parameters than the source has"),
        (".llvm.", "the whole function"),
    ];
    let found = kinds.iter().find(|(mark, _)| suffix.contains(mark));
    found.map(|(_, words)| *words)
}

/// A sentence about them; `None` where there are none.
pub(super) fn remark(name: &str, siblings: &[String]) -> Option<String> {
    if siblings.is_empty() {
        return None;
    }
    let one = |symbol: &String| {
        let what = what(&symbol[name.len()..]).unwrap_or("a part of it");
        format!("{symbol} ({what})")
    };
    let mut named: Vec<String> = siblings.iter().take(NAMED).map(one).collect();
    if let Some(more @ 1..) = siblings.len().checked_sub(NAMED) {
        named.push(format!("{more} more"));
    }
    Some(format!(
        "the compiler has left no {name}, but {}: name these",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_copies_of_a_function_are_told_from_other_names() {
        let symbols = [
            "charge.part.0",
            "charge.isra.0.cold",
            "charge.isra.0",
            "charged.isra.0",
            "charge",
            "charge.c",
            "recharge.cold",
            "charge.isra.0",
        ];
        let found = of("charge", symbols.into_iter());
        assert_eq!(
            found,
            ["charge.isra.0", "charge.isra.0.cold", "charge.part.0"]
        );
        let remark = remark("charge", &found).expect("there are some");
        assert_eq!(
            remark,
            "the compiler has left no charge, but charge.isra.0 (with other parameters than the source has), \
             charge.isra.0.cold (what of it is rarely run), charge.part.0 (a part of it; the rest is inlined into \
             its callers): name these"
        );
        assert_eq!(super::remark("charge", &[]), None);
    }
}
