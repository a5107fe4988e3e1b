//! Uses generic and inlined functions of another crate, so that their sites are in this one too.

#![forbid(unsafe_code)]
#![deny(warnings)]

#[inline(never)]
pub fn generics(text: &str, number: i16) -> usize {
    let parts = [
        shapes::generic(text).len(),
        shapes::generic(number).unsigned_abs().into(),
        labels::labelled(text) as usize,
    ];
    parts.iter().sum()
}

#[inline(never)]
pub fn inlined(id: u32) -> u32 {
    shapes::inlined(id) + shapes::inlined(id + 1)
}

#[inline(never)]
pub fn queued(id: u64) {
    shapes::queued(id, 7, "uses");
}
