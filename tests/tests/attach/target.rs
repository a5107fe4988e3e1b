//! The program `traced` as a child process: told what to do through its standard input.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use tracebraid_tests::programs;
use tracebraid_tests::stapsdt::{self, Note};
use tracebraid_tests::variant;

use super::bridge::LONG;
use super::directory;

/// The programs that the bridge attaches to.
pub(crate) struct Programs {
    /// `programs/traced`.
    pub(crate) traced: PathBuf,
    /// `programs/addon`, a library.
    pub(crate) addon: PathBuf,
    /// `programs/foreign`, a small one.
    pub(crate) foreign: PathBuf,
    /// `programs/chorus`, and the library that it loads.
    pub(crate) chorus: [PathBuf; 2],
}

/// Builds them.
pub(crate) fn built() -> &'static Programs {
    static BUILT: OnceLock<Programs> = OnceLock::new();
    BUILT.get_or_init(|| {
        build();
        let built = directory()
            .join("programs")
            .join(variant::GNU)
            .join("release");
        Programs {
            traced: built.join("traced"),
            addon: built.join("libaddon.so"),
            foreign: built.join("foreign"),
            chorus: ["chorus", "libchorus.so"].map(|name| built.join(name)),
        }
    })
}

/// Puts them where [`built`] says they are: also when another variant of one was built there meanwhile.
pub(crate) fn build() {
    let mut cargo = programs::cargo("build", variant::GNU, directory());
    programs::build(cargo.args([
        "--package",
        "traced",
        "--package",
        "addon",
        "--package",
        "foreign",
    ]));
    // By itself: cargo would give the others its features of the SDK.
    let mut cargo = programs::cargo("build", variant::GNU, directory());
    programs::build(cargo.args(["--package", "chorus"]));
}

/// A running `traced`; ended when dropped.
pub(crate) struct Target {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Target {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> Target {
        Target::spawn(Command::new(&built().traced).args(arguments))
    }

    /// The same for a command that was prepared.
    pub(crate) fn spawn(command: &mut Command) -> Target {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut target = Target {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        };
        assert_eq!(target.line(), format!("READY {}", target.pid()));
        target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a line to it.
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").expect("it reads");
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        assert!(line.ends_with('\n'), "it ended: {line:?}");
        line.pop();
        line
    }

    /// Says a line and gives the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.line()
    }

    /// How often `traced serve` has hit its tracepoints so far.
    pub(crate) fn along(&mut self) -> u64 {
        self.ask("along").parse().expect("a number")
    }

    pub(crate) fn kill(&self, signal: i32) {
        kill(self.pid(), signal);
    }

    /// Closes its input and waits for its end; what it printed meanwhile.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        drop(self.input.take());
        let end = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                break status;
            }
            assert!(
                Instant::now() < end,
                "the target did not end within {LONG:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        (status, text)
    }

    /// The sum of all semaphores of its tracepoints, of the program and of the library if it is loaded.
    pub(crate) fn semaphores(&self) -> u64 {
        static NOTES: OnceLock<[(PathBuf, Vec<Note>); 2]> = OnceLock::new();
        let all = NOTES.get_or_init(|| {
            let programs = built();
            [&programs.traced, &programs.addon].map(|file| {
                let mut notes = stapsdt::all(file);
                notes.retain(|note| note.semaphore != 0);
                assert!(!notes.is_empty(), "{file:?}");
                (file.clone(), notes)
            })
        });
        let memory = File::open(format!("/proc/{}/mem", self.pid())).expect("its memory");
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("its maps");
        let mut sum = 0;
        for (file, notes) in all {
            let path = file.to_str().expect("a path in UTF-8");
            let first = maps
                .lines()
                .find(|line| line.ends_with(path) && line.contains(" 00000000 "));
            let Some((start, _)) = first.and_then(|line| line.split_once('-')) else {
                continue;
            };
            let base = u64::from_str_radix(start, 16).expect("an address");
            for note in notes {
                let mut word = [0; 2];
                memory
                    .read_exact_at(&mut word, base + note.semaphore)
                    .expect("a semaphore");
                sum += u64::from(u16::from_le_bytes(word));
            }
        }
        sum
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that we started and have not waited for.
#[allow(unsafe_code)]
pub(crate) fn kill(pid: u32, signal: i32) {
    // SAFETY: kill takes two numbers.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}
