//! The benches' summary as a table, and its bars.
//!
//! An entry is an object of numbers. Of most, `ns` is what matters; of a bar `value`, beside the limit
//! it is held against and whether it `met` it. What a machine could not measure says `skipped`.

use serde_json::{Map, Value};

/// The keys that have columns.
const IN_COLUMNS: [&str; 4] = ["ns", "value", "low", "high"];

/// A line for each entry: the measurement, half its confidence interval, and what else it holds.
pub(crate) fn table(entries: &Map<String, Value>) -> String {
    let width = entries.keys().map(String::len).max().unwrap_or(0).max(4);
    let mut text = format!("{:<width$}  {:>12}  {:>8}\n", "name", "measured", "±");
    for (name, entry) in entries {
        let measured = match (entry["ns"].as_f64(), entry["value"].as_f64()) {
            (Some(ns), _) => format!("{} ns", significant(ns)),
            (None, Some(value)) => format!("{}   ", significant(value)),
            (None, None) => String::new(),
        };
        let spread = match (entry["low"].as_f64(), entry["high"].as_f64()) {
            (Some(low), Some(high)) => significant((high - low) / 2.0),
            _ => String::new(),
        };
        let others = entry.as_object().into_iter().flatten();
        let others: Vec<String> = others
            .filter(|(key, _)| !IN_COLUMNS.contains(&key.as_str()))
            .map(|(key, value)| format!("{key}={}", shown(value)))
            .collect();
        let line = format!(
            "{name:<width$}  {measured:>12}  {spread:>8}  {}",
            others.join(" ")
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The names of the bars that were not met.
pub(crate) fn missed_bars(entries: &Map<String, Value>) -> Vec<&str> {
    let missed = entries
        .iter()
        .filter(|(_, entry)| entry["met"] == Value::Bool(false));
    missed.map(|(name, _)| name.as_str()).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .map_or_else(|| value.to_string(), significant),
        Value::String(text) => text.clone(),
        _ => value.to_string(),
    }
}

/// Three decimals for small numbers, none for large ones.
fn significant(number: f64) -> String {
    let decimals = match number.abs() {
        size if size < 10.0 => 3,
        size if size < 1000.0 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entries() -> Map<String, Value> {
        let mut entries = Map::new();
        entries.insert(
            "bar/a".to_owned(),
            json!({"value": 1.5, "at_most": 1.1, "met": false}),
        );
        entries.insert(
            "bar/b".to_owned(),
            json!({"value": 6.0, "at_least": 2.5, "met": true}),
        );
        entries.insert(
            "off/x16".to_owned(),
            json!({"ns": 0.1, "low": 0.08, "high": 0.12}),
        );
        entries.insert("size/hot".to_owned(), json!({"bytes": 8}));
        entries
    }

    #[test]
    fn an_entry_may_measure_something_else_than_time() {
        let text = table(&entries());
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "name measured ±",
            "bar/a 1.500 at_most=1.100 met=false",
            "bar/b 6.000 at_least=2.500 met=true",
            "off/x16 0.100 ns 0.020",
            "size/hot bytes=8",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_bar_is_missed_where_it_says_so_and_nothing_else_is_a_bar() {
        assert_eq!(missed_bars(&entries()), ["bar/a"]);
    }
}
