//! What is said of definitions, by whichever of the two judges: a verdict on each line, and what stands after
//! the last one.

use bridge::definition::knowledge::Knowledge;
use bridge::definition::{Definition, Language, Line, Reader};

use crate::grammar::Made;

/// See the module's page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Of each line `ok`, or the error number with what the log says and the column.
    pub(crate) verdicts: Vec<String>,
    /// The listing.
    pub(crate) listing: Vec<String>,
    /// Of each event its name, its fields and its print fmt, as the format file has them.
    pub(crate) formats: Vec<(String, String)>,
}

/// What the bridge says.
pub(crate) fn ours(made: &Made, knowledge: Knowledge<'_>) -> (Answer, Vec<Definition>) {
    let language = match made.file {
        "kprobe_events" => Language::Kprobe,
        "uprobe_events" => Language::Uprobe,
        _ => Language::Dynamic,
    };
    let mut reader = Reader::new(knowledge, language);
    let mut answer = Answer::default();
    for line in &made.lines {
        let mut verdict = "ok".to_owned();
        for (_, read) in reader.read(&format!("{line}\n")) {
            if let Line::Refused(rejection) = read {
                verdict = rejection.to_string();
            }
        }
        answer.verdicts.push(verdict);
    }
    let definitions = reader.finish().into_definitions();
    for definition in &definitions {
        answer.listing.push(definition.to_string());
        let event = format!("{}/{}", definition.group, definition.event);
        if answer.formats.iter().all(|(known, _)| *known != event) {
            answer.formats.push((event, format_of(definition)));
        }
    }
    answer.formats.sort();
    (answer, definitions)
}

fn format_of(definition: &Definition) -> String {
    let fields = definition.fields();
    let fields = fields.iter().map(|field| format!("\t{field}\n"));
    let fields: String = fields.collect();
    format!("{fields}\tprint fmt: {}\n", definition.print_fmt())
}
