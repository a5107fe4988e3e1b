//! Places in files that definitions name: what a name or a pattern means, and what cannot be probed.

mod case_program;
mod judged;

use std::path::{Path, PathBuf};
use std::process::Command;

use case_program::{run, scratch};
use judged::{defined, offset, refused};

/// `tests/targets/twins.c`, both of its files in one program.
fn twins() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/twins.c");
    let directory = scratch("twins");
    let twin = directory.join("twin.o");
    let program = directory.join("twins");
    let mut compiler = Command::new("cc");
    run(compiler
        .args(["-O2", "-c", "-DTWIN"])
        .arg(&source)
        .arg("-o")
        .arg(&twin));
    run(Command::new("cc")
        .arg("-O2")
        .args([&source, &twin])
        .arg("-o")
        .arg(&program));
    program
}

#[test]
fn a_pattern_means_each_place_once_whatever_its_names_are() {
    let at = twins();
    let all = defined(&format!("uprobe:{}:*_fn", at.display()));
    assert_eq!(all.len(), 1, "{all:?}");
    let named = defined(&format!("p {}:weak_fn", at.display()));
    assert_eq!(offset(&all[0]), offset(&named[0]));
}

#[test]
fn a_pattern_means_both_of_two_functions_of_one_name() {
    let at = twins();
    let all = defined(&format!("uprobe:{}:dup_*", at.display()));
    assert_eq!(all.len(), 2, "{all:?}");
    assert_ne!(offset(&all[0]), offset(&all[1]));
    assert_ne!(all[0].event, all[1].event);
}

#[test]
fn a_name_of_two_functions_is_refused_and_says_where_they_are() {
    let at = twins();
    let all = defined(&format!("uprobe:{}:dup_*", at.display()));
    let said = refused(&format!("p {}:dup_static", at.display()));
    assert!(said.contains("several functions of this name"), "{said}");
    for definition in &all {
        let place = format!("{:#x}", offset(definition));
        assert!(said.contains(&place), "{place} is not in {said}");
    }
}

#[test]
fn a_function_that_only_chooses_another_is_refused_and_its_implementations_named() {
    let said = refused(&format!("p {}:multi", twins().display()));
    assert!(
        said.contains("(IFUNC)") && said.contains(": multi_small"),
        "{said}"
    );
}

#[test]
fn bytes_that_the_program_itself_switches_are_not_probed() {
    let program = case_program::build(&["sdk/tables.S"], &["-nostdlib", "-static"]);
    let binary = bridge::target::Binary::open(&program).unwrap();
    let sites = binary.tracepoints().iter().flat_map(|point| &point.sites);
    let (switched, tested): (Vec<_>, Vec<_>) = sites.partition(|site| !site.tests_semaphore);
    let obstacle = |offset: u64| {
        let definition = &defined(&format!("p {}:{offset:#x}", program.display()))[0];
        let obstacle = definition.obstacle.clone().unwrap_or_default();
        obstacle.contains("whose bytes the program switches itself")
    };
    // The jump of a site that is on lies behind its first byte.
    for within in [0, 2, 7] {
        for site in &switched {
            assert!(obstacle(site.offset + within), "{site:?} + {within}");
        }
    }
    assert!(!switched.is_empty() && !tested.is_empty());
    assert!(
        !obstacle(tested[0].offset),
        "it is no code that is rewritten"
    );
}
