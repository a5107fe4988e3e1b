//! Programs with tracepoints, for tests of rings: this test binary itself, started again.
//!
//! An environment variable says which program it is to be. It says `READY`, and does a step for each line
//! that it reads. What it counted it says at the end.

#![allow(dead_code, reason = "each test binary uses a part")]

mod outsider;
mod roles;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[allow(unused_imports, reason = "each test binary uses a part")]
pub(crate) use roles::{NAMES, PAUSE};

const VARIABLE: &str = "BRIDGE_RING_PROGRAM";

/// Runs the program that this process was started as, if it was, and ends.
pub(crate) fn run_if_asked() {
    let Ok(line) = std::env::var(VARIABLE) else {
        return;
    };
    let words: Vec<&str> = line.split(' ').collect();
    roles::program(words[0], &words[1..]);
    std::process::exit(0);
}

/// A command that runs a program of these.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(VARIABLE, program);
    command
}

/// A program that runs. Killed when dropped.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(crate) pid: u32,
}

impl Program {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(program: &str) -> Program {
        Program::spawn(&mut command(program))
    }

    pub(crate) fn spawn(command: &mut Command) -> Program {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program {
            child,
            input,
            output,
            pid: 0,
        };
        program.await_ready();
        program
    }

    /// The process that this one, which only starts another, has started.
    pub(crate) fn only_child(&self) -> u32 {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.trim().parse().expect("one child")
    }

    /// Waits until it says (again) that it is ready.
    pub(crate) fn await_ready(&mut self) {
        let line = self.line();
        let pid = line.strip_prefix("READY ").expect("READY");
        self.pid = pid.parse().unwrap();
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Tells it a line, and waits for its answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.line()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, however it comes.
    pub(crate) fn wait(&mut self) {
        self.child.wait().unwrap();
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Lets it end.
    pub(crate) fn finish(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `seq` of a line's body.
pub(crate) fn seq(body: &str) -> u64 {
    let rest = body.split_once("seq=").expect("a seq").1;
    let digits = rest.split(' ').next().unwrap();
    digits.parse().unwrap()
}

/// The number behind the last dash of a line's name: the thread's.
pub(crate) fn tid(line: &str) -> u32 {
    let head = line.split(" [").next().unwrap();
    head.rsplit('-').next().unwrap().trim().parse().unwrap()
}

/// The thread's name.
pub(crate) fn comm(line: &str) -> &str {
    let head = line.split(" [").next().unwrap();
    head.rsplit_once('-').unwrap().0.trim()
}
