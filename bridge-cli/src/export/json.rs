//! JSON lines: one object a line, the same keys in the same order, valid whatever a program sends.
//!
//! ```text
//! {"time_ns":5131204881307,"cpu":1,"pid":4242,"tid":4242,"comm":"orders","event":"orders:charge","origin":"application","fields":{"order_id":17,"cents":4200}}
//! {"time_ns":5131204990000,"cpu":1,"event":"orders:charge","origin":"application","lost":17,"after_ns":5131203787000,"reason":"ring_full"}
//! ```
//!
//! | key | |
//! | --- | --- |
//! | `time_ns` | CLOCK_MONOTONIC, nanoseconds; of a loss: when it was noticed |
//! | `cpu`, `pid`, `tid`, `comm` | where and who; a loss has only `cpu`, `null` where the kernel does not tell |
//! | `event` | `group:name` |
//! | `origin` | `application`, `usdt` or `kernel` |
//! | `late` | `true`, only where the event stands behind one of a later time |
//! | `fields` | an object: name → value, in the probe's order; a name that comes twice gets `#2`, `#3` … |
//! | `stack` | where stacks are taken: an array of frames, innermost first, each with `address`, `symbol` and `offset` where it has a name, `module`, `inlined` and `kernel` where they are true, and `srcline` where it is asked for |
//! | `stack_cut`, `stack_incomplete` | after so many frames there were more; callers are missing |
//! | `lost`, `after_ns`, `reason` | how many, since when, and `ring_full`, `recursion` or `busy` |
//!
//! Values:
//!
//! | value | JSON |
//! | --- | --- |
//! | integers up to 64 bits | a number, all digits (read it with a parser that keeps 64-bit integers) |
//! | 128-bit integers | a string of decimal digits |
//! | floats | a number that reads back as the same bits; `"NaN"`, `"inf"`, `"-inf"` |
//! | `bool`, `char` | `true`, `"x"` |
//! | text | a string; when not UTF-8 as bytes are; when cut `{"text":"…","full_length":300}` |
//! | bytes | `{"hex":"00ff"}`, when cut with `full_length` |
//! | pointer | `"0x7ffe12"` |
//! | duration | nanoseconds as a number; beyond 64 bits as a string |
//! | array | an array |
//! | absent | `null` |
//! | no value | `{"error":"fault"}`, `{"error":"unsupported"}`, `{"error":"not_captured"}` |
//!
//! `full_length` is `null` where nobody knows it. `comm` follows the rule for text.

use std::io;

use linkme::distributed_slice;

use super::{Buffered, Exporter, FORMATS, Format, Outcome, PerProbe, Sink};
use crate::event::{Event, LostReason, Origin, Probe, UNKNOWN_CPU, UNKNOWN_LENGTH, Value, What};
use crate::print::{self, decimal};
use crate::stack::{End, Stack};

// The lint counts the section that the row is put into.
#[allow(unsafe_code)]
#[distributed_slice(FORMATS)]
static JSON: Format = Format {
    name: "json",
    description: "one JSON object a line, with documented keys",
    create: |sink| Box::new(Json::new(sink)),
};

struct Json {
    out: Buffered,
    prepared: PerProbe<Prepared>,
}

/// The parts of a probe's lines that never change.
struct Prepared {
    /// `"event":"…","origin":"…"`
    event: Vec<u8>,
    /// `"name":`, in the order of the fields.
    keys: Vec<Vec<u8>>,
}

impl Json {
    fn new(sink: Sink) -> Json {
        Json {
            out: Buffered::new(sink),
            prepared: PerProbe::new(),
        }
    }
}

impl Exporter for Json {
    fn event(&mut self, event: &Event) -> io::Result<Outcome> {
        let out = &mut self.out.waiting;
        let prepared = self.prepared.get(event.probe(), prepare);
        out.extend_from_slice(b"{\"time_ns\":");
        decimal(event.time, out);
        out.extend_from_slice(b",\"cpu\":");
        match event.cpu {
            UNKNOWN_CPU => out.extend_from_slice(b"null"),
            cpu => decimal(cpu, out),
        }
        if let What::Hit { .. } = event.what {
            out.extend_from_slice(b",\"pid\":");
            decimal(event.pid, out);
            out.extend_from_slice(b",\"tid\":");
            decimal(event.tid, out);
            out.extend_from_slice(b",\"comm\":");
            text(event.comm.bytes(), None, out);
        }
        out.push(b',');
        out.extend_from_slice(&prepared.event);
        if event.late {
            out.extend_from_slice(b",\"late\":true");
        }
        match &event.what {
            What::Hit { values, .. } => {
                out.extend_from_slice(b",\"fields\":{");
                for (index, (key, value)) in prepared.keys.iter().zip(values).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(key);
                    self::value(value, out);
                }
                out.push(b'}');
                if let Some(stack) = &event.stack {
                    self::stack(stack, out);
                }
                out.extend_from_slice(b"}\n");
            }
            What::Lost {
                count,
                after,
                reason,
                ..
            } => {
                out.extend_from_slice(b",\"lost\":");
                decimal(*count, out);
                out.extend_from_slice(b",\"after_ns\":");
                decimal(*after, out);
                out.extend_from_slice(match reason {
                    LostReason::RingFull => b",\"reason\":\"ring_full\"}\n".as_slice(),
                    LostReason::Recursion => b",\"reason\":\"recursion\"}\n",
                    LostReason::Busy => b",\"reason\":\"busy\"}\n",
                });
            }
        }
        self.out.settle()
    }

    fn flush(&mut self) -> io::Result<Outcome> {
        self.out.flush()
    }
}

fn stack(stack: &Stack, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"stack\":[");
    for (index, frame) in stack.frames.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"address\":");
        quoted(|out| print::hexadecimal(frame.address, out), out);
        if let Some(symbol) = &frame.symbol {
            out.extend_from_slice(b",\"symbol\":");
            string(symbol, out);
            if !frame.inlined {
                out.extend_from_slice(b",\"offset\":");
                decimal(frame.offset, out);
            }
        }
        out.extend_from_slice(b",\"module\":");
        string(&frame.module, out);
        if frame.inlined {
            out.extend_from_slice(b",\"inlined\":true");
        }
        if frame.kernel {
            out.extend_from_slice(b",\"kernel\":true");
        }
        if let Some(source) = &frame.source {
            out.extend_from_slice(b",\"srcline\":");
            string(source, out);
        }
        out.push(b'}');
    }
    out.push(b']');
    match stack.end {
        End::Whole => {}
        End::Cut(frames) => {
            out.extend_from_slice(b",\"stack_cut\":");
            decimal(frames, out);
        }
        End::Incomplete => out.extend_from_slice(b",\"stack_incomplete\":true"),
    }
}

fn prepare(probe: &Probe) -> Prepared {
    let mut event = b"\"event\":".to_vec();
    string(&format!("{}:{}", probe.group, probe.name), &mut event);
    event.extend_from_slice(match probe.origin {
        Origin::Application | Origin::Made => b",\"origin\":\"application\"".as_slice(),
        Origin::Usdt => b",\"origin\":\"usdt\"",
        Origin::Kernel => b",\"origin\":\"kernel\"",
        Origin::Probe => b",\"origin\":\"probe\"",
    });
    let mut names: Vec<String> = Vec::new();
    for field in &probe.fields {
        let mut name = field.name.clone();
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{}#{number}", field.name);
            number += 1;
        }
        names.push(name);
    }
    let key = |name: &String| {
        let mut key = Vec::new();
        string(name, &mut key);
        key.push(b':');
        key
    };
    Prepared {
        event,
        keys: names.iter().map(key).collect(),
    }
}

fn value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Unsigned(number) => decimal(*number, out),
        Value::Signed(number) => decimal(*number, out),
        Value::Unsigned128(number) => quoted(|out| decimal(*number, out), out),
        Value::Signed128(number) => quoted(|out| decimal(*number, out), out),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Char(character) => string(character.encode_utf8(&mut [0; 4]), out),
        Value::F32(number) if number.is_finite() => plain(value, out),
        Value::F64(number) if number.is_finite() => plain(value, out),
        Value::F32(_) | Value::F64(_) | Value::Pointer(_) => quoted(|out| plain(value, out), out),
        Value::Text { bytes, full_length } => text(bytes, cut(bytes, *full_length), out),
        Value::Bytes { bytes, full_length } => as_hex(bytes, cut(bytes, *full_length), out),
        Value::Duration(duration) => match u64::try_from(duration.as_nanos()) {
            Ok(nanoseconds) => decimal(nanoseconds, out),
            Err(_) => quoted(|out| decimal(duration.as_nanos(), out), out),
        },
        Value::Array(values) => {
            out.push(b'[');
            for (index, element) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                self::value(element, out);
            }
            out.push(b']');
        }
        Value::Absent => out.extend_from_slice(b"null"),
        Value::Fault => out.extend_from_slice(b"{\"error\":\"fault\"}"),
        Value::Unsupported => out.extend_from_slice(b"{\"error\":\"unsupported\"}"),
        Value::NotCaptured => out.extend_from_slice(b"{\"error\":\"not_captured\"}"),
    }
}

/// As text output prints it.
fn plain(value: &Value, out: &mut Vec<u8>) {
    print::value(value, Default::default(), print::Quotes::Never, out);
}

fn quoted(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn cut(bytes: &[u8], full_length: u64) -> Option<u64> {
    (full_length > bytes.len() as u64).then_some(full_length)
}

fn text(bytes: &[u8], cut: Option<u64>, out: &mut Vec<u8>) {
    let kept = if cut.is_some() {
        print::whole_characters(bytes)
    } else {
        bytes
    };
    let Ok(text) = std::str::from_utf8(kept) else {
        return as_hex(bytes, cut, out);
    };
    if let Some(full_length) = cut {
        out.extend_from_slice(b"{\"text\":");
        string(text, out);
        length(full_length, out);
        out.push(b'}');
    } else {
        string(text, out);
    }
}

fn as_hex(bytes: &[u8], cut: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"hex\":\"");
    print::hex(bytes, out);
    out.push(b'"');
    if let Some(full_length) = cut {
        length(full_length, out);
    }
    out.push(b'}');
}

fn length(full_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"full_length\":");
    if full_length == UNKNOWN_LENGTH {
        out.extend_from_slice(b"null");
    } else {
        decimal(full_length, out);
    }
}

/// A JSON string. DEL and the C1 controls are escaped too, since lines also end on terminals.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    if print::is_plain(text.as_bytes()) && !text.contains(['"', '\\']) {
        out.extend_from_slice(text.as_bytes());
    } else {
        for character in text.chars() {
            match character {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\0'..='\x1f'
                | '\x7f'..='\u{9f}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}' => {
                    let code = character as u32;
                    out.extend_from_slice(b"\\u");
                    print::hex(&[(code >> 8) as u8, code as u8], out);
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    out.push(b'"');
}
