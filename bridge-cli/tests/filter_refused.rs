//! Filters that cannot be used: each is an error that shows the place and says what would be right, all of them
//! at once, and nothing is attached.

mod foreign_region;
mod ring_program;
mod support;

use std::os::unix::fs::FileExt;

use foreign_region::Region;
use ring_program::Program;
use support::{Ran, Target, bpf_test, run_bridge, test};
use tracebraid_wire::region;

const USAGE: i32 = 2;

fn attach(pid: u32, args: &[&str]) -> Ran {
    let pid = pid.to_string();
    run_bridge(&[&["attach", "-T", "1", "-p", &pid], args].concat())
}

/// It ends with this status, prints nothing, and says each of these lines.
#[track_caller]
fn refused(ran: &Ran, status: i32, lines: &[&str]) {
    assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{}", ran.err);
    for line in lines {
        assert!(
            ran.err.contains(&format!("{line}\n")),
            "{line:?} is not in:\n{}",
            ran.err
        );
    }
    assert!(
        !ran.err.contains("panicked") && !ran.err.contains('\x1b'),
        "{}",
        ran.err
    );
}

/// Filters of `app:kinds` with what is said of them: the sentence, the caret's column, and advice.
const FAULTS: &[(&str, &str, usize, &str)] = &[
    (
        "",
        "No filter found",
        0,
        "a comparison is FIELD OPERATOR VALUE, such as cents > 1000 or user ~ \"al*\"",
    ),
    ("(number == 1", "Too many '('", 0, "a ) is missing"),
    (
        "number == 1)",
        "Too few '('",
        11,
        "a ( is missing, or a ) is too many",
    ),
    (
        "user == 'al",
        "Missing matching quote",
        8,
        "text ends with the quote that it begins with, \" or '; nothing is escaped in it",
    ),
    ("numbr == 1", "Field not found", 0, "did you mean number?"),
    (
        "number % 2",
        "Invalid operator",
        7,
        "behind a field stands ==, !=, <, <=, >, >=, & or ~",
    ),
    (
        "number = 2",
        "Invalid operator",
        7,
        "behind a field stands ==, !=, <, <=, >, >=, & or ~",
    ),
    (
        "user == al",
        "Invalid value (did you forget quotes)?",
        8,
        "user is Option<str>: text stands in quotes, \" or '",
    ),
    (
        "number == x",
        "Invalid value (did you forget quotes)?",
        10,
        "number is u64: write a number such as 17, 0x11 or 021, without a sign",
    ),
    (
        "number == 09",
        "Illegal integer value",
        10,
        "number is u64: write a number such as 17, 0x11 or 021, without a sign",
    ),
    (
        "number == -1",
        "Illegal integer value",
        10,
        "number is u64: write a number such as 17, 0x11 or 021, without a sign",
    ),
    (
        "yes == maybe",
        "Invalid value (did you forget quotes)?",
        7,
        "yes is bool: write true or false",
    ),
    (
        "half == 1..2",
        "Illegal integer value",
        8,
        "half is f32: write a number such as 9.5 or -1e3",
    ),
    (
        "took > 5m",
        "Illegal integer value",
        7,
        "took is duration: write nanoseconds, or a whole number with ns, us, ms or s",
    ),
    (
        "letter == 'ab'",
        "Expecting a single character",
        10,
        "letter is char: write one character in quotes",
    ),
    (
        "user == 5",
        "Expecting string field",
        8,
        "user is Option<str>: text stands in quotes, \" or '",
    ),
    (
        "number == '5'",
        "Expecting numeric field",
        10,
        "number is u64: a number stands without quotes",
    ),
    (
        "user > 'al'",
        "Illegal operation for field type",
        5,
        "user is Option<str>: text is compared by ==, != and ~",
    ),
    (
        "number ~ 5",
        "Illegal operation for field type",
        7,
        "number is u64: numbers are compared by ==, !=, <, <=, >, >= and &; ~ is for text, CPUS{…} goes with ==, != and &",
    ),
    (
        "took & 1",
        "Illegal operation for field type",
        5,
        "took is duration: it is compared by ==, !=, <, <=, > and >=",
    ),
    ("cpu & CPUS", "Missing '{'", 10, "write CPUS{0-3,5}"),
    ("cpu & CPUS{0", "Missing '}'", 10, "write CPUS{0-3,5}"),
    (
        "number == 1 user == 'al'",
        "Too many terms in predicate expression",
        12,
        "comparisons are joined by && or ||",
    ),
    (
        "number == 1 &&",
        "Meaningless filter expression",
        14,
        "behind &&, || and ! stands a comparison or a parenthesis",
    ),
    (
        "place.function == vfs_read",
        "Function not found",
        18,
        "the kernel has no function of that name or address, or hides its addresses (kernel.kptr_restrict)",
    ),
];

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "each_fault_is_shown_with_its_place_and_what_would_be_right",
            || {
                let program = Program::start("kinds");
                let faults = FAULTS.iter();
                let mut args = Vec::new();
                for (filter, ..) in faults.clone() {
                    args.extend(["-e", "app:kinds", "--filter", filter]);
                }
                // All at once.
                let ran = attach(program.pid, &args);
                assert_eq!((ran.status, ran.out.as_str()), (USAGE, ""), "{}", ran.err);
                let blocks: Vec<&str> = ran.err.split("bridge-cli: ").skip(1).collect();
                for (filter, sentence, column, advice) in faults {
                    let shown = format!("\n  {filter}\n  {:column$}^", "");
                    let is_it = |block: &&&str| {
                        block.contains(&shown) || filter.is_empty() && block.contains(sentence)
                    };
                    let block = blocks.iter().find(is_it);
                    let block =
                        block.unwrap_or_else(|| panic!("{shown:?} is not in:\n{}", ran.err));
                    assert!(
                        block.starts_with("-e app:kinds: the filter cannot be used"),
                        "{block}"
                    );
                    assert!(block.lines().next().unwrap().ends_with(sentence), "{block}");
                    assert!(
                        block.contains(&format!("\n  {advice}\n")),
                        "{advice:?} is not in {block}"
                    );
                }
                assert_eq!(blocks.len(), FAULTS.len(), "{}", ran.err);
            },
        ),
        test("an_unknown_field_brings_the_fields_there_are", || {
            let program = Program::start("kinds");
            let ran = attach(program.pid, &["-e", "app:tick", "--filter", "user == 'al'"]);
            refused(
                &ran,
                USAGE,
                &[
                    "bridge-cli: -e app:tick: the filter cannot be used for app:tick: Field not found",
                    "  app:tick has seq (u64), who (str); every event has common_pid, comm and cpu",
                ],
            );
        }),
        test(
            "a_filter_for_several_tracepoints_is_refused_by_each_that_lacks_the_field",
            || {
                let program = Program::start("kinds");
                let args = ["-e", "app:*", "--filter", "seq > 5"];
                for via in ["ring", "usdt", "auto"] {
                    let ran = attach(program.pid, &[&args[..], &["--via", via]].concat());
                    refused(&ran, USAGE, &["  seq > 5", "  ^^^"]);
                    // The program has others too, where the linker has kept them.
                    let mut lines = ran.err.lines();
                    let usable = lines.find(|line| line.starts_with("  it can be used for "));
                    let usable = usable.unwrap_or_else(|| panic!("{}", ran.err));
                    for name in ["app:tick", "app:words"] {
                        assert!(usable.contains(name), "{usable}");
                    }
                    let first = ran.err.lines().next().unwrap();
                    assert!(
                        first.contains("app:kinds") && first.contains("app:took"),
                        "{first}"
                    );
                    assert!(!first.contains("app:tick"), "{first}");
                }
            },
        ),
        test("a_filter_before_every_e_is_for_nothing", || {
            let program = Program::start("kinds");
            let ran = attach(
                program.pid,
                &[
                    "--filter", "seq > ", "-e", "app:tick", "-e", "a:b:c", "--filter", "x",
                ],
            );
            refused(
                &ran,
                USAGE,
                &[
                    "bridge-cli: --filter \"seq > \" stands before every -e",
                    "bridge-cli: --filter: the filter cannot be used: Invalid value (did you forget quotes)?",
                    "bridge-cli: -e a:b:c: the filter cannot be used: Invalid operator",
                ],
            );
            assert!(ran.err.contains("it has too many parts"), "{}", ran.err);
            let alone = attach(program.pid, &["--filter", "seq > 1"]);
            refused(
                &alone,
                USAGE,
                &["bridge-cli: --filter \"seq > 1\" stands before every -e"],
            );
        }),
        bpf_test("wrong_names_and_wrong_filters_are_told_in_one_go", || {
            let target = Target::start("ticker", &["1", "1"]);
            let ran = attach(
                target.pid,
                &[
                    "-e",
                    "demo:tik",
                    "--filter",
                    "arg0 >",
                    "-e",
                    "demo:tick",
                    "--filter",
                    "arg2 == 1",
                    "-e",
                    "sched:sched_switch",
                    "--filter",
                    "prev_pi == 1",
                    "--filter",
                    "prev_comm > 5",
                    "-e",
                    "syscalls:sys_enter_openat",
                    "--filter",
                    "filename ~ '/etc/*'",
                    "-e",
                    "usdt:*:later:*",
                    "--filter",
                    "x = 1",
                ],
            );
            refused(
                &ran,
                5,
                &[
                    "  did you mean demo:tick?",
                    "bridge-cli: -e demo:tik: the filter cannot be used: Invalid value (did you forget quotes)?",
                    "bridge-cli: -e demo:tick: the filter cannot be used for demo:tick: Field not found",
                    "  did you mean prev_pid or prev_prio?",
                    "bridge-cli: -e sched:sched_switch: the filter cannot be used for sched:sched_switch: Expecting string field",
                    "  filename is const char *: the text behind the address is not read, only the address can be compared",
                    "bridge-cli: -e usdt:*:later:*: the filter cannot be used: Invalid operator",
                ],
            );
        }),
        bpf_test(
            "of_all_system_calls_those_that_lack_the_field_are_named",
            || {
                let ran = run_bridge(&[
                    "attach",
                    "-a",
                    "-e",
                    "syscalls:sys_enter_*",
                    "--filter",
                    "fd == 1",
                    "-T",
                    "1",
                ]);
                refused(&ran, USAGE, &["  fd == 1", "  ^^"]);
                assert!(
                    ran.err
                        .lines()
                        .any(|line| line.starts_with("  it can be used for syscalls:sys_enter_")),
                    "{}",
                    ran.err
                );
            },
        ),
        test("nothing_is_attached_and_no_command_runs", || {
            let program = Program::start("kinds");
            attach(
                program.pid,
                &["-e", "app:tick", "-e", "app:words", "--filter", "seq >"],
            );
            let mut wanted = vec![0; region::MAX_EVENTS + 1];
            let region = Region::of(program.pid);
            region
                .file
                .read_exact_at(&mut wanted, region::WANTED as u64)
                .unwrap();
            assert!(wanted.iter().all(|byte| *byte == 0));

            let folder = support::scratch("unstarted");
            let trace = folder.join("started").display().to_string();
            let ran = run_bridge(&[
                "attach",
                "-e",
                "usdt:*:a:*",
                "--filter",
                "x ~ 5 &&",
                "--",
                "touch",
                &trace,
            ]);
            refused(&ran, USAGE, &["  x ~ 5 &&"]);
            assert!(!std::path::Path::new(&trace).exists());
        }),
        test(
            "a_condition_of_a_flight_recorder_speaks_the_same_language",
            || {
                let program = Program::start("asker 20");
                for (when, lines) in [
                    (
                        "app:took__return if nanos > 5",
                        &[
                            "bridge-cli: --snapshot-when \"app:took__return if nanos > 5\": the filter cannot be used for app:took__return: Field not found",
                            "  nanos > 5",
                            "  ^^^^^",
                            "  app:took__return has ns (u64), end (Option<str>); every event has common_pid, comm and cpu",
                        ][..],
                    ),
                    (
                        "app:took__return if (ns > 5",
                        &["  (ns > 5", "  ^", "  a ) is missing"],
                    ),
                    (
                        "app:took__return if ns > 5us",
                        &["  ns is u64: write a number such as 17, 0x11 or 021, without a sign"],
                    ),
                ] {
                    let ran = attach(program.pid, &["-e", "app:*", "--snapshot-when", when]);
                    refused(&ran, USAGE, lines);
                }
            },
        ),
    ]);
}
