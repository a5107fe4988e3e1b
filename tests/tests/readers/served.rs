//! A program that hits its tracepoints all along, and what is known of its hits.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tracebraid_tests::scenario;
use tracebraid_tests::stapsdt::{self, Note};
use tracebraid_tests::variant::{self, Built, Variant};

/// Where the tracepoint is that a tool is to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Release,
    FatLto,
    Library,
}

impl Kind {
    /// The programs, built so.
    pub(crate) fn build(self) -> Built {
        let variant = match self {
            Kind::Release | Kind::Library => Variant::release("release"),
            Kind::FatLto => variant::FAT_LTO,
        };
        variant::build(&variant, directory())
    }

    /// Provider and name of the tracepoint, whose first value counts up by one.
    pub(crate) fn tracepoint(self) -> (&'static str, &'static str) {
        match self {
            Kind::Release | Kind::FatLto => ("shapes", "plain"),
            Kind::Library => ("plugin", "work"),
        }
    }

    /// The file it is in.
    pub(crate) fn file(self, built: &Built) -> PathBuf {
        match self {
            Kind::Release | Kind::FatLto => built.gate.clone(),
            Kind::Library => built.plugin.clone().expect("a dynamic build"),
        }
    }
}

/// A directory for what tests leave from run to run.
pub(crate) fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The program, running; ended when dropped.
pub(crate) struct Served {
    child: Child,
}

impl Served {
    pub(crate) fn start(built: &Built) -> Served {
        let mut child = Command::new(&built.gate)
            .args(["serve", "120"])
            .args(&built.plugin)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, format!("READY {}\n", child.id()));
        Served { child }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits until no tool holds the semaphore of the tracepoint any more.
    pub(crate) fn assert_left_alone(&self, kind: Kind, built: &Built) {
        let file = kind.file(built);
        let (provider, name) = kind.tracepoint();
        let note = note(&file, provider, name);
        let address = self.base(&file) + note.semaphore;
        let memory = File::open(format!("/proc/{}/mem", self.pid())).expect("its memory");
        let readers = || {
            let mut word = [0; 2];
            memory
                .read_exact_at(&mut word, address)
                .expect("the semaphore");
            u16::from_le_bytes(word)
        };
        scenario::eventually("the semaphore is 0 again", Duration::from_secs(10), || {
            readers() == 0
        });
    }

    /// Where the file's first byte is mapped.
    fn base(&self, file: &Path) -> u64 {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("its maps");
        let path = file.to_str().expect("a path in UTF-8");
        let line = maps
            .lines()
            .find(|line| line.ends_with(path) && line.contains(" 00000000 "))
            .expect("the file is mapped");
        let (start, _) = line.split_once('-').expect("a range");
        u64::from_str_radix(start, 16).expect("an address")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The note of a tracepoint that has one only.
fn note(file: &Path, provider: &str, name: &str) -> Note {
    let notes = stapsdt::notes(file, provider);
    let mut named = notes.into_iter().filter(|note| note.name == name);
    match (named.next(), named.next()) {
        (Some(note), None) => note,
        other => panic!("{provider}:{name} in {}: {other:?}", file.display()),
    }
}

/// Every tracepoint of a file, as `provider:name`, each once.
pub(crate) fn names(file: &Path) -> std::collections::BTreeSet<String> {
    let names: std::collections::BTreeSet<String> = stapsdt::all(file)
        .iter()
        .map(|note| format!("{}:{}", note.provider, note.name))
        .collect();
    assert!(names.contains("shapes:plain"), "{names:?}");
    names
}

/// Runs a tool to its end.
pub(crate) fn output(command: &mut Command) -> String {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let end = scenario::wait(child, Duration::from_secs(60)).expect("the tool can be waited for");
    assert!(
        end.status.is_some_and(|status| status.success()),
        "{command:?}: {:?}\n{}{}",
        end.status,
        end.output,
        end.errors
    );
    end.output
}

/// Checks the values of hits in a row: the first counts up by one, and the others follow from it.
///
/// A tool may read the buffers of the CPUs in turn, so that hits come in another order; and what is
/// still in one of them when it ends is missing at the end.
pub(crate) fn assert_hits(kind: Kind, hits: &[Vec<String>]) {
    let id = |values: &Vec<String>| -> u64 {
        values[0].parse().unwrap_or_else(|_| panic!("{values:?}"))
    };
    let mut ids: Vec<u64> = hits.iter().map(id).collect();
    ids.sort_unstable();
    assert!(ids.len() >= 40, "{hits:?}");
    ids.truncate(40);
    for pair in ids.windows(2) {
        assert_eq!(
            pair[1],
            pair[0] + 1,
            "a hit was lost or came twice: {ids:?}"
        );
    }
    for values in hits {
        let id = id(values);
        let expected = match kind {
            Kind::Release | Kind::FatLto => {
                vec![id.to_string(), format!("-{id}"), (2 * id).to_string()]
            }
            Kind::Library => vec![id.to_string(), "plugin".to_owned()],
        };
        assert_eq!(*values, expected);
    }
}
