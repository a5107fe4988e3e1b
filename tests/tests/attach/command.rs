//! Attached before the program's first statement.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tracebraid_tests::stapsdt;

use super::bridge::{Via, run};
use super::directory;
use super::target::built;

/// `attach -- CMD`: through USDT, sites that test their semaphore are on from the first statement of `main`
/// and patched ones from `init` on; through the rings, all from `init` on, which makes them.
pub(crate) fn started_by_the_bridge() {
    for (via, before) in [(Via::Usdt, true), (Via::Ring, false), (Via::Auto, false)] {
        let out = directory().join("first.txt");
        let (out, program) = (path(&out), path(&built().traced));
        let via = via.name();
        let ran = run(&[
            "attach", "--via", via, "-e", "first:*", "-o", out, "--", program, "first",
        ]);
        ran.assert_well();
        let said = format!("tested {before} patched true");
        assert!(ran.out.contains(&said), "{via}: {ran:?}");
        let stream = fs::read_to_string(out).expect("the stream");
        let events: Vec<&str> = stream
            .lines()
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        let expected = ["first:tested", "first:patched"];
        assert_eq!(events, expected[usize::from(!before)..], "{via}: {stream}");
    }
}

/// What perf does with a file before any process runs it: the kernel raises the semaphores as the file is
/// mapped.
pub(crate) fn probed_before_start() {
    let file = &built().traced;
    let notes = stapsdt::notes(file, "first");
    let probes: Vec<Probe> = notes
        .iter()
        .map(|note| Probe::attach(file, &note.name, note.location, note.semaphore))
        .collect();
    assert_eq!(probes.len(), 2);
    let output = Command::new(file)
        .arg("first")
        .output()
        .expect("the program starts");
    drop(probes);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "tested true patched true\n"
    );
    let output = Command::new(file)
        .arg("first")
        .output()
        .expect("the program starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "tested false patched false\n"
    );
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
