//! Random filters over random events: evaluated here, and by an evaluator that walks the tree of
//! what was meant, in wide arithmetic and with a glob that tries everything.

use proptest::prelude::*;
use tracebraid_filter::{Field, Fields, Filter, Type, Value, Values};

const TYPES: [(&str, Type); 10] = [
    ("u8v", Type::Unsigned { bytes: 1 }),
    ("u16v", Type::Unsigned { bytes: 2 }),
    ("u64v", Type::Unsigned { bytes: 8 }),
    ("s8v", Type::Signed { bytes: 1 }),
    ("s32v", Type::Signed { bytes: 4 }),
    ("s64v", Type::Signed { bytes: 8 }),
    ("wide", Type::Unsigned { bytes: 16 }),
    ("deep", Type::Signed { bytes: 16 }),
    ("ratio", Type::Float { bytes: 8 }),
    ("text", Type::Text),
];

struct Event;

impl Fields for Event {
    fn field(&self, name: &str) -> Option<Field> {
        let index = TYPES.iter().position(|(known, _)| *known == name)?;
        Some(Field {
            index: index as u16,
            kind: TYPES[index].1,
        })
    }
}

/// What the fields of an event hold: a number of any sign and size is cut to each field's width.
#[derive(Clone, Debug)]
struct Held {
    numbers: Vec<Option<i128>>,
    ratio: f64,
    text: Option<String>,
}

impl Values for Held {
    fn value(&self, index: u16) -> Value<'_> {
        let index = usize::from(index);
        match TYPES[index].1 {
            Type::Text => self
                .text
                .as_ref()
                .map_or(Value::Missing, |text| Value::Text(text.as_bytes())),
            Type::Float { .. } => Value::Float(self.ratio),
            kind => match self.numbers[index].map(|number| cut(kind, number)) {
                None => Value::Missing,
                Some(number) => match kind {
                    Type::Signed { bytes: 16 } => Value::SignedWide(number as i128),
                    Type::Unsigned { bytes: 16 } => Value::UnsignedWide(number),
                    Type::Signed { .. } => Value::Signed(number as i64),
                    _ => Value::Unsigned(number as u64),
                },
            },
        }
    }

    fn thread(&self) -> Option<i32> {
        self.numbers[0].map(|number| number as i32)
    }

    fn cpu(&self) -> Option<u32> {
        self.numbers[1].map(|number| number as u32 % 8)
    }

    fn comm(&self) -> Option<[u8; 16]> {
        let text = self.text.as_ref()?;
        let mut comm = [0; 16];
        for (place, byte) in comm[..15].iter_mut().zip(text.bytes()) {
            *place = byte;
        }
        Some(comm)
    }
}

/// Cuts a number to a type's bytes, as a bit pattern of 128 bits.
fn cut(kind: Type, number: i128) -> u128 {
    match kind {
        Type::Signed { bytes } => {
            let away = 128 - 8 * u32::from(bytes);
            (number << away >> away) as u128
        }
        Type::Unsigned { bytes } => {
            let away = 128 - 8 * u32::from(bytes);
            (number as u128) << away >> away
        }
        _ => unreachable!(),
    }
}

/// What a filter means.
#[derive(Clone, Debug)]
enum Meaning {
    Number(usize, &'static str, i128),
    Ratio(&'static str, f64),
    Text(&'static str, &'static str, String),
    Thread(&'static str, i32),
    Cpus(&'static str, Vec<u32>),
    Not(Box<Meaning>),
    And(Box<Meaning>, Box<Meaning>),
    Or(Box<Meaning>, Box<Meaning>),
}

fn compared<T: PartialOrd>(sign: &str, found: T, wanted: T) -> bool {
    match sign {
        "==" => found == wanted,
        "!=" => found != wanted,
        "<" => found < wanted,
        "<=" => found <= wanted,
        ">" => found > wanted,
        ">=" => found >= wanted,
        _ => unreachable!(),
    }
}

impl Meaning {
    fn holds(&self, held: &Held) -> bool {
        match self {
            Meaning::Number(index, sign, wanted) => {
                let kind = TYPES[*index].1;
                let Some(found) = held.numbers[*index] else {
                    return false;
                };
                let (found, wanted) = (cut(kind, found), cut(kind, *wanted));
                match (*sign, kind) {
                    ("&", _) => found & wanted != 0,
                    (sign, Type::Signed { .. }) => compared(sign, found as i128, wanted as i128),
                    (sign, _) => compared(sign, found, wanted),
                }
            }
            Meaning::Ratio(sign, wanted) => compared(sign, held.ratio, *wanted),
            Meaning::Text(field, sign, wanted) => {
                let Some(text) = &held.text else { return false };
                let text = if *field == "comm" {
                    &text[..text.len().min(15)]
                } else {
                    text
                };
                match *sign {
                    "==" => text == wanted,
                    "!=" => text != wanted,
                    _ => match wanted.strip_prefix('!') {
                        Some(pattern) => !globbed(pattern, text),
                        None => globbed(wanted, text),
                    },
                }
            }
            Meaning::Thread(sign, wanted) => held
                .thread()
                .is_some_and(|thread| compared(sign, thread, *wanted)),
            Meaning::Cpus(sign, cpus) => held.cpu().is_some_and(|cpu| {
                let only = cpus.iter().all(|&other| other == cpus[0]);
                let within = cpus.contains(&cpu);
                match *sign {
                    "&" => within,
                    "==" => within && only,
                    _ => !(within && only),
                }
            }),
            Meaning::Not(inner) => !inner.holds(held),
            Meaning::And(left, right) => left.holds(held) & right.holds(held),
            Meaning::Or(left, right) => left.holds(held) | right.holds(held),
        }
    }

    /// Writes it down; `noise` decides about blanks and parentheses that change nothing.
    fn write(&self, noise: &mut dyn Iterator<Item = u8>, out: &mut String) {
        let blank = |noise: &mut dyn Iterator<Item = u8>| match noise.next().unwrap_or(0) % 4 {
            0 => "",
            1 => "  ",
            2 => "\t",
            _ => " ",
        };
        let extra = noise.next().unwrap_or(0).is_multiple_of(5);
        if extra {
            out.push('(');
            out.push_str(blank(noise));
        }
        match self {
            Meaning::Number(index, sign, number) => {
                let name = TYPES[*index].0;
                let number = match noise.next().unwrap_or(0) % 3 {
                    0 if *number >= 0 => format!("{number:#x}"),
                    1 if *number >= 0 => format!("0{number:o}"),
                    _ => number.to_string(),
                };
                *out += &format!("{name}{}{sign}{}{number}", blank(noise), blank(noise));
            }
            Meaning::Ratio(sign, wanted) => *out += &format!("ratio{sign}{wanted:?}"),
            Meaning::Text(field, sign, text) => {
                let quote = if text.contains('"') { '\'' } else { '"' };
                *out += &format!("{field} {sign}{}{quote}{text}{quote}", blank(noise));
            }
            Meaning::Thread(sign, wanted) => *out += &format!("common_pid {sign} {wanted}"),
            Meaning::Cpus(sign, cpus) => {
                let list: Vec<_> = cpus.iter().map(u32::to_string).collect();
                *out += &format!("cpu{sign}CPUS{{{}}}", list.join(","));
            }
            Meaning::Not(inner) => {
                out.push('!');
                inner.enclosed(noise, out);
            }
            Meaning::And(left, right) => {
                for (side, sign) in [(left, "&&"), (right, "")] {
                    match **side {
                        Meaning::Or(..) => side.enclosed(noise, out),
                        _ => side.write(noise, out),
                    }
                    *out += &format!("{}{sign}{}", blank(noise), blank(noise));
                }
            }
            Meaning::Or(left, right) => {
                left.write(noise, out);
                *out += &format!("{}||{}", blank(noise), blank(noise));
                right.write(noise, out);
            }
        }
        if extra {
            out.push(')');
        }
    }

    fn enclosed(&self, noise: &mut dyn Iterator<Item = u8>, out: &mut String) {
        out.push('(');
        self.write(noise, out);
        out.push(')');
    }
}

/// Whether a pattern of plain characters, `*`, `?`, `[…]` and `\` matches, by trying every way.
fn globbed(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    tried(&pattern, &text)
}

fn tried(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|taken| tried(rest, &text[taken..])),
        ['?', rest @ ..] => !text.is_empty() && tried(rest, &text[1..]),
        ['\\', wanted, rest @ ..] => text.first() == Some(wanted) && tried(rest, &text[1..]),
        ['[', '!', member, ']', rest @ ..] => {
            text.first().is_some_and(|found| found != member) && tried(rest, &text[1..])
        }
        ['[', low, '-', high, ']', rest @ ..] => {
            text.first()
                .is_some_and(|found| low <= found && found <= high)
                && tried(rest, &text[1..])
        }
        [wanted, rest @ ..] => text.first() == Some(wanted) && tried(rest, &text[1..]),
    }
}

fn number() -> impl Strategy<Value = i128> {
    prop_oneof![
        -3_i128..300,
        any::<i8>().prop_map(i128::from),
        any::<i32>().prop_map(i128::from),
        any::<i64>().prop_map(i128::from),
        any::<u64>().prop_map(i128::from),
        any::<i128>(),
        Just(i128::from(i64::MIN)),
        Just(i128::from(i64::MAX) + 1),
        Just(i128::from(u64::MAX)),
    ]
}

fn order() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["==", "!=", "<", "<=", ">", ">="][..])
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(
        &[
            "a", "b", "ö", "ab", "*", "?", "[a-b]", "[!a]", "\\*", "*", "'",
        ][..],
    );
    ("!?", prop::collection::vec(part, 0..6))
        .prop_map(|(negated, parts)| format!("{negated}{}", parts.concat()))
}

/// Only what can be written: a number in the range of the field's sign.
fn comparison() -> impl Strategy<Value = Meaning> {
    let sign = prop_oneof![4 => order(), 1 => Just("&")];
    prop_oneof![
        5 => (0_usize..8, sign, number()).prop_map(|(index, sign, number)| {
            let number = match TYPES[index].1 {
                Type::Signed { bytes: 16 } => number,
                Type::Signed { .. } => i128::from(number as i64),
                Type::Unsigned { bytes: 16 } => number & i128::MAX,
                _ => i128::from(number as u64),
            };
            Meaning::Number(index, sign, number)
        }),
        1 => (order(), -9_i32..9).prop_map(|(sign, tenths)| {
            Meaning::Ratio(sign, f64::from(tenths) / 10.0)
        }),
        3 => (
            prop::sample::select(&["text", "comm"][..]),
            prop::sample::select(&["==", "!=", "~", "~", "~"][..]),
            pattern(),
        )
            .prop_map(|(field, sign, text)| Meaning::Text(field, sign, text)),
        1 => (order(), -5_i32..300).prop_map(|(sign, wanted)| Meaning::Thread(sign, wanted)),
        1 => (
            prop::sample::select(&["&", "==", "!="][..]),
            prop::collection::vec(0_u32..8, 1..4),
        )
            .prop_map(|(sign, cpus)| Meaning::Cpus(sign, cpus)),
    ]
}

fn meaning() -> impl Strategy<Value = Meaning> {
    comparison().prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|inner| Meaning::Not(Box::new(inner))),
            (inner.clone(), inner.clone())
                .prop_map(|(left, right)| Meaning::And(Box::new(left), Box::new(right))),
            (inner.clone(), inner)
                .prop_map(|(left, right)| Meaning::Or(Box::new(left), Box::new(right))),
        ]
    })
}

fn held() -> impl Strategy<Value = Held> {
    (
        prop::collection::vec(prop::option::weighted(0.9, number()), 10),
        -9_i32..9,
        prop::option::weighted(0.9, "[abö*']{0,6}"),
    )
        .prop_map(|(numbers, tenths, text)| Held {
            numbers,
            ratio: f64::from(tenths) / 10.0,
            text,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_passes_what_it_means(
        meaning in meaning(),
        noise in prop::collection::vec(any::<u8>(), 200),
        events in prop::collection::vec(held(), 8),
    ) {
        let mut text = String::new();
        meaning.write(&mut noise.into_iter(), &mut text);
        let filter = Filter::parse(&text, &Event).unwrap();
        let printed = filter.to_string();
        let again = Filter::parse(&printed, &Event).unwrap();
        prop_assert_eq!(again.to_string(), &printed[..]);
        for event in &events {
            prop_assert_eq!(filter.matches(event), meaning.holds(event), "{} {:?}", text, event);
            prop_assert_eq!(again.matches(event), meaning.holds(event), "{}", printed);
        }
    }
}
