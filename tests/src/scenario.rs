//! Tests that run in a process of their own.
//!
//! What they do cannot be undone (forbidding writable code, giving up root) or concerns the process as a
//! whole (fork, signals, its end). The test binary starts itself again and says by an environment
//! variable which scenario to run; a scenario proves its sentence by ending well, and says what is
//! wrong by a panic. A scenario that hangs is ended and fails.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::requirement::{self, Need};

const NAME: &str = "TRACEBRAID_SCENARIO";
/// How long a scenario may take, except where it runs for long by request.
const LIMIT: Duration = Duration::from_secs(120);

/// A test in a process of its own.
pub struct Scenario {
    /// The sentence it proves.
    pub name: &'static str,
    /// What it needs of the machine.
    pub needs: &'static [Need],
    /// What runs in the other process.
    pub run: fn(),
    /// What its standard output must be, where that matters.
    pub prints: Option<&'static str>,
}

impl Scenario {
    /// A scenario that only has to end well.
    #[must_use]
    pub const fn new(name: &'static str, needs: &'static [Need], run: fn()) -> Scenario {
        Scenario {
            name,
            needs,
            run,
            prints: None,
        }
    }

    /// The same with an output that it must have.
    #[must_use]
    pub const fn printing(mut self, text: &'static str) -> Scenario {
        self.prints = Some(text);
        self
    }
}

/// Runs the scenario that this process was started for, if it was, and ends it; else makes trials.
#[must_use]
pub fn trials(groups: &[&'static [Scenario]]) -> Vec<Trial> {
    let mut scenarios = groups.iter().flat_map(|group| group.iter());
    if let Ok(wanted) = std::env::var(NAME) {
        let scenario = scenarios
            .find(|scenario| scenario.name == wanted)
            .unwrap_or_else(|| panic!("no scenario is named {wanted}"));
        (scenario.run)();
        std::process::exit(0);
    }
    scenarios
        .map(|scenario| requirement::trial(scenario.name, scenario.needs, || start(scenario)))
        .collect()
}

fn start(scenario: &Scenario) {
    let child = Command::new(std::env::current_exe().expect("the test binary has a path"))
        .env(NAME, scenario.name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test binary starts again");
    // An emulated CPU may have to share one that others want as well.
    let limit = match (requirement::is_soak(), requirement::is_short()) {
        (true, _) => LIMIT * 30,
        (_, true) => LIMIT * 4,
        _ => LIMIT,
    };
    let end = wait(child, limit).expect("the process can be waited for");
    assert!(
        end.status.is_some_and(|status| status.success()),
        "{}\n{}{}",
        end.status
            .map_or(format!("did not end within {limit:?}"), |status| status
                .to_string()),
        end.output,
        end.errors
    );
    if let Some(expected) = scenario.prints {
        assert_eq!(end.output, expected, "{}", end.errors);
    }
}

/// How a process ended.
pub struct End {
    /// Its status; `None` where it had to be killed after the limit.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard output.
    pub output: String,
    /// What it wrote to standard error.
    pub errors: String,
}

/// Waits for a process and reads what it writes to its pipes; kills it after `limit`.
///
/// # Errors
/// The process cannot be waited for or killed.
pub fn wait(mut child: Child, limit: Duration) -> io::Result<End> {
    let output = child.stdout.take().map(read_all);
    let errors = child.stderr.take().map(read_all);
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.map_or(String::new(), |reader| reader.join().unwrap_or_default())
    };
    Ok(End {
        status,
        output: text(output),
        errors: text(errors),
    })
}

fn read_all(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read before an error is what the test shows.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits until `holds`, looking every millisecond.
///
/// # Panics
/// It does not hold within `limit`; the text says what was waited for.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
