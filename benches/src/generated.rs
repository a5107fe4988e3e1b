//! Programs with a thousand small functions, each with a tracepoint of one kind or another.
//!
//! A program is a package of its own under the target directory, with the workspace's locked
//! versions. All functions are there in every program; how many of them have an event is a parameter,
//! so that the difference of two programs is what events cost, and nothing else.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions of a program.
pub const FUNCTIONS: usize = 1000;

/// What the functions' events are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// This project's `event!`.
    Tracebraid,
    /// `tracing`'s `debug!`.
    Tracing,
}

impl Flavour {
    /// All of them.
    pub const ALL: [Flavour; 2] = [Flavour::Tracebraid, Flavour::Tracing];

    /// The crate's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Tracebraid => "tracebraid",
            Flavour::Tracing => "tracing",
        }
    }

    fn dependency(self) -> String {
        match self {
            Flavour::Tracebraid => {
                format!("tracebraid = {{ path = {:?} }}", workspace().join("sdk"))
            }
            Flavour::Tracing => {
                "tracing = { version = \"0.1\", default-features = false, features = [\"std\"] }"
                    .to_owned()
            }
        }
    }

    fn event(self, function: usize) -> String {
        match self {
            Flavour::Tracebraid => {
                format!(
                    "tracebraid::event!(f{function:04}, id = id, length = items.len(), code = code);"
                )
            }
            Flavour::Tracing => {
                format!(
                    "tracing::debug!(name: \"f{function:04}\", id, length = items.len(), code);"
                )
            }
        }
    }

    fn start(self) -> &'static str {
        match self {
            Flavour::Tracebraid => "tracebraid::init();",
            Flavour::Tracing => "",
        }
    }
}

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What its events are made with.
    pub flavour: Flavour,
    /// How many of its functions have an event.
    pub events: usize,
}

impl Program {
    /// Writes the package.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(self) -> io::Result<Package> {
        let name = format!("generated-{}-{}", self.flavour.name(), self.events);
        let directory = target_directory()?.join("bench").join(&name);
        std::fs::create_dir_all(directory.join("src"))?;
        std::fs::copy(workspace().join("Cargo.lock"), directory.join("Cargo.lock"))?;
        let manifest = format!(
            "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{}\n\n[workspace]\n",
            self.flavour.dependency()
        );
        write_if_new(&directory.join("Cargo.toml"), &manifest)?;
        write_if_new(&directory.join("src/main.rs"), &self.source())?;
        Ok(Package { directory, name })
    }

    /// The program's text. It is run as `program [EVENTS_A_SECOND]`: without a rate it calls each
    /// function once and ends; with one it says `ready`, calls on in turn, and ends with its input.
    fn source(self) -> String {
        let mut source = String::new();
        for function in 0..FUNCTIONS {
            let event = if function < self.events {
                self.flavour.event(function)
            } else {
                String::new()
            };
            // A constant of its own: nobody may fold two functions into one.
            let _ = write!(
                source,
                "#[inline(never)]\n#[allow(unused_variables)]\nfn f{function:04}(id: u64, items: &[u64], code: i32) -> u64 {{\n    \
                 {event}\n    id.wrapping_mul(3).wrapping_add(items[0]) ^ {function}\n}}\n\n"
            );
        }
        let _ = write!(
            source,
            "static FUNCTIONS: [fn(u64, &[u64], i32) -> u64; {FUNCTIONS}] = ["
        );
        for function in 0..FUNCTIONS {
            let _ = write!(source, "f{function:04}, ");
        }
        source += "];\n\n";
        source += &MAIN.replace("START", self.flavour.start());
        source
    }
}

const MAIN: &str = r#"fn main() {
    use std::time::{Duration, Instant};

    START
    let items = std::hint::black_box([5, 6, 7, 8]);
    let call = |id: usize| {
        let function = std::hint::black_box(FUNCTIONS[id % FUNCTIONS.len()]);
        std::hint::black_box(function(id as u64, &items, -7));
    };
    let Some(rate) = std::env::args().nth(1).and_then(|rate| rate.parse::<u64>().ok()) else {
        (0..FUNCTIONS.len()).for_each(call);
        return;
    };
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    println!("ready");
    let start = Instant::now();
    let mut done = 0;
    loop {
        let due = start.elapsed().as_nanos() as u64 * rate / 1_000_000_000;
        (done..due).for_each(|id| call(id as usize));
        done = due;
        std::thread::sleep(Duration::from_micros(500));
    }
}
"#;

/// A package that was written.
#[derive(Clone, Debug)]
pub struct Package {
    directory: PathBuf,
    name: String,
}

impl Package {
    /// The command that builds it, optimised. Its dependencies are built by it as well, once.
    ///
    /// # Errors
    /// The target directory cannot be told.
    pub fn build(&self) -> io::Result<Command> {
        let mut command = Command::new(cargo());
        command
            .args(["build", "--release", "--quiet", "--offline", "--target-dir"])
            .arg(shared_target()?)
            .current_dir(&self.directory);
        Ok(command)
    }

    /// Makes the next build compile the package itself anew.
    ///
    /// # Errors
    /// The source is not there.
    pub fn touch(&self) -> io::Result<()> {
        let file = std::fs::File::options()
            .append(true)
            .open(self.directory.join("src/main.rs"))?;
        file.set_modified(std::time::SystemTime::now())
    }

    /// The program it builds.
    ///
    /// # Errors
    /// The target directory cannot be told.
    pub fn program(&self) -> io::Result<PathBuf> {
        Ok(shared_target()?.join("release").join(&self.name))
    }
}

/// Where generated packages are built: dependencies are built once for all of them.
fn shared_target() -> io::Result<PathBuf> {
    Ok(target_directory()?.join("bench").join("generated-target"))
}

/// The cargo that runs us.
#[must_use]
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The workspace's directory.
fn workspace() -> &'static Path {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    benches.parent().unwrap_or(benches)
}

/// Where cargo built this program: benches are in `<target>/<profile>/deps`.
///
/// # Errors
/// This program is somewhere else.
pub fn target_directory() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program
        .ancestors()
        .nth(3)
        .filter(|_| program.parent().is_some_and(|p| p.ends_with("deps")));
    target
        .map(Path::to_owned)
        .ok_or_else(|| io::Error::other("this program is not where cargo builds"))
}

/// Leaves a file alone that says the same: its time is what cargo goes by.
fn write_if_new(file: &Path, text: &str) -> io::Result<()> {
    match std::fs::read_to_string(file) {
        Ok(before) if before == text => Ok(()),
        _ => std::fs::write(file, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_functions_have_an_event_as_asked() {
        for flavour in Flavour::ALL {
            let word = match flavour {
                Flavour::Tracebraid => "tracebraid::event!",
                Flavour::Tracing => "tracing::debug!",
            };
            let source = Program {
                flavour,
                events: 17,
            }
            .source();
            assert_eq!(source.matches(word).count(), 17);
            assert_eq!(source.matches("#[inline(never)]").count(), FUNCTIONS);
        }
    }
}
