//! The machine's package manager.

use std::io::IsTerminal as _;
use std::process::Command;

use crate::error::Error;
use crate::process;

/// One that we can speak to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, Red Hat.
    Dnf,
}

impl Manager {
    /// The one that is here.
    pub(crate) fn find() -> Option<Manager> {
        let candidates = [("apt-get", Manager::Apt), ("dnf", Manager::Dnf)];
        let here = candidates
            .iter()
            .find(|(program, _)| process::find_program(program).is_some());
        here.map(|&(_, manager)| manager)
    }

    /// Installs the packages.
    ///
    /// # Errors
    /// We are not root and cannot become it, or the package manager fails.
    pub(crate) fn install(self, packages: &[&str]) -> Result<(), Error> {
        match self {
            Manager::Apt => {
                // A machine without package lists knows no package. Old lists are good enough, so
                // that only the installation decides.
                if let Err(error) = process::run(as_root("apt-get")?.args(["update", "-q"])) {
                    eprintln!("xtask: {error}; trying with the lists that are here");
                }
                let mut install = as_root("apt-get")?;
                install
                    .args(["install", "-y", "-q", "--no-install-recommends"])
                    .args(packages);
                process::run(&mut install)
            }
            Manager::Dnf => process::run(as_root("dnf")?.args(["install", "-y"]).args(packages)),
        }
    }
}

/// The program with root's rights: as it is for root, through sudo otherwise.
///
/// # Errors
/// There is no sudo, or it wants a password and nobody is there to type it.
pub(crate) fn as_root(program: &str) -> Result<Command, Error> {
    if process::is_root() {
        return Ok(Command::new(program));
    }
    if process::find_program("sudo").is_none() {
        return Err(Error::failed(format!(
            "{program} needs root, and there is no sudo here"
        )));
    }
    let mut command = Command::new("sudo");
    if !std::io::stdin().is_terminal() {
        if !process::succeeds(Command::new("sudo").args(["-n", "true"])) {
            let reason = "sudo wants a password, and no terminal is here to ask for it";
            return Err(Error::failed(format!("{program} needs root: {reason}")));
        }
        command.arg("-n");
    }
    command.arg(program);
    Ok(command)
}
