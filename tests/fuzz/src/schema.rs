//! What describes tracepoints: schemas, notes, rows, the directory of a region, its filters.

use tracebraid_wire::{note, record, region, schema, table};

/// Reads the bytes as each of them.
pub fn check(data: &[u8]) {
    if let Ok(schema) = schema::Schema::parse(data) {
        let fields: Vec<_> = schema.fields().collect();
        assert!(fields.len() <= 255);
        // A record of this schema, made of what comes behind it.
        let mut left = record::Fields::new(data);
        for (_, field) in fields {
            if left.next(field).is_none() {
                break;
            }
        }
    }
    for address in [0, 0x40_0000, u64::MAX - 16] {
        let _ = note::parse(data, address);
        let _ = table::parse_site(data, address);
        let _ = table::parse_point(data, address);
    }
    let _ = region::Header::parse(data);
    assert!(region::listed(data).count() <= data.len() / region::ENTRY_HEAD);
    assert!(region::filters(data).count() <= data.len() / region::ENTRY_HEAD);
}

/// A schema, and a directory of two.
pub fn seeds() -> Vec<Vec<u8>> {
    let schema = crate::schema_of("app", "all", "a={a} {text}", crate::FIELDS);
    let mut filters = vec![0; 256];
    let used = region::write_filter(&mut filters, 3, "a == 1 && text ~ \"x*\"").expect("room");
    filters.truncate(used);
    vec![schema, filters]
}
