//! What runs on the other kernels, and which these are: a row each.
//!
//! A test executable comes to the guest at the path that it has here, with its libraries, its tests' C
//! sources and a C compiler; so what is compiled into it, such as the directory of its scratch files, holds
//! there too. Cargo is not there: what tests build with it is built here before, by running the tests that
//! [`Row::built_by`] names, and found there under the same path.

/// A kernel, and how it is started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// What it is called on the command line and in the output.
    pub(crate) name: &'static str,
    /// The beginning of its version, or `newest`: a directory of `tests/vm/kernels.sh`.
    pub(crate) kernel: &'static str,
    /// More of the kernel's command line.
    pub(crate) append: &'static str,
    /// The names of the rows that run there; all of them, if none are named.
    only: &'static [&'static str],
    /// Those of them that `cargo xtask test` runs there, which has a quarter of an hour for all machines.
    brief: &'static [&'static str],
    /// Tests that are left out there.
    pub(crate) left_out: &'static [LeftOut],
}

/// A test that a machine does not run, though nothing that the test could see speaks against it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The name of its row.
    pub(crate) row: &'static str,
    /// Its name.
    pub(crate) test: &'static str,
    /// Why it does not run.
    pub(crate) reason: &'static str,
}

impl Machine {
    const fn new(name: &'static str, kernel: &'static str, append: &'static str) -> Machine {
        Machine {
            name,
            kernel,
            append,
            only: &[],
            brief: &[],
            left_out: &[],
        }
    }

    /// Those of the rows that run there.
    pub(crate) fn rows<'a>(&self, rows: &[&'a Row], brief: bool) -> Vec<&'a Row> {
        let rows = rows.iter().copied();
        rows.filter(|row| self.has(row, brief)).collect()
    }

    /// Whether a row runs there.
    pub(crate) fn has(&self, row: &Row, brief: bool) -> bool {
        let name = row.name();
        let runs = self.only.is_empty() || self.only.contains(&&*name);
        runs && (!brief || self.brief.contains(&&*name))
    }
}

/// The kernels that the tests run on. The ones without `preempt=` are as Debian ships them.
pub(crate) const MACHINES: &[Machine] = &[
    Machine {
        left_out: &[LeftOut {
            row: "tests:attach",
            test: "a_thousand_tracepoints_are_seen_through_usdt",
            reason: "without uprobe_multi, an emulated CPU takes minutes to detach a thousand probes",
        }],
        brief: BRIEF,
        ..Machine::new("6.1", "6.1", "")
    },
    Machine {
        brief: BRIEF_BETWEEN,
        ..Machine::new("6.12", "6.12", "")
    },
    Machine {
        brief: BRIEF,
        ..Machine::new("newest", "newest", "")
    },
    Machine {
        only: INTERRUPTED,
        ..Machine::new("6.12-preempt", "6.12", "preempt=full")
    },
    Machine {
        only: INTERRUPTED,
        ..Machine::new("newest-preempt", "newest", "preempt=full")
    },
];

/// Probes in functions of the kernel, which the machines of developers and of CI often have none of; and what
/// kernels differ in most: how BPF programs are loaded and attached, what these may call, and how stacks are taken.
const BRIEF: &[&str] = &[
    "bpf:sessions",
    "bridge-cli:attach_module",
    "bridge-cli:kernel_hits",
    "bridge-cli:kernel_stacks",
    "bridge-cli:attach_stacks",
];

/// The same on a kernel that is neither the oldest nor the newest: what loads there loads on one of these.
const BRIEF_BETWEEN: &[&str] = BRIEF.split_at(1).1;

/// What it makes a difference to that the kernel may interrupt itself nearly anywhere.
const INTERRUPTED: &[&str] = &[
    "tests:toggle_storm",
    "sdk/ring:append",
    "sdk/ring:killed_writers",
    "sdk/ring:storms",
    "tests:ring_processes",
    "bpf:sessions",
];

/// An executable of the workspace that holds tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Its package's directory.
    pub(crate) directory: &'static str,
    /// Which of the package's executables.
    pub(crate) target: Target,
    /// The most that it may take in a guest, in seconds.
    pub(crate) limit: u32,
    /// Arguments of the test harness, such as `--skip NAME`; no blanks in them.
    pub(crate) arguments: &'static [&'static str],
    /// Tests of it that are run here first, for what they build with cargo.
    pub(crate) built_by: Option<&'static str>,
    /// What it has built that is needed there: files and directories below the scratch directory of tests.
    pub(crate) built: &'static [&'static str],
    /// It measures, and runs only where it is asked for by its name.
    pub(crate) measures: bool,
    /// Programs of this machine that it calls beside [`TOOLS`]; they may be large.
    pub(crate) peers: &'static [&'static str],
}

/// Which executable of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The library's unit tests.
    Library,
    /// The tests in `tests/NAME`.
    Test(&'static str),
}

impl Row {
    const fn library(directory: &'static str) -> Row {
        Row {
            directory,
            target: Target::Library,
            limit: 600,
            arguments: &[],
            built_by: None,
            built: &[],
            measures: false,
            peers: &[],
        }
    }

    const fn test(directory: &'static str, name: &'static str) -> Row {
        Row {
            target: Target::Test(name),
            ..Row::library(directory)
        }
    }

    const fn limit(self, seconds: u32) -> Row {
        Row {
            limit: seconds,
            ..self
        }
    }

    const fn arguments(self, arguments: &'static [&'static str]) -> Row {
        Row { arguments, ..self }
    }

    const fn built(self, by: &'static str, built: &'static [&'static str]) -> Row {
        Row {
            built_by: Some(by),
            built,
            ..self
        }
    }

    const fn measures(self, peers: &'static [&'static str]) -> Row {
        Row {
            measures: true,
            peers,
            ..self
        }
    }

    /// What it is called on the command line and in the output.
    pub(crate) fn name(&self) -> String {
        match self.target {
            Target::Library => format!("{}:lib", self.directory),
            Target::Test(name) => format!("{}:{name}", self.directory),
        }
    }
}

/// The executables that run on each of the kernels, in this order.
pub(crate) const SUITE: &[Row] = &[
    // The gate: text is patched, under every restriction that the kernel knows.
    Row::library("sdk"),
    // Of the kinds of build those that a kernel can tell apart, by how they are linked and loaded; it does
    // not see how they were optimised. The dylibs need the toolchain's own.
    Row::test("tests", "gate_matrix")
        .built("tracepoints_are_off_on", &["variants"])
        .arguments(&[
            "--skip=lto",
            "--skip=panic",
            "--skip=opt",
            "--skip=coverage",
            "--skip=identical",
            "--skip=start-stop",
            "--skip=bfd",
            "--skip=mold",
            "--skip=dylib",
        ]),
    Row::test("tests", "processes"),
    Row::test("tests", "toggle_storm"),
    Row::test("tests", "callbacks"),
    // The ring: restartable sequences under preemption, fork and death.
    Row::library("sdk/ring"),
    Row::test("sdk/ring", "append"),
    Row::test("sdk/ring", "killed_writers"),
    Row::test("sdk/ring", "storms"),
    Row::test("tests", "ring_processes").built("a_library_may_be_closed", &["variants/ring"]),
    // What the kernel says of itself.
    Row::library("bpf"),
    Row::library("bridge-cli"),
    // One after the other: all events are recorded in one of them, and the others' would be among them.
    Row::test("bridge-cli", "events_kernel").arguments(&["--test-threads=1"]),
    // BPF programs, loaded and hit.
    Row::test("bpf", "sessions"),
    // The bridge from end to end.
    Row::test("bridge-cli", "target_process"),
    Row::test("bridge-cli", "cli_attach"),
    Row::test("bridge-cli", "cli_kernel"),
    Row::test("bridge-cli", "filter_kernel"),
    Row::test("bridge-cli", "filter_ways"),
    Row::test("bridge-cli", "attach_cgroup"),
    Row::test("bridge-cli", "attach_in_namespace"),
    Row::test("bridge-cli", "follow"),
    Row::test("bridge-cli", "list_functions"),
    Row::test("bridge-cli", "target_namespaces"),
    // Probes anywhere, in the kernel's language.
    Row::test("bridge-cli", "attach_definitions"),
    Row::test("bridge-cli", "attach_paths"),
    Row::test("bridge-cli", "attach_functions"),
    Row::test("bridge-cli", "attach_events"),
    Row::test("bridge-cli", "attach_returns"),
    Row::test("bridge-cli", "definition_judge").limit(3600),
    Row::test("bridge-cli", "attach_module"),
    Row::test("bridge-cli", "kernel_hits"),
    Row::test("bridge-cli", "kernel_stacks"),
    // The names that compilers of Rust and C++ give are the same on every kernel, and these are not there.
    Row::test("bridge-cli", "attach_stacks")
        .arguments(&["--skip=rust_names", "--skip=names_of_cpp"]),
    Row::test("bridge-cli", "cli_launch"),
    Row::test("bridge-cli", "stat_counts"),
    Row::test("bridge-cli", "cli_bad_input"),
    Row::test("bridge-cli", "attach_mechanisms").limit(600),
    Row::test("bridge-cli", "ring_attach"),
    Row::test("bridge-cli", "ring_threads"),
    Row::test("bridge-cli", "ring_children"),
    Row::test("bridge-cli", "ring_recorder"),
    Row::test("bridge-cli", "ring_killed"),
    Row::test("bridge-cli", "outside_keys"),
    // With the SDK in a dylib a program is linked with the toolchain's own, which are not there.
    Row::test("tests", "attach")
        .built(
            "a_semaphore_is_in_a_page",
            &[
                "programs/x86_64-unknown-linux-gnu/release/traced",
                "programs/x86_64-unknown-linux-gnu/release/libaddon.so",
                "programs/x86_64-unknown-linux-gnu/release/foreign",
                "programs/x86_64-unknown-linux-gnu/release/chorus",
                "programs/x86_64-unknown-linux-gnu/release/libchorus.so",
                "variants/static-pie/traced",
            ],
        )
        .arguments(&["--skip=a_library_that_uses_the_programs_sdk"]),
    // What a hit costs, beside other tools.
    Row::test("bridge-cli", "function_costs")
        .limit(1800)
        .measures(&["perf", "bpftrace"]),
];

/// Programs of this machine that tests call; what is not here is not there, and the tests say so.
pub(crate) const TOOLS: &[&str] = &[
    "sh",
    "true",
    "sleep",
    "mkfifo",
    "chmod",
    "cc",
    "readelf",
    "nm",
    "unshare",
    "setpriv",
    "capsh",
    "bash",
    "mountpoint",
    "cat",
    "dd",
];

/// Data that tests read where it is in the workspace.
pub(crate) const DATA: &[&str] = &["tests/cases", "bridge-cli/tests/targets"];
