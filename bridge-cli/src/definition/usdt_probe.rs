//! USDT probes of others with their arguments typed: what a note says of an argument is its size and its
//! place, not that it is the address of a text.
//!
//! ```text
//! usdt:PATH:PROVIDER:NAME arg0:string key=arg1 +8(arg2):u32       argN counts from 0, as list shows them
//! ```
//! It stands for one probe in the file for each place of the probe, since each has its arguments elsewhere:
//! `argN` is replaced by the register, the memory or the constant that the note names there.

use tracebraid_bpf::spec;

use super::knowledge::Knowledge;
use super::program::KernelRegister;
use super::rejection::{Code, Complaint, Errno, Rejection};
use super::{name, ours};
use crate::glob::Glob;

/// A place of a USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtSite {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where it is in the file.
    pub offset: u64,
    /// The file offset of its semaphore; 0 for none.
    pub counter: u64,
    /// Where its arguments are, and the names of their types (`u32`).
    pub arguments: Vec<(spec::Place, &'static str)>,
}

const FORM: &str = "usdt:";

/// Whether a definition is one of these.
pub(super) fn is_form(words: &[String]) -> bool {
    words.len() > 1 && words[0].starts_with(FORM)
}

/// Whether the text of a `-e` is one: with arguments behind it, where the name alone is a selector.
pub(super) fn has_arguments(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    words.next().is_some_and(|first| first.starts_with(FORM)) && words.next().is_some()
}

/// The definitions, word by word, that it stands for.
pub(super) fn expand(
    words: &[String],
    knowledge: &Knowledge<'_>,
) -> Result<Vec<Vec<String>>, Rejection> {
    let refuse = |code, errno, remark: Option<String>| {
        let mut rejection = ours(words, errno, "", code);
        rejection.remarks.extend(remark);
        Err(rejection)
    };
    let rest = &words[0][FORM.len()..];
    let parts = rest
        .rsplit_once(':')
        .and_then(|(rest, name)| Some((rest.rsplit_once(':')?, name)));
    let Some(((path, provider), named)) = parts else {
        return refuse(Code::BadShortForm, Errno::Einval, None);
    };
    if [path, provider, named].iter().any(|part| part.is_empty()) || path == "*" {
        let remark = "arguments are typed for the probes of one file: usdt:PATH:PROVIDER:NAME";
        return refuse(Code::BadShortForm, Errno::Einval, Some(remark.to_owned()));
    }
    let path = match path.contains('/') {
        true => path.to_owned(),
        false => match knowledge.files.find(path) {
            Some(path) => path.display().to_string(),
            None => return refuse(Code::FileNotFound, Errno::Enoent, None),
        },
    };
    let binary = match knowledge.files.open(&path) {
        Ok(binary) => binary,
        Err(trouble) => {
            let (code, errno) = trouble.refusal();
            return refuse(code, errno, None);
        }
    };
    if let Some(why) = binary.unfit() {
        return refuse(Code::NotElf, Errno::Einval, Some(why));
    }
    let sites = binary.usdt(&Glob::new(provider), &Glob::new(named));
    if sites.is_empty() {
        let remark = format!("bridge-cli list 'usdt:{path}:*:*' shows what there is");
        return refuse(Code::NoSuchUsdt, Errno::Enoent, Some(remark));
    }
    let mut definitions = Vec::with_capacity(sites.len());
    for site in &sites {
        let same =
            |other: &&UsdtSite| (&other.provider, &other.name) == (&site.provider, &site.name);
        // What a place says of types may differ; the event's types are one.
        let types = sites.iter().find(same).map(|first| &first.arguments);
        let mut definition = vec![
            format!("p:{}/{}", plain(&site.provider), plain(&site.name)),
            match site.counter {
                0 => format!("{path}:{:#x}", site.offset),
                counter => format!("{path}:{:#x}({counter:#x})", site.offset),
            },
        ];
        for (index, word) in words.iter().enumerate().skip(1) {
            match argument(word, site, types.unwrap_or(&site.arguments)) {
                Ok(argument) => definition.push(argument),
                Err(remark) => {
                    let mut rejection = ours(words, Errno::Einval, "", Code::BadUsdtArgument);
                    let before = words[..index].iter().map(|word| word.len() + 1).sum();
                    rejection.complaints = vec![Complaint {
                        code: Code::BadUsdtArgument,
                        column: before,
                    }];
                    rejection.remarks.push(remark);
                    return Err(rejection);
                }
            }
        }
        definitions.push(definition);
    }
    Ok(definitions)
}

/// A name as events may have it.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name::generated(&text.chars().map(plain).collect::<String>())
}

/// An argument with `argN` replaced.
fn argument(
    word: &str,
    site: &UsdtSite,
    types: &[(spec::Place, &'static str)],
) -> Result<String, String> {
    let (name, body) = match word.split_once('=') {
        Some((name, body)) => (Some(name), body),
        None => (None, word),
    };
    let (expression, type_name) = match body.rsplit_once(':') {
        Some((expression, type_name)) => (expression, Some(type_name)),
        None => (body, None),
    };
    let bare = expression.strip_prefix('$').unwrap_or(expression);
    let Some(number) = number(bare) else {
        let expression = replaced(expression, site)?;
        let type_name = type_name.map_or(String::new(), |name| format!(":{name}"));
        let name = name.map_or(String::new(), |name| format!("{name}="));
        return Ok(format!("{name}{expression}{type_name}"));
    };
    let fetched = fetch(number, site)?;
    let known = types.get(number).map_or("u64", |(_, name)| name);
    let known = known.replace('i', "s").replace('f', "x");
    let name = name.map_or_else(|| format!("arg{number}"), str::to_owned);
    Ok(match type_name {
        None => format!("{name}={fetched}:{known}"),
        // The argument is the address of the text, or of the first element.
        Some(type_name) if type_name.contains("string") || type_name.contains('[') => {
            format!("{name}=+0({fetched}):{type_name}")
        }
        Some(type_name) => format!("{name}={fetched}:{type_name}"),
    })
}

/// N of `argN`.
fn number(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("arg")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// An expression with every `argN` in it replaced.
fn replaced(expression: &str, site: &UsdtSite) -> Result<String, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let mut out = String::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let (word, behind) = word.split_at(end);
        out.push_str(before);
        match number(word.strip_prefix('$').unwrap_or(word)) {
            Some(number) => out.push_str(&fetch(number, site)?),
            None => out.push_str(word),
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// What fetches an argument there.
fn fetch(number: usize, site: &UsdtSite) -> Result<String, String> {
    let Some((place, _)) = site.arguments.get(number) else {
        let full = format!("{}:{}", site.provider, site.name);
        return Err(match site.arguments.len() {
            0 => format!("{full} has no arguments"),
            1 => format!("{full} has one argument, arg0"),
            count => format!("{full} has {count} arguments, arg0 to arg{}", count - 1),
        });
    };
    let at = |why: &str| Err(format!("arg{number} at offset {:#x}: {why}", site.offset));
    let register = |register| KernelRegister::General(register).name();
    match place {
        spec::Place::Constant(value) => Ok(format!("\\{value}")),
        spec::Place::Register {
            register: own,
            high: false,
        } => Ok(format!("%{}", register(*own))),
        spec::Place::Memory {
            base: Some(base),
            index: None,
            displacement,
        } => Ok(format!("{displacement:+}(%{})", register(*base))),
        spec::Place::ProbeRelative {
            displacement,
            address_only: false,
        } => Ok(format!(
            "@+{}",
            site.offset.wrapping_add_signed(*displacement)
        )),
        spec::Place::Unsupported(why) => at(why),
        _ => at("the language of definitions cannot say where it is; leave it out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracebraid_bpf::spec::{Place, Register};

    fn site() -> UsdtSite {
        let memory = |displacement| Place::Memory {
            base: Some(Register::Rbp),
            index: None,
            displacement,
        };
        let register = |register| Place::Register {
            register,
            high: false,
        };
        UsdtSite {
            provider: "shop".to_owned(),
            name: "sold".to_owned(),
            offset: 0x1000,
            counter: 0,
            arguments: vec![
                (register(Register::Rdi), "u64"),
                (memory(-8), "i32"),
                (Place::Constant(-5), "i8"),
                (
                    Place::ProbeRelative {
                        displacement: 0x10,
                        address_only: false,
                    },
                    "u16",
                ),
                (Place::Unsupported("an SSE register".to_owned()), "f64"),
            ],
        }
    }

    #[test]
    fn arguments_are_replaced_by_where_the_note_says_that_they_are() {
        let site = site();
        let read = |word: &str| argument(word, &site, &site.arguments);
        for (word, expected) in [
            ("arg0", "arg0=%di:u64"),
            ("arg0:string", "arg0=+0(%di):string"),
            ("text=$arg1:string", "text=+0(-8(%bp)):string"),
            ("arg1", "arg1=-8(%bp):s32"),
            ("arg2:x8", "arg2=\\-5:x8"),
            ("arg3", "arg3=@+4112:u16"),
            ("+8(arg0):u32", "+8(%di):u32"),
            ("b=+0(+8(arg1)):u8[4]", "b=+0(+8(-8(%bp))):u8[4]"),
            ("$comm", "$comm"),
            ("args=%si", "args=%si"),
        ] {
            assert_eq!(read(word).as_deref(), Ok(expected), "{word}");
        }
        let wrong = read("arg5").unwrap_err();
        assert_eq!(wrong, "shop:sold has 5 arguments, arg0 to arg4");
        assert_eq!(
            read("arg4").unwrap_err(),
            "arg4 at offset 0x1000: an SSE register"
        );
    }
}
