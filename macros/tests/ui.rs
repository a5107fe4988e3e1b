//! What misuse is told.
//!
//! `ui/messages` are errors of the macros, with the same text on every compiler. `ui/compiler` are the
//! compiler's, which the macros only point at the right place: their text is that of one version.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// The compiler whose errors are in `ui/compiler`.
const COMPILER: &str = "rustc 1.95.";

fn main() -> ExitCode {
    let version = Command::new(option_env!("RUSTC").unwrap_or("rustc"))
        .arg("--version")
        .output();
    let known = version.is_ok_and(|version| version.stdout.starts_with(COMPILER.as_bytes()));
    let trials = vec![
        Trial::test("misuse_is_told_where_it_is_and_what_is_allowed", || {
            trybuild::TestCases::new().compile_fail("tests/ui/messages/*.rs");
            Ok(())
        }),
        Trial::test("errors_of_the_compiler_point_at_the_users_code", || {
            trybuild::TestCases::new().compile_fail("tests/ui/compiler/*.rs");
            Ok(())
        })
        .with_ignored_flag(!known),
    ];
    let mut arguments = Arguments::from_args();
    // Both build the same project.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}
