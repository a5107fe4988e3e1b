//! What reads bytes of others, as functions of any bytes: a region of a process that lies, a core dump, a
//! binary, debug information, a schema, a filter, probe definitions, a tracepoint's format file.
//!
//! Each module has a `check`, which must come back soon, without a panic and without taking memory by a
//! number that it read, and `seeds`, inputs that make sense and so lead far into the code.
//! `src/bin` makes a program of each for libFuzzer.

mod allocator;

pub mod core_dump;
pub mod definition;
pub mod dwarf;
pub mod elf;
pub mod filter;
pub mod format;
pub mod region;
pub mod schema;

use std::path::Path;

/// Writes seeds into the directory that the environment names, if it names one.
pub fn plant(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(directory) = std::env::var_os("TRACEBRAID_FUZZ_SEEDS") else {
        return;
    };
    for (number, seed) in seeds().into_iter().enumerate() {
        let file = Path::new(&directory).join(format!("seed-{number}"));
        std::fs::write(&file, seed).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// Prints an event in each way that there is.
fn print(event: &bridge::event::Event) {
    for format in bridge::export::formats() {
        let mut exporter = (format.create)(Box::new(std::io::sink()));
        let _ = exporter.event(event).expect("a sink takes all");
        let _ = exporter.finish().expect("a sink takes all");
    }
}

/// The bytes of a tracepoint's schema.
fn schema_of(provider: &str, name: &str, print: &str, fields: &[(u8, &str)]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(tracebraid_wire::schema::VERSION.to_le_bytes());
    bytes.extend([0, fields.len() as u8]);
    bytes.extend(fields.iter().map(|field| field.0));
    for text in [provider, name, print]
        .into_iter()
        .chain(fields.iter().map(|field| field.1))
    {
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// A field of each kind, and an optional one of each.
const FIELDS: &[(u8, &str)] = &[
    (1, "a"),
    (2, "b"),
    (3, "c"),
    (4, "d"),
    (5, "e"),
    (6, "f"),
    (7, "g"),
    (8, "h"),
    (9, "i"),
    (10, "j"),
    (11, "k"),
    (12, "l"),
    (13, "m"),
    (14, "n"),
    (15, "text"),
    (16, "bytes"),
    (17, "ptr"),
    (18, "ns"),
    (19, "fmt"),
    (0x84, "some"),
    (0x8f, "user"),
];
