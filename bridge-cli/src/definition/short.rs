//! Short forms, and what they stand for:
//!
//! ```text
//! kprobe:SYM[+offs] ARGS        p SYM[+offs] ARGS           kretprobe:SYM ARGS    r SYM ARGS
//! fentry:SYM ARGS               f SYM ARGS                  fexit:SYM ARGS        f SYM%return ARGS
//! uprobe:PATH:SYM[+offs] ARGS   p PATH:SYM[+offs] ARGS      uretprobe:PATH:SYM    r PATH:SYM
//! ```
//! The symbol may be a pattern; then each function that it matches is one definition. A PATH without a
//! `/` is looked for where programs and libraries are, and may leave out `lib` and `.so`.

use super::knowledge::Knowledge;
use super::ours;
use super::rejection::{Code, Errno, Rejection};
use crate::glob::Glob;

/// The forms, with the letter of what they stand for and whether they are about the return.
const KERNEL: [(&str, char, bool); 4] = [
    ("kprobe:", 'p', false),
    ("kretprobe:", 'r', true),
    ("fentry:", 'f', false),
    ("fexit:", 'f', true),
];
const USER: [(&str, char); 2] = [("uprobe:", 'p'), ("uretprobe:", 'r')];

/// Whether a text begins with one of the forms.
pub fn is_short(text: &str) -> bool {
    KERNEL.iter().any(|(form, ..)| text.starts_with(form))
        || USER.iter().any(|(form, _)| text.starts_with(form))
}

/// The definitions, word by word, that a short form stands for.
pub(super) fn expand(
    words: &[String],
    knowledge: &Knowledge<'_>,
) -> Result<Vec<Vec<String>>, Rejection> {
    let refuse = |code, errno| Err(ours(words, errno, "", code));
    let first = &words[0];
    let arguments = &words[1..];
    let with = |letter: char, place: String| {
        let mut words = vec![letter.to_string(), place];
        words.extend_from_slice(arguments);
        words
    };
    let kernel = KERNEL
        .iter()
        .find_map(|(form, letter, is_return)| Some((first.strip_prefix(form)?, letter, is_return)));
    if let Some((symbol, &letter, &is_return)) = kernel {
        if symbol.is_empty() {
            return refuse(Code::BadShortForm, Errno::Einval);
        }
        let suffix = if letter == 'f' && is_return {
            "%return"
        } else {
            ""
        };
        let place = |symbol: &str| with(letter, format!("{symbol}{suffix}"));
        let pattern = Glob::new(symbol);
        if pattern.literal().is_some() {
            return Ok(vec![place(symbol)]);
        }
        let matching = knowledge.kernel.matching_functions(&pattern);
        if matching.is_empty() {
            return refuse(Code::NothingMatches, Errno::Enoent);
        }
        return Ok(matching.iter().map(|symbol| place(symbol)).collect());
    }
    let user = USER
        .iter()
        .find_map(|(form, letter)| Some((first.strip_prefix(form)?, *letter)));
    let Some((rest, letter)) = user else {
        return Ok(vec![words.to_vec()]);
    };
    let Some((path, symbol)) = split(rest) else {
        return refuse(Code::BadShortForm, Errno::Einval);
    };
    let path = match path.contains('/') {
        true => path.to_owned(),
        false => match knowledge.files.find(path) {
            Some(path) => path.display().to_string(),
            None => return refuse(Code::FileNotFound, Errno::Enoent),
        },
    };
    let pattern = Glob::new(symbol);
    if pattern.literal().is_some() {
        return Ok(vec![with(letter, format!("{path}:{symbol}"))]);
    }
    let binary = match knowledge.files.open(&path) {
        Ok(binary) => binary,
        Err(trouble) => {
            let (code, errno) = trouble.refusal();
            return refuse(code, errno);
        }
    };
    if let Some(why) = binary.unfit() {
        let mut rejection = ours(words, Errno::Einval, "", Code::NotElf);
        rejection.remarks.push(why);
        return Err(rejection);
    }
    let matching = binary.matching_functions(&pattern);
    if matching.is_empty() {
        return refuse(Code::NothingMatches, Errno::Enoent);
    }
    Ok(matching
        .iter()
        .map(|symbol| with(letter, format!("{path}:{symbol}")))
        .collect())
}

/// `PATH:SYMBOL`: at the last colon that is none of a `::`.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let at = (1..bytes.len()).rev().find(|&at| {
        bytes[at] == b':'
            && bytes[at - 1] != b':'
            && bytes.get(at + 1).is_some_and(|&next| next != b':')
    })?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbol_of_a_file_may_hold_double_colons() {
        assert_eq!(
            split("/bin/app:orders::charge"),
            Some(("/bin/app", "orders::charge"))
        );
        assert_eq!(split("/a:b/app:main+4"), Some(("/a:b/app", "main+4")));
        assert_eq!(split("libc:malloc"), Some(("libc", "malloc")));
        assert_eq!(split("libc"), None);
        assert_eq!(split("libc:"), None);
    }

    #[test]
    fn only_the_forms_are_short() {
        assert!(is_short("kprobe:vfs_read") && is_short("uretprobe:libc:malloc"));
        assert!(!is_short("p:kprobes/rd vfs_read") && !is_short("usdt:/bin/app:p:n"));
    }
}
