//! The program that is probed: built, started, asked.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tracebraid_benches::children;

/// What is there of it before it runs.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
}

impl Program {
    /// Compiles it.
    pub(crate) fn build() -> Result<Program, Box<dyn Error>> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/probes/target.c");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probes-target");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-g", "-o"]).arg(&path).arg(source);
        match compiler.status()?.success() {
            true => Ok(Program { path }),
            false => Err("cc failed on target.c".into()),
        }
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Result<Target, Box<dyn Error>> {
        let mut command = Command::new(&self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = children::spawn(&mut command)?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut target = Target {
            child,
            output: BufReader::new(output),
        };
        match target.line()?.starts_with("READY ") {
            true => Ok(target),
            false => Err("the program did not start".into()),
        }
    }
}

/// It runs; it ends when its input does.
#[derive(Debug)]
pub(crate) struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Target {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn tell(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        writeln!(input, "{line}")?;
        Ok(())
    }

    /// Has it do something; the nanoseconds that it says.
    pub(crate) fn ask(&mut self, what: &str, number: u64) -> Result<f64, Box<dyn Error>> {
        self.tell(&format!("{what} {number}"))?;
        Ok(self.line()?.parse::<u64>()? as f64)
    }

    /// Where in its file `probed` begins, and functions that are never called.
    pub(crate) fn offsets(&mut self) -> Result<Vec<u64>, Box<dyn Error>> {
        self.tell("offsets")?;
        let mut offsets = Vec::new();
        loop {
            match self.line()?.as_str() {
                "" => return Ok(offsets),
                offset => offsets.push(offset.parse()?),
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It has ended or cannot be waited for; nothing is left to do in either case.
        let _ = self.child.wait();
    }
}
