//! What kernels before the newest one do not take yet, take still, or show otherwise. Verdicts are those of
//! the newest kernel; on an older one both only have to agree on what is taken, but for this.

use crate::deviations::Disagreement;

/// The first two numbers of a kernel's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl Version {
    /// That of the kernel that runs.
    pub(crate) fn here() -> Version {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let mut number = || numbers.next().and_then(Result::ok).expect("a version");
        Version(number(), number())
    }
}

/// The first of which all verdicts, words and columns are ours.
pub(crate) const NEWEST: Version = Version(7, 0);

pub(crate) struct Older {
    /// Kernels before this one.
    pub(crate) before: Version,
    pub(crate) what: &'static str,
    pub(crate) is_it: fn(&Disagreement<'_>) -> bool,
}

pub(crate) const OLDER: &[Older] = &[
    Older {
        before: Version(6, 5),
        what: "f and t are not known",
        is_it: |it| it.is_by_ftrace() && it.ours == "ok" && it.theirs == "EINVAL",
    },
    Older {
        before: Version(6, 10),
        what: "parameters, $arg* and $retval->MEMBER have no names; a return keeps no arguments",
        is_it: |it| {
            it.ours == "ok"
                && (it.theirs.contains("Invalid fetch argument")
                    || it.theirs.contains("Invalid $-va"))
                && it.theirs.contains("trace_kprobe")
        },
    },
    Older {
        before: Version(6, 10),
        what: "the types char, %pd and %pD are not known",
        is_it: |it| {
            it.ours == "ok"
                && it.theirs.contains("Unknown type is specified")
                && [":char", ":%pd", ":%pD"]
                    .iter()
                    .any(|type_| it.line.contains(type_))
        },
    },
    Older {
        before: Version(6, 10),
        what: "$retval is taken of functions that return nothing, $argN behind the last parameter",
        is_it: |it| {
            it.theirs == "ok"
                && (it.ours.contains("'void' type")
                    || it.ours.contains("This variable is not found"))
        },
    },
    Older {
        before: Version(6, 10),
        what: "$argN and $retval have no names and types of their own",
        is_it: |it| it.is_of_listing && (it.line.contains("$arg") || it.line.contains("$retval")),
    },
    Older {
        before: Version(6, 10),
        what: "that $argN and $retval differ in their types from those of the event that is there is not known",
        is_it: |it| {
            it.theirs == "ok"
                && it.ours.contains("different from existing probe")
                && (it.line.contains("$arg") || it.line.contains("$retval"))
        },
    },
    Older {
        before: Version(6, 10),
        what: "arguments beyond the 128th are left out and nothing is said",
        is_it: |it| it.theirs == "ok" && it.ours.contains("Too many arguments are specified"),
    },
    Older {
        before: NEWEST,
        what: "event probes know no (STRUCTURE)",
        is_it: |it| {
            it.ours == "ok"
                && it.line.contains('(')
                && it
                    .theirs
                    .starts_with("EINVAL; event_probe: \"Invalid fetch argument\"")
        },
    },
    Older {
        before: NEWEST,
        what: "t and f take any characters behind the letter",
        is_it: |it| {
            it.is_by_ftrace() && it.ours.contains("Invalid maxactive number") && it.theirs == "ok"
        },
    },
    Older {
        before: NEWEST,
        what: "f and t are registered at once, and fail where another stands or ftrace says so",
        is_it: |it| {
            it.is_by_ftrace()
                && it.ours == "ok"
                && (it.theirs == "EEXIST" || it.theirs.contains("Failed to register probe event"))
        },
    },
    Older {
        before: NEWEST,
        what: "f looks for the symbols of @SYMBOL",
        is_it: |it| {
            it.is_by_ftrace()
                && it.ours == "ok"
                && it.line.contains('@')
                && it
                    .theirs
                    .starts_with("ENOENT; trace_fprobe: \"Invalid probed address or symbol\"")
        },
    },
];
