//! Attached before the program's first statement.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use tracebraid_tests::stapsdt;

use super::bridge::{Via, run};
use super::directory;
use super::target::built;

/// `attach -- CMD`: through USDT, all sites are on from the first statement of `main`, since the bridge
/// switches those that are patched; through the rings, from `init` on, which makes them.
pub(crate) fn started_by_the_bridge() {
    for (via, before) in [(Via::Usdt, true), (Via::Ring, false), (Via::Auto, false)] {
        let out = directory().join("first.txt");
        let (out, program) = (path(&out), path(&built().traced));
        let via = via.name();
        let ran = run(&[
            "attach", "--via", via, "-e", "first:*", "-o", out, "--", program, "first",
        ]);
        ran.assert_well();
        let said = format!("tested {before} early {before} patched true");
        assert!(ran.out.contains(&said), "{via}: {ran:?}");
        let stream = fs::read_to_string(out).expect("the stream");
        let events: Vec<&str> = stream
            .lines()
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        let expected = ["first:tested", "first:early", "first:patched"];
        let from = if before { 0 } else { 2 };
        assert_eq!(events, expected[from..], "{via}: {stream}");
    }
}

/// What perf does with a file before any process runs it: the kernel raises the semaphores as the file is
/// mapped, and the program finds them raised.
pub(crate) fn probed_before_start() {
    let program = &built().traced;
    probed(program, "first", |probed| {
        let output = output(Command::new(program).arg("first"));
        assert_eq!(
            output,
            format!("tested {probed} early false patched {probed}\n")
        );
    });
}

/// In a small program, where rustc's linker lets what is written at start share pages with what is not.
pub(crate) fn probed_before_start_in_a_small_program() {
    let program = &built().foreign;
    probed(program, "foreign", |probed| {
        let output = output(&mut Command::new(program));
        assert!(output.starts_with(&format!("off {probed}\n")), "{output}");
    });
}

/// Where a page of the file is mapped twice (read-only data ends in it, and writable data begins), the
/// kernel may raise a semaphore in the copy that the program does not look at.
pub(crate) fn semaphores_are_mapped_once() {
    let built = built();
    for file in [&built.traced, &built.foreign, &built.addon] {
        let output = output(Command::new("readelf").arg("-lW").arg(file));
        let number = |text: &str| {
            u64::from_str_radix(text.trim_start_matches("0x"), 16)
                .unwrap_or_else(|_| panic!("{text}"))
        };
        let segments: Vec<Range<u64>> = output
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let ["LOAD", offset, _, _, size, ..] = words[..] else {
                    return None;
                };
                let end = number(offset) + number(size);
                Some(number(offset) & !4095..end.next_multiple_of(4096))
            })
            .collect();
        for note in stapsdt::all(file) {
            let place = stapsdt::file_offset(file, note.semaphore);
            let maps = segments
                .iter()
                .filter(|segment| segment.contains(&place))
                .count();
            assert_eq!(maps, 1, "{note:?} at {place:#x} of {file:?}: {segments:x?}");
        }
    }
}

/// Runs with all probes of a provider set, and without.
fn probed(file: &Path, provider: &str, run: impl Fn(bool)) {
    let notes = stapsdt::notes(file, provider);
    assert!(!notes.is_empty());
    let probes: Vec<Probe> = notes
        .iter()
        .map(|note| Probe::attach(file, &note.name, note.location, note.semaphore))
        .collect();
    run(true);
    drop(probes);
    run(false);
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A uprobe of tracefs, as `perf probe` makes it; taken away when dropped.
struct Probe {
    name: String,
}

impl Probe {
    fn attach(file: &Path, name: &str, location: u64, semaphore: u64) -> Probe {
        let name = format!("tracebraid_{}/{name}", std::process::id());
        let location = stapsdt::file_offset(file, location);
        let semaphore = stapsdt::file_offset(file, semaphore);
        let line = format!("p:{name} {}:{location:#x}({semaphore:#x})", path(file));
        write("uprobe_events", &line);
        let probe = Probe { name };
        write(&format!("events/{}/enable", probe.name), "1");
        probe
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        write(&format!("events/{}/enable", self.name), "0");
        write("uprobe_events", &format!("-:{}", self.name));
    }
}

fn write(file: &str, text: &str) {
    use std::io::Write;

    let file: PathBuf = Path::new("/sys/kernel/tracing").join(file);
    fs::File::options()
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {text}: {error}", file.display()));
}
