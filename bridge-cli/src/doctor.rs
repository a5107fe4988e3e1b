//! What this kernel and these rights allow, for people and for scripts.
//!
//! The kernel side finds it out ([`tracebraid_bpf::capability`]); here it is written down. Two answers are
//! ours: where tracefs is not mounted the bridge mounts it for itself, if it may; and whether keys can be
//! switched from outside.

use std::fmt::Write as _;

use tracebraid_bpf::capability::{Capability, State, report};

use crate::keys::{Way, way_of_this_kernel};

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
    let any_process = all
        .iter()
        .any(|it| it.name == "CAP_SYS_PTRACE" && it.state == State::Yes);
    all.push(outside_writes(any_process));
    all
}

/// Whether keys can be switched in programs that do not do it themselves.
fn outside_writes(any_process: bool) -> Capability {
    /// Who may trace whom: 0 one's own processes, 1 one's children, 2 with the right, 3 nobody
    /// (Documentation/admin-guide/LSM/Yama.rst).
    const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";
    let scope = std::fs::read_to_string(YAMA).unwrap_or_default();
    let scope: u32 = scope.trim().parse().unwrap_or(0);
    let how = match way_of_this_kernel() {
        Ok(Way::Plain) => Ok("the memory of a process can be written"),
        Ok(Way::Traced) => {
            Ok("this kernel lets only a tracer write; the bridge becomes it for a moment")
        }
        Err(error) => Err(format!("this kernel refuses it: {error}")),
    };
    let (state, why, remedy) = match (how, scope, any_process) {
        (Err(why), ..) => (State::No, why, "boot without proc_mem.force_override=never"),
        (Ok(_), 3.., _) => (
            State::No,
            format!("kernel.yama.ptrace_scope is {scope}: nobody may"),
            "boot with kernel.yama.ptrace_scope below 3",
        ),
        (Ok(_), 1.., false) => (
            State::No,
            format!("kernel.yama.ptrace_scope is {scope}, and CAP_SYS_PTRACE is missing"),
            "run with sudo, or: sysctl kernel.yama.ptrace_scope=0",
        ),
        (Ok(how), _, true) => (State::Yes, how.to_owned(), ""),
        (Ok(how), _, false) => (State::Yes, format!("{how}, of one's own processes"), ""),
    };
    Capability {
        name: "outside writes",
        purpose: "tracepoints of programs that have not called tracebraid::init()",
        state,
        why,
        remedy: remedy.to_owned(),
    }
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
