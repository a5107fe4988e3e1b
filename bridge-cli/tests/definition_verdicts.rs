//! Definitions are judged as Linux 7.2 judged them: `data/probe_definitions.tsv` holds what it said,
//! `data/kernel_7_2.txt` what of that kernel they touch.

mod table_kernel;

use bridge::definition::knowledge::{Kernel, Knowledge};
use bridge::definition::{Definition, Kind, Language, Line, Reader};
use table_kernel::{TableFiles, TableKernel};

const KERNEL: &str = include_str!("data/kernel_7_2.txt");
const DEFINITIONS: &str = include_str!("data/probe_definitions.tsv");
const FIELDS: &str = include_str!("data/probe_fields.tsv");

/// Where we answer otherwise on purpose; `docs/probes.md` has the reasons.
const ON_PURPOSE: [(&str, &str); 5] = [
    ("U011", "symbols in files are taken"),
    ("O098", "synthetic events are not supported"),
    ("O100", "synthetic events are not supported"),
    ("O102", "synthetic events are not supported"),
    ("O104", "synthetic events are not supported"),
];

struct Row {
    number: &'static str,
    definition: String,
    language: Language,
    before: Vec<String>,
    verdict: &'static str,
    listing: &'static str,
}

fn unfolded(text: &str, kernel: &TableKernel) -> String {
    let mut text = text
        .replace("<TAB>", "\t")
        .replace("<NL>", "\n")
        .replace("<CR>", "\r");
    while let Some(start) = text.find("<ADDR:") {
        let end = start + text[start..].find('>').unwrap();
        let inner = &text[start + 6..end];
        let (symbol, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        let address = kernel.symbols(None, symbol)[0].address + offset.parse::<u64>().unwrap();
        text = format!("{}{address:#x}{}", &text[..start], &text[end + 1..]);
    }
    while let Some(start) = text.find("<REP:") {
        let end = start + text[start..].find('>').unwrap();
        let (times, what) = text[start + 5..end].split_once(':').unwrap();
        let many = what.repeat(times.parse().unwrap());
        text = format!("{}{many}{}", &text[..start], &text[end + 1..]);
    }
    text
}

fn rows(kernel: &TableKernel) -> Vec<Row> {
    let lines = DEFINITIONS.lines().filter(|line| !line.starts_with("# "));
    let row = |line: &'static str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [number, definition, file, before, verdict, listing] = columns[..] else {
            panic!("not six columns: {line}");
        };
        Row {
            number,
            definition: unfolded(definition, kernel),
            language: match file {
                "kprobe_events" => Language::Kprobe,
                "uprobe_events" => Language::Uprobe,
                _ => Language::Dynamic,
            },
            before: before
                .split(" ;; ")
                .filter(|text| !text.is_empty() && !text.starts_with('!'))
                .map(|text| unfolded(text, kernel))
                .collect(),
            verdict,
            listing,
        }
    };
    lines.map(row).collect()
}

fn files() -> TableFiles {
    let files = [
        ("/bin/utgt", 1),
        ("../../../bin/utgt", 1),
        ("/bin/link", 1),
        ("/tmp/lib-x.so_1", 2),
        ("/tmp/l+b", 3),
    ];
    TableFiles::of(&files, &["/bin", "/dev/null"])
}

/// The verdict on a row, and what stands after it.
fn judge(row: &Row, kernel: &TableKernel) -> (String, Vec<Definition>) {
    let files = files();
    let knowledge = Knowledge {
        kernel,
        files: &files,
    };
    let mut all = Reader::new(knowledge, Language::Dynamic);
    for text in &row.before {
        for (_, line) in all.read(text) {
            assert!(
                !matches!(line, Line::Refused(_)),
                "{}: {line:?}",
                row.number
            );
        }
    }
    let mut reader = all.with_language(row.language);
    let mut verdict = "ok".to_owned();
    for (_, line) in reader.read(&row.definition) {
        if let Line::Refused(rejection) = line {
            verdict = rejection.to_string();
        }
    }
    (verdict, reader.finish().into_definitions())
}

fn assert_none_differ(wrong: &[String]) {
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} differ\n{}", wrong.join("\n"));
}

#[test]
fn every_definition_gets_the_verdict_and_the_column_that_linux_7_2_gave_it() {
    let kernel = TableKernel::parse(KERNEL);
    let mut wrong = Vec::new();
    let rows = rows(&kernel);
    assert_eq!(rows.len(), 446);
    for row in rows {
        let (verdict, _) = judge(&row, &kernel);
        let on_purpose = ON_PURPOSE.iter().any(|(number, _)| *number == row.number);
        if (verdict == row.verdict) == on_purpose {
            wrong.push(format!(
                "{} {:.80}\n  kernel {}\n  here   {verdict}",
                row.number, row.definition, row.verdict
            ));
        }
    }
    assert_none_differ(&wrong);
}

#[test]
fn what_was_accepted_is_listed_as_linux_7_2_lists_it() {
    let kernel = TableKernel::parse(KERNEL);
    let mut wrong = Vec::new();
    for row in rows(&kernel) {
        // Addresses are hashed in the kernel's listing, long ones were cut in the table.
        let cannot_be_compared =
            row.listing.ends_with('…') || row.definition.contains("0xffffffff8180");
        let on_purpose = ON_PURPOSE.iter().any(|(number, _)| *number == row.number);
        if row.verdict != "ok" || row.listing.is_empty() || cannot_be_compared || on_purpose {
            continue;
        }
        let (_, definitions) = judge(&row, &kernel);
        let listed: Vec<String> = definitions.iter().map(Definition::to_string).collect();
        // The kernel's own choice of MAXACTIVE, which has no effect here, stands behind the r.
        let expected: Vec<String> = row
            .listing
            .split(" | ")
            .map(|line| line.replacen("r10:", "r:", 1).replacen("r16:", "r:", 1))
            .collect();
        if listed != expected {
            wrong.push(format!(
                "{}\n  kernel {expected:?}\n  here   {listed:?}",
                row.number
            ));
        }
    }
    assert_none_differ(&wrong);
}

#[test]
fn records_have_the_fields_and_the_print_fmt_that_linux_7_2_gave_them() {
    let kernel = TableKernel::parse(KERNEL);
    let rows = rows(&kernel);
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in FIELDS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [number, event, fields, print_fmt] = columns[..] else {
            panic!("not four columns: {line}");
        };
        if ON_PURPOSE.iter().any(|(other, _)| *other == number) {
            continue;
        }
        let row = rows.iter().find(|row| row.number == number).unwrap();
        let (_, definitions) = judge(row, &kernel);
        let Some(definition) = definitions
            .iter()
            .find(|one| format!("{}/{}", one.group, one.event) == event)
        else {
            wrong.push(format!("{number}: no event {event}"));
            continue;
        };
        let own: Vec<String> = definition
            .fields()
            .iter()
            .map(|field| {
                let signed = u8::from(field.signed);
                let (name, offset, size) = (&field.declaration, field.offset, field.size);
                format!("{name}; offset:{offset}; size:{size}; signed:{signed};")
            })
            .collect();
        compared += 1;
        if own.join(" | ") != fields || definition.print_fmt() != print_fmt {
            wrong.push(format!(
                "{number}\n  kernel {fields}\n         {print_fmt}\n  here   {}\n         {}",
                own.join(" | "),
                definition.print_fmt()
            ));
        }
    }
    assert!(compared > 200, "{compared} compared");
    assert_none_differ(&wrong);
}

#[test]
fn the_kind_of_a_probe_follows_from_its_place() {
    let kernel = TableKernel::parse(KERNEL);
    let files = files();
    let knowledge = Knowledge {
        kernel: &kernel,
        files: &files,
    };
    let mut reader = Reader::new(knowledge, Language::Dynamic);
    let text = "p vfs_read\np /bin/utgt:main\nf vfs_read\nt sched_switch\ne sched.sched_switch\n";
    let kinds: Vec<Kind> = reader
        .read(text)
        .into_iter()
        .filter_map(|(_, line)| match line {
            Line::Defined(definition) => Some(definition.kind),
            _ => None,
        })
        .collect();
    assert_eq!(
        kinds,
        [
            Kind::Kernel,
            Kind::File,
            Kind::Function,
            Kind::Tracepoint,
            Kind::Event
        ]
    );
}

mod never_a_panic {
    use super::*;
    use proptest::prelude::*;

    /// Pieces that definitions are made of, good and bad.
    fn piece() -> impl Strategy<Value = String> {
        let pieces = [
            "p",
            "r",
            "f",
            "t",
            "e",
            "-",
            ":",
            "/",
            "a",
            "vfs_read",
            " ",
            "+0(",
            ")",
            "%di",
            "%return",
            "$arg1",
            "$arg*",
            "$retval",
            "$stack",
            "$comm",
            "@jiffies",
            "\\5",
            "\\\"x\"",
            "[4]",
            ":u8",
            ":b3@1/8",
            ":string",
            ":%pd",
            "=",
            "count",
            "->",
            ".",
            "file",
            "/bin/utgt:",
            "0x1615",
            "(",
            "é",
            "\t",
            "kprobe:",
            "uprobe:",
            "*",
            "sched.sched_switch",
            " if ",
            "#",
            "18446744073709551616",
        ];
        proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned)
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_or_refused_with_a_caret_in_or_behind_it(
            pieces in proptest::collection::vec(piece(), 0..24),
        ) {
            let kernel = TableKernel::parse(KERNEL);
            let files = files();
            let knowledge = Knowledge { kernel: &kernel, files: &files };
            let mut reader = Reader::new(knowledge, Language::Dynamic);
            for (_, line) in reader.read(&pieces.concat()) {
                if let Line::Refused(rejection) = line {
                    prop_assert!(!rejection.render().is_empty());
                }
            }
            for definition in reader.finish().definitions() {
                prop_assert!(!definition.to_string().is_empty() && !definition.print_fmt().is_empty());
            }
        }
    }
}
