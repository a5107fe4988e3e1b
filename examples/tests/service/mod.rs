//! The service `orders` as a child process.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The service; killed and waited for when dropped.
pub(crate) struct Service {
    child: Child,
    address: String,
}

impl Service {
    /// Starts it; it listens when this returns.
    pub(crate) fn start(arguments: &[&str]) -> Service {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orders"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("orders starts");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("it was asked for");
        BufReader::new(stdout)
            .read_line(&mut ready)
            .expect("a line");
        let mut service = Service {
            child,
            address: String::new(),
        };
        let (address, pid) = ready
            .trim()
            .strip_prefix("READY http://")
            .and_then(|rest| rest.split_once(" pid "))
            .unwrap_or_else(|| panic!("not ready: {ready:?}"));
        assert_eq!(pid, service.child.id().to_string());
        service.address = address.to_owned();
        service
    }

    /// Whether the load driver saw what it should, and what it printed.
    pub(crate) fn load(&self, arguments: &[&str]) -> (bool, String) {
        let mut load = Command::new(env!("CARGO_BIN_EXE_orders-load"));
        let output = load
            .arg(&self.address)
            .args(arguments)
            .output()
            .expect("orders-load runs");
        let text = String::from_utf8(output.stdout).expect("text");
        (output.status.success(), text)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it, and lets it do nothing more.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ran");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of this test's own, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    pub(crate) fn create(name: &str) -> Scratch {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the target directory can be written");
        Scratch(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
