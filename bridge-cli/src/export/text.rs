//! Lines for people: `%16s-%-7d [%03d] %6u.%09u: event: body`.
//!
//! ```text
//!           orders-4242    [001]   5131.204881307: orders:charge: order_id=17 cents=4200
//! ```
//! The thread's name (escaped, then padded by the columns it takes on a terminal), its id, the CPU,
//! CLOCK_MONOTONIC in seconds, the event's group and name, and the body as [`crate::print`] describes
//! it. Lost events stand as a line at the place of the loss:
//!
//! ```text
//!                <lost>-0       [001]   5131.204990000: orders:charge: LOST 17 events in 1.203ms: the ring was full
//! ```
//! A loss that the kernel counts for all CPUs together has `[  -]` in place of the CPU.
//! An event that comes after later ones begins its body with `(late) `. Where stacks are taken the frames
//! follow, a line each, and an empty line ([`print::stack`]).

use std::io;

use linkme::distributed_slice;
use unicode_width::UnicodeWidthStr;

use super::{Buffered, Exporter, FORMATS, Format, Outcome, PerProbe, Sink};
use crate::event::{Event, LostReason, Probe, UNKNOWN_CPU, What};
use crate::print::{self, decimal};

// The lint counts the section that the row is put into.
#[allow(unsafe_code)]
#[distributed_slice(FORMATS)]
static TEXT: Format = Format {
    name: "text",
    description: "one line an event, for people and for grep",
    create: |sink| Box::new(Text::new(sink)),
};

struct Text {
    out: Buffered,
    /// `: group:name: `, escaped.
    titles: PerProbe<Vec<u8>>,
}

impl Text {
    fn new(sink: Sink) -> Text {
        Text {
            out: Buffered::new(sink),
            titles: PerProbe::new(),
        }
    }
}

impl Exporter for Text {
    fn event(&mut self, event: &Event) -> io::Result<Outcome> {
        let out = &mut self.out.waiting;
        let (comm, tid) = match &event.what {
            What::Hit { .. } => (event.comm.bytes(), event.tid),
            What::Lost { .. } => (&b"<lost>"[..], 0),
        };
        name_and_id(comm, tid, out);
        cpu_and_time(event.cpu, event.time, out);
        out.extend_from_slice(self.titles.get(event.probe(), title));
        if event.late {
            out.extend_from_slice(b"(late) ");
        }
        match &event.what {
            What::Hit { probe, values } => print::body(probe, values, out),
            What::Lost {
                count,
                after,
                reason,
                ..
            } => {
                lost(*count, event.time.saturating_sub(*after), *reason, out);
            }
        }
        out.push(b'\n');
        if let Some(stack) = &event.stack {
            print::stack(stack, out);
        }
        self.out.settle()
    }

    fn flush(&mut self) -> io::Result<Outcome> {
        self.out.flush()
    }
}

fn title(probe: &Probe) -> Vec<u8> {
    let mut title = b": ".to_vec();
    print::escape(probe.group.as_bytes(), &mut title);
    title.push(b':');
    print::escape(probe.name.as_bytes(), &mut title);
    title.extend_from_slice(b": ");
    title
}

const BLANKS: &[u8; 20] = &[b' '; 20];

/// `%16s-%-7d `
fn name_and_id(comm: &[u8], tid: u32, out: &mut Vec<u8>) {
    if print::is_plain(comm) {
        out.extend_from_slice(&BLANKS[..16_usize.saturating_sub(comm.len())]);
        out.extend_from_slice(comm);
    } else {
        let mut shown = Vec::new();
        print::escape(comm, &mut shown);
        let columns = String::from_utf8_lossy(&shown).width();
        out.extend_from_slice(&BLANKS[..16_usize.saturating_sub(columns)]);
        out.extend_from_slice(&shown);
    }
    out.push(b'-');
    let start = out.len();
    decimal(tid, out);
    out.extend_from_slice(&BLANKS[..(start + 7).saturating_sub(out.len())]);
}

/// ` [%03d] %6u.%09u`
fn cpu_and_time(cpu: u32, time: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b" [");
    match cpu {
        UNKNOWN_CPU => out.extend_from_slice(b"  -"),
        cpu => padded(cpu, 3, b'0', out),
    }
    out.extend_from_slice(b"] ");
    padded(time / 1_000_000_000, 6, b' ', out);
    out.push(b'.');
    padded((time % 1_000_000_000) as u32, 9, b'0', out);
}

fn padded(number: impl itoa::Integer, width: usize, with: u8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    for _ in digits.len()..width {
        out.push(with);
    }
    out.extend_from_slice(digits);
}

fn lost(count: u64, nanoseconds: u64, reason: LostReason, out: &mut Vec<u8>) {
    out.extend_from_slice(b"LOST ");
    decimal(count, out);
    out.extend_from_slice(if count == 1 {
        b" event in "
    } else {
        b" events in "
    });
    let duration = std::time::Duration::from_nanos(nanoseconds);
    let duration = crate::event::Value::Duration(duration);
    print::value(&duration, Default::default(), print::Quotes::Never, out);
    out.extend_from_slice(match reason {
        LostReason::RingFull => b": the ring was full".as_slice(),
        LostReason::Recursion => b": hit inside another event of its kind on that CPU",
        LostReason::Busy => b": too many threads were inside probes at once",
    });
}
