//! Definitions that both take, hit: ours and the kernel's own stand at the same places while a program runs, and
//! what they print of the same hits must be the same, but for what the table in `values` knows.
//!
//! ```text
//! definitions of a run ─┬▶ dynamic_events, an instance's buffer ─▶ lines of the program's thread ─┐
//!                       └▶ bridge-cli attach -- PROGRAM ─▶ lines ────────────────────────────────┴▶ value by value
//! ```
//! The program's whole life is in the kernel's buffer, the bridge sees it from its entry point on: its hits are
//! the last ones of the kernel's.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bridge::definition::knowledge::{EventField, Knowledge};
use bridge::definition::{Definition, Language, Line, Place, Reader};

use crate::grammar::Grammar;
use crate::older::Version;
use crate::random::Random;
use crate::seats::Seats;
use crate::steady::with_witnesses;
use crate::support::{Ran, pid_of, run_bridge};
use crate::values;
use crate::vocabulary::Vocabulary;

/// What came of it.
#[derive(Default)]
pub(crate) struct Compared {
    definitions: usize,
    hits: usize,
    values: usize,
    unread: usize,
    /// Values by letter and type.
    covered: BTreeMap<(String, String), usize>,
    /// Definitions that only one of the two has, or that were not reached.
    left_out: BTreeMap<String, usize>,
    known: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

/// Definitions of one run.
const AT_ONCE: usize = 24;
/// More are refused at one address of a file.
const AT_ONE_PLACE: usize = 4;

/// Compares so many runs.
pub(crate) fn compare(
    words: &Vocabulary<'_>,
    knowledge: Knowledge<'_>,
    seed: u64,
    runs: u64,
) -> Compared {
    let seats = Seats::new();
    let mut compared = Compared::default();
    for run in 0..runs {
        let mut batch = Batch::new(run, &seats);
        for index in 0..400 {
            if batch.probes.len() == AT_ONCE {
                break;
            }
            let random = Random::new(seed, (run + 1) * 1_000_000 + index);
            let name = format!("h{index}");
            let Some(probe) = generate(Grammar::new(words, random), &seats, &name, knowledge)
            else {
                continue;
            };
            let others = batch.probes.iter();
            let beside = others.filter(|other| other.definition.place == probe.definition.place);
            if beside.count() == AT_ONE_PLACE {
                continue;
            }
            match batch.define(&probe.line, &name) {
                Ok(()) => batch.probes.push(probe),
                Err(error) => compared.leave_out(&format!("the kernel does not take it: {error}")),
            }
        }
        let ran = batch.attach(&mut compared);
        batch.enable(false);
        batch.compare(&ran, &mut compared);
        let (definitions, wrong) = (compared.definitions, compared.wrong.len());
        println!("run {run}: {definitions} definitions so far, {wrong} differ");
    }
    compared
}

/// A definition that the bridge takes, with its witnesses.
fn generate(
    mut grammar: Grammar<'_>,
    seats: &Seats,
    name: &str,
    knowledge: Knowledge<'_>,
) -> Option<Probe> {
    let seat = grammar.random.one(&seats.all).clone();
    let line = grammar.hit_at(&seat, name);
    let definition = accepted(&line, knowledge)?;
    let fields = match &definition.place {
        Place::Event { group, name, .. } => knowledge.kernel.event(group, name)?,
        _ => Vec::new(),
    };
    let line = with_witnesses(&line, &definition, &fields);
    let definition = accepted(&line, knowledge)?;
    Some(Probe {
        line,
        definition,
        fields,
    })
}

/// What the bridge attaches, and the kernel would not crash the program by.
fn accepted(line: &str, knowledge: Knowledge<'_>) -> Option<Definition> {
    let mut reader = Reader::new(knowledge, Language::Dynamic);
    match reader.read(line).pop() {
        Some((_, Line::Defined(definition))) if definition.obstacle.is_none() => Some(*definition),
        _ => None,
    }
}

/// The group of ours. That of the kernel's has the test's process in its name, so that none is in another's way.
const OURS: &str = "bridged";

struct Probe {
    line: String,
    definition: Definition,
    /// Of its event.
    fields: Vec<EventField>,
}

/// The probes of one run. The kernel's are gone when it is dropped.
struct Batch<'a> {
    probes: Vec<Probe>,
    group: String,
    instance: PathBuf,
    seats: &'a Seats,
}

impl Batch<'_> {
    fn new(run: u64, seats: &Seats) -> Batch<'_> {
        let group = format!("judged_{}", std::process::id());
        let instance = Path::new("/sys/kernel/tracing/instances").join(format!("{group}_{run}"));
        fs::create_dir(&instance).expect("an instance can be made");
        fs::write(instance.join("buffer_size_kb"), "4096").expect("the buffer can be enlarged");
        Batch {
            probes: Vec::new(),
            group,
            instance,
            seats,
        }
    }

    /// Defines it, for the program's thread alone, and switches it on.
    fn define(&self, line: &str, name: &str) -> io::Result<()> {
        let line = line.replacen(OURS, &self.group, 1);
        dynamic_events(&line)?;
        let event = self.instance.join(format!("events/{}/{name}", self.group));
        let names = self.seats.names.map(|name| format!("comm == \"{name}\""));
        let on = fs::write(event.join("filter"), names.join(" || "))
            .and_then(|()| fs::write(event.join("enable"), "1"));
        if on.is_err() {
            dynamic_events(&format!("-:{}/{name}", self.group))?;
        }
        on
    }

    fn enable(&self, on: bool) {
        let path = self.instance.join(format!("events/{}/enable", self.group));
        fs::write(&path, if on { "1" } else { "0" }).expect("the probes can be switched");
    }

    /// Runs the program under the bridge; what the bridge cannot attach is left out, and a run in which the kernel
    /// has kept a hit from the bridge is repeated.
    fn attach(&mut self, compared: &mut Compared) -> Ran {
        for _ in 0..10 {
            let mut arguments = vec!["attach"];
            for probe in &self.probes {
                arguments.extend(["-e", &probe.line]);
            }
            arguments.push("--");
            arguments.extend(self.seats.command.iter().map(String::as_str));
            let ran = run_bridge(&arguments);
            let names = || self.probes.iter().map(|probe| &probe.definition.event);
            if ran.status == 3 {
                let of_ours = |line: &&str| line.trim_start().starts_with(&format!("{OURS}:"));
                let misses = |line: &str| line.split_whitespace().nth_back(1).map(str::to_owned);
                let mut misses = ran.err.lines().filter(of_ours).filter_map(misses);
                if misses.all(|misses| misses == "0" || misses == "?") {
                    return ran;
                }
                continue;
            }
            let is_refused = |name: &String| {
                let marks = [format!("{OURS}/{name} "), format!("{OURS}:{name}")];
                ran.err
                    .lines()
                    .any(|line| marks.iter().any(|mark| line.contains(mark)))
            };
            let refused: Vec<String> = names().filter(|name| is_refused(name)).cloned().collect();
            assert!(!refused.is_empty(), "{}", ran.err);
            self.probes
                .retain(|probe| !refused.contains(&probe.definition.event));
            for _ in refused {
                compared.leave_out(ran.err.lines().next().unwrap_or(""));
            }
        }
        panic!("no run in which all is attached and nothing missed");
    }

    fn compare(&self, ran: &Ran, compared: &mut Compared) {
        let trace = fs::read(self.instance.join("trace")).expect("the buffer can be read");
        // Each byte is a character: texts are in no encoding.
        let trace: String = trace.iter().map(|&byte| byte as char).collect();
        for probe in &self.probes {
            let event = &probe.definition.event;
            let ours = bodies(&ran.out, &format!("{OURS}:{event}"));
            let theirs = bodies(&trace, event);
            let thread = ours.first().map(|(thread, _)| thread);
            let theirs: Vec<&String> = theirs
                .iter()
                .filter(|(other, _)| thread.is_none_or(|thread| thread == other))
                .map(|(_, body)| body)
                .collect();
            if ours.is_empty() && theirs.is_empty() {
                compared.leave_out("not reached");
                continue;
            }
            compared.definitions += 1;
            let Some(before) = theirs.len().checked_sub(ours.len()) else {
                let (ours, theirs) = (ours.len(), theirs.len());
                let counts = format!("{ours} hits here, {theirs} there");
                compared
                    .wrong
                    .push(format!("{}\n  {counts}\n{}", probe.line, ran.err));
                continue;
            };
            for ((_, own), their) in ours.iter().zip(&theirs[before..]) {
                compared.hit(probe, own, their);
            }
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.instance);
        let _ = dynamic_events(&format!("-:{}/", self.group));
        // Kernels before 6.2 take back one at a time.
        for probe in &self.probes {
            let _ = dynamic_events(&format!("-:{}/{}", self.group, probe.definition.event));
        }
    }
}

fn dynamic_events(line: &str) -> io::Result<()> {
    let file = OpenOptions::new()
        .append(true)
        .open("/sys/kernel/tracing/dynamic_events");
    file?.write_all(format!("{line}\n").as_bytes())
}

/// The thread, and what stands behind the event's name, in its lines; a line break in a text breaks the line.
fn bodies(text: &str, event: &str) -> Vec<(String, String)> {
    let mark = format!(": {event}: ");
    let mut bodies: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in text.split('\n') {
        let is_head = line
            .split_once(" [")
            .is_some_and(|(head, rest)| head.contains('-') && rest.get(3..5) == Some("] "));
        match (is_head, line.split_once(&mark)) {
            (true, Some((_, body))) => {
                is_inside = true;
                bodies.push((pid_of(line).to_owned(), body.to_owned()));
            }
            (true, None) => is_inside = false,
            (false, _) if is_inside => {
                if let Some((_, last)) = bodies.last_mut() {
                    last.push('\n');
                    last.push_str(line);
                }
            }
            _ => {}
        }
    }
    // What ends the last line is no part of it.
    if let Some((_, last)) = bodies.last_mut().filter(|_| is_inside) {
        last.truncate(last.trim_end_matches('\n').len());
    }
    bodies
}

impl Compared {
    fn leave_out(&mut self, why: &str) {
        // Its name and numbers are its own.
        let why = why.replace(|c: char| c.is_ascii_digit(), "#");
        *self
            .left_out
            .entry(why.chars().take(200).collect())
            .or_default() += 1;
    }

    fn hit(&mut self, probe: &Probe, own: &str, their: &str) {
        self.hits += 1;
        let Probe {
            line,
            definition,
            fields,
        } = probe;
        let ((ours, theirs), values) = values::pairs(definition, fields, own, their);
        // Where a function has several return probes, the kernel's own do not know who called it; ours do not
        // where they are of both kinds, which have code of their own since 6.14.
        let is_unknown = |address: &str| address.contains("[unknown/kretprobe'd]");
        let is_known = is_unknown(theirs)
            || is_unknown(ours) && definition.is_return
            || ["arch_rethook_trampoline", "return_to_handler"]
                .iter()
                .any(|trampoline| ours.contains(trampoline) || theirs.contains(trampoline))
            // Without `bpf_get_func_ip` in user probes.
            || Version::here() < Version(6, 6) && ours.ends_with("<- <fault>)");
        if ours != theirs && !is_known {
            self.wrong
                .push(format!("{line}\n  at {ours} here, {theirs} there"));
        }
        for value in values {
            self.values += 1;
            let type_ = format!("{:?}", value.argument.value);
            let type_ = match value.argument.count {
                Some(_) => format!("{type_}[]"),
                None => type_,
            };
            let letter = line[..1].to_owned();
            *self.covered.entry((letter, type_)).or_default() += 1;
            if value.ours.contains("<fault>") {
                self.unread += 1;
            }
            match value.differ() {
                None => {}
                Some(Some(reason)) => *self.known.entry(reason).or_default() += 1,
                Some(None) => self.wrong.push(format!(
                    "{line}\n  {}={}: {} here, {} there",
                    value.argument.name, value.argument.body, value.ours, value.theirs
                )),
            }
        }
    }

    pub(crate) fn tell(&self) {
        println!(
            "{} definitions, {} hits, {} values, {} of them with <fault>",
            self.definitions, self.hits, self.values, self.unread
        );
        let mut by_letter: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((letter, type_), count) in &self.covered {
            by_letter
                .entry(letter)
                .or_default()
                .push(format!("{type_} {count}"));
        }
        for (letter, types) in by_letter {
            println!("  {letter}: {}", types.join(", "));
        }
        for (reason, count) in &self.known {
            println!("{count:>6} otherwise on purpose: {reason}");
        }
        for (reason, count) in &self.left_out {
            println!("{count:>6} left out: {reason}");
        }
        assert!(
            self.wrong.is_empty(),
            "{} differ\n{}",
            self.wrong.len(),
            self.wrong
                .iter()
                .take(40)
                .cloned()
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
}
