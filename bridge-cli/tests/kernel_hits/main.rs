//! Probes of ours beside the kernel's own: both see the same calls of the same process, and what they print
//! must be the same, but for what the table (`data/kernel_hits.txt`) says.
//!
//! ```text
//! table ─▶ definitions ─┬▶ dynamic_events ─▶ an instance's trace ─┐
//!                       └▶ bridge-cli attach -- COMMAND ─▶ lines ─┴▶ hit by hit, field by field
//! ```
//! The command's whole life is in the kernel's buffer, the bridge sees it from its entry point on: its hits
//! are the last ones of the kernel's.

mod kernel;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kernel::{KernelProbes, Version};
use libtest_mimic::Trial;
use support::{Ran, bpf_test, build, kprobe_test, run_bridge, test};
use table::{Case, Hit};

fn main() {
    let tracefs = bridge::mount::ensure_tracefs().err();
    let mut trials = vec![test(
        "the_table_is_understood",
        table::the_form_is_understood,
    )];
    for case in table::cases() {
        let name = case.name.clone();
        let of_kernel = case
            .definitions
            .iter()
            .any(|one| !one.text.contains("{probed}"));
        let trial = match &tracefs {
            Some(error) => Trial::test(name, || Ok(()))
                .with_kind(format!("needs tracefs: {error}"))
                .with_ignored_flag(true),
            None if of_kernel => kprobe_test(&name, move || compare(&case)),
            None => bpf_test(&name, move || compare(&case)),
        };
        trials.push(trial);
    }
    support::run(trials);
}

/// What stands for the names in braces.
struct Places {
    probed: PathBuf,
    told: PathBuf,
    file: PathBuf,
}

impl Places {
    fn make() -> Places {
        let file = support::scratch("kernel_hits").join("hits");
        std::fs::write(&file, "h5 test file\n").unwrap();
        Places {
            probed: build("probed"),
            told: build("told"),
            file,
        }
    }

    fn fill(&self, text: &str) -> String {
        let named = [
            ("{probed}", &self.probed),
            ("{told}", &self.told),
            ("{file}", &self.file),
        ];
        let fill = |text: String, (name, path): (&str, &PathBuf)| {
            text.replace(name, &path.display().to_string())
        };
        named.into_iter().fold(text.to_owned(), fill)
    }

    /// The words of a command.
    fn command(&self, text: &str) -> Vec<String> {
        let word = |word: &str| match word {
            "probed" | "told" => self.fill(&format!("{{{word}}}")),
            "{empty}" => String::new(),
            word => self.fill(word),
        };
        text.split(' ').map(word).collect()
    }
}

/// What one command's calls were for both.
struct Run {
    ran: Ran,
    /// With the address before each.
    ours: Vec<(String, Hit)>,
    theirs: Vec<(String, Hit)>,
}

impl Run {
    /// All cases of this command, probed in one run of it: attaching takes most of the time.
    fn of(command: &str) -> Arc<Run> {
        static RUNS: OnceLock<Mutex<HashMap<String, Arc<Run>>>> = OnceLock::new();
        let runs = RUNS.get_or_init(Mutex::default);
        // Where a run has failed it fails again, for the next case.
        let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runs.get(command) {
            return Arc::clone(known);
        }
        let cases = table::cases().into_iter();
        let cases: Vec<Case> = cases
            .filter(|case| case.command == command && case.refusal(Version::here()).is_none())
            .collect();
        let run = Arc::new(Run::make(&cases));
        runs.insert(command.to_owned(), Arc::clone(&run));
        run
    }

    fn make(cases: &[Case]) -> Run {
        let places = Places::make();
        let mut kernel = KernelProbes::new();
        for case in cases {
            let taken = case.is_taken(Version::here());
            for definition in &case.definitions {
                let line = as_the_kernel_takes_it(&places.fill(&definition.text));
                let defined = kernel.define(&line);
                assert_eq!(
                    defined.is_ok(),
                    taken,
                    "the kernel takes {line}: {defined:?}"
                );
                if let Some(filter) = definition.filter.as_ref().filter(|_| taken) {
                    kernel.filter(definition.event(), filter);
                }
            }
        }
        kernel.enable(true);
        let ran = attach(cases, &places);
        kernel.enable(false);
        // The command prints as well.
        let is_hit = |line: &&str| of_line(line).is_some();
        let thread = support::pid_of(ran.out.lines().find(is_hit).unwrap_or(""));
        Run {
            ours: hits(&ran),
            theirs: kernel.hits(thread),
            ran,
        }
    }
}

/// Runs the bridge with all their definitions, on their command.
fn attach(cases: &[Case], places: &Places) -> Ran {
    let mut arguments = vec!["attach".to_owned()];
    for definition in cases.iter().flat_map(|case| &case.definitions) {
        arguments.extend(["-e".to_owned(), places.fill(&definition.text)]);
        let filter = definition.filter.iter();
        arguments.extend(filter.flat_map(|filter| ["--filter".to_owned(), filter.clone()]));
    }
    arguments.push("--".to_owned());
    arguments.extend(places.command(&cases[0].command));
    run_bridge(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn compare(case: &Case) {
    match case.refusal(Version::here()) {
        Some(why) => is_refused(case, why),
        None => is_the_same(case),
    }
}

fn is_refused(case: &Case, why: &str) {
    let ran = attach(std::slice::from_ref(case), &Places::make());
    assert_ne!(ran.status, 0, "{}", ran.out);
    assert!(ran.err.contains(why), "{}{}", ran.out, ran.err);
}

fn is_the_same(case: &Case) {
    let run = Run::of(&case.command);
    let version = Version::here();
    let mine = |hits: &[(String, Hit)]| -> Vec<(String, Hit)> {
        let is_mine = |hit: &&(String, Hit)| {
            case.definitions
                .iter()
                .any(|one| one.event() == hit.1.event)
        };
        hits.iter().filter(is_mine).cloned().collect()
    };
    let (ours, theirs) = (mine(&run.ours), mine(&run.theirs));
    let list = |hits: &[(String, Hit)]| -> String {
        let line = |(address, hit): &(String, Hit)| {
            format!("  {} {address} {}\n", hit.event, hit.values())
        };
        hits.iter().map(line).collect()
    };
    let shown = || {
        format!(
            "ours:\n{}the kernel's:\n{}{}",
            list(&ours),
            list(&theirs),
            run.ran.err
        )
    };

    let places = Places::make();
    let mut left = ours.iter();
    for expected in case.hits(version) {
        let text = places.fill(&format!("{} {}", expected.event, expected.values()));
        let expected = Hit::parse(&text);
        let found = left.any(|(_, hit)| expected.is(hit));
        assert!(
            found,
            "not printed, or not in this order: {text}\n{}",
            shown()
        );
    }
    if !case.is_taken(version) {
        return;
    }
    let mut differ = Vec::new();
    for definition in &case.definitions {
        let of = |hits: &[(String, Hit)]| -> Vec<(String, Hit)> {
            hits.iter()
                .filter(|hit| hit.1.event == definition.event())
                .cloned()
                .collect()
        };
        let (ours, theirs) = (of(&ours), of(&theirs));
        let Some(before) = theirs
            .len()
            .checked_sub(ours.len())
            .filter(|_| !ours.is_empty())
        else {
            panic!(
                "{}: {} hits here, {} there\n{}",
                definition.event(),
                ours.len(),
                theirs.len(),
                shown()
            );
        };
        for (own, other) in ours.iter().zip(&theirs[before..]) {
            differ.extend(differences(case, version, own, other));
        }
    }
    assert!(differ.is_empty(), "{}\n{}", differ.join("\n"), shown());
}

/// What differs in a hit, and the table does not know of.
fn differences(
    case: &Case,
    version: Version,
    own: &(String, Hit),
    other: &(String, Hit),
) -> Vec<String> {
    let event = &own.1.event;
    let mut differ = Vec::new();
    // Where a function has several return probes, the kernel's own do not know who called it; ours do not
    // where they are of both kinds, which have code of their own since 6.14.
    let is_known = |address: &str| !address.contains("[unknown/kretprobe'd]");
    let is_unknown_to_kernel = !is_known(&other.0) || other.0.contains("return_to_handler");
    let may_be_unknown = version >= Version::of(6, 14) && case.has_return();
    if own.0 != other.0 && !is_unknown_to_kernel && (is_known(&own.0) || !may_be_unknown) {
        differ.push(format!("{event}: {} here, {} there", own.0, other.0));
    }
    let names =
        |hit: &Hit| -> Vec<String> { hit.fields.iter().map(|field| field.0.clone()).collect() };
    if names(&own.1) != names(&other.1) {
        differ.push(format!("{event}: {:?} here, {:?} there", own.1, other.1));
        return differ;
    }
    for ((name, value), (_, theirs)) in own.1.fields.iter().zip(&other.1.fields) {
        if value != theirs && !case.is_known_to_differ(version, event, name, value, theirs) {
            differ.push(format!("{event} {name}: {value} here, {theirs} there"));
        }
    }
    differ
}

/// Ours.
fn hits(ran: &Ran) -> Vec<(String, Hit)> {
    ran.out.lines().filter_map(of_line).collect()
}

/// The address, and the hit.
fn of_line(line: &str) -> Option<(String, Hit)> {
    let (_, body) = line.split_once("] ")?;
    let (_, body) = body.split_once(": ")?;
    let (event, rest) = body.split_once(": ")?;
    let (_, name) = event.split_once(':')?;
    let (address, fields) = rest.split_once(')')?;
    Some((
        format!("{address})"),
        Hit::parse(&format!("{name}{fields}")),
    ))
}

/// Symbols of files are ours; the kernel takes offsets, which the bridge prints.
fn as_the_kernel_takes_it(definition: &str) -> String {
    let place = definition.split(' ').nth(1).unwrap_or("");
    if !place.contains('/') {
        return definition.to_owned();
    }
    let ran = run_probe(definition);
    ran.lines()
        .next()
        .unwrap_or_else(|| panic!("{definition}: nothing is printed"))
        .to_owned()
}

fn run_probe(definition: &str) -> String {
    let output = support::bridge()
        .args(["probe", "-e", definition])
        .output()
        .expect("bridge-cli starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("it is UTF-8")
}
