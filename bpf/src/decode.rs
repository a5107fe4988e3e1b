//! Bytes of a ring to [`Record`]s. The bytes were copied out of the ring; every length is checked.

use crate::abi::{self, record};
use crate::plan::{Entry, Shape};
use crate::record::{Body, Record, Task, Text};
use crate::spec::Argument;

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
    reader.u32()?;
    let comm = reader.comm()?;
    let entry = entries.get(number as usize)?;
    let body = body(&mut reader, &entry.shape)?;
    let (&(last, last_location), others) = entry.probes.split_last()?;
    let record = |probe, location, mut body| {
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
        }
    };
    for &(probe, location) in others {
        out.push(record(probe, location, body.clone()));
    }
    out.push(record(last, last_location, body));
    Some((number, entry))
}

fn body(reader: &mut Reader<'_>, shape: &Shape) -> Option<Body> {
    Some(match shape {
        Shape::Slots => slots(reader)?,
        Shape::Arguments(arguments) => arguments_body(reader, arguments)?,
        Shape::Tracepoint => Body::Tracepoint(reader.0.to_vec()),
        Shape::Switch => {
            let (prev, next) = (reader.task()?, reader.task()?);
            Body::SchedSwitch {
                prev,
                prev_state: reader.u64()?,
                next,
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
