//! Filters over an application's own tracepoint: its schema says what the fields are.

use tracebraid_filter::{ErrorKind, Filter, Value, Values};
use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::schema::{HEADER, Schema, VERSION};

const FIELDS: [(&str, Kind); 9] = [
    ("order_id", Kind::U64),
    ("user", Kind::Str),
    ("paid", Kind::Bool),
    ("grade", Kind::Char),
    ("ratio", Kind::F32),
    ("took", Kind::Duration),
    ("hash", Kind::U128),
    ("at", Kind::Pointer),
    ("balance", Kind::I128),
];

fn schema() -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[7] = FIELDS.len() as u8;
    for (_, kind) in FIELDS {
        let optional = kind == Kind::Str;
        bytes.push(FieldKind { kind, optional }.byte());
    }
    for text in ["orders", "charge", ""]
        .into_iter()
        .chain(FIELDS.map(|(name, _)| name))
    {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// One charge, by a user who may have no name.
struct Charge(Option<&'static str>);

impl Values for Charge {
    fn value(&self, index: u16) -> Value<'_> {
        match FIELDS[usize::from(index)].0 {
            "order_id" => Value::Unsigned(u64::MAX - 1),
            "user" => self
                .0
                .map_or(Value::Missing, |user| Value::Text(user.as_bytes())),
            "paid" => Value::Unsigned(1),
            "grade" => Value::Unsigned('ä'.into()),
            "ratio" => Value::Float(0.1_f32.into()),
            "took" => Value::UnsignedWide(5_500_000),
            "hash" => Value::UnsignedWide(u128::MAX),
            "at" => Value::Unsigned(0x1000),
            _ => Value::SignedWide(i128::MIN),
        }
    }

    fn thread(&self) -> Option<i32> {
        Some(42)
    }

    fn cpu(&self) -> Option<u32> {
        Some(3)
    }

    fn comm(&self) -> Option<[u8; 16]> {
        Some(*b"a name of 16 by.")
    }
}

fn passes(text: &str, charge: &Charge) -> bool {
    let bytes = schema();
    let schema = Schema::parse(&bytes).unwrap();
    Filter::parse(text, &schema)
        .unwrap_or_else(|error| panic!("{error}"))
        .matches(charge)
}

fn refused(text: &str) -> ErrorKind {
    let bytes = schema();
    let schema = Schema::parse(&bytes).unwrap();
    Filter::parse(text, &schema).unwrap_err().kind()
}

#[test]
fn fields_compare_by_their_type() {
    for (yes, no) in [
        ("order_id > 9223372036854775807", "order_id < 0"),
        ("paid == true && paid == 1", "paid != true || paid == false"),
        ("grade == 'ä' && grade < 'ö'", "grade == 'a'"),
        ("grade == 228", "grade > 0xe4"),
        ("ratio == 0.1 && ratio < 1e0", "ratio > 0.11"),
        (
            "took > 5ms && took < 1s",
            "took > 6000us || took == 5499999ns",
        ),
        ("took == 5500000", "took != 5500000"),
        (
            "hash == 0xffffffffffffffffffffffffffffffff",
            "hash < 0 || hash != 340282366920938463463374607431768211455",
        ),
        (
            "balance == -170141183460469231731687303715884105728",
            "balance >= 0",
        ),
        ("at == 0x1000", "at & 1"),
        ("common_pid == 42 && cpu & 1 && cpu & CPUS{2-3}", "cpu & 4"),
        ("comm == 'a name of 16 by.'", "comm ~ '*17*'"),
    ] {
        assert!(passes(yes, &Charge(None)), "{yes}");
        assert!(!passes(no, &Charge(None)), "{no}");
    }
}

#[test]
fn a_missing_value_passes_no_comparison() {
    for text in ["user == 'al'", "user != 'al'", "user ~ '*'", "user ~ '!al'"] {
        assert!(!passes(text, &Charge(None)), "{text}");
        assert!(passes(&format!("!({text})"), &Charge(None)), "{text}");
    }
    assert!(passes("user != 'al'", &Charge(Some("bob"))));
}

#[test]
fn what_a_type_cannot_be_compared_with_is_refused() {
    for (text, kind) in [
        ("order_id == -1", ErrorKind::IllegalInteger),
        ("order_id == true", ErrorKind::InvalidValue),
        ("paid == yes", ErrorKind::InvalidValue),
        ("grade == 'ab'", ErrorKind::ExpectCharacter),
        ("grade == ''", ErrorKind::ExpectCharacter),
        ("grade ~ 'a'", ErrorKind::IllegalOperation),
        ("ratio & 1", ErrorKind::IllegalOperation),
        ("ratio == 1.2.3", ErrorKind::IllegalInteger),
        ("took & 1", ErrorKind::IllegalOperation),
        ("took > 5min", ErrorKind::IllegalInteger),
        ("took > -5ms", ErrorKind::IllegalInteger),
        ("took > 1.5ms", ErrorKind::IllegalInteger),
        ("ratio & CPUS{1}", ErrorKind::IllegalOperation),
        ("at.function == main", ErrorKind::FunctionNotFound),
        ("user == 5", ErrorKind::ExpectString),
    ] {
        assert_eq!(refused(text), kind, "{text}");
    }
}
