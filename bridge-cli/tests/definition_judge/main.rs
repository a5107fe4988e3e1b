//! Definitions that nobody has written are judged by the kernel that runs and by us, and both must say the
//! same: verdict, error column, name and fields, but for what the table in `deviations` knows.
//!
//! ```text
//! seed ─▶ grammar ─▶ mutation ─▶ lines ─┬▶ kprobe_events, uprobe_events, dynamic_events ─▶ error_log, listing, format
//!                                       └▶ definition::Reader ─▶ verdict, listing, fields
//! ```
//! Others are hit beside the kernel's own probes, and must fetch the same (`hits`).
//!
//! `TRACEBRAID_SEED` chooses other definitions; the same seed makes the same ones on the same kernel.
//! `TRACEBRAID_SOAK` makes 5,000 of them, and hits hundreds.

mod answer;
mod arguments;
mod deviations;
mod filters;
mod found;
mod grammar;
mod hits;
mod kernel;
mod mutation;
mod named;
mod older;
mod random;
mod seats;
mod silent;
mod steady;
#[path = "../support/mod.rs"]
mod support;
mod values;
mod vocabulary;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use answer::{Answer, ours};
use bridge::definition::Definition;
use bridge::definition::files_here::FilesHere;
use bridge::definition::kernel_here::KernelHere;
use bridge::definition::knowledge::{Files as _, Knowledge};
use bridge::tracefs::Tracefs;
use deviations::{Disagreement, ON_PURPOSE, without_addresses};
use grammar::{Grammar, Made};
use kernel::JudgingKernel;
use older::{NEWEST, OLDER, Version};
use random::Random;
use silent::Silent;
use support::{bpf_test, build, kprobe_test, test};
use vocabulary::Vocabulary;

fn main() {
    let trials = vec![
        test("the_same_seed_makes_the_same_choices", || {
            let of = |index| {
                let mut random = Random::new(7, index);
                (0..20).map(|_| random.below(1000)).collect::<Vec<_>>()
            };
            assert_eq!(of(3), of(3));
            assert_ne!(of(3), of(4));
        }),
        bpf_test(
            "generated_definitions_fetch_what_the_kernel_s_own_probes_fetch",
            compare_hits,
        ),
        kprobe_test(
            "generated_definitions_are_judged_as_the_kernel_judges_them",
            judge_all,
        ),
        test("what_is_shown_escaped_is_compared_as_its_bytes", || {
            let shown = "a\\x1b\\n\\\"\\\\\\xff\\u{200e}\u{e9}\\0";
            assert_eq!(
                values::unescaped(shown),
                b"a\x1b\n\"\\\xff\xe2\x80\x8e\xc3\xa9\0"
            );
        }),
    ];
    support::run(trials);
}

/// The definition with this number of those that a seed makes.
fn make(words: &Vocabulary<'_>, seed: u64, index: u64) -> Made {
    let mut grammar = Grammar::new(words, Random::new(seed, index));
    let mut made = grammar.definition();
    if grammar.random.percent(45) {
        mutation::mutate(&mut made, &mut grammar.random);
    }
    if grammar.random.percent(15) {
        mutation::beside(&mut made, &mut grammar.random);
    }
    made
}

fn seed() -> u64 {
    let given = std::env::var("TRACEBRAID_SEED").ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_261_130)
}

fn count() -> u64 {
    match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 5000,
        None => 400,
    }
}

fn compare_hits() {
    let tracefs = Tracefs::find().expect("tracefs is mounted");
    let kernel = KernelHere::new(Some(Tracefs::at(tracefs.root())));
    let words = Vocabulary::of(&kernel, tracefs.root(), files());
    println!("seed {}", seed());
    let knowledge = Knowledge {
        kernel: &Silent(&kernel),
        files: &FilesHere::new(),
    };
    let runs = match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 20,
        None => 2,
    };
    hits::compare(&words, knowledge, seed(), runs).tell();
}

/// The kernel's dummy module, where the machine has one for that. Dropped, it is taken out again.
struct Module;

impl Module {
    fn insert() -> Option<Module> {
        let module = std::env::var_os("TRACEBRAID_MODULE")?;
        let status = Command::new("insmod").arg(module).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the module is inserted"
        );
        Some(Module)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Where it stays, the next who inserts it is told so.
        let _ = Command::new("rmmod").arg("dummy").status();
    }
}

fn files() -> Vec<(PathBuf, Vec<u64>)> {
    let probed = build("probed");
    let here = FilesHere::new();
    let offset = |name: &str| {
        let binary = here.open(&probed.display().to_string());
        binary.expect("it is there").functions(name)[0].0
    };
    let offsets = vec![
        offset("sum"),
        offset("back"),
        offset("name"),
        offset("main"),
    ];
    // Names that are cut where an event is called after them.
    let directory = support::scratch("judged");
    let mut files = vec![(probed.clone(), offsets.clone())];
    for name in ["lib-x.so_1", "a.b", "plain"] {
        let path = directory.join(name);
        std::fs::copy(&probed, &path).expect("it can be copied");
        files.push((path, offsets.clone()));
    }
    files
}

struct Tally<'a> {
    words: &'a Vocabulary<'a>,
    knowledge: Knowledge<'a>,
    version: Version,
    accepted: usize,
    refused: usize,
    on_purpose: BTreeMap<&'static str, usize>,
    /// What older kernels do otherwise.
    older: BTreeMap<&'static str, usize>,
    /// What nothing explains, by what the two said.
    wrong: BTreeMap<String, Vec<String>>,
}

fn judge_all() {
    let _module = Module::insert();
    let tracefs = Tracefs::find().expect("tracefs is mounted");
    let judge = JudgingKernel::at(tracefs.root());
    let kernel = KernelHere::new(Some(Tracefs::at(tracefs.root())));
    let words = Vocabulary::of(&kernel, tracefs.root(), files());
    let (seed, count) = (seed(), count());
    println!("seed {seed}");
    let files = FilesHere::new();
    let knowledge = Knowledge {
        kernel: &Silent(&kernel),
        files: &files,
    };
    let mut tally = Tally {
        words: &words,
        knowledge,
        version: Version::here(),
        accepted: 0,
        refused: 0,
        on_purpose: BTreeMap::new(),
        older: BTreeMap::new(),
        wrong: BTreeMap::new(),
    };
    let probed = words.files[0].0.display().to_string();
    for made in found::found(&probed) {
        let (own, definitions) = ours(&made, knowledge);
        tally.compare(&made, &own, &judge.judge(&made), &definitions);
    }
    for index in 0..count {
        let made = make(&words, seed, index);
        let (own, definitions) = ours(&made, knowledge);
        let theirs = judge.judge(&made);
        tally.compare(&made, &own, &theirs, &definitions);
        if index % 500 == 499 {
            println!("{} judged", index + 1);
        }
    }
    tally.tell();
}

impl Tally<'_> {
    fn compare(&mut self, made: &Made, own: &Answer, theirs: &Answer, definitions: &[Definition]) {
        let knowledge = self.knowledge;
        let again = |index: usize, line: &str| {
            let mut made = made.clone();
            made.lines[index] = line.to_owned();
            answer::ours(&made, knowledge).0.verdicts[index].clone()
        };
        for (index, line) in made.lines.iter().enumerate() {
            let (ours, theirs) = (&*own.verdicts[index], &*theirs.verdicts[index]);
            match theirs {
                "ok" => self.accepted += 1,
                _ => self.refused += 1,
            }
            let is_same = match self.version >= NEWEST {
                true => ours == theirs,
                // Words and columns are those of the newest kernel.
                false => (ours == "ok") == (theirs == "ok"),
            };
            if !is_same {
                let plain = |text: &'_ str| text.trim_end_matches(char::is_numeric).to_owned();
                let it = Disagreement {
                    words: self.words,
                    line,
                    is_of_listing: false,
                    ours,
                    theirs,
                    again: &|line| again(index, line),
                };
                self.differ(made, &format!("{} | {}", plain(ours), plain(theirs)), &it);
                // What follows from it differs as well.
                return;
            }
        }
        let all = made.lines.join("\n");
        let words = self.words;
        let mut of_listing = |what: &str, ours: &str, theirs: &str| {
            let it = Disagreement {
                words,
                line: &all,
                is_of_listing: true,
                ours,
                theirs,
                again: &|_| String::new(),
            };
            self.differ(made, what, &it);
        };
        let plain = |text: &str| without_addresses(text, definitions);
        let ours = plain(&own.listing.join("\n"));
        let listed = plain(&normal(&theirs.listing).join("\n"));
        if ours != listed {
            return of_listing("listing", &ours, &listed);
        }
        for (ours, theirs) in own.formats.iter().zip(&theirs.formats) {
            let text = |(name, text): &(String, String)| format!("{}\n{text}", plain(name));
            if text(ours) != text(theirs) {
                return of_listing("format", &text(ours), &text(theirs));
            }
        }
    }

    fn differ(&mut self, made: &Made, sort: &str, it: &Disagreement<'_>) {
        let older = OLDER.iter().filter(|older| self.version < older.before);
        let mut older = older.filter(|older| (older.is_it)(it));
        let known = ON_PURPOSE.iter().find(|known| (known.is_it)(it));
        if let Some(known) = known {
            *self.on_purpose.entry(known.reason).or_default() += 1;
        } else if let Some(older) = older.next() {
            *self.older.entry(older.what).or_default() += 1;
        } else {
            let lines = made.lines.join("\n      ");
            let (ours, theirs) = (it.ours, it.theirs);
            let text = format!(
                "{}: {lines}\n  of: {}\n    here   {ours}\n    kernel {theirs}",
                made.file, it.line
            );
            self.wrong.entry(sort.to_owned()).or_default().push(text);
        }
    }

    fn tell(&self) {
        println!("accepted {}, refused {}", self.accepted, self.refused);
        for (reason, count) in &self.on_purpose {
            println!("{count:>6} on purpose: {reason}");
        }
        for (what, count) in &self.older {
            println!("{count:>6} on this older kernel: {what}");
        }
        let wrong: usize = self.wrong.values().map(Vec::len).sum();
        let mut text = String::new();
        for (sort, all) in &self.wrong {
            text.push_str(&format!("== {} × {sort}\n", all.len()));
            for one in all.iter().take(3) {
                text.push_str(&format!("{}\n", one.chars().take(900).collect::<String>()));
            }
        }
        assert!(wrong == 0, "{wrong} differ\n{text}");
    }
}

/// The kernel's own choice of MAXACTIVE stands behind the `r`; ours has none.
fn normal(listing: &[String]) -> Vec<String> {
    let line = |line: &String| match line.split_once(':') {
        Some((letter, rest)) if letter.starts_with('r') => format!("r:{rest}"),
        _ => line.clone(),
    };
    listing.iter().map(line).collect()
}
