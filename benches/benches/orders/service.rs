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

/// What it did in a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Microseconds that a request took of its CPUs: others who want them disturb that less.
    pub(crate) cpu_us: f64,
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

    /// As much as it can answer to four connections, over so many seconds.
    pub(crate) fn work(&self, load: &Path, seconds: u64) -> Result<Work, Box<dyn Error>> {
        let before = self.cpu()?;
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
        let mut words = text.split(' ');
        let answers: f64 = words
            .next()
            .ok_or("the load driver says nothing")?
            .parse()?;
        let rate = words
            .nth(4)
            .ok_or("the load driver tells no rate")?
            .parse()?;
        Ok(Work {
            rate,
            cpu_us: (self.cpu()? - before) / 1e3 / answers,
        })
    }

    /// Nanoseconds that its threads have been on CPUs, in the kernel included.
    fn cpu(&self) -> Result<f64, Box<dyn Error>> {
        let mut sum = 0.0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let on_cpu: f64 = text.split(' ').next().unwrap_or_default().parse()?;
            sum += on_cpu;
        }
        Ok(sum)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing is left to do where it has ended already.
        let _ = children::end(&mut self.child, libc::SIGTERM);
        let _ = fs::remove_dir_all(&self.data);
    }
}
