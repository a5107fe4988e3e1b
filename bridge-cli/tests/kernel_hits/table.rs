//! The table: what is probed, what runs then, and what the kernel printed of it.

use crate::kernel::Version;

const TABLE: &str = include_str!("../data/kernel_hits.txt");

/// Definitions, a command, and hits of theirs.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) definitions: Vec<Definition>,
    /// The words of the command.
    pub(crate) command: String,
    hits: Vec<(Versions, Hit)>,
    differences: Vec<(Versions, Difference)>,
    /// The first kernel that takes the definitions.
    since: Option<Version>,
    /// What the bridge says where it cannot attach them.
    refusals: Vec<(Versions, String)>,
}

#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) text: String,
    pub(crate) filter: Option<String>,
}

impl Definition {
    /// The name of its event.
    pub(crate) fn event(&self) -> &str {
        let (_, name) = self
            .text
            .split_once(':')
            .expect("definitions of the table have names");
        name.split(' ').next().unwrap_or(name)
    }
}

/// An event and its fields, as both print them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) event: String,
    pub(crate) fields: Vec<(String, String)>,
}

/// What ours and the kernel's print of a field, where that is not the same.
#[derive(Clone, Debug)]
struct Difference {
    /// Event and field; of any, if there is none.
    of: Option<(String, String)>,
    ours: String,
    kernel: String,
}

/// Kernels for which a line of the table holds.
#[derive(Debug, Clone, Copy)]
enum Versions {
    All,
    Before(Version),
    Since(Version),
}

impl Versions {
    fn have(self, version: Version) -> bool {
        match self {
            Versions::All => true,
            Versions::Before(first) => version < first,
            Versions::Since(first) => version >= first,
        }
    }
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut everywhere = Vec::new();
    for line in TABLE
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            let name = rest.to_owned();
            cases.push(Case {
                name,
                differences: everywhere.clone(),
                ..Case::default()
            });
            continue;
        }
        let (versions, text) = versions(rest);
        if word == "everywhere" {
            everywhere.push((versions, Difference::of_any(text)));
            continue;
        }
        let case = cases.last_mut().expect("the table has a case first");
        match word {
            "define" => case.definitions.push(Definition {
                text: rest.into(),
                filter: None,
            }),
            "filter" => {
                case.definitions.last_mut().expect("a definition").filter = Some(rest.into())
            }
            "run" => case.command = rest.into(),
            "hit" => case.hits.push((versions, Hit::parse(text))),
            "differs" => case.differences.push((versions, Difference::parse(text))),
            "since" => case.since = Some(Version::parse(rest).expect("a version")),
            "refused" => case.refusals.push((versions, text.to_owned())),
            _ => panic!("the table has a line {line:?}"),
        }
    }
    cases
}

/// `[<6.12] text`.
fn versions(text: &str) -> (Versions, &str) {
    let Some((inside, rest)) = text
        .strip_prefix('[')
        .and_then(|text| text.split_once("] "))
    else {
        return (Versions::All, text);
    };
    let version = |text: &str| Version::parse(text).expect("a version");
    let versions = match inside.strip_prefix('<') {
        Some(first) => Versions::Before(version(first)),
        None => Versions::Since(version(inside.trim_start_matches(">="))),
    };
    (versions, rest)
}

impl Case {
    /// Whether this kernel takes the definitions.
    pub(crate) fn is_taken(&self, version: Version) -> bool {
        self.since.is_none_or(|since| version >= since)
    }

    /// Whether it has a return probe.
    pub(crate) fn has_return(&self) -> bool {
        let mut texts = self.definitions.iter().map(|one| &one.text);
        texts.any(|text| text.starts_with('r') || text.contains("%return"))
    }

    /// What the bridge says if it cannot attach them on this kernel.
    pub(crate) fn refusal(&self, version: Version) -> Option<&str> {
        let mut here = self.refusals.iter();
        let found = here.find(|(versions, _)| versions.have(version));
        found.map(|(_, text)| text.as_str())
    }

    /// What is printed of some of the hits on this kernel, in order.
    pub(crate) fn hits(&self, version: Version) -> impl Iterator<Item = &Hit> {
        let here = self
            .hits
            .iter()
            .filter(move |(versions, _)| versions.have(version));
        here.map(|(_, hit)| hit)
    }

    /// Whether the table says that a field differs so on this kernel.
    pub(crate) fn is_known_to_differ(
        &self,
        version: Version,
        event: &str,
        field: &str,
        ours: &str,
        kernel: &str,
    ) -> bool {
        self.differences.iter().any(|(versions, difference)| {
            let of = difference.of.as_ref();
            versions.have(version)
                && of.is_none_or(|of| (of.0.as_str(), of.1.as_str()) == (event, field))
                && fits(&difference.ours, ours)
                && fits(&difference.kernel, kernel)
        })
    }
}

impl Hit {
    /// `EVENT NAME=VALUE …`; values may hold blanks within quotes and braces.
    pub(crate) fn parse(text: &str) -> Hit {
        let (event, rest) = text.split_once(' ').unwrap_or((text, ""));
        let event = event.to_owned();
        Hit {
            event,
            fields: fields(rest),
        }
    }

    /// `NAME=VALUE …`.
    pub(crate) fn values(&self) -> String {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        fields.collect::<Vec<_>>().join(" ")
    }

    /// Whether a hit that came is this one.
    pub(crate) fn is(&self, other: &Hit) -> bool {
        let same = |(one, other): (&(String, String), &(String, String))| {
            one.0 == other.0 && fits(&one.1, &other.1)
        };
        self.event == other.event
            && self.fields.len() == other.fields.len()
            && self.fields.iter().zip(&other.fields).all(same)
    }
}

impl Difference {
    /// `EVENT FIELD: OURS | KERNEL`.
    fn parse(text: &str) -> Difference {
        let parts = || {
            let (event, rest) = text.split_once(' ')?;
            let (field, rest) = rest.split_once(": ")?;
            Some((event.to_owned(), field.to_owned(), rest))
        };
        let (event, field, rest) = parts().expect("differs EVENT FIELD: OURS | KERNEL");
        Difference {
            of: Some((event, field)),
            ..Difference::of_any(rest)
        }
    }

    /// `OURS | KERNEL`.
    fn of_any(text: &str) -> Difference {
        let (ours, kernel) = text.split_once(" | ").expect("OURS | KERNEL");
        Difference {
            of: None,
            ours: ours.to_owned(),
            kernel: kernel.to_owned(),
        }
    }
}

/// The fields of a line.
fn fields(text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = text.trim_end();
    while let Some((name, after)) = rest.split_once('=') {
        let mut quote = None;
        let mut last = ' ';
        let end = after.find(|c: char| {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), _) if c == open && last != '\\' => quote = None,
                (None, ' ') => return true,
                _ => {}
            }
            last = if last == '\\' { ' ' } else { c };
            false
        });
        let (value, after) = after.split_at(end.unwrap_or(after.len()));
        fields.push((name.trim().to_owned(), value.to_owned()));
        rest = after;
    }
    fields
}

/// Whether a text fits a pattern in which `*` is any text.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let ends = (0..=rest.len()).filter(|&end| rest.is_char_boundary(end));
            ends.into_iter().any(|end| fits(after, &rest[end..]))
        }),
    }
}

/// What the table's form promises.
pub(crate) fn the_form_is_understood() {
    let hit = Hit::parse(r#"open file="a b \" c" at={"x y",<fault>} n=5"#);
    let field = |index: usize| (hit.fields[index].0.as_str(), hit.fields[index].1.as_str());
    assert_eq!(field(0), ("file", r#""a b \" c""#));
    assert_eq!(field(1), ("at", r#"{"x y",<fault>}"#));
    assert_eq!(field(2), ("n", "5"));
    assert!(fits("a*c*", "abcd") && !fits("a*c", "abcd") && fits("*", ""));
    assert!(Version::parse("6.1.0-50-cloud") < Version::parse("6.12"));
    for case in cases() {
        assert!(
            !case.definitions.is_empty() && !case.command.is_empty(),
            "{}",
            case.name
        );
        let known = |event: &str| case.definitions.iter().any(|one| one.event() == event);
        assert!(
            case.hits.iter().all(|(_, hit)| known(&hit.event)),
            "{}",
            case.name
        );
        let mut named = case.differences.iter().filter_map(|one| one.1.of.as_ref());
        assert!(named.all(|of| known(&of.0)), "{}", case.name);
    }
}
