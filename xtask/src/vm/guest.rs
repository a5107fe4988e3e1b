//! One guest: a kernel under emulation that runs the suite and says what came of it.
//!
//! It writes to two serial lines: its kernel's messages to one, what the tests print to the other, with
//! marks (`@@ …`, `tests/vm/init`) where a program begins and ends. A guest that stops talking, or whose
//! kernel gives up, fails with the program that ran.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::suite::{Machine, Row};
use crate::error::Error;
use crate::process::Running;
use crate::tally::Tally;

/// The most that a guest may take from power-on to its first program.
const BOOT: Duration = Duration::from_secs(120);

/// What the kernel's log says where something is wrong with the kernel, whoever did it.
const COMPLAINTS: [&str; 6] = [
    "BUG: ",
    "WARNING: ",
    "Oops",
    "Kernel panic",
    "general protection fault",
    "INFO: task ",
];

/// Of those, what an emulated CPU that gets no time leads to.
const OF_SLOWNESS: [&str; 2] = ["soft lockup", "blocked for more than"];

/// What a guest did.
pub(crate) struct Seen {
    /// What its tests said.
    pub(crate) tally: Tally,
    /// What is wrong beside failed tests: programs that did not end, complaints of the kernel.
    pub(crate) trouble: Vec<String>,
    /// What there was no time for.
    pub(crate) unfinished: Vec<String>,
    /// How long each program took.
    pub(crate) times: Vec<Took>,
    /// What its programs have measured, by name, in nanoseconds.
    pub(crate) measured: Vec<(String, f64)>,
    /// Whether any program has begun: the machine came up.
    pub(crate) is_up: bool,
}

/// How long a program took: by the clock, and the emulator's CPU time, which tells on a busy machine.
pub(crate) struct Took {
    pub(crate) program: String,
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
}

/// How guests are run.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// They are ended then.
    pub(crate) end: Option<Instant>,
    /// What programs print is not shown.
    pub(crate) quiet: bool,
}

impl Run {
    /// Whether the time is up.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// Starts a guest and lets it run to its end. What it says is printed with the machine's name before it.
///
/// # Errors
/// The emulator cannot be started.
pub(crate) fn run(
    machine: &Machine,
    kernel: &Path,
    archive: &Path,
    rows: &[&Row],
    directory: &Path,
    run: Run,
) -> Result<Seen, Error> {
    let mut talk = Talk::new(machine, rows, run.quiet);
    if run.is_over() {
        talk.seen.unfinished.push("not begun".to_owned());
        return Ok(talk.seen);
    }
    let console = directory.join(format!("{}.console", machine.name));
    let output = directory.join(format!("{}.output", machine.name));
    for file in [&console, &output] {
        File::create(file).map_err(Error::doing(file.display().to_string()))?;
    }
    let mut emulator = Command::new("qemu-system-x86_64");
    emulator
        // One thread of emulation: with several, a guest that patches its own text can run what is half
        // written, which no CPU does.
        .args(["-accel", "tcg,thread=single", "-cpu", "max"])
        .args(["-m", "3G", "-smp", "2"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(archive)
        .arg("-append")
        // A kernel that has gone wrong ends. What only takes long on a slow machine is no error, and a timer
        // that does not tick in time while it starts is not broken.
        .arg(format!(
            "console=ttyS0 quiet no_timer_check oops=panic panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 {} {}",
            machine.append,
            left_out(machine)
        ))
        .args(["-no-reboot", "-display", "none", "-monitor", "none"])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-serial")
        .arg(format!("file:{}", output.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut running = Running::start(&mut emulator)?;
    let mut lines = Lines::open(&output)?;
    // Powering off can hang under emulation: it is not waited for.
    while !talk.is_done {
        let ended = running.has_ended()?;
        let fresh = lines.read()?;
        for line in &fresh {
            talk.hear(line, running.cpu_time());
        }
        if ended && fresh.is_empty() {
            talk.trouble("the emulator ended".to_owned());
            break;
        }
        if Instant::now() > talk.limit {
            talk.trouble("nothing came of it within its limit".to_owned());
            break;
        }
        if run.is_over() {
            talk.seen.unfinished.push(talk.during());
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(running);
    let mut seen = talk.seen;
    let console_text = text(&console)?;
    seen.trouble.extend(complaints(&console_text));
    if !seen.trouble.is_empty() {
        let lines: Vec<&str> = console_text.lines().collect();
        for line in &lines[lines.len().saturating_sub(60)..] {
            println!("{} console │ {line}", machine.name);
        }
    }
    Ok(seen)
}

/// For `tests/vm/init`: the tests that are not to run.
fn left_out(machine: &Machine) -> String {
    let tests: Vec<&str> = machine.left_out.iter().map(|test| test.test).collect();
    format!("LEFT_OUT={}", tests.join(","))
}

/// What a guest says, as it comes.
struct Talk<'a> {
    machine: &'a Machine,
    rows: &'a [&'a Row],
    seen: Seen,
    quiet: bool,
    /// The program that runs, since when, and how much the emulator had worked before.
    now: Option<(String, Instant, Duration)>,
    /// When what is awaited now is overdue.
    limit: Instant,
    is_done: bool,
}

impl<'a> Talk<'a> {
    fn new(machine: &'a Machine, rows: &'a [&'a Row], quiet: bool) -> Talk<'a> {
        Talk {
            machine,
            rows,
            seen: Seen {
                tally: Tally::default(),
                trouble: Vec::new(),
                unfinished: Vec::new(),
                times: Vec::new(),
                measured: Vec::new(),
                is_up: false,
            },
            quiet,
            now: None,
            limit: Instant::now() + BOOT,
            is_done: false,
        }
    }

    fn hear(&mut self, line: &str, cpu: Duration) {
        if !self.quiet || line.starts_with("@@ end ") {
            println!("{:>14} │ {line}", self.machine.name);
        }
        let Some(mark) = line.strip_prefix("@@ ") else {
            self.seen.tally.read(line);
            return;
        };
        let words: Vec<&str> = mark.split(' ').collect();
        match words[..] {
            ["begin", name] => {
                let row = self.rows.iter().find(|row| row.name() == name);
                let limit = row.map_or(0, |row| row.limit);
                // The guest ends a program at its limit; its clock may be slower than ours.
                self.limit = Instant::now() + Duration::from_secs(u64::from(limit) * 2) + BOOT;
                self.now = Some((name.to_owned(), Instant::now(), cpu));
                self.seen.is_up = true;
            }
            ["end", name, status] => {
                if let Some((program, since, before)) = self.now.take() {
                    self.seen.times.push(Took {
                        program,
                        time: since.elapsed(),
                        cpu: cpu.saturating_sub(before),
                    });
                }
                for test in self.machine.left_out.iter().filter(|test| test.row == name) {
                    self.seen.tally.ignore(test.test, test.reason);
                }
                match status {
                    // 101: tests have failed, and were counted.
                    "0" | "101" => {}
                    "137" => self.fail(format!("{name} was killed, most likely at its limit")),
                    _ => self.fail(format!("{name} ended with status {status}")),
                }
            }
            ["measured", name, time] => {
                let time = time.parse().ok();
                let measured = time.map(|time| (name.to_owned(), time));
                self.seen.measured.extend(measured);
            }
            ["done"] => self.is_done = true,
            _ => {}
        }
    }

    /// Something is wrong with the program that runs.
    fn trouble(&mut self, what: String) {
        self.fail(format!("{}: {what}", self.during()));
    }

    fn during(&self) -> String {
        match &self.now {
            Some((name, ..)) => format!("during {name}"),
            None => "between programs".to_owned(),
        }
    }

    fn fail(&mut self, what: String) {
        self.seen.tally.failed += 1;
        self.seen.trouble.push(what);
    }
}

/// Lines of a file that is being written.
struct Lines {
    file: File,
    rest: Vec<u8>,
}

impl Lines {
    fn open(path: &Path) -> Result<Lines, Error> {
        let file = File::open(path).map_err(Error::doing(path.display().to_string()))?;
        Ok(Lines {
            file,
            rest: Vec::new(),
        })
    }

    /// Those that have become whole.
    fn read(&mut self) -> Result<Vec<String>, Error> {
        self.file
            .read_to_end(&mut self.rest)
            .map_err(Error::doing("the guest's output"))?;
        let end = self.rest.iter().rposition(|&byte| byte == b'\n');
        let whole: Vec<u8> = self.rest.drain(..end.map_or(0, |end| end + 1)).collect();
        let text = String::from_utf8_lossy(&whole);
        Ok(text.lines().map(|line| line.replace('\r', "")).collect())
    }
}

fn text(path: &PathBuf) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(Error::doing(path.display().to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

/// Lines of a kernel's log that say that something is wrong with it.
fn complaints(console: &str) -> Vec<String> {
    let is_complaint = |line: &&str| {
        COMPLAINTS.iter().any(|sign| line.contains(sign))
            && !OF_SLOWNESS.iter().any(|sign| line.contains(sign))
    };
    let lines = console.lines().filter(is_complaint);
    lines
        .map(|line| format!("the kernel says: {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::suite::{MACHINES, SUITE};
    use super::*;

    fn heard(lines: &[&str]) -> Seen {
        let rows: Vec<&Row> = SUITE.iter().collect();
        let mut talk = Talk::new(&MACHINES[0], &rows, true);
        for line in lines {
            talk.hear(line, Duration::ZERO);
        }
        talk.seen
    }

    #[test]
    fn a_guest_is_counted_by_what_its_harnesses_say() {
        let seen = heard(&[
            "@@ up 6.1.0",
            "@@ begin sdk:lib",
            "test a ... ok",
            "test result: ok. 1 passed; 0 failed; 0 ignored",
            "@@ end sdk:lib 0",
            "@@ begin bpf:lib",
            "test b ... FAILED",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored",
            "@@ end bpf:lib 101",
            "@@ done",
        ]);
        assert_eq!(seen.tally.summary(), "1 passed, 1 failed, 0 ignored");
        assert!(seen.trouble.is_empty());
        assert_eq!(seen.times.len(), 2);
    }

    #[test]
    fn what_a_program_measures_is_kept_under_its_name() {
        let seen = heard(&[
            "@@ begin bridge-cli:function_costs",
            "@@ measured kprobe/tracebraid 5120",
            "@@ measured kprobe/tracefs",
        ]);
        assert_eq!(seen.measured, [("kprobe/tracebraid".to_owned(), 5120.0)]);
    }

    #[test]
    fn a_program_that_is_killed_has_failed_though_it_counted_nothing() {
        let seen = heard(&["@@ begin sdk:lib", "test a ... ok", "@@ end sdk:lib 137"]);
        assert_eq!(seen.tally.failed, 1);
        assert_eq!(
            seen.trouble,
            ["sdk:lib was killed, most likely at its limit"]
        );
    }

    #[test]
    fn a_kernel_that_complains_is_trouble_and_a_slow_one_is_not() {
        let console = "\
[    1.0] Run /init as init process
[    9.1] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!
[   12.5] BUG: unable to handle page fault for address: ffffffffc0000000
[   12.6] WARNING: CPU: 0 PID: 1 at kernel/events/uprobes.c:1
";
        assert_eq!(complaints(console).len(), 2);
    }
}
