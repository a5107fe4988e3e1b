//! Arguments by name in user functions: what is fetched is what the program prints itself, whatever the
//! compiler did with its parameters.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use support::{Ran, bpf_test, run_bridge, scratch};

/// A build of `tests/targets/named.c` or `named.rs`.
fn build(compiler: &str, name: &str, flags: &[&str]) -> PathBuf {
    let extension = if compiler == "rustc" { "rs" } else { "c" };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/named");
    // A name without what short names of events are cut at.
    let program = scratch("named").join(name);
    let output = Command::new(compiler)
        .args(flags)
        .arg(source.with_extension(extension))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} starts: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {said}");
    program
}

/// Runs the program for two rounds with these probes.
fn attach(program: &Path, definitions: &[String]) -> Ran {
    let program = program.display().to_string();
    let mut all = vec!["attach"];
    for definition in definitions {
        all.extend(["-e", definition]);
    }
    all.extend(["--", &program, "2"]);
    run_bridge(&all)
}

/// What the program printed of its own with this word at the beginning.
fn printed<'r>(ran: &'r Ran, word: &str) -> Vec<&'r str> {
    let lines = ran.out.lines();
    lines
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
        .collect()
}

/// Bodies without their addresses.
fn values(ran: &Ran, event: &str) -> Vec<String> {
    let bodies = ran.bodies(event);
    assert!(!bodies.is_empty(), "no {event} in {}{}", ran.out, ran.err);
    let values = bodies.iter().map(|body| match body.split_once(") ") {
        Some((_, values)) => values.to_owned(),
        None => String::new(),
    });
    values.collect()
}

const ORDER: &str = "amount flag paid letter mood note:string seventh eighth";
const USER: &str = "id=user->id name=user->name:string town=user->home.town:string zip=user->home.zip \
     high=user->high negative=user->negative friend=user->friend->name:string word=user->word";

/// Every C build says the same of its parameters as it prints.
fn c_values(program: &Path) {
    let at = program.display();
    let definitions = [
        format!("p:order {at}:order {ORDER}"),
        format!("p:user {at}:order {USER}"),
        format!(
            "p:by_value {at}:by_value first=pair.first second=pair.second a=wide.a c=wide.c \
             text=two.text:string count=two.count"
        ),
        format!("p:floating {at}:floating amount"),
        format!("p:folds {at}:folds value"),
    ];
    // At the return they are what they were at the entry.
    let at_returns = definitions
        .iter()
        .map(|definition| definition.replacen("p:", "r:", 1));
    for definitions in [definitions.to_vec(), at_returns.collect()] {
        let ran = attach(program, &definitions);
        for word in ["order", "user", "by_value", "floating", "folds"] {
            let expected = printed(&ran, word);
            assert_eq!(expected.len(), 2, "{}{}", ran.out, ran.err);
            assert_eq!(
                values(&ran, &format!("uprobes:{word}")),
                expected,
                "{word}: {}",
                ran.err
            );
        }
    }
}

fn rust_values(program: &Path) {
    let at = program.display();
    let definitions = [
        format!(
            "p:charge {at}:charge cents user id=cart->id owner=cart->owner note=cart.note \
             sku=cart.first.sku count=cart->first.count express grade"
        ),
        format!("p:whole {at}:whole id=cart.id owner=cart.owner:string sku=line.sku"),
    ];
    let ran = attach(program, &definitions);
    for word in ["charge", "whole"] {
        let expected = printed(&ran, word);
        assert_eq!(expected.len(), 2, "{}{}", ran.out, ran.err);
        assert_eq!(values(&ran, &format!("uprobes:{word}")), expected, "{word}");
    }
}

/// Definitions that are refused, and what is said.
fn refused(program: &Path, arguments: &[(&str, &str)]) {
    let definitions: Vec<String> = arguments
        .iter()
        .enumerate()
        .map(|(number, (argument, _))| {
            let (function, argument) = argument.split_once(' ').unwrap_or((argument, ""));
            format!("p:e{number} {}:{function} {argument}", program.display())
        })
        .collect();
    let ran = attach(program, &definitions);
    assert!(
        printed(&ran, "order").is_empty(),
        "the program ran: {}",
        ran.out
    );
    for (argument, said) in arguments {
        assert!(
            ran.err.contains(said),
            "{argument}: no {said:?} in {}",
            ran.err
        );
    }
}

fn usdt_arguments() {
    let program = support::build("typed");
    let at = program.display();
    let definition = format!(
        "usdt:{at}:shop:so* text=arg0:string arg1 arg2 name=+0(+0(arg3)):string sizes=+8(arg3):u16[3]"
    );
    let ran = attach(&program, &[definition]);
    let expected = printed(&ran, "sold");
    assert_eq!(expected.len(), 4, "{}{}", ran.out, ran.err);
    assert_eq!(values(&ran, "shop:sold"), expected, "{}", ran.err);
    for (what, said) in [
        (
            "sold arg4:string",
            "shop:sold has 4 arguments, arg0 to arg3",
        ),
        ("sold arg0:strnig", "Unknown type is specified"),
        ("slod arg0:string", "The file has no such USDT probe"),
    ] {
        let ran = attach(&program, &[format!("usdt:{at}:shop:{what}")]);
        assert!(ran.err.contains(said), "{what}: {}", ran.err);
        assert_eq!(ran.out, "", "{what}: the program ran");
    }
}

fn main() {
    let mut trials: Vec<Trial> = Vec::new();
    let builds: [(&str, &str, &[&str]); 5] = [
        ("unoptimised", "cc", &["-O0", "-g"]),
        ("optimised", "cc", &["-O2", "-g"]),
        ("debugged", "cc", &["-Og", "-g", "-gdwarf-4"]),
        ("compressed", "cc", &["-O2", "-g", "-gz=zlib"]),
        ("clang_unoptimised", "clang", &["-O0", "-g"]),
    ];
    for (name, compiler, flags) in builds {
        trials.push(bpf_test(
            &format!("c_{name}_says_what_it_prints"),
            move || c_values(&build(compiler, name, flags)),
        ));
    }
    let builds: [(&str, &[&str]); 2] = [
        (
            "rust_unoptimised",
            &["-g", "-Copt-level=0", "--edition=2024"],
        ),
        ("rust_optimised", &["-g", "-Copt-level=2", "--edition=2024"]),
    ];
    for (name, flags) in builds {
        trials.push(bpf_test(
            &format!("{name}_says_what_it_prints"),
            move || {
                rust_values(&build("rustc", name, flags));
            },
        ));
    }
    trials.push(bpf_test(
        "a_separate_file_of_debug_information_is_used",
        || {
            let program = build("cc", "split", &["-O2", "-g"]);
            let debug = program.with_extension("debug");
            let objcopy = |arguments: &[&str]| {
                let status = Command::new("objcopy").args(arguments).status().unwrap();
                assert!(status.success());
            };
            let (own, apart) = (program.to_str().unwrap(), debug.to_str().unwrap());
            objcopy(&["--only-keep-debug", own, apart]);
            objcopy(&["--strip-debug", own]);
            objcopy(&[&format!("--add-gnu-debuglink={apart}"), own]);
            c_values(&program);
        },
    ));
    trials.push(bpf_test(
        "arguments_of_a_usdt_probe_are_given_types",
        usdt_arguments,
    ));
    trials.push(bpf_test(
        "what_cannot_be_named_is_refused_with_the_reason",
        || {
            refused(
                &build("cc", "refusing", &["-O2", "-g"]),
                &[
                    ("order amuont", "did you mean amount?"),
                    ("order user->nmae", "did you mean name?"),
                    ("order user->home", "struct address has town, zip"),
                    (
                        "order amount->x",
                        "This is not a pointer to union/structure.",
                    ),
                    ("by_value pair", "struct pair has first, second"),
                    ("floating price", "price: it is in the vector register xmm0"),
                    ("floating rate", "rate: it is in the vector register xmm1"),
                    (
                        "folded value",
                        "folded has no code of its own, it is inlined into folds at named.c:82 (offset 0x",
                    ),
                    (
                        "trimmed value",
                        "the compiler has left no trimmed, but trimmed.constprop.0 (a copy for arguments that \
                         are known), trimmed.isra.0.cold (what of it is rarely run): name these",
                    ),
                    ("order+4 amount", "knows no function that begins at offset"),
                ],
            );
            let bare = build("cc", "bare", &["-O2", "-s", "-Wl,--export-dynamic"]);
            let said = format!(
                "no debug information in {}: build with -g, or name a register",
                bare.display()
            );
            refused(&bare, &[("order amount", &said)]);
        },
    ));
    support::run(trials);
}
