//! Attached before the program's first statement.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use tracebraid_tests::{programs, stapsdt, variant};

use super::bridge::{Via, run};
use super::directory;
use super::outside::static_program;
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

/// In a program whose read-only data ends at the beginning of a page, so that all writable data begins in that
/// page too: semaphores that did not begin on a page of their own would be in it.
pub(crate) fn probed_before_start_where_all_data_begin_on_a_page_that_is_mapped_twice() {
    let plain = laid_out(0);
    let (end, data) = (read_only_end(&plain), size_of_section(&plain, ".data"));
    // Room for what the linker puts between the two to align them.
    let start = 128;
    let padding = (PAGE + start - end % PAGE) % PAGE / 64 * 64;
    let program = laid_out(padding);
    let end = read_only_end(&program);
    assert!(
        end % PAGE + data + 128 < PAGE,
        "read-only data ends at {end:#x}, {data:#x} bytes of data follow"
    );
    probed(&program, "layout", |probed| {
        assert_eq!(output(&mut Command::new(&program)), format!("{probed}\n"));
    });
}

const PAGE: u64 = 4096;

/// Builds `layout` with so many bytes more of data that are read-only after the start.
fn laid_out(padding: u64) -> PathBuf {
    let text = directory().join("padding.s");
    let object = directory().join(format!("padding-{padding}.o"));
    let section = format!(".section .data.rel.ro.padding,\"awR\"\n.space {padding}\n");
    fs::write(&text, section).expect("a file of ours");
    output(
        Command::new("cc")
            .arg("-c")
            .arg(&text)
            .arg("-o")
            .arg(&object),
    );
    let mut cargo = programs::cargo("rustc", variant::GNU, directory());
    cargo.args(["--package", "layout", "--", "-C"]);
    programs::build(cargo.arg(format!("link-arg={}", path(&object))));
    let built = directory().join("programs").join(variant::GNU);
    built.join("release/layout")
}

/// Where the file's part ends that is read-only after the start.
fn read_only_end(file: &Path) -> u64 {
    let text = output(Command::new("readelf").arg("-lW").arg(file));
    let line = text.lines().find(|line| line.contains("GNU_RELRO"));
    let words: Vec<&str> = line.expect("a part that is").split_whitespace().collect();
    hexadecimal(words[1]) + hexadecimal(words[4])
}

fn size_of_section(file: &Path, name: &str) -> u64 {
    let text = output(Command::new("readelf").arg("-SW").arg(file));
    let line = text
        .lines()
        .find_map(|line| line.split_once(&format!(" {name} ")))
        .expect("the section");
    // Behind the name: type, address, offset, size.
    let words: Vec<&str> = line.1.split_whitespace().collect();
    hexadecimal(words[3])
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{text}"))
}

/// Where a page of the file is mapped twice (read-only data ends in it, and writable data begins), the
/// kernel may raise a semaphore in the copy that the program does not look at.
pub(crate) fn semaphores_are_mapped_once() {
    let (built, of_one_piece) = (built(), static_program());
    for file in [&built.traced, &built.foreign, &built.addon, &of_one_piece] {
        let output = output(Command::new("readelf").arg("-lW").arg(file));
        let segments: Vec<Range<u64>> = output
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let ["LOAD", offset, _, _, size, ..] = words[..] else {
                    return None;
                };
                let end = hexadecimal(offset) + hexadecimal(size);
                Some(hexadecimal(offset) & !(PAGE - 1)..end.next_multiple_of(PAGE))
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
