//! A listing as JSON: one object a row.
//!
//! ```text
//! {"event":"sched:sched_switch","origin":"kernel"}
//! {"event":"kprobe:vfs_read","origin":"probe","fields":[{"name":"file","type":"struct file *"}],"details":[["returns","ssize_t"]]}
//! ```
//! `fields` and `details` are there where details are wanted. Keys may be added; these stay.

use std::io;

use super::Listing;
use crate::event::Origin;
use crate::export::json_string as string;

impl Listing {
    /// Writes the rows as JSON.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, details: bool, out: &mut dyn io::Write) -> io::Result<()> {
        let mut line = Vec::new();
        for row in &self.rows {
            line.clear();
            line.extend_from_slice(b"{\"event\":");
            string(&format!("{}:{}", row.group, row.name), &mut line);
            let origin = match row.origin {
                Origin::Application | Origin::Made => "application",
                Origin::Usdt => "usdt",
                Origin::Kernel => "kernel",
                Origin::Probe => "probe",
            };
            line.extend_from_slice(b",\"origin\":");
            string(origin, &mut line);
            if details {
                let fields = row.details.iter().filter(|(about, _)| *about == "field");
                let fields = fields.map(|(_, text)| text.split_once(": ").unwrap_or((text, "")));
                pairs(
                    "fields",
                    ["{\"name\":", ",\"type\":", "}"],
                    fields,
                    &mut line,
                );
                let others = row.details.iter().filter(|(about, _)| *about != "field");
                let others = others.map(|(about, text)| (*about, text.as_str()));
                pairs("details", ["[", ",", "]"], others, &mut line);
            }
            line.extend_from_slice(b"}\n");
            out.write_all(&line)?;
        }
        out.flush()
    }
}

/// `,"KEY":[…]` of pairs, with what stands around the two texts of each.
fn pairs<'a>(
    key: &str,
    [open, between, close]: [&str; 3],
    all: impl Iterator<Item = (&'a str, &'a str)>,
    line: &mut Vec<u8>,
) {
    line.extend_from_slice(format!(",\"{key}\":[").as_bytes());
    for (index, (first, second)) in all.enumerate() {
        if index > 0 {
            line.push(b',');
        }
        line.extend_from_slice(open.as_bytes());
        string(first, line);
        line.extend_from_slice(between.as_bytes());
        string(second, line);
        line.extend_from_slice(close.as_bytes());
    }
    line.push(b']');
}
