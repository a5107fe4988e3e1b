//! Bytes of a ring to [`Record`]s. The bytes were copied out of the ring; every length is checked.

use crate::abi::{self, record};
use crate::plan::{Entry, Shape};
use crate::record::{Body, Output, Record, Task, Text};
use crate::spec::Argument;
use crate::stacks;

/// Reads one record and hands it out once for each probe of its entry. `None`: not of our making.
pub(crate) fn decode<'a>(
    bytes: &[u8],
    cpu: u32,
    entries: &'a [Entry],
    out: &mut Vec<Record>,
) -> Option<(u32, &'a Entry)> {
    let mut reader = Reader(bytes);
    let time = reader.u64()?;
    let number = reader.u32()?;
    let tgid = reader.u32()?;
    let tid = reader.u32()?;
    let stack = reader.u32()? as usize;
    let comm = reader.comm()?;
    let stack = reader.take_back(stack)?;
    let stack = match stack {
        [] => None,
        bytes => Some(Box::new(stacks::decode(bytes)?)),
    };
    let entry = entries.get(number as usize)?;
    let here = Task {
        tid,
        tgid,
        prio: 0,
        comm,
    };
    let body = body(&mut reader, &entry.shape, here)?;
    let (&(last, last_location), others) = entry.probes.split_last()?;
    let record = |probe, location, mut body, stack| {
        if let Body::Arguments { location: of, .. } = &mut body {
            *of = location;
        }
        Record {
            time,
            cpu,
            tgid,
            tid,
            comm,
            probe,
            body,
            stack,
        }
    };
    for &(probe, location) in others {
        out.push(record(probe, location, body.clone(), stack.clone()));
    }
    out.push(record(last, last_location, body, stack));
    Some((number, entry))
}

fn body(reader: &mut Reader<'_>, shape: &Shape, here: Task) -> Option<Body> {
    Some(match shape {
        Shape::Slots => slots(reader)?,
        Shape::Arguments(arguments) => arguments_body(reader, arguments)?,
        Shape::Program { texts, .. } => program_body(reader, texts)?,
        Shape::Tracepoint => Body::Tracepoint(reader.0.to_vec()),
        Shape::Switch => {
            let prio = reader.u32()? as i32;
            Body::SchedSwitch {
                prev: Task { prio, ..here },
                prev_state: reader.u32()?.into(),
                next: reader.task()?,
            }
        }
        Shape::Wake => Body::Wake {
            task: reader.task()?,
            target_cpu: reader.u32()?,
        },
        Shape::Migrate => Body::Migrate {
            task: reader.task()?,
            from: reader.u32()?,
            to: reader.u32()?,
        },
        Shape::Fork => Body::Fork {
            parent: reader.task()?,
            child: reader.task()?,
        },
        Shape::Exec => exec(reader)?,
        Shape::Exit => Body::Exit {
            task: reader.task()?,
            group_dead: reader.u32()? != 0,
        },
        Shape::SysEnter => {
            let number = reader.u64()? as i64;
            let mut args = [0; 6];
            for arg in &mut args {
                *arg = reader.u64()?;
            }
            Body::SysEnter { number, args }
        }
        Shape::SysExit => Body::SysExit {
            number: reader.u64()? as i64,
            result: reader.u64()? as i64,
        },
    })
}

struct User {
    valid: u64,
    words: u16,
    texts: u16,
}

fn user(reader: &mut Reader<'_>) -> Option<User> {
    let user = User {
        valid: reader.u64()?,
        words: reader.u16()?,
        texts: reader.u16()?,
    };
    reader.u32()?;
    Some(user)
}

fn slots(reader: &mut Reader<'_>) -> Option<Body> {
    let User {
        valid,
        words,
        texts,
    } = user(reader)?;
    let words = (0..words)
        .map(|_| reader.u64())
        .collect::<Option<Vec<u64>>>()?;
    if valid == 0 {
        return Some(Body::Slots {
            slots: None,
            texts: Vec::new(),
        });
    }
    let mut heads = Reader(reader.take(usize::from(texts) * record::TEXT_HEAD)?);
    let texts = (0..texts)
        .map(|_| {
            let (full_length, length, status) = (heads.u64()?, heads.u32()?, heads.u32()?);
            Some(match status {
                abi::TEXT_READ => Text::Bytes {
                    bytes: reader.take(length as usize)?.to_vec(),
                    full_length,
                },
                abi::TEXT_NULL => Text::Null,
                _ => Text::Fault,
            })
        })
        .collect::<Option<Vec<Text>>>()?;
    Some(Body::Slots {
        slots: Some(words),
        texts,
    })
}

fn arguments_body(reader: &mut Reader<'_>, arguments: &[Argument]) -> Option<Body> {
    let User { valid, words, .. } = user(reader)?;
    if usize::from(words) != arguments.len() {
        return None;
    }
    let values = arguments
        .iter()
        .enumerate()
        .map(|(index, argument)| {
            let bits = reader.u64()?;
            Some((valid >> index & 1 == 1).then(|| extend(bits, argument.width, argument.signed)))
        })
        .collect::<Option<Vec<Option<u64>>>>()?;
    Some(Body::Arguments {
        location: 0,
        values,
    })
}

/// `texts` says of each output whether it is text, which ends in a NUL.
fn program_body(reader: &mut Reader<'_>, texts: &[bool]) -> Option<Body> {
    user(reader)?;
    let output = |&is_text: &bool| {
        let (length, status) = (reader.u32()?, reader.u32()?);
        let bytes = reader.take(length as usize)?;
        let without_nul = match bytes.split_last() {
            Some((0, text)) if is_text => text,
            _ => bytes,
        };
        Some(match status {
            abi::TEXT_READ => Output::Read(without_nul.to_vec()),
            abi::TEXT_CUT => Output::Cut(without_nul.to_vec()),
            abi::TEXT_NO_ROOM => Output::NoRoom,
            _ => Output::Fault,
        })
    };
    Some(Body::Program(
        texts.iter().map(output).collect::<Option<_>>()?,
    ))
}

/// The low `width` bytes, as the 64-bit value that they stand for. The note's sign decides, not how
/// the compiler wrote a constant (`1@$-56` is 200).
fn extend(bits: u64, width: u8, signed: bool) -> u64 {
    let unused = 64 - 8 * u32::from(width.clamp(1, 8));
    if signed {
        ((bits << unused) as i64 >> unused) as u64
    } else {
        bits << unused >> unused
    }
}

fn exec(reader: &mut Reader<'_>) -> Option<Body> {
    let old_tid = reader.u32()?;
    let length = reader.u32()? as i32;
    // Room for the longest name was reserved, and the copy always ends it with a NUL.
    let room = reader.0.len();
    let filename = match usize::try_from(length) {
        Ok(length) if (1..=room).contains(&length) => {
            let bytes = reader.take(length - 1)?.to_vec();
            // One that fills the room was cut there; by how much is not known.
            let full_length = bytes.len() as u64 + u64::from(length == room);
            Text::Bytes { bytes, full_length }
        }
        _ => Text::Fault,
    };
    Some(Body::Exec { filename, old_tid })
}

/// Takes from the front of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes from the end.
    fn take_back(&mut self, length: usize) -> Option<&'a [u8]> {
        let rest = self.0.len().checked_sub(length)?;
        let (rest, taken) = self.0.split_at_checked(rest)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn comm(&mut self) -> Option<[u8; 16]> {
        self.array()
    }

    fn task(&mut self) -> Option<Task> {
        let (tid, tgid, prio) = (self.u32()?, self.u32()?, self.u32()? as i32);
        self.u32()?;
        Some(Task {
            tid,
            tgid,
            prio,
            comm: self.comm()?,
        })
    }
}

const _: () = assert!(record::HEADER == 8 + 4 * 4 + 16 && record::TASK == 4 * 4 + 16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Body;
    use crate::spec::{Place, ProbeId};

    fn header(entry: u32) -> Vec<u8> {
        let mut bytes = 123u64.to_ne_bytes().to_vec();
        for word in [entry, 10, 11, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(b"name\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes
    }

    fn user_record(valid: u64, words: &[u64], texts: &[(u64, u32, u32)], text: &[u8]) -> Vec<u8> {
        let mut bytes = header(0);
        bytes.extend(valid.to_ne_bytes());
        bytes.extend((words.len() as u16).to_ne_bytes());
        bytes.extend((texts.len() as u16).to_ne_bytes());
        bytes.extend((text.len() as u32).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        for (full, length, status) in texts {
            bytes.extend(full.to_ne_bytes());
            bytes.extend(length.to_ne_bytes());
            bytes.extend(status.to_ne_bytes());
        }
        bytes.extend(text);
        bytes
    }

    fn entry(shape: Shape) -> Vec<Entry> {
        vec![Entry {
            probes: vec![(ProbeId(5), 2), (ProbeId(6), 3)],
            shape,
            filter: None,
        }]
    }

    fn decoded(bytes: &[u8], shape: Shape) -> Option<Vec<Record>> {
        let mut records = Vec::new();
        decode(bytes, 7, &entry(shape), &mut records)?;
        Some(records)
    }

    #[test]
    fn each_probe_of_an_entry_gets_the_record_with_its_own_location() {
        let argument = Argument {
            width: 8,
            signed: false,
            float: false,
            place: Place::Constant(0),
        };
        let bytes = user_record(1, &[42], &[], &[]);
        let records = decoded(&bytes, Shape::Arguments(vec![argument])).unwrap();
        let bodies: Vec<_> = records
            .iter()
            .map(|one| (one.probe, one.body.clone()))
            .collect();
        let body = |location| Body::Arguments {
            location,
            values: vec![Some(42)],
        };
        assert_eq!(bodies, [(ProbeId(5), body(2)), (ProbeId(6), body(3))]);
        assert_eq!(
            (records[0].time, records[0].cpu, records[0].tgid),
            (123, 7, 10)
        );
    }

    #[test]
    fn the_width_and_sign_of_an_argument_decide_its_value() {
        for (bits, width, signed, value) in [
            (200u64, 1, false, 200i64),
            (-56i64 as u64, 1, false, 200),
            (200, 1, true, -56),
            (0xffff_8000, 2, true, -32768),
            (0xffff_8000, 2, false, 32768),
            (u64::MAX, 4, false, 0xffff_ffff),
            (u64::MAX, 8, true, -1),
            (300, 1, false, 44),
        ] {
            assert_eq!(
                extend(bits, width, signed),
                value as u64,
                "{bits:#x} {width} {signed}"
            );
        }
    }

    #[test]
    fn texts_are_taken_from_one_row_of_bytes() {
        let texts = [(5, 5, 0), (0, 0, 1), (9, 0, 2), (1000, 3, 0)];
        let bytes = user_record(u64::MAX, &[1, 2], &texts, b"helloabc");
        let records = decoded(&bytes, Shape::Slots).unwrap();
        let text = |bytes: &[u8], full_length| Text::Bytes {
            bytes: bytes.into(),
            full_length,
        };
        let texts = vec![
            text(b"hello", 5),
            Text::Null,
            Text::Fault,
            text(b"abc", 1000),
        ];
        assert_eq!(
            records[0].body,
            Body::Slots {
                slots: Some(vec![1, 2]),
                texts
            }
        );
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_refused_and_nothing_comes_of_it() {
        let whole = user_record(u64::MAX, &[1, 2], &[(5, 5, 0)], b"hello");
        assert!(decoded(&whole, Shape::Slots).is_some());
        for length in 0..whole.len() {
            assert!(
                decoded(&whole[..length], Shape::Slots).is_none(),
                "{length} bytes"
            );
        }
        let mut unknown = whole;
        unknown[8] = 1;
        assert!(decoded(&unknown, Shape::Slots).is_none());
    }

    #[test]
    fn a_file_name_that_fills_its_room_says_that_it_was_cut() {
        let record = |length: i32, room: &[u8]| {
            let mut bytes = header(0);
            bytes.extend(9u32.to_ne_bytes());
            bytes.extend(length.to_ne_bytes());
            bytes.extend(room);
            decoded(&bytes, Shape::Exec).unwrap().remove(0).body
        };
        let exec = |filename| Body::Exec {
            filename,
            old_tid: 9,
        };
        let text = |bytes: &[u8], full_length| Text::Bytes {
            bytes: bytes.into(),
            full_length,
        };
        assert_eq!(record(4, b"/ab\0...."), exec(text(b"/ab", 3)));
        assert_eq!(record(8, b"/abcdef\0"), exec(text(b"/abcdef", 8)));
        assert_eq!(record(-14, b"\0\0\0\0\0\0\0\0"), exec(Text::Fault));
        assert_eq!(record(9, b"/abcdef\0"), exec(Text::Fault));
    }
}
