//! A filter, and an event that it is asked about: sixteen bytes of the event, then the filter's text.

use tracebraid_filter::{Filter, Value, Values};
use tracebraid_wire::schema::Schema;

/// An event whose fields are of what bytes there are.
struct Event<'a> {
    bytes: &'a [u8],
    kinds: &'a [u8],
}

impl Values for Event<'_> {
    fn value(&self, index: u16) -> Value<'_> {
        let low = u64::from_le_bytes(self.bytes[..8].try_into().expect("eight bytes"));
        let both = u128::from_le_bytes(self.bytes.try_into().expect("sixteen bytes"));
        // As the SDK gives them, by the field's kind.
        match self.kinds[usize::from(index)] & 0x7f {
            1 => Value::Unsigned(u64::from(low as u8)),
            2 => Value::Unsigned(u64::from(low as u16)),
            3 | 12 => Value::Unsigned(u64::from(low as u32)),
            11 => Value::Unsigned(low & 1),
            4 | 17 => Value::Unsigned(low),
            5 => Value::Signed(i64::from(low as i8)),
            6 => Value::Signed(i64::from(low as i16)),
            7 => Value::Signed(i64::from(low as i32)),
            8 => Value::Signed(low as i64),
            9 | 18 => Value::UnsignedWide(both),
            10 => Value::SignedWide(both as i128),
            13 => Value::Float(f32::from_bits(low as u32).into()),
            14 => Value::Float(f64::from_bits(low)),
            _ if self.bytes[15] == 0 => Value::Missing,
            _ => Value::Text(&self.bytes[..usize::from(self.bytes[15] % 16)]),
        }
    }

    fn thread(&self) -> Option<i32> {
        Some(i32::from(self.bytes[0]))
    }

    fn cpu(&self) -> Option<u32> {
        Some(u32::from(self.bytes[1]))
    }

    fn comm(&self) -> Option<[u8; 16]> {
        self.bytes.try_into().ok()
    }
}

/// Reads a filter, asks it, prints it and its error.
pub fn check(data: &[u8]) {
    let Some((bytes, text)) = data.split_at_checked(16) else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let schema = crate::schema_of("app", "all", "", crate::FIELDS);
    let schema = Schema::parse(&schema).expect("a schema");
    let kinds: Vec<u8> = crate::FIELDS.iter().map(|field| field.0).collect();
    let event = Event {
        bytes,
        kinds: &kinds,
    };
    match Filter::parse(text, &schema) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(filter) => {
            let passes = filter.matches(&event);
            // What it prints is itself.
            let printed = filter.to_string();
            let again = Filter::parse(&printed, &schema)
                .unwrap_or_else(|error| panic!("{text:?} prints {printed:?}: {error}"));
            assert_eq!(again.matches(&event), passes, "{text:?} prints {printed:?}");
        }
    }
}

/// Filters of each form.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "a == 1",
        "h < -5 || d >= 0xffffffffffffffff",
        "!(text ~ \"*al?ce[a-z]\") && user != \"bob\"",
        "common_pid == 7 && cpu == 1 && comm ~ \"kw*\"",
        "b & 0x10 && k == true",
        "CPUS{1-3,5} == cpu",
        "cpu & CPUS{0-7}",
        "n > 1.5 && m <= -0.25e3",
        "i == 340282366920938463463374607431768211455",
        "ns > 50ms",
        "l == 'x'",
        "0",
        "((((a == 1))))",
    ];
    texts
        .iter()
        .map(|text| [b"alice\0\0\0........", text.as_bytes()].concat())
        .collect()
}
