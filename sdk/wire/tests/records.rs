//! Records against an encoder that is written down here a second time, from the layout in
//! `wire::record` alone; and bytes that no encoder made.

use proptest::collection::vec;
use proptest::prelude::*;
use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::record::{Elapsed, FieldRef, Fields, HEADER, Header, MAX_WORDS};
use tracebraid_wire::{region, schema};

/// A field's value with what is needed to write it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Absent,
    Word(u64),
    Wide(u128),
    Duration(u64, u32),
    Bytes(Vec<u8>, u32),
    /// Of a field that may be of any kind.
    Of(FieldKind, Box<Value>),
}

/// Bytes of a one-slot kind, and whether it is signed.
fn width(kind: Kind) -> Option<(usize, bool)> {
    Some(match kind {
        Kind::U8 | Kind::Bool => (1, false),
        Kind::U16 => (2, false),
        Kind::U32 | Kind::Char | Kind::F32 => (4, false),
        Kind::U64 | Kind::F64 | Kind::Pointer | Kind::Elapsed => (8, false),
        Kind::I8 => (1, true),
        Kind::I16 => (2, true),
        Kind::I32 => (4, true),
        Kind::I64 => (8, true),
        Kind::U128
        | Kind::I128
        | Kind::Duration
        | Kind::Str
        | Kind::Bytes
        | Kind::Formatted
        | Kind::Any => {
            return None;
        }
    })
}

/// As the layout says, nothing more: `record` begins with its header.
fn encode(record: &mut Vec<u8>, field: FieldKind, value: &Value) {
    let align =
        |record: &mut Vec<u8>, to: usize| record.resize(record.len().next_multiple_of(to), 0);
    if field.optional {
        record.push(u8::from(*value != Value::Absent));
    }
    match value {
        Value::Absent if field.kind == Kind::Any => record.push(0),
        Value::Absent => {}
        Value::Of(kind, value) => {
            record.push(kind.byte());
            encode(record, *kind, value);
        }
        Value::Word(bits) => {
            let (width, _) = width(field.kind).unwrap();
            align(record, width);
            record.extend_from_slice(&bits.to_le_bytes()[..width]);
        }
        Value::Wide(bits) => {
            align(record, 8);
            record.extend_from_slice(&bits.to_le_bytes());
        }
        Value::Duration(seconds, nanoseconds) => {
            align(record, 8);
            record.extend_from_slice(&seconds.to_le_bytes());
            record.extend_from_slice(&nanoseconds.to_le_bytes());
        }
        Value::Bytes(bytes, full) => {
            align(record, 4);
            record.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            record.extend_from_slice(&full.to_le_bytes());
            record.extend_from_slice(bytes);
        }
    }
}

fn record_of(fields: &[(FieldKind, Value)], event: u16, tid: u32, time: u64) -> Vec<u8> {
    let mut record = vec![0; HEADER];
    for (field, value) in fields {
        encode(&mut record, *field, value);
    }
    record.resize(record.len().next_multiple_of(8), 0);
    let words = (record.len() / 8) as u16;
    record[..8].copy_from_slice(&Header::word(words, event, tid).to_le_bytes());
    record[8..16].copy_from_slice(&time.to_le_bytes());
    record
}

/// What was read of a field.
fn value_of(field: FieldKind, (kind, read): (FieldKind, FieldRef<'_>)) -> Value {
    let value = match read {
        FieldRef::Absent => Value::Absent,
        FieldRef::Word(bits) => Value::Word(bits),
        FieldRef::Wide(low, high) => Value::Wide(u128::from(high) << 64 | u128::from(low)),
        FieldRef::Duration(seconds, nanoseconds) => Value::Duration(seconds, nanoseconds),
        FieldRef::Bytes(bytes, full) => Value::Bytes(bytes.to_vec(), full),
        FieldRef::Elapsed(Elapsed::Since(ticks)) => Value::Word(ticks),
        FieldRef::Elapsed(Elapsed::Nanoseconds(nanoseconds)) => Value::Word(nanoseconds | 1 << 63),
    };
    match value {
        value if kind == field => value,
        value => Value::Of(kind, Box::new(value)),
    }
}

fn any_kind() -> impl Strategy<Value = FieldKind> {
    (proptest::sample::select(Kind::ALL), any::<bool>()).prop_map(|(kind, optional)| FieldKind {
        kind,
        optional: optional && kind != Kind::Any,
    })
}

fn any_field() -> BoxedStrategy<(FieldKind, Value)> {
    let any = any_kind().prop_flat_map(|field| {
        if field.kind != Kind::Any {
            return field_of(field).boxed();
        }
        let of = any_kind().prop_filter("any of any", |of| of.kind != Kind::Any);
        let required = of.prop_map(|of| FieldKind {
            optional: false,
            ..of
        });
        let value = required
            .prop_flat_map(field_of)
            .prop_map(|(kind, value)| Value::Of(kind, Box::new(value)));
        let value = prop_oneof![1 => Just(Value::Absent), 3 => value];
        (Just(field), value).boxed()
    });
    any.boxed()
}

fn field_of(field: FieldKind) -> impl Strategy<Value = (FieldKind, Value)> {
    Just(field).prop_flat_map(|field| {
        let present = match (field.kind, width(field.kind)) {
            (_, Some((width, signed))) => any::<u64>()
                .prop_map(move |bits| {
                    let unused = 64 - 8 * width as u32;
                    Value::Word(match signed {
                        true => ((bits << unused) as i64 >> unused) as u64,
                        false => bits << unused >> unused,
                    })
                })
                .boxed(),
            (Kind::U128 | Kind::I128, _) => any::<u128>().prop_map(Value::Wide).boxed(),
            (Kind::Duration, _) => any::<(u64, u32)>()
                .prop_map(|(seconds, nanoseconds)| Value::Duration(seconds, nanoseconds))
                .boxed(),
            _ => (vec(any::<u8>(), 0..40), any::<u32>())
                .prop_map(|(bytes, full)| Value::Bytes(bytes, full))
                .boxed(),
        };
        let value = match field.optional {
            true => prop_oneof![1 => Just(Value::Absent), 3 => present].boxed(),
            false => present,
        };
        (Just(field), value)
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        fields in vec(any_field(), 0..13),
        event in 1..8192_u16,
        tid: u32,
        time: u64,
    ) {
        let record = record_of(&fields, event, tid, time);
        let words: Vec<u64> = record
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let header = Header::parse(words[0], words[1]).unwrap();
        prop_assert_eq!(usize::from(header.words), words.len());
        prop_assert_eq!((header.event, header.tid, header.time), (event, tid, time));
        let mut left = Fields::new(&record[HEADER..]);
        for (field, value) in &fields {
            let read = left.next(*field).map(|read| value_of(*field, read));
            prop_assert_eq!(read.as_ref(), Some(value));
        }
    }

    #[test]
    fn a_record_that_ends_too_soon_gives_its_first_fields_as_they_are(
        fields in vec(any_field(), 1..13),
        cut: prop::sample::Index,
    ) {
        let record = record_of(&fields, 1, 2, 3);
        let body = &record[HEADER..];
        let mut left = Fields::new(&body[..cut.index(body.len() + 1)]);
        for (field, value) in &fields {
            match left.next(*field) {
                Some(read) => prop_assert_eq!(&value_of(*field, read), value),
                None => break,
            }
        }
    }

    #[test]
    fn bytes_that_no_encoder_made_are_never_read_past_their_end(
        body in vec(any::<u8>(), 0..200),
        kinds in vec(any_kind(), 0..20),
    ) {
        let range = body.as_ptr_range();
        let mut left = Fields::new(&body);
        for kind in kinds {
            if let Some((_, FieldRef::Bytes(bytes, _))) = left.next(kind) {
                let read = bytes.as_ptr_range();
                prop_assert!(read.start >= range.start && read.end <= range.end);
            }
        }
    }

    #[test]
    fn headers_say_only_lengths_that_a_record_can_have(first: u64, time: u64) {
        let length = usize::from(first as u16);
        match Header::parse(first, time) {
            Some(header) => {
                prop_assert!((2..=MAX_WORDS).contains(&length));
                prop_assert_eq!(Header::word(header.words, header.event, header.tid), first);
            }
            None => prop_assert!(!(2..=MAX_WORDS).contains(&length)),
        }
    }

    #[test]
    fn a_directory_of_any_bytes_ends_and_its_entries_lie_in_it(
        bytes in vec(prop_oneof![3 => 0..32_u8, 1 => any::<u8>()], 0..300),
    ) {
        let range = bytes.as_ptr_range();
        let mut walked = 0;
        for point in region::listed(&bytes) {
            walked += region::ENTRY_HEAD + region::ENTRY_ROW + point.schema.len();
            prop_assert!((1..=region::MAX_EVENTS).contains(&usize::from(point.event)));
            let schema = point.schema.as_ptr_range();
            prop_assert!(schema.start >= range.start && schema.end <= range.end);
            // What a schema says of itself is checked as well.
            let _ = schema::Schema::parse(point.schema);
        }
        prop_assert!(walked <= bytes.len());
        let _ = region::filters(&bytes).count();
    }

    #[test]
    fn a_region_header_of_any_bytes_is_refused_or_reads_back(bytes in vec(any::<u8>(), 0..64)) {
        let mut bytes = bytes;
        for (place, magic) in bytes.iter_mut().zip(region::MAGIC.to_le_bytes()) {
            *place = magic;
        }
        if let Ok(header) = region::Header::parse(&bytes) {
            prop_assert_eq!(region::Header::parse(&header.encode()), Ok(header));
        }
    }
}

#[test]
fn a_record_of_every_form_has_these_bytes() {
    let kind = |kind, optional| FieldKind { kind, optional };
    let fields = [
        (kind(Kind::U8, false), Value::Word(0xab)),
        (kind(Kind::I32, false), Value::Word(-2_i64 as u64)),
        (kind(Kind::U16, true), Value::Word(0x1234)),
        (kind(Kind::U64, true), Value::Absent),
        (kind(Kind::Str, false), Value::Bytes(b"braid".to_vec(), 9)),
        (kind(Kind::U128, false), Value::Wide(1 << 64 | 7)),
        (kind(Kind::Duration, false), Value::Duration(3, 500)),
        (kind(Kind::Bytes, true), Value::Bytes(vec![0xff], 1)),
        (
            kind(Kind::Any, false),
            Value::Of(kind(Kind::I16, false), Box::new(Value::Word(-3_i64 as u64))),
        ),
        (kind(Kind::Any, false), Value::Absent),
        (kind(Kind::Elapsed, false), Value::Word(0x11)),
        (kind(Kind::Elapsed, false), Value::Word(1 << 63 | 0x12)),
    ];
    #[rustfmt::skip]
    let golden = [
        // 14 words, event 0x0102, thread 0x0a0b0c0d; time.
        14, 0, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a,
        8, 7, 6, 5, 4, 3, 2, 1,
        // u8; i32 at its alignment.
        0xab, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff,
        // u16 that is there, at its alignment; u64 that is not; then a string's length.
        1, 0, 0x34, 0x12, 0, 0, 0, 0,
        // The string: 5 of 9 bytes.
        5, 0, 0, 0, 9, 0, 0, 0,
        b'b', b'r', b'a', b'i', b'd', 0, 0, 0,
        // u128: low half first.
        7, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 0, 0, 0, 0,
        // Seconds, nanoseconds; then bytes that are there.
        3, 0, 0, 0, 0, 0, 0, 0,
        0xf4, 1, 0, 0, 1, 0, 0, 0,
        1, 0, 0, 0, 1, 0, 0, 0,
        // The bytes; the kind of a value, i16 at its alignment; another that is not there.
        0xff, 6, 0xfd, 0xff, 0, 0, 0, 0,
        // Since tick 17; 18 ns.
        0x11, 0, 0, 0, 0, 0, 0, 0,
        0x12, 0, 0, 0, 0, 0, 0, 0x80,
    ];
    let record = record_of(&fields, 0x0102, 0x0a0b_0c0d, 0x0102_0304_0506_0708);
    assert_eq!(record, golden);
    let mut left = Fields::new(&golden[HEADER..]);
    for (field, value) in &fields {
        assert_eq!(
            left.next(*field)
                .map(|read| value_of(*field, read))
                .as_ref(),
            Some(value)
        );
    }
}

#[test]
fn what_took_long_is_said_in_ticks_or_in_nanoseconds() {
    assert_eq!(Elapsed::of_word(17), Elapsed::Since(17));
    for elapsed in [Elapsed::Since(u64::MAX >> 1), Elapsed::Nanoseconds(0)] {
        assert_eq!(Elapsed::of_word(elapsed.word()), elapsed);
    }
    let ago = |ticks| 1_000 - ticks;
    assert_eq!(Elapsed::Since(990).nanoseconds(ago), 10);
    assert_eq!(Elapsed::Nanoseconds(990).nanoseconds(ago), 990);
}
