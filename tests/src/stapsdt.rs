//! The USDT notes of a file, as binutils' readelf tells them: an opinion that is not ours.

use std::path::Path;
use std::process::Command;

/// A USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Who declares it.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Virtual address of the instruction to probe.
    pub location: u64,
    /// What `.stapsdt.base` was when the note was written.
    pub base: u64,
    /// Virtual address of the semaphore; 0 for none.
    pub semaphore: u64,
    /// Where the arguments are.
    pub arguments: String,
}

/// The notes of one provider in a file.
///
/// # Panics
/// readelf does not start or does not print what it is known to print.
#[must_use]
pub fn notes(file: &Path, provider: &str) -> Vec<Note> {
    let mut notes = all(file);
    notes.retain(|note| note.provider == provider);
    notes
}

/// All USDT notes of a file.
///
/// # Panics
/// As [`notes`].
#[must_use]
pub fn all(file: &Path) -> Vec<Note> {
    let text = readelf(&["-n"], file);
    let mut notes = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(provider) = line.strip_prefix("Provider: ") else {
            continue;
        };
        let mut value = |label: &str| {
            let line = lines.next().unwrap_or_default();
            line.strip_prefix(label)
                .unwrap_or_else(|| panic!("{line:?} does not begin with {label:?}"))
                .trim()
                .to_owned()
        };
        let name = value("Name: ");
        let addresses = value("Location: ");
        let numbers: Vec<u64> = addresses
            .split(", ")
            .map(|part| number(part.rsplit(' ').next().unwrap_or_default()))
            .collect();
        let [location, base, semaphore] = numbers[..] else {
            panic!("{addresses:?} are not three addresses");
        };
        notes.push(Note {
            provider: provider.to_owned(),
            name,
            location,
            base,
            semaphore,
            arguments: value("Arguments:"),
        });
    }
    notes
}

/// Where in the file the byte at a virtual address is.
///
/// # Panics
/// No loaded segment holds the address in its file part, or readelf fails.
#[must_use]
pub fn file_offset(file: &Path, address: u64) -> u64 {
    for line in readelf(&["-lW"], file).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["LOAD", offset, start, _, size, ..] = words[..] else {
            continue;
        };
        let (offset, start, size) = (number(offset), number(start), number(size));
        if (start..start + size).contains(&address) {
            return address - start + offset;
        }
    }
    panic!(
        "no segment of {} holds {address:#x} in the file",
        file.display()
    )
}

fn readelf(options: &[&str], file: &Path) -> String {
    let output = Command::new("readelf")
        .args(options)
        .arg(file)
        .env("LC_ALL", "C")
        .output()
        .expect("readelf starts");
    assert!(
        output.status.success(),
        "readelf {}: {}",
        file.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16)
        .unwrap_or_else(|_| panic!("{hex:?} is no address"))
}
