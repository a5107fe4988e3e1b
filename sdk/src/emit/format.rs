//! `%` and `?` fields: text is made when the event is emitted, in a buffer on the stack.
//!
//! Fields share [`TEXT_BYTES`]; each may take an equal part of what those before it have left, and is cut
//! with `…` where that is too little. A formatter that panics leaves what it wrote, marked.

use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use tracebraid_wire::kind::{FieldKind, Kind, MAX_SLOTS};

use crate::fields::MAX_FIELDS;
use crate::state::HotRow;
use crate::value::Formatter;

/// Bytes for all formatted fields of one event.
pub(crate) const TEXT_BYTES: usize = 1024;

const CUT: &str = "…";
const PANICKED: &str = "<panicked>";

/// Bytes of a text's share that are kept free for the two.
#[cfg(feature = "tracing")]
pub(crate) const MARKS: usize = CUT.len() + PANICKED.len();

/// Calls `then` with slots in which every formatted field is text.
///
/// # Safety
/// `slots` are those of a hit of `row`.
pub(super) unsafe fn with_text<T>(
    row: HotRow,
    slots: *const u64,
    then: impl FnOnce(*mut u64) -> Option<T>,
) -> Option<T> {
    let schema = row.schema();
    // SAFETY: a schema has its number of fields at byte 7 and then one byte a kind.
    let kinds = unsafe { std::slice::from_raw_parts(schema.add(8), schema.add(7).read().into()) };
    let is_text =
        |byte: &&u8| FieldKind::from_byte(**byte).is_some_and(|kind| kind.kind == Kind::Formatted);
    let mut to_format = kinds.iter().filter(is_text).count();

    let mut text = [MaybeUninit::<u8>::uninit(); TEXT_BYTES];
    let mut free = &mut text[..];
    let mut copy = [0u64; MAX_FIELDS * MAX_SLOTS];
    let mut at = 0;
    for &byte in kinds {
        let kind = FieldKind::from_byte(byte)?;
        let count = kind.slot_count();
        let place = copy.get_mut(at..at + count)?;
        for (index, word) in place.iter_mut().enumerate() {
            // SAFETY: the hit has as many slots as the kinds say.
            *word = unsafe { slots.add(at + index).read() };
        }
        at += count;
        if kind.kind == Kind::Formatted && place[0] != 0 {
            let mut out = Buffer::new(std::mem::take(&mut free), to_format);
            // SAFETY: the slots are the address of a live reference and its formatter (`Formatted::put`).
            let panicked = unsafe { format(place[0], place[1], &mut out) }.is_err();
            if panicked {
                // SAFETY: the row leads to the object's state.
                unsafe { &*row.state() }
                    .panics
                    .fetch_add(1, Ordering::Relaxed);
            }
            let (text, left) = out.finish(panicked);
            free = left;
            place[0] = text.as_ptr().expose_provenance() as u64;
            place[1] = text.len() as u64;
        }
        to_format -= usize::from(kind.kind == Kind::Formatted);
    }
    then(copy.as_mut_ptr())
}

/// # Safety
/// `value` is the address of a live `&T` and `formatter` the matching `Formatter`.
unsafe fn format(value: u64, formatter: u64, out: &mut Buffer<'_>) -> std::thread::Result<()> {
    // SAFETY: the slot holds a function of this type, put there by `Formatted::put`.
    let formatter: Formatter = unsafe { std::mem::transmute(formatter as usize as *const ()) };
    catch_unwind(AssertUnwindSafe(|| {
        // An error means that the buffer is full or that the type has nothing more to say.
        // SAFETY: the caller's promise.
        let _ = unsafe { formatter(value as usize as *const (), out) };
    }))
}

/// Text in a part of the stack's buffer. Room for the marks is kept free.
pub(crate) struct Buffer<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    /// How much of it the text may take.
    share: usize,
    /// How much it has taken: whole texts and beginnings of texts at a character's bounds.
    length: usize,
    cut: bool,
}

impl<'a> Buffer<'a> {
    /// The first of so many texts that share the bytes.
    pub(crate) fn new(bytes: &'a mut [MaybeUninit<u8>], texts: usize) -> Buffer<'a> {
        Buffer {
            share: bytes.len() / texts.max(1),
            bytes,
            length: 0,
            cut: false,
        }
    }

    /// Appends a text that there is room for.
    fn append(&mut self, text: &str) {
        let Some(place) = self.bytes[..self.share].get_mut(self.length..self.length + text.len())
        else {
            return;
        };
        for (place, &byte) in place.iter_mut().zip(text.as_bytes()) {
            place.write(byte);
        }
        self.length += text.len();
    }

    /// The text, and the bytes that are left for others.
    pub(crate) fn finish(mut self, panicked: bool) -> (&'a str, &'a mut [MaybeUninit<u8>]) {
        if self.cut {
            self.append(CUT);
        }
        if panicked {
            self.append(PANICKED);
        }
        let (written, left) = self.bytes.split_at_mut(self.length);
        // SAFETY: so many bytes were written, by `append` only, which takes whole `str`s.
        let text = unsafe {
            let bytes = std::slice::from_raw_parts(written.as_ptr().cast::<u8>(), written.len());
            std::str::from_utf8_unchecked(bytes)
        };
        (text, left)
    }
}

impl Write for Buffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.cut {
            return Err(fmt::Error);
        }
        let room = self
            .share
            .saturating_sub(self.length + CUT.len() + PANICKED.len());
        if text.len() <= room {
            self.append(text);
            return Ok(());
        }
        let whole = (0..=room)
            .rev()
            .find(|&end| text.is_char_boundary(end))
            .unwrap_or(0);
        self.append(&text[..whole]);
        self.cut = true;
        Err(fmt::Error)
    }
}
