//! The nearest names to one that matches nothing.

use crate::print::escaped;

/// How many are offered.
const OFFERED: usize = 3;
/// Below this likeness (0 none, 1 equal) a name is no help.
const LIKE: f64 = 0.7;

/// Up to three of `names` that are most like `wanted`, the most alike first.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let plain: String = wanted.chars().filter(|c| !matches!(c, '*' | '?')).collect();
    let plain = plain.to_lowercase();
    let mut ranked: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (likeness(&plain, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked.dedup_by(|a, b| a.1 == b.1);
    ranked.truncate(OFFERED);
    ranked
        .into_iter()
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Likeness of two `group:name` texts. The names count, the groups only decide between equals: people
/// remember `sched_swich`, and forget that it is in `sched`.
fn likeness(wanted: &str, name: &str) -> f64 {
    let whole = strsim::normalized_damerau_levenshtein(wanted, name);
    let tail = |text: &str| text.rsplit(':').next().unwrap_or("").to_owned();
    let (wanted_tail, name_tail) = (tail(wanted), tail(name));
    if wanted_tail.is_empty() {
        return whole;
    }
    let by_name = strsim::normalized_damerau_levenshtein(&wanted_tail, &name_tail);
    whole.max(0.95 * by_name + 0.05 * whole)
}

/// `, did you mean a, b or c?` or nothing, to be put behind a message.
pub fn suggestion(names: &[String]) -> Option<String> {
    let names: Vec<String> = names.iter().map(|name| escaped(name)).collect();
    let (last, rest) = names.split_last()?;
    Some(if rest.is_empty() {
        format!("did you mean {last}?")
    } else {
        format!("did you mean {} or {last}?", rest.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = [
        "sched:sched_switch",
        "sched:sched_waking",
        "orders:charge",
        "orders:checkout",
        "block:block_rq_issue",
    ];

    #[test]
    fn a_misspelt_name_finds_the_one_that_was_meant() {
        assert_eq!(nearest("sched:sched_swich", NAMES)[0], "sched:sched_switch");
        assert_eq!(nearest("order:charge", NAMES)[0], "orders:charge");
        assert_eq!(nearest("ordrs:chekout*", NAMES)[0], "orders:checkout");
        assert_eq!(
            nearest("kernel:block_rq_issue", NAMES)[0],
            "block:block_rq_issue"
        );
    }

    #[test]
    fn a_name_that_resembles_none_offers_none() {
        assert!(nearest("zzz:qqqqqq", NAMES).is_empty());
        assert_eq!(suggestion(&[]), None);
    }

    #[test]
    fn suggestions_read_as_a_sentence() {
        let names = ["a:b".to_owned(), "c:d".to_owned(), "e:f".to_owned()];
        assert_eq!(suggestion(&names).unwrap(), "did you mean a:b, c:d or e:f?");
        assert_eq!(suggestion(&names[..1]).unwrap(), "did you mean a:b?");
    }
}
