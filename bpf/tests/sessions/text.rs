//! What slots and the text they lead to look like where memory is cold, short, long or not there.
#![allow(unsafe_code)]

use tracebraid_bpf::record::{Body, Text};
use tracebraid_bpf::spec::Spec;
use tracebraid_bpf::{ErrorKind, Options, Session};

use crate::user::{slot_probe, texts, user, whole};
use crate::{Outcome, UserTest, same, stubs, under};

/// Each is run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[
    (
        "slots_that_cannot_be_read_are_none_and_cost_no_hit",
        unreadable_slots,
    ),
    ("text_is_null_or_a_fault_and_never_wrongly_empty", bad_texts),
    ("text_in_a_page_that_nobody_has_touched_is_read", cold_text),
    (
        "text_is_cut_at_the_limit_and_says_how_long_it_was",
        long_text,
    ),
    (
        "a_length_beyond_what_is_mapped_keeps_what_is_there",
        overlong_text,
    ),
    (
        "text_beyond_the_room_of_a_record_is_cut_and_what_follows_is_whole",
        much_text,
    ),
];

fn unreadable_slots(options: &Options) -> Outcome {
    let spec = user(vec![slot_probe(0, 2, &[(0, 1)])]);
    let seen = under(&spec, options, || {
        for address in [
            0,
            8,
            u64::MAX - 7,
            0xffff_8000_0000_0000,
            0x8000_0000_0000_0000,
        ] {
            stubs::hit_address(address as *const u64);
        }
    })?;
    same("records", seen.records.len(), 5)?;
    for record in &seen.records {
        same(
            "body",
            &record.body,
            &Body::Slots {
                slots: None,
                texts: vec![],
            },
        )?;
    }
    Ok(())
}

fn bad_texts(options: &Options) -> Outcome {
    let hole = Pages::new(1, libc::PROT_NONE);
    let bad = [
        8,
        0xffff_ffff_8100_0000,
        0x8000_0000_0000_0000,
        hole.address(),
    ];
    let spec = user(vec![slot_probe(0, 3, &[(0, 1)])]);
    let seen = under(&spec, options, || {
        stubs::hit_slots(&[0, 5, 1]);
        // An empty string of Rust has a length of 0 and an address that may not be read.
        stubs::hit_slots(&[1, 0, 2]);
        for address in bad {
            stubs::hit_slots(&[address, 5, 3]);
        }
    })?;
    let seen = seen
        .records
        .iter()
        .map(texts)
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let mut wanted = vec![Text::Null, whole(b"")];
    wanted.extend(bad.iter().map(|_| Text::Fault));
    same("texts", seen, wanted)
}

fn cold_text(options: &Options) -> Outcome {
    let file = std::env::temp_dir().join(format!("tracebraid-cold-{}", std::process::id()));
    std::fs::write(
        &file,
        [&[b'.'; 8190][..], b"cold string", &[b'.'; 4000]].concat(),
    )?;
    let pages = Pages::of_file(&file, 3);
    std::fs::remove_file(&file)?;
    let spec = user(vec![slot_probe(0, 2, &[(0, 1)])]);
    // It crosses into the next page, which is as cold.
    let seen = under(&spec, options, || {
        stubs::hit_slots(&[pages.address() + 8190, 11])
    })?;
    same("records", seen.records.len(), 1)?;
    same(
        "text",
        texts(&seen.records[0])?,
        vec![whole(b"cold string")],
    )
}

fn long_text(options: &Options) -> Outcome {
    let text: Vec<u8> = (0..1_000_000u32)
        .map(|index| b'a' + (index % 26) as u8)
        .collect();
    for limit in [16, 64, 256, 1000, 4096] {
        let spec = Spec {
            string_limit: limit,
            ..user(vec![slot_probe(0, 3, &[(0, 1)])])
        };
        let lengths = [0, 1, limit - 1, limit, limit + 1, 1_000_000];
        let seen = under(&spec, options, || {
            for length in lengths {
                stubs::hit_slots(&[text.as_ptr() as u64, length as u64, 0xfeed]);
            }
        })?;
        same("records", seen.records.len(), lengths.len())?;
        for (record, length) in seen.records.iter().zip(lengths) {
            let bytes = text[..length.min(limit)].to_vec();
            let text = Text::Bytes {
                bytes,
                full_length: length as u64,
            };
            same("text", texts(record)?, vec![text])?;
            let Body::Slots {
                slots: Some(slots), ..
            } = &record.body
            else {
                unreachable!()
            };
            same("the field behind it", slots[2], 0xfeed)?;
        }
    }
    for limit in [1, 15, 4097, usize::MAX] {
        let spec = Spec {
            string_limit: limit,
            ..Spec::default()
        };
        same(
            "kind",
            Session::start(&spec).err().map(|e| e.kind().clone()),
            Some(ErrorKind::BadSpec),
        )?;
    }
    Ok(())
}

fn overlong_text(options: &Options) -> Outcome {
    let pages = Pages::new(2, libc::PROT_READ | libc::PROT_WRITE);
    pages.write(4096 - 5, b"hello");
    pages.forbid(1);
    let spec = user(vec![slot_probe(0, 2, &[(0, 1)])]);
    let address = pages.address() + 4096 - 5;
    let lengths = [5, 6, 1 << 40, u64::MAX];
    let seen = under(&spec, options, || {
        for length in lengths {
            stubs::hit_slots(&[address, length]);
        }
    })?;
    let seen = seen
        .records
        .iter()
        .map(texts)
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let wanted = lengths.map(|full_length| Text::Bytes {
        bytes: b"hello".into(),
        full_length,
    });
    same("texts", seen, wanted.to_vec())
}

fn much_text(options: &Options) -> Outcome {
    let text = vec![b'x'; 4096];
    let pairs: Vec<(u8, u8)> = (0..32).map(|index| (2 * index, 2 * index + 1)).collect();
    let spec = Spec {
        string_limit: 4096,
        ..user(vec![slot_probe(0, 64, &pairs)])
    };
    let words = [text.as_ptr() as u64, 4096].repeat(32);
    let seen = under(&spec, options, || stubs::hit_slots(&words))?;
    let texts = texts(&seen.records[0])?;
    same("texts", texts.len(), 32)?;
    let mut bytes = 0;
    for text in texts {
        let Text::Bytes {
            bytes: some,
            full_length: 4096,
        } = text
        else {
            return Err(format!("{text:?}").into());
        };
        bytes += some.len();
    }
    same("bytes", bytes, 48 << 10)
}

/// Anonymous or mapped pages of their own.
struct Pages {
    start: *mut u8,
    length: usize,
}

impl Pages {
    fn new(count: usize, protection: i32) -> Pages {
        Pages::map(
            count,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
        )
    }

    /// Nobody has touched them; only the file has been written.
    fn of_file(file: &std::path::Path, count: usize) -> Pages {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open(file).expect("just written");
        let pages = Pages::map(count, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd());
        // SAFETY: advice about pages of our own.
        unsafe { libc::madvise(pages.start.cast(), pages.length, libc::MADV_RANDOM) };
        pages
    }

    fn map(count: usize, protection: i32, flags: i32, fd: i32) -> Pages {
        let length = count * 4096;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Pages {
            start: start.cast(),
            length,
        }
    }

    fn address(&self) -> u64 {
        self.start as u64
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: inside the mapping, which only this test knows.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.start.add(offset), bytes.len()) }
    }

    fn forbid(&self, page: usize) {
        // SAFETY: a page of our own that nothing refers to.
        let result =
            unsafe { libc::mprotect(self.start.add(page * 4096).cast(), 4096, libc::PROT_NONE) };
        assert_eq!(result, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
