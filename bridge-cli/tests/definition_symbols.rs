//! Names that stand for several functions, for none, or for one that is elsewhere.

mod case_program;
mod judged;

use std::path::{Path, PathBuf};
use std::process::Command;

use case_program::{run, scratch};
use judged::{defined, offset, refused};

/// A file of `tests/targets`, built by `compiler`.
fn built(compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
    let program = scratch("symbols").join(source);
    run(Command::new(compiler)
        .current_dir(&targets)
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program));
    program
}

fn versioned() -> PathBuf {
    let script = "-Wl,--version-script=versioned.map";
    built("cc", "versioned.c", &["-O2", "-fPIC", "-shared", script])
}

#[test]
fn of_several_versions_the_one_that_programs_are_linked_with_is_meant() {
    let library = versioned();
    let at = |name: &str| {
        let all = defined(&format!("p {}:{name}", library.display()));
        assert_eq!(all.len(), 1, "{name}");
        offset(&all[0])
    };
    let (first, second) = (at("rate_first"), at("rate_second"));
    assert_ne!(first, second);
    for (name, expected) in [
        ("rate", second),
        ("rate@@SECOND", second),
        ("rate@SECOND", second),
        ("rate@FIRST", first),
    ] {
        assert_eq!(at(name), expected, "{name}");
    }
    assert_eq!(at("single"), at("single@FIRST"));
    for name in ["rate@THIRD", "rate@@FIRST", "single@SECOND"] {
        let said = refused(&format!("p {}:{name}", library.display()));
        assert!(said.contains("no such function"), "{said}");
    }
    // Each has a name in the events of a pattern.
    let all = defined(&format!("uprobe:{}:rate*", library.display()));
    assert_eq!(all.len(), 2, "{all:?}");
}

#[test]
fn a_symbol_that_says_nothing_of_itself_is_a_function_where_code_is() {
    let library = versioned();
    let bare = defined(&format!("p {}:bare", library.display()));
    let all = defined(&format!("uprobe:{}:b?re", library.display()));
    assert_eq!(offset(&bare[0]), offset(&all[0]));
    // A symbol behind the last byte of the code is none.
    let program = built("cc", "golang.c", &["-O2"]);
    let said = refused(&format!("p {}:etext", program.display()));
    assert!(said.contains("no such function"), "{said}");
}

#[test]
fn what_a_function_may_choose_is_read_from_its_code() {
    let said = refused(&format!("p {}:twice", versioned().display()));
    assert!(said.contains("(IFUNC)"), "{said}");
    assert!(said.contains("implementations: fast, slow"), "{said}");
}

#[test]
fn a_function_of_a_library_that_the_file_is_linked_with_is_said_to_be_there() {
    let program = built("cc", "golang.c", &["-O2"]);
    let said = refused(&format!("p {}:malloc", program.display()));
    assert!(said.contains("malloc is in libc.so.6"), "{said}");
}

#[test]
fn a_return_in_a_program_that_moves_its_stacks_is_not_probed_and_an_entry_is() {
    let program = built("cc", "golang.c", &["-O2"]);
    let obstacle = |text: &str| defined(text)[0].obstacle.clone().unwrap_or_default();
    let said = obstacle(&format!("r {}:work", program.display()));
    assert!(said.contains("Go program"), "{said}");
    assert_eq!(obstacle(&format!("p {}:work", program.display())), "");
}

#[test]
fn each_instance_of_a_generic_function_is_another_one() {
    for (name, mangling) in [
        ("legacy", &[][..]),
        ("v0", &["-Csymbol-mangling-version=v0"]),
    ] {
        let flags = [&["--edition", "2024", "-O"][..], mangling].concat();
        let program = built("rustc", "names.rs", &flags);
        let all = defined(&format!("uprobe:{}:*Store<*put", program.display()));
        let symbols: Vec<&str> = all
            .iter()
            .map(|one| match &one.place {
                bridge::definition::Place::File { symbol, .. } => symbol.as_deref().unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(all.len(), 2, "{name}: {symbols:?}");
        assert_ne!(offset(&all[0]), offset(&all[1]), "{name}");
        // By its mangled name each is meant alone.
        for (symbol, one) in symbols.iter().zip(&all) {
            let named = defined(&format!("p {}:{symbol}", program.display()));
            assert_eq!(offset(&named[0]), offset(one), "{name}: {symbol}");
        }
        let said = refused(&format!("p {}:names::Store<T>::putt", program.display()));
        assert!(said.contains("did you mean"), "{name}: {said}");
    }
}

#[test]
fn functions_of_cpp_are_named_as_in_the_source() {
    let program = built("c++", "names.cc", &["-std=c++17", "-O1"]);
    let at = |name: &str| {
        let all = defined(&format!("p {}:{name}", program.display()));
        assert_eq!(all.len(), 1, "{name}");
        offset(&all[0])
    };
    assert_eq!(at("shop::Price::operator+"), at("_ZNK4shop5PriceplERKS0_"));
    assert_eq!(at("shop::Cart::~Cart"), at("_ZN4shop4CartD1Ev"));
    let all = defined(&format!("uprobe:{}:shop::Store<*>::put", program.display()));
    assert_eq!(all.len(), 1, "{all:?}");
    let said = refused(&format!("p {}:shop::Cart::~Cort", program.display()));
    assert!(said.contains("did you mean shop::Cart::~Cart"), "{said}");
}
