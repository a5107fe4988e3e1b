//! A program that runs while a test looks at it.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bridge::target::{Process, Scan, UsdtProbe};

use crate::case_program::build;

/// A process that is killed and waited for at the end of the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts a command and waits until it says that it is ready.
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Running(child)
    }

    pub(crate) fn process(&self) -> Process {
        Process::open(self.0.id()).unwrap()
    }

    pub(crate) fn scan(&self) -> Scan {
        self.process().binaries().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn waiting_program() -> PathBuf {
    build(&["usdt/waits.c"], &["-pthread"])
}

/// The scan has to hold the waiting program as its first binary, under this name.
pub(crate) fn has(scan: &Scan, path: &Path, deleted: bool) {
    let binary = &scan.binaries[0];
    assert_eq!((binary.path(), binary.is_deleted()), (path, deleted));
    let names: Vec<String> = binary
        .usdt_probes()
        .iter()
        .map(UsdtProbe::full_name)
        .collect();
    assert_eq!(names, ["shop:waits"]);
    // What a session opens is the file itself.
    let opened = std::fs::read(binary.open_path()).unwrap();
    assert!(opened.windows(11).any(|bytes| bytes == b"shop\0waits\0"));
}
