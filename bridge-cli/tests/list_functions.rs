//! `list` of functions: those of the running kernel, and those of files, with what is known of each.

mod case_program;
mod running_program;

use std::path::Path;
use std::process::Command;

use bridge::error::{Error, ErrorKind, Result};
use bridge::list::{KernelTracepoints, Listing, Request, Scope, list};
use case_program::scratch;
use running_program::{Running, waiting_program};

fn no_kernel() -> Result<Box<dyn KernelTracepoints>> {
    Err(Error::new(ErrorKind::Rights, "tracefs may not be read"))
}

fn listed(pattern: &str, scope: Scope, details: bool) -> Result<Listing> {
    let request = Request {
        pattern: Some(pattern.to_owned()),
        scope,
        details,
    };
    list(&request, no_kernel)
}

fn text(listing: &Listing) -> String {
    let mut out = Vec::new();
    listing.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json(listing: &Listing) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    listing.write_json(true, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// `tests/targets/named.c`, built with these flags.
fn named(name: &str, flags: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/named.c");
    let program = scratch(name).join(name);
    case_program::run(
        Command::new("cc")
            .args(flags)
            .arg(source)
            .arg("-o")
            .arg(&program),
    );
    program.display().to_string()
}

#[test]
fn each_version_of_a_symbol_is_listed_by_what_e_takes_for_it() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
    let library = scratch("list-versions").join("libversioned.so");
    let script = targets.join("versioned.map");
    case_program::run(
        Command::new("cc")
            .args(["-O2", "-fPIC", "-shared"])
            .arg(format!("-Wl,--version-script={}", script.display()))
            .arg(targets.join("versioned.c"))
            .arg("-o")
            .arg(&library),
    );
    let uprobe = format!("uprobe:{}", library.display());
    let list = |pattern: &str, details| {
        text(&listed(&format!("{uprobe}:{pattern}"), Scope::Kernel, details).unwrap())
    };
    let both = format!("{uprobe}:rate\n{uprobe}:rate@FIRST\n");
    assert_eq!(list("rate", false), both);
    assert_eq!(list("rate@F*", false), format!("{uprobe}:rate@FIRST\n"));
    let details = list("rate", true);
    for expected in ["SECOND (the one that programs are linked with)", " FIRST\n"] {
        assert!(details.contains(expected), "{details}");
    }
}

#[test]
fn functions_of_a_file_are_listed_as_e_takes_them() {
    let program = named("brief", &["-O2"]);
    let listing = listed(&format!("uprobe:{program}:f*s"), Scope::Kernel, false).unwrap();
    assert_eq!(text(&listing), format!("uprobe:{program}:folds\n"));
    let listing = listed(&format!("uretprobe:{program}:order"), Scope::Kernel, true).unwrap();
    assert!(text(&listing).contains("\n    probe     0x"), "{listing:?}");
    assert!(listing.remarks[0].contains("build with -g"), "{listing:?}");
}

#[test]
fn parameters_are_listed_with_names_types_and_why_one_cannot_be_had() {
    for flags in [&["-O0", "-g"], &["-O2", "-g"]] {
        let program = named("detailed", flags);
        let listing = listed(&format!("uprobe:{program}:*"), Scope::Kernel, true).unwrap();
        let text = text(&listing);
        let order = text.split("order\n").nth(1).unwrap();
        let expected = "    field     amount: int\n    field     flag: uint8_t\n    field     paid: _Bool\n    \
             field     letter: char\n    field     mood: enum mood\n    field     note: const char *\n    \
             field     user: struct user *\n    field     seventh: int64_t\n    field     eighth: uint16_t\n    \
             returns   int\n    probe     0x";
        assert!(order.starts_with(expected), "{flags:?}: {text}");
        let price = "price: double (not to be had at the entry: it is in the vector register xmm0";
        assert!(text.contains(price), "{flags:?}: {text}");
        let returned = listed(&format!("uretprobe:{program}:order"), Scope::Kernel, true).unwrap();
        assert_eq!(json(&returned)[0]["fields"][0]["name"], "$retval");
    }
}

#[test]
fn a_row_of_json_has_the_fields_and_what_else_is_known() {
    let program = named("rows", &["-O2", "-g"]);
    let listing = listed(&format!("uprobe:{program}:folds"), Scope::Kernel, true).unwrap();
    let rows = json(&listing);
    assert_eq!(rows[0]["event"], format!("uprobe:{program}:folds"));
    assert_eq!(rows[0]["origin"], "probe");
    let field = serde_json::json!([{"name": "value", "type": "int"}]);
    assert_eq!(rows[0]["fields"], field);
    assert_eq!(rows[0]["details"][0], serde_json::json!(["returns", "int"]));
}

#[test]
fn a_library_of_a_process_is_named_by_its_last_part() {
    let running = Running::start(&mut Command::new(waiting_program()));
    let scope = Scope::Process(running.0.id());
    let listing = listed("uprobe:libc:getpi?", scope.clone(), false).unwrap();
    let text = text(&listing);
    assert!(
        text.starts_with("uprobe:/") && text.contains("libc.so.6:getpid\n"),
        "{text}"
    );
    let error = listed("uprobe:libnothing:*", scope, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMatch);
    assert!(
        error
            .to_string()
            .contains("maps no file that is called libnothing")
    );
}

#[test]
fn a_function_that_there_is_not_is_an_error_that_names_the_nearest() {
    let program = named("near", &["-O2"]);
    let error = listed(&format!("uprobe:{program}:ordr"), Scope::Kernel, false).unwrap_err();
    assert_eq!(error.hint_text(), Some("did you mean order?"));
    for wrong in ["uprobe:libc", "uprobe:", "kprobe:"] {
        let error = listed(wrong, Scope::Kernel, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{wrong}");
    }
    let stripped = named("stripped", &["-O2", "-s"]);
    let error = listed(&format!("uprobe:{stripped}:main"), Scope::Kernel, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMatch);
}

#[test]
fn usdt_and_tracepoint_are_forms_of_a_pattern_too() {
    let program = case_program::build(&["usdt/counts.c"], &[]);
    let pattern = format!("usdt:{}:shop:*n*", program.display());
    let listing = listed(&pattern, Scope::Kernel, true).unwrap();
    let text = text(&listing);
    assert!(
        text.contains("shop:seventeen\n") && text.contains("shop:none\n"),
        "{text}"
    );
    assert!(text.contains("    field     arg16: "), "{text}");
    let error = listed("usdt:*:shop:none", Scope::Kernel, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let error = listed("tracepoint:sched:*", Scope::Kernel, false).unwrap_err();
    assert_eq!(error.to_string(), "tracefs may not be read");
}

#[test]
fn functions_of_the_kernel_are_listed_with_what_is_known_of_their_types() {
    let types = Path::new("/sys/kernel/btf/vmlinux").exists();
    let listing = listed("kprobe:vfs_rea?", Scope::Kernel, true).unwrap();
    let text = text(&listing);
    let read = text.split("kprobe:vfs_read\n").nth(1);
    let read = read.unwrap_or_else(|| panic!("no vfs_read in {text}"));
    if types {
        let expected = "    field     file: struct file *\n    field     buf: char *\n    \
             field     count: size_t\n    field     pos: loff_t *\n    returns   ssize_t\n";
        assert!(read.starts_with(expected), "{text}");
        let listing = listed("fexit:vfs_read", Scope::Kernel, true).unwrap();
        let row = &json(&listing)[0];
        let last = row["fields"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            last,
            serde_json::json!({"name": "$retval", "type": "ssize_t"})
        );
    }
    let can_be_probed = Path::new("/sys/bus/event_source/devices/kprobe/type").exists();
    let is_said = listing
        .remarks
        .iter()
        .any(|remark| remark.contains("CONFIG_KPROBE_EVENTS"));
    assert_ne!(can_be_probed, is_said, "{:?}", listing.remarks);
    let error = listed("kprobe:vfs_raed", Scope::Kernel, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMatch);
    let hint = error.hint_text().unwrap();
    assert!(hint.contains("vfs_read"), "{hint}");
}
