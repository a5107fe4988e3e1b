//! What this kernel and these rights allow, for people and for scripts.
//!
//! The kernel side finds it out ([`tracebraid_bpf::capability`]); here it is written down. One answer is
//! ours: where tracefs is not mounted the bridge mounts it for itself, if it may.

use std::fmt::Write as _;

use tracebraid_bpf::capability::{Capability, State, report};

/// Everything, in an order to read.
pub fn examine() -> Vec<Capability> {
    let mut all = report();
    let may_mount = nix::unistd::geteuid().is_root();
    for capability in &mut all {
        if capability.name == "tracefs" && !crate::mount::tracefs_is_mounted() && may_mount {
            capability.remedy.insert_str(
                0,
                "nothing: the bridge mounts it for itself alone; or for all: ",
            );
        }
    }
    all
}

/// One line each, and for what is missing why and what to do.
pub fn text(capabilities: &[Capability]) -> String {
    let width = capabilities
        .iter()
        .map(|it| it.name.len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for it in capabilities {
        let _ = writeln!(
            out,
            "{:<4} {:<width$}  {}",
            word(it.state),
            it.name,
            it.purpose
        );
        if it.state != State::Yes {
            let _ = writeln!(out, "     {:<width$}  why: {}", "", it.why);
            if !it.remedy.is_empty() {
                let _ = writeln!(out, "     {:<width$}  do:  {}", "", it.remedy);
            }
        }
    }
    out
}

/// `{"capabilities":[{"name":…,"purpose":…,"available":true|false|null,"why":…,"hint":…},…]}`.
pub fn json(capabilities: &[Capability]) -> String {
    let mut out = String::from("{\"capabilities\":[");
    for (index, it) in capabilities.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        let available = match it.state {
            State::Yes => "true",
            State::No => "false",
            State::Unknown => "null",
        };
        let _ = write!(
            out,
            "{{\"name\":{},\"purpose\":{},\"available\":{available},\"why\":{},\"hint\":{}}}",
            quoted(it.name),
            quoted(it.purpose),
            quoted(&it.why),
            quoted(&it.remedy)
        );
    }
    out.push_str("\n]}\n");
    out
}

fn word(state: State) -> &'static str {
    match state {
        State::Yes => "yes",
        State::No => "no",
        State::Unknown => "?",
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities() -> Vec<Capability> {
        vec![
            Capability {
                name: "a",
                purpose: "p",
                state: State::Yes,
                why: "w".into(),
                remedy: String::new(),
            },
            Capability {
                name: "longer",
                purpose: "q",
                state: State::No,
                why: "it says \"no\"\n".into(),
                remedy: "do".into(),
            },
        ]
    }

    #[test]
    fn what_is_missing_comes_with_why_and_what_to_do() {
        let text = text(&capabilities());
        assert!(
            text.starts_with("yes  a       p\nno   longer  q\n"),
            "{text}"
        );
        assert!(
            text.contains("why: it says") && text.contains("do:  do"),
            "{text}"
        );
    }

    #[test]
    fn json_escapes_what_it_must() {
        let json = json(&capabilities());
        assert!(json.contains(r#""why":"it says \"no\"\u000a""#), "{json}");
        assert!(json.contains("\"available\":true") && json.contains("\"available\":false"));
    }
}
