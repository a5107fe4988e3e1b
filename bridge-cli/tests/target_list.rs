//! `list` says what can be attached to, and what is wrong with what cannot.

mod case_program;
mod running_program;

use std::path::{Path, PathBuf};
use std::process::Command;

use bridge::error::{Error, ErrorKind, Result};
use bridge::event::Origin;
use bridge::list::{KernelTracepoints, Listing, Request, Scope, list};
use case_program::{build, copy, scratch};
use running_program::{Running, waiting_program};

/// A kernel with three tracepoints.
struct SmallKernel;

impl KernelTracepoints for SmallKernel {
    fn names(&self) -> Result<Vec<(String, String)>> {
        let names = [
            ("sched", "sched_switch"),
            ("sched", "sched_waking"),
            ("shop", "none"),
        ];
        Ok(names
            .map(|(group, name)| (group.to_owned(), name.to_owned()))
            .to_vec())
    }

    fn fields(&self, _category: &str, name: &str) -> Result<Vec<(String, String)>> {
        Ok(vec![(format!("{name}_pid"), "pid_t".to_owned())])
    }
}

fn small_kernel() -> Result<Box<dyn KernelTracepoints>> {
    Ok(Box::new(SmallKernel))
}

fn no_kernel() -> Result<Box<dyn KernelTracepoints>> {
    Err(Error::new(ErrorKind::Rights, "tracefs may not be read"))
}

fn of_binary(path: &Path, pattern: Option<&str>, details: bool) -> Request {
    let scope = Scope::Binary(path.to_owned());
    Request {
        pattern: pattern.map(str::to_owned),
        scope,
        details,
    }
}

fn names(listing: &Listing) -> Vec<String> {
    listing
        .rows
        .iter()
        .map(|row| format!("{}:{}", row.group, row.name))
        .collect()
}

fn text(listing: &Listing) -> String {
    let mut out = Vec::new();
    listing.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_binary_s_tracepoints_are_listed_once_with_all_that_is_known_of_them() {
    let path = build(&["sdk/tables.S"], &["-nostdlib", "-static"]);
    let listing = list(&of_binary(&path, None, true), no_kernel).unwrap();
    assert_eq!(
        names(&listing),
        ["till:foreign", "till:paid", "till:wide__return"]
    );
    let origins: Vec<Origin> = listing.rows.iter().map(|row| row.origin).collect();
    assert_eq!(
        origins,
        [Origin::Usdt, Origin::Application, Origin::Application]
    );
    let text = text(&listing);
    for wanted in [
        "\n    field     order: u64\n",
        "\n    field     who: str\n",
        "\n    field     a: Option<u64>\n",
        "\n    field     l: i64 (not captured by USDT)\n",
        "\n    field     arg0: i32\n",
        "\n    print     order={order}\n",
        "\n    semaphore 0x",
        " -4@$1\n",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
    assert!(
        text.contains("\n    site      src/pay\\x1b[31m.rs:12 at 0x"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "a terminal obeys nothing of it");
    let brief = list(&of_binary(&path, None, false), no_kernel).unwrap();
    assert_eq!(
        self::text(&brief),
        "till:foreign\ntill:paid\ntill:wide__return\n"
    );
}

#[test]
fn a_pattern_is_looked_for_in_the_target_first_and_then_in_the_kernel() {
    let path = build(&["usdt/counts.c"], &[]);
    let listing = list(&of_binary(&path, Some("s*:*n*"), false), small_kernel).unwrap();
    let expected = [
        "shop:blanks",
        "shop:none",
        "shop:seventeen",
        "sched:sched_waking",
        "shop:none",
    ];
    assert_eq!(names(&listing), expected);
    assert_eq!(listing.rows[4].origin, Origin::Kernel);
    let by_name = list(&of_binary(&path, Some("none"), false), small_kernel).unwrap();
    assert_eq!(names(&by_name), ["shop:none", "shop:none"]);
    let listing = list(&of_binary(&path, None, false), small_kernel).unwrap();
    assert_eq!(
        listing.rows.len(),
        3,
        "without a pattern, the target's only"
    );
}

#[test]
fn the_kernel_s_tracepoints_are_listed_without_a_target() {
    let request = Request {
        details: true,
        ..Request::default()
    };
    let listing = list(&request, small_kernel).unwrap();
    assert_eq!(listing.rows.len(), 3);
    assert!(
        text(&listing).starts_with("sched:sched_switch\n    field     sched_switch_pid: pid_t\n")
    );
    let error = list(&request, no_kernel).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::Rights, "tracefs may not be read".into())
    );
}

#[test]
fn a_file_is_listed_by_those_who_may_not_read_tracefs() {
    let path = build(&["usdt/counts.c"], &[]);
    let listing = list(&of_binary(&path, Some("shop:*"), false), no_kernel).unwrap();
    assert_eq!(listing.rows.len(), 3);
    assert_eq!(
        listing.remarks,
        ["the kernel's tracepoints are not listed: tracefs may not be read"]
    );
}

#[test]
fn a_pattern_that_matches_nothing_is_an_error_that_names_the_nearest() {
    let path = build(&["usdt/counts.c"], &[]);
    let error = list(
        &of_binary(&path, Some("shop:seventen"), false),
        small_kernel,
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMatch);
    assert_eq!(error.hint_text(), Some("did you mean shop:seventeen?"));
    let request = Request {
        pattern: Some("sched_swich".into()),
        ..Request::default()
    };
    let error = list(&request, small_kernel).unwrap_err();
    assert_eq!(error.hint_text(), Some("did you mean sched:sched_switch?"));
}

#[test]
fn a_binary_without_probes_is_an_error_that_says_what_was_looked_for() {
    let program = build(&["usdt/counts.c"], &[]);
    let noteless = scratch("noteless").join("noteless");
    case_program::run(
        Command::new("objcopy")
            .arg("--remove-section=.note.stapsdt")
            .arg(&program)
            .arg(&noteless),
    );
    let error = list(&of_binary(&noteless, None, false), small_kernel).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMatch);
    let expected = format!("{} has no tracepoints: no USDT notes", noteless.display());
    assert_eq!(error.to_string(), expected);
    let missing = list(&of_binary(Path::new("/no/such"), None, false), small_kernel);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Binary);
}

#[test]
fn what_is_wrong_with_a_binary_s_probes_is_said_beside_them() {
    let remarks = |path: &Path| {
        let listing = list(&of_binary(path, None, false), no_kernel).unwrap();
        let prefix = format!("{}: ", path.display());
        listing
            .remarks
            .iter()
            .map(|remark| remark.strip_prefix(&prefix).unwrap().to_owned())
            .collect::<Vec<String>>()
    };
    let guards = remarks(&build(&["usdt/guards.c"], &[]));
    let expected = "semaphore of shop:bss is in .bss, cannot be set by the kernel".to_owned();
    assert!(guards.contains(&expected), "{guards:?}");

    let shared = remarks(&build(&["usdt/locations.c"], &[]));
    assert!(
        shared[0].starts_with("shop:sold, shop:priced share one address"),
        "{shared:?}"
    );

    let program = build(&["usdt/counts.c"], &[]);
    let mut bytes = std::fs::read(&program).unwrap();
    bytes[0x12..0x14].copy_from_slice(&183u16.to_le_bytes());
    std::fs::write(&program, bytes).unwrap();
    assert_eq!(
        remarks(&program),
        ["for aarch64, and cannot be attached to on this machine"]
    );
}

#[test]
fn a_process_is_listed_by_its_binaries_and_a_removed_one_is_marked() {
    let path = scratch("listed").join("app");
    copy(&waiting_program(), &path);
    let running = Running::start(&mut Command::new(&path));
    let request = || Request {
        pattern: None,
        scope: Scope::Process(running.0.id()),
        details: true,
    };
    let binary_of_waits = || {
        let listing = list(&request(), no_kernel).unwrap();
        let row = listing.rows.iter().find(|row| row.group == "shop").unwrap();
        assert_eq!(row.name, "waits");
        PathBuf::from(&row.details.last().unwrap().1)
    };
    assert_eq!(binary_of_waits(), path);
    std::fs::remove_file(&path).unwrap();
    let marked = format!(
        "{} (removed or replaced since it was mapped)",
        path.display()
    );
    assert_eq!(binary_of_waits(), PathBuf::from(marked));
}
