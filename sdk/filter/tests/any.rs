//! Filters over fields whose type is only known of each value.

use tracebraid_filter::{Field, Fields, Filter, Type, Value, Values};

/// An event with one field of any type, and one whose name has points in it.
struct Event(Value<'static>);

impl Fields for Event {
    fn field(&self, name: &str) -> Option<Field> {
        let index = ["value", "http.status", "http.status.code"]
            .iter()
            .position(|known| *known == name)?;
        Some(Field {
            index: index as u16,
            kind: Type::Any,
        })
    }
}

impl Values for Event {
    fn value(&self, index: u16) -> Value<'_> {
        match index {
            0 => self.0,
            1 => Value::SignedWide(503),
            _ => Value::Text(b"unavailable"),
        }
    }

    fn thread(&self) -> Option<i32> {
        Some(1)
    }

    fn cpu(&self) -> Option<u32> {
        Some(0)
    }

    fn comm(&self) -> Option<[u8; 16]> {
        None
    }
}

fn passes(text: &str, value: Value<'static>) -> bool {
    let event = Event(value);
    let filter = Filter::parse(text, &event).unwrap_or_else(|error| panic!("{error}"));
    filter.matches(&event)
}

#[test]
fn a_value_is_compared_as_what_it_is_and_holds_no_comparison_as_another() {
    let number = Value::SignedWide(-7);
    for yes in [
        "value == -7",
        "value < 0",
        "value < 0.5",
        "value & 1",
        "value != 1",
    ] {
        assert!(passes(yes, number), "{yes}");
    }
    for no in [
        "value == 7",
        "value ~ \"*\"",
        "value == \"-7\"",
        "value == true",
    ] {
        assert!(!passes(no, number), "{no}");
    }
    let text = Value::Text(b"alan");
    assert!(passes("value ~ \"al*\" && value != \"ada\"", text));
    assert!(!passes("value < 3 || value != 3", text));
    let float = Value::Float(2.5);
    assert!(passes("value > 2 && value < 2.75 && value == 2.5", float));
    assert!(passes("value == true && value == 1", Value::SignedWide(1)));
    assert!(!passes("value == 1 || value != 1", Value::Missing));
}

#[test]
fn a_name_with_points_is_one_name_where_there_is_such_a_field() {
    let any = Value::Missing;
    assert!(passes("http.status == 503", any));
    assert!(passes("http.status.code == \"unavailable\"", any));
    assert!(passes("http.status>=500&&http.status.code~\"un*\"", any));
    let event = Event(any);
    for bad in [
        "http == 1",
        "http.stat == 1",
        "http.status.co == 1",
        ".status == 1",
    ] {
        assert!(Filter::parse(bad, &event).is_err(), "{bad}");
    }
}
