//! The gate in every kind of build: off no hit, on exactly the hits with their values, off again none.
//!
//! `programs/gate` walks through all shapes of tracepoints and prints what it saw; binutils' readelf
//! says what the file holds. The text that is expected is the same for every build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use tracebraid_tests::requirement::{self, Need};
use tracebraid_tests::scenario;
use tracebraid_tests::stapsdt::{self, Note};
use tracebraid_tests::variant::{self, Variant};

const MUSL: &str = "x86_64-unknown-linux-musl";

/// Every kind of build, and what it needs.
const VARIANTS: &[(Variant, &[Need])] = &[
    (
        Variant {
            profile: "dev",
            ..Variant::release("debug")
        },
        &[],
    ),
    (Variant::release("release"), &[]),
    (
        Variant {
            settings: &["lto=\"thin\"", "codegen-units=16"],
            ..Variant::release("thin-lto")
        },
        &[],
    ),
    (variant::FAT_LTO, &[]),
    (
        Variant {
            settings: &["lto=\"fat\"", "codegen-units=16", "opt-level=3"],
            ..Variant::release("fat-lto-of-16-units")
        },
        &[],
    ),
    (
        Variant {
            settings: &["panic=\"abort\""],
            ..Variant::release("panic-abort")
        },
        &[],
    ),
    (
        Variant {
            settings: &["opt-level=\"s\""],
            ..Variant::release("opt-s")
        },
        &[],
    ),
    (
        Variant {
            settings: &["opt-level=\"z\""],
            ..Variant::release("opt-z")
        },
        &[],
    ),
    (
        Variant {
            flags: &["-Cinstrument-coverage"],
            ..Variant::release("coverage")
        },
        &[],
    ),
    (
        Variant {
            flags: &["-Ctarget-feature=+crt-static", "-Crelocation-model=static"],
            is_dynamic: false,
            ..Variant::release("static")
        },
        &[],
    ),
    (
        Variant {
            flags: &["-Ctarget-feature=+crt-static"],
            is_dynamic: false,
            ..Variant::release("static-pie")
        },
        &[],
    ),
    (
        Variant {
            target: MUSL,
            is_dynamic: false,
            ..Variant::release("musl")
        },
        &[Need::Target(MUSL)],
    ),
    (
        Variant {
            flags: &["-Crelocation-model=static"],
            is_dynamic: false,
            ..Variant::release("no-pie")
        },
        &[],
    ),
    (
        Variant {
            flags: &["-Clink-arg=-Wl,--icf=all"],
            ..Variant::release("identical-code-folded")
        },
        &[],
    ),
    (
        Variant {
            flags: &[
                "-Clink-arg=-Wl,-z,start-stop-gc",
                "-Clink-arg=-Wl,--gc-sections",
            ],
            ..Variant::release("start-stop-gc")
        },
        &[],
    ),
    (
        Variant {
            flags: &["-Clinker-features=-lld", "-Clink-arg=-fuse-ld=bfd"],
            ..Variant::release("bfd")
        },
        &[Need::Tool("ld.bfd")],
    ),
    (
        Variant {
            flags: &["-Clinker-features=-lld", "-Clink-arg=-fuse-ld=mold"],
            ..Variant::release("mold")
        },
        &[Need::Tool("mold")],
    ),
    (
        Variant {
            flags: &["--cfg", "tracebraid_gate=\"load\""],
            ..Variant::release("load-gate")
        },
        &[],
    ),
];

fn main() {
    let trials = VARIANTS
        .iter()
        .map(|&(variant, needs)| trial(variant, needs));
    let linked = [LINKED, LINKED_LAZILY].map(linked_trial);
    requirement::run(trials.chain(linked).collect());
}

fn trial(variant: Variant, needs: &'static [Need]) -> Trial {
    requirement::trial(
        format!(
            "tracepoints_are_off_on_and_off_again_in_a_build_of_kind_{}",
            variant.name
        ),
        needs,
        move || check(&variant),
    )
}

/// With the SDK in a Rust `dylib`.
const LINKED: Variant = Variant {
    flags: &["-Cprefer-dynamic"],
    ..Variant::release("dylib")
};

/// The same, with functions of the library found at their first call.
const LINKED_LAZILY: Variant = Variant {
    flags: &[
        "-Cprefer-dynamic",
        "-Crelro-level=partial",
        "-Clink-arg=-Wl,-z,lazy",
    ],
    ..Variant::release("dylib-bound-lazily")
};

fn linked_trial(variant: Variant) -> Trial {
    let name = format!(
        "tracepoints_of_a_{}_and_of_its_user_are_hit_with_their_values",
        variant.name
    );
    requirement::trial(name, &[], move || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let files = ["linked", "libdynamic.so"];
        let kept = variant::build_files(&variant, directory, &["dynamic", "linked"], &files);
        let libraries = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", variant.target])
            .output()
            .expect("rustc starts");
        let libraries = String::from_utf8_lossy(&libraries.stdout);
        let path = format!("{}:{}", kept.display(), libraries.trim());
        let mut command = Command::new(kept.join("linked"));
        let output = run_command(command.env("LD_LIBRARY_PATH", path));
        assert_eq!(output, HITS_OF_LINKED);
        for file in files {
            let notes = our_notes(&kept.join(file));
            assert!(!notes.is_empty(), "{file}");
            check_notes(&notes);
        }
    })
}

const HITS_OF_LINKED: &str = "\
dynamic:inside: n=1 text=abc
dynamic:generic: value=x text=generic n=4 m=5
dynamic:generic: value=7 text=generic n=4 m=5
linked:here: a=1 b=text c=3 d=4
2 objects, 0 on
";

fn check(variant: &Variant) {
    let built = variant::build(variant, Path::new(env!("CARGO_TARGET_TMPDIR")));
    assert_eq!(run(&built.none, &[]), "points 0 enabled 0\n");

    let plugin = built
        .plugin
        .as_ref()
        .map(|path| path.to_str().expect("a path in UTF-8"));
    let arguments: Vec<&str> = ["matrix"].into_iter().chain(plugin).collect();
    let output = run(&built.gate, &arguments);
    let (sites, lines): (Vec<&str>, Vec<&str>) =
        output.lines().partition(|line| line.starts_with("site "));

    let notes = our_notes(&built.gate);
    let mut expected = vec![format!("points {}", notes.len())];
    expected.extend(PHASES.lines().map(str::to_owned));
    if plugin.is_some() {
        expected.extend(PLUGIN.lines().map(str::to_owned));
    }
    for (at, (line, expected)) in lines.iter().zip(&expected).enumerate() {
        assert_eq!(line, expected, "line {at} of\n{output}");
    }
    assert_eq!(lines.len(), expected.len(), "{output}");

    let is_patched = variant.name != "load-gate";
    check_sites(&sites, is_patched);
    check_notes(&notes);
    if let Some(plugin) = &built.plugin {
        let notes = our_notes(plugin);
        assert_eq!(notes.len(), 3, "{notes:?}");
        check_notes(&notes);
    }
}

/// Sites are the eight bytes of a key, and one byte differs between off and on.
fn check_sites(lines: &[&str], is_patched: bool) {
    let mut sites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut bytes: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for line in lines {
        let ["site", when, point, address, hex] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        sites.entry(point).or_default().insert(address);
        bytes.entry((address, when)).or_default().insert(hex);
    }
    if !is_patched {
        assert!(lines.is_empty(), "{lines:?}");
        return;
    }
    for (&(address, when), shown) in &bytes {
        assert_eq!(shown.len(), 1, "{address} {when}: {shown:?}");
        let hex = shown.first().copied().unwrap_or_default();
        let other = match when {
            "off" => {
                assert!(hex.starts_with("0f1f84e9"), "{address}: {hex}");
                hex.replacen("0f1f84e9", "0f1fc0e9", 1)
            }
            _ => hex.replacen("0f1fc0e9", "0f1f84e9", 1),
        };
        let opposite = if when == "off" { "on" } else { "off" };
        assert_eq!(
            bytes[&(address, opposite)],
            BTreeSet::from([other.as_str()])
        );
    }
    assert!(sites["shapes:two_places"].len() >= 2, "{sites:?}");
    for point in [
        "shapes:twin_a",
        "shapes:twin_b",
        "shapes:plain",
        "shapes:area",
    ] {
        assert!(!sites[point].is_empty(), "{point}");
    }
    // Equal bodies stay two functions, whatever the linker folds.
    assert!(
        sites["shapes:twin_a"].is_disjoint(&sites["shapes:twin_b"]),
        "{sites:?}"
    );
}

/// Every point has an address, a semaphore and a base of its own that readers can use.
fn check_notes(notes: &[Note]) {
    for note in notes {
        assert_ne!(note.base, 0, "{note:?}");
        assert_ne!(note.semaphore, 0, "{note:?}");
    }
    for of in [|note: &Note| note.location, |note: &Note| note.semaphore] {
        let different: BTreeSet<u64> = notes.iter().map(of).collect();
        assert_eq!(different.len(), notes.len(), "{notes:?}");
    }
}

/// The notes of a file but those of the C library, which a static program has too.
fn our_notes(file: &Path) -> Vec<Note> {
    let mut notes = stapsdt::all(file);
    notes.retain(|note| !["libc", "rtld", "libpthread", "libm"].contains(&note.provider.as_str()));
    notes
}

fn run(program: &Path, arguments: &[&str]) -> String {
    run_command(Command::new(program).args(arguments))
}

fn run_command(command: &mut Command) -> String {
    let child = command
        .env("LLVM_PROFILE_FILE", "/dev/null")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let end =
        scenario::wait(child, Duration::from_secs(30)).expect("the program can be waited for");
    let status = end
        .status
        .map_or("no end".to_owned(), |status| status.to_string());
    assert!(
        end.status.is_some_and(|status| status.success()),
        "{command:?}: {status}\n{}{}",
        end.output,
        end.errors
    );
    end.output
}

/// What the program prints, but for its sites and its number of points.
const PHASES: &str = "\
phase before
evaluated 0
phase attached
hit shapes:plain order_id=17 cents=-4200 twice=34
hit shapes:plain__return ns=_ end=None
hit shapes:generic value=18446744073709551615
hit shapes:generic__return ns=_ end=None ret=18446744073709551615
hit shapes:generic value=ß
hit shapes:generic__return ns=_ end=None ret=ß
hit shapes:generic value=from uses
hit shapes:generic__return ns=_ end=None ret=from uses
hit shapes:generic value=-5
hit shapes:generic__return ns=_ end=None ret=-5
hit labels:labelled value=from uses turns=2
hit shapes:inlined id=1
hit shapes:inlined__return ns=_ end=None
hit shapes:inlined id=10
hit shapes:inlined__return ns=_ end=None
hit shapes:inlined id=11
hit shapes:inlined__return ns=_ end=None
hit shapes:twin_a id=1
hit shapes:twin_a__return ns=_ end=None
hit shapes:twin_b id=2
hit shapes:twin_b__return ns=_ end=None
hit shapes:bare
hit shapes:bare__return ns=_ end=None
hit shapes:in_closure base=3 step=4
hit shapes:asynchronous id=5
hit shapes:asynchronous__return ns=_ end=None ret=15
hit shapes:asynchronous id=7
hit shapes:asynchronous__return ns=_ end=dropped ret=None
hit shapes:twice scale=2
hit shapes:area scale=2
hit shapes:area__return ns=_ end=None ret=18
hit shapes:twice__return ns=_ end=None
hit shapes:fallible text=41
hit shapes:fallible__return ns=_ end=None err=None
hit shapes:fallible text=x
hit shapes:fallible__return ns=_ end=None err=invalid digit found in string
hit shapes:queued id=8 depth=9 user=gate
hit shapes:queued id=10 depth=7 user=uses
hit shapes:tested id=11
hit shapes:wide a=12 b=-1 c=three d=4.5 e=5 f=-170141183460469231731687303715884105728 g=12 h=past the twelfth
hit shapes:two_places id=1
hit shapes:two_places id=2
hit shapes:two_places id=2
hit labels:labelled value=13 turns=2
hit labels:labelled value=1.5 turns=2
hit labels:labelled value=-1.5 turns=2
hit outer:in_main x=14
evaluated 4
phase detached
evaluated 0
phase enabled
evaluated 4
phase disabled
evaluated 0";

/// What it prints of the library: a wish holds for each loading of it.
const PLUGIN: &str = "\
plugin round 1 evaluated 1
plugin round 1 gone true
plugin round 2 evaluated 1
plugin round 2 gone true
plugin switches on true
program keeps on true
both leave on true
both leave off true
plugin with a copy gone true
plugin off evaluated 0
plugin points 3
hit plugin:work id=3 name=plugin evaluated=0
hit plugin:shout volume=3
hit plugin:shout__return ns=_ end=None
plugin at last evaluated 1
plugin with a thread keeps 3 points
plugin attaches beside the program false
plugin with a refused callback keeps 3 points
plugin attaches alone true
plugin with a callback keeps 3 points
plugin's callback sees 40";
