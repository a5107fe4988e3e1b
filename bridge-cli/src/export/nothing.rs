//! No output: events are counted on their way, and the table at the end is all there is.

use std::io;

use super::{Exporter, Format, Outcome};
use crate::event::Event;

/// No row of the table of formats: it is what `--count` asks for.
pub static NOTHING: Format = Format {
    name: "nothing",
    description: "no output",
    create: |_sink| Box::new(Nothing),
};

struct Nothing;

impl Exporter for Nothing {
    fn event(&mut self, _event: &Event) -> io::Result<Outcome> {
        Ok(Outcome::Open)
    }

    fn flush(&mut self) -> io::Result<Outcome> {
        Ok(Outcome::Open)
    }
}
