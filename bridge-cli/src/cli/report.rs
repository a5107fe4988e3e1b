//! Errors on the terminal: message, causes and hint, nothing in them that a terminal would obey.

use crate::error::Error;
use crate::print;

/// What is printed on the standard error for `error`: a block of lines for each of its errors.
pub(super) fn render(error: &Error) -> String {
    let mut out = String::new();
    one(&mut out, error);
    for other in error.others() {
        one(&mut out, other);
    }
    out
}

fn one(out: &mut String, error: &Error) {
    let line = format!("bridge-cli: {}", error.with_causes());
    escape_into(out, &line);
    out.push('\n');
    if let Some(hint) = error.hint_text() {
        for line in hint.lines() {
            out.push_str("  ");
            escape_into(out, line);
            out.push('\n');
        }
    }
}

/// A line of our own to the user.
pub(super) fn line(text: &str) -> String {
    let mut out = String::from("bridge-cli: ");
    escape_into(&mut out, text);
    out.push('\n');
    out
}

/// Lines of a table, each escaped.
pub(super) fn table(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        escape_into(&mut out, line);
        out.push('\n');
    }
    out
}

/// As in the stream of events: names of files, threads and probes are other people's bytes.
fn escape_into(out: &mut String, text: &str) {
    out.push_str(&print::escaped(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_report_holds_message_cause_and_hint_and_no_control_bytes() {
        let error = Error::new(ErrorKind::Binary, "cannot read /tmp/\x1b[2Jx")
            .because(std::io::Error::from_raw_os_error(2))
            .hint("look\nagain");
        let text = render(&error);
        assert!(
            text.starts_with("bridge-cli: cannot read /tmp/\\x1b[2Jx: No such file"),
            "{text}"
        );
        assert!(text.ends_with("\n  look\n  again\n"), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn each_of_several_errors_has_its_own_line() {
        let errors = vec![
            Error::new(ErrorKind::NoMatch, "one"),
            Error::new(ErrorKind::NoMatch, "two"),
        ];
        let text = render(&Error::several(errors).unwrap());
        assert_eq!(text, "bridge-cli: one\nbridge-cli: two\n");
    }
}
