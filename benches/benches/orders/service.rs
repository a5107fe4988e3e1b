//! The example service, and how many requests it answers in a second.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tracebraid_benches::children;

/// The service, with a database of its own; both go when it is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    address: String,
    data: PathBuf,
}

impl Service {
    /// Starts it; a commit waits for the disk, or not.
    pub(crate) fn start(
        program: &Path,
        data: PathBuf,
        fsync: bool,
    ) -> Result<Service, Box<dyn Error>> {
        // What a killed run has left.
        let _ = fs::remove_dir_all(&data);
        let mut command = Command::new(program);
        command
            .arg("--data")
            .arg(&data)
            // What is shipped later must not be what limits the rate.
            .args(["--queue", "65536"])
            .args((!fsync).then_some("--no-fsync"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut service = Service {
            child: children::spawn(&mut command)?,
            address: String::new(),
            data,
        };
        let output = service.child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.strip_prefix("READY http://");
        let address = address.and_then(|rest| rest.split(' ').next());
        address
            .ok_or_else(|| format!("the service says {line:?}"))?
            .clone_into(&mut service.address);
        Ok(service)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Requests a second, as many as it can answer to four connections, over so many seconds.
    pub(crate) fn rate(&self, load: &Path, seconds: u64) -> Result<f64, Box<dyn Error>> {
        let output = Command::new(load)
            .arg(&self.address)
            .args(["--rate", "max", "--connections", "4"])
            .args(["--seconds", &seconds.to_string()])
            .stderr(Stdio::inherit())
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        if !output.status.success() {
            return Err(format!("the load driver failed: {text}").into());
        }
        // `1200 answers in 6.0 s: 200.1 requests/s (asked for max)`
        let rate = text.split(" requests/s").next();
        let rate = rate.and_then(|text| text.rsplit(' ').next());
        Ok(rate.ok_or("the load driver tells no rate")?.parse()?)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing is left to do where it has ended already.
        let _ = children::end(&mut self.child, libc::SIGTERM);
        let _ = fs::remove_dir_all(&self.data);
    }
}
