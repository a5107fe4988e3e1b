//! `bridge-cli probe`: checks definitions without running them, and says what each would give.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::definition::files_here::FilesHere;
use crate::definition::kernel_here::KernelHere;
use crate::definition::knowledge::Knowledge;
use crate::definition::{Definition, Language, Line, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::tracefs::Tracefs;

/// What is to be checked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Files with a definition a line; `-` is the standard input. They are one text.
    pub files: Vec<PathBuf>,
    /// Definitions of the command line, behind those of the files.
    pub definitions: Vec<String>,
    /// The file of tracefs that they are meant for.
    pub language: Language,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// What each valid definition gives, to be printed.
    pub text: String,
    /// What is wrong, and what the user should know, to be printed on the standard error.
    pub complaints: Vec<String>,
    /// Definitions that are valid.
    pub valid: usize,
    /// Definitions that are not.
    pub refused: usize,
}

/// Checks definitions against the running kernel and the files of this machine.
///
/// # Errors
/// Where a file cannot be read. That definitions are refused is no error of this function.
pub fn check(options: &Options, tracefs: Option<Tracefs>) -> Result<Checked> {
    let kernel = KernelHere::new(tracefs);
    let files = FilesHere::new();
    let knowledge = Knowledge {
        kernel: &kernel,
        files: &files,
    };
    let mut checked = Checked::default();
    let mut reader = Reader::new(knowledge, options.language);
    for path in &options.files {
        let text = read(path)?;
        let name = path.display().to_string();
        checked.take(&mut reader, &text, &|line| format!("{name}:{line}"));
    }
    for definition in &options.definitions {
        checked.take(&mut reader, definition, &|_| "-e".to_owned());
    }
    Ok(checked)
}

impl Checked {
    fn take(&mut self, reader: &mut Reader<'_>, text: &str, place: &dyn Fn(usize) -> String) {
        for (line, read) in reader.read(text) {
            match read {
                Line::Empty => {}
                Line::TakenBack => self.valid += 1,
                Line::Defined(definition) => {
                    self.valid += 1;
                    self.text.push_str(&describe(&definition));
                    let warnings = definition.warnings.iter();
                    let warnings =
                        warnings.map(|warning| format!("{}: warning: {warning}", place(line)));
                    self.complaints.extend(warnings);
                    if let Some(obstacle) = &definition.obstacle {
                        let warning =
                            format!("{}: warning: {obstacle}; attach refuses it", place(line));
                        self.complaints.push(warning);
                    }
                }
                Line::Refused(rejection) => {
                    self.refused += 1;
                    let complaint = format!("{}: {}", place(line), rejection.render());
                    self.complaints.push(complaint.trim_end().to_owned());
                }
            }
        }
    }
}

/// The definition as the kernel lists it, and its fields as a format file has them.
fn describe(definition: &Definition) -> String {
    let mut text = format!("{definition}\n");
    for field in definition.fields() {
        text.push_str(&format!("\t{field}\n"));
    }
    text.push_str(&format!("\tprint fmt: {}\n", definition.print_fmt()));
    text
}

/// Longer than any file of definitions.
const LONGEST: u64 = 64 << 20;

/// Reads a file of definitions; `-` is the standard input.
///
/// # Errors
/// [`ErrorKind::Usage`] where it cannot be read.
pub fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(LONGEST)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes))
    };
    read.map_err(|cause| {
        let message = format!("cannot read the definitions in {}", path.display());
        Error::new(ErrorKind::Usage, message).because(cause)
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
