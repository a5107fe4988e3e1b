//! `bridge-cli`: see the library `bridge`.

fn main() -> std::process::ExitCode {
    bridge::cli::main()
}
