//! What goes wrong in definitions that people write, and what nobody would write: characters that are
//! missing, doubled, swapped or strange, numbers at the ends of their ranges, words that are too many or too
//! long, lines that contradict the one before.

use crate::grammar::Made;
use crate::random::Random;

const STRANGE: [&str; 44] = [
    " ", ":", "/", "=", "+", "-", "(", ")", "[", "]", "%", "$", "@", "\\", "\"", "#", ".", ",",
    "*", "?", ">", "0", "x", "9", "a", "z", "A", "_", "\t", "\r", "\x0b", "\x0c", ";", "!", "~",
    "é", "\u{a0}", "あ", "'", "&", "|", "u", "b", "\x7f",
];

const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "7",
    "8",
    "08",
    "010",
    "63",
    "64",
    "65",
    "128",
    "255",
    "256",
    "2048",
    "2049",
    "4095",
    "4096",
    "4097",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0x",
];

/// Changes what was made.
pub(crate) fn mutate(made: &mut Made, random: &mut Random) {
    for _ in 0..random.weighted(&[(70, 1), (20, 2), (10, 4)]) {
        let at = random.below(made.lines.len());
        let line = &mut made.lines[at];
        *line = changed(line, random);
    }
}

/// Adds lines that stand beside the first one.
pub(crate) fn beside(made: &mut Made, random: &mut Random) {
    for _ in 0..random.between(1, 3) {
        let of = made.lines[random.below(made.lines.len())].clone();
        let line = match random.below(10) {
            0 => of,
            1..=3 => with_other_place(&of, random),
            4 | 5 => changed(&of, random),
            6 => {
                let mut words: Vec<&str> = of.split(' ').collect();
                if words.len() > 2 {
                    words.pop();
                }
                words.join(" ")
            }
            7 => of.replacen('p', "r", 1),
            _ => taken_back(&of, random),
        };
        made.lines.push(line);
    }
}

fn with_other_place(line: &str, random: &mut Random) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if let Some(place) = words.get_mut(1) {
        match place.contains('/') {
            true => place.push_str(random.text(&["0", "(0x3010)", "%return"])),
            false => {
                *place = (random.text(&["vfs_write", "vfs_read", "vfs_read+4", "vfs_read%return"]))
                    .to_owned()
            }
        }
    }
    words.join(" ")
}

fn taken_back(line: &str, random: &mut Random) -> String {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let name = first.split_once(':').map_or("", |(_, name)| name);
    let group = name.split_once('/').map_or("kprobes", |(group, _)| group);
    let event = name.rsplit_once('/').map_or(name, |(_, event)| event);
    match random.below(10) {
        0 | 1 => format!("-:{name}"),
        2 => format!("-:{event}"),
        3 => format!("-:{group}/"),
        4 => format!("-:{group}/{event}"),
        5 => format!("-:{name} {rest}"),
        6 => format!("!{line}"),
        7 => (random.text(&["-:", "-", "-x", "-:no_such", "-:/x", "-:g/", "-:*", " -:ev"]))
            .to_owned(),
        8 => format!("-:{name} {}", rest.split(' ').next().unwrap_or("")),
        _ => format!("-{line}"),
    }
}

/// Positions between characters.
fn position(line: &str, random: &mut Random) -> usize {
    let positions: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
    match positions.is_empty() {
        true => 0,
        false => *random.one(&positions),
    }
}

fn changed(line: &str, random: &mut Random) -> String {
    let at = position(line, random);
    let (before, rest) = line.split_at(at);
    let mut characters = rest.chars();
    let Some(here) = characters.next() else {
        return STRANGE[random.below(STRANGE.len())].to_owned();
    };
    let after = characters.as_str();
    let strange = random.text(&STRANGE);
    match random.below(22) {
        0..=3 => format!("{before}{after}"),
        4 | 5 => format!("{before}{here}{here}{after}"),
        6 | 7 => match after.chars().next() {
            Some(next) => format!("{before}{next}{here}{}", &after[next.len_utf8()..]),
            None => format!("{before}{after}"),
        },
        8..=10 => format!("{before}{strange}{after}"),
        11..=13 => format!("{before}{strange}{rest}"),
        14 | 15 => number(line, random),
        16 => word(line, random),
        17 => longer(line, random),
        18 => {
            let other = match here.is_ascii_lowercase() {
                true => here.to_ascii_uppercase(),
                false => here.to_ascii_lowercase(),
            };
            format!("{before}{other}{after}")
        }
        19 => before.to_owned(),
        20 => {
            let ends = ["  ", "\t", " #", "#x", " ", "\r", "   \t "];
            match random.below(3) {
                0 => format!("{}{line}", random.text(&ends)),
                1 => format!("{line}{}", random.text(&ends)),
                _ => line.replacen(' ', random.text(&ends), 1),
            }
        }
        _ => {
            let end = position(rest, random);
            format!("{before}{}{rest}", &rest[..end])
        }
    }
}

/// Another number in the place of one.
fn number(line: &str, random: &mut Random) -> String {
    let bytes = line.as_bytes();
    let is_start = |&at: &usize| {
        bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_alphanumeric())
    };
    let starts: Vec<usize> = (0..bytes.len()).filter(is_start).collect();
    if starts.is_empty() {
        return format!("{line}{}", random.text(&NUMBERS));
    }
    let start = *random.one(&starts);
    let length = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    format!(
        "{}{}{}",
        &line[..start],
        random.text(&NUMBERS),
        &line[start + length..]
    )
}

/// A word that is missing, doubled, elsewhere, or there many times.
fn word(line: &str, random: &mut Random) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let at = random.below(words.len());
    match random.below(6) {
        0 => {
            words.remove(at);
        }
        1 | 2 => words.insert(at, words[at].clone()),
        3 => {
            let other = random.below(words.len());
            words.swap(at, other);
        }
        4 => {
            let last = words[words.len() - 1].clone();
            let body = last.rsplit('=').next().unwrap_or(&last).to_owned();
            let many = *random.one(&[20, 60, 120, 126, 127, 128, 129, 200]);
            words.extend((0..many).map(|index| match random.percent(50) {
                true => format!("n{index}={body}"),
                false => body.clone(),
            }));
        }
        _ => {
            let many = *random.one(&[4000, 4080, 4090, 4094, 4095, 4096, 5000]);
            let missing = usize::saturating_sub(many, line.len());
            words.push(format!("#{}", "x".repeat(missing)));
        }
    }
    words.join(" ")
}

/// A name that is made longer.
fn longer(line: &str, random: &mut Random) -> String {
    let bytes = line.as_bytes();
    let is_inside = |&at: &usize| bytes[at].is_ascii_alphabetic();
    let places: Vec<usize> = (0..bytes.len()).filter(is_inside).collect();
    if places.is_empty() {
        return line.to_owned();
    }
    let at = *random.one(&places);
    let many = *random.one(&[
        20, 28, 30, 31, 32, 33, 40, 50, 57, 60, 61, 62, 63, 64, 100, 300,
    ]);
    let more = line[at..=at].repeat(many);
    format!("{}{more}{}", &line[..at], &line[at..])
}
