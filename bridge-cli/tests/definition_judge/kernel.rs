//! The kernel as a judge: lines are written into its files, and what it says and has afterwards is read.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::answer::Answer;
use crate::grammar::Made;

/// Files below tracefs.
pub(crate) struct JudgingKernel {
    root: PathBuf,
}

impl JudgingKernel {
    pub(crate) fn at(root: &Path) -> JudgingKernel {
        JudgingKernel {
            root: root.to_owned(),
        }
    }

    /// What it says of these lines, written one after the other. Nothing is left behind.
    pub(crate) fn judge(&self, made: &Made) -> Answer {
        let mut answer = Answer::default();
        for line in &made.lines {
            answer.verdicts.push(self.write(made.file, line));
        }
        let listing = self.read("dynamic_events");
        answer.listing = listing.lines().map(str::to_owned).collect();
        for line in &answer.listing {
            let name = line.split([':', ' ']).nth(1).unwrap_or("");
            if answer.formats.iter().any(|(known, _)| known == name) {
                continue;
            }
            let format = self.read(&format!("events/{name}/format"));
            let (_, own) = format.split_once("\n\n").unwrap_or_default();
            let line = |line: &str| format!("\t{}\n", line.trim_start_matches('\t'));
            let own = own.lines().filter(|line| !line.is_empty()).map(line);
            answer.formats.push((name.to_owned(), own.collect()));
        }
        answer.formats.sort();
        self.clear();
        answer
    }

    /// Writes a line; `ok`, or what it says.
    fn write(&self, file: &str, line: &str) -> String {
        let log = self.root.join("error_log");
        File::create(&log).expect("the log of errors can be cleared");
        let path = self.root.join(file);
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let Err(error) = file.write_all(format!("{line}\n").as_bytes()) else {
            return "ok".to_owned();
        };
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
        let mut verdict = format!("{errno:?}");
        let log = fs::read(&log).expect("the log of errors can be read");
        let lines: Vec<&[u8]> = log.split(|&byte| byte == b'\n').collect();
        let mut said = String::new();
        for line in lines {
            let is_caret = line.last() == Some(&b'^')
                && line[..line.len() - 1].iter().all(|&byte| byte == b' ');
            let text = String::from_utf8_lossy(line);
            if is_caret {
                // The command stands behind so many characters.
                let column = line.len() - 1 - "  Command: ".len();
                verdict.push_str(&format!("; {said} @{column}"));
            } else if let Some((subsystem, message)) = text
                .split_once("] ")
                .and_then(|(_, rest)| rest.split_once(": error: "))
            {
                said = format!("{subsystem}: \"{message}\"");
            }
        }
        verdict
    }

    fn read(&self, file: &str) -> String {
        let bytes = fs::read(self.root.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Takes all probes away.
    pub(crate) fn clear(&self) {
        File::create(self.root.join("dynamic_events"))
            .expect("all dynamic events can be taken away");
    }
}
