//! `cargo xtask`: what the README's commands call.
//!
//! ```text
//! setup   what a command needs of the machine, installed where it is missing
//!   └▶ demo    builds, starts the example service, attaches to it, shows the stream
//!   └▶ test    format, lints, build, every test, models, fuzzing, a check for a foreign target
//!   └▶ vm      the tests that face the kernel, on other kernels
//!   └▶ bench   measurements, merged into one summary
//!   └▶ soak    the tests that count for long, for long
//!   └▶ fuzz    one target of tests/fuzz for as long as one likes
//! ```
//! Each says what it does before it does it, and leaves nothing running and nothing mounted.

mod bench;
mod cargo;
mod demo;
mod error;
mod foreign;
mod fuzz;
mod interleavings;
mod musl;
mod package;
mod process;
mod setup;
mod soak;
mod steps;
mod stream;
mod summary;
mod tally;
mod test;
mod tracefs;
mod vm;

use std::process::ExitCode;

use crate::error::Error;

const HELP: &str = "\
usage: cargo xtask COMMAND

  demo              installs what is missing, builds, starts the example service under load,
                    attaches to it for some seconds, and shows what came
  test              format, lints, build, all tests, models, a minute of fuzzing, and a check for a
                    target that is not Linux
  vm [--on KERNEL]… [--brief] [--within MINUTES] [--quiet] [NAME]…
                    the tests that face the kernel, on Debian's kernels under emulation: on all of
                    them or on KERNEL; all test executables or those with NAME in theirs; brief is
                    what `test` runs of them; what has not ended within MINUTES is ended; quiet shows
                    what failed only
  bench [--quick]   measures; writes bench/summary.json into the target directory
  soak [NAME]       the tests that count long, at full length (those with NAME in their names)
  fuzz [TARGET [SECONDS]]
                    fuzzes one target of tests/fuzz, or all, each for so many seconds (60)

What is missing is installed with the machine's package manager, through sudo unless you are root;
it is named first, with the reason.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    process::outlive_interrupts();
    if let Err(error) = std::env::set_current_dir(cargo::root()) {
        eprintln!("xtask: {}: {error}", cargo::root().display());
        return ExitCode::FAILURE;
    }
    let done = match arguments[..] {
        ["demo"] => demo::run(),
        ["test"] => test::run(),
        ["vm", ref arguments @ ..] => {
            vm::Options::parse(arguments).and_then(|options| vm::run(&options))
        }
        ["bench"] => bench::run(bench::Length::Full),
        ["bench", "--quick"] => bench::run(bench::Length::Quick),
        ["soak"] => soak::run(None),
        ["soak", name] => soak::run(Some(name)),
        ["fuzz"] => fuzz::run(None, fuzz::LONG),
        ["fuzz", target] => fuzz::run(Some(target), fuzz::LONG),
        ["fuzz", target, seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(Some(target), seconds),
            Err(_) => Err(Error::usage(format!("{seconds:?} is no number of seconds"))),
        },
        [] | ["help" | "-h" | "--help", ..] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => Err(Error::usage(format!(
            "no command {:?}\n\n{HELP}",
            arguments.join(" ")
        ))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            error.exit_code()
        }
    }
}
