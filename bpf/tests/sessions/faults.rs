//! Threads that sleep inside a probe, on one CPU: what one of them has fetched is its own.
//!
//! A page is made to arrive late by userfaultfd: reading it puts the thread to sleep in the middle of
//! the program until a handler thread has filled it, and meanwhile the others run through the same
//! program.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use tracebraid_bpf::record::{Body, Text};
use tracebraid_bpf::spec::{Fetch, Filter, Spec};
use tracebraid_bpf::{Options, Session};

use crate::{Outcome, UserTest, same, stubs};

/// Run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[(
    "threads_asleep_inside_a_probe_do_not_disturb_each_other",
    asleep,
)];

const PAGE: usize = 4096;
const PAGES: usize = 100;
const THREADS: usize = 8;

/// Why these tests cannot run, if so.
pub(crate) fn missing() -> Option<String> {
    Late::new()
        .err()
        .map(|error| format!("no userfaultfd: {error}"))
}

fn asleep(options: &Options) -> Outcome {
    let spec = Spec {
        user: vec![stubs::probe(
            0,
            stubs::slots_offset(),
            0,
            Fetch::Slots {
                count: 5,
                text: vec![(0, 1), (3, 4)],
            },
        )],
        filter: Filter {
            processes: vec![std::process::id()],
            ..Filter::default()
        },
        ..Spec::default()
    };
    let mut session = Session::start_with(&spec, options)?;
    let cpu = session.cpus()[0];
    let regions = (0..THREADS)
        .map(|_| Late::new())
        .collect::<io::Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        for (thread, region) in regions.iter().enumerate() {
            scope.spawn(move || region.fill(thread));
            scope.spawn(move || {
                crate::kernel::pin(&[cpu]);
                for page in 0..PAGES {
                    let number = (thread * PAGES + page) as u64;
                    let own = content(thread, page);
                    let late = region.address + (page * PAGE) as u64;
                    let length = own.len() as u64;
                    stubs::hit_slots(&[late, length, number, own.as_ptr() as u64, length]);
                }
            });
        }
    });
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    session.finish(&mut records, &mut lost)?;
    same("lost", lost.len(), 0)?;
    let mut seen = vec![false; THREADS * PAGES];
    for record in &records {
        let Body::Slots {
            slots: Some(slots),
            texts,
        } = &record.body
        else {
            return Err(format!("{record:?}").into());
        };
        let number = slots[2] as usize;
        if number >= seen.len() || std::mem::replace(&mut seen[number], true) {
            return Err(format!("{record:?} comes twice or never was").into());
        }
        let bytes = content(number / PAGES, number % PAGES);
        let full_length = bytes.len() as u64;
        let wanted = Text::Bytes { bytes, full_length };
        same("texts", texts, &vec![wanted.clone(), wanted])?;
    }
    same("records", records.len(), seen.len())
}

fn content(thread: usize, page: usize) -> Vec<u8> {
    format!("thread {thread}, page {page}: {}", "x".repeat(page)).into_bytes()
}

/// Pages that a handler fills when they are first touched. linux/userfaultfd.h.
struct Late {
    fd: OwnedFd,
    address: u64,
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

/// `_IOWR(0xaa, number, size)`
const fn request(number: u64, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | 0xaa << 8 | number
}

impl Late {
    fn new() -> io::Result<Late> {
        // SAFETY: flags only.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let mut api = Api {
            api: 0xaa,
            features: 0,
            ioctls: 0,
        };
        // SAFETY: the request's structure, alive for the call.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), request(0x3f, size_of::<Api>()), &mut api) })?;
        // SAFETY: new anonymous pages at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGES * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let late = Late {
            fd,
            address: address as u64,
        };
        let length = (PAGES * PAGE) as u64;
        let mut range = Register {
            start: late.address,
            length,
            mode: 1,
            ioctls: 0,
        };
        let number = request(0, size_of::<Register>());
        // SAFETY: as above; the range is ours.
        check(unsafe { libc::ioctl(late.fd.as_raw_fd(), number, &mut range) })?;
        Ok(late)
    }

    /// Fills each page as it is asked for, after a while.
    fn fill(&self, thread: usize) {
        for _ in 0..PAGES {
            let mut message = [0u64; 4];
            // SAFETY: a uffd_msg is 32 bytes.
            let size = unsafe { libc::read(self.fd.as_raw_fd(), message.as_mut_ptr().cast(), 32) };
            assert_eq!(size, 32, "{}", io::Error::last_os_error());
            // The event is the first byte, the address the third word.
            assert_eq!(message[0] & 0xff, 0x12);
            let start = message[2] & !(PAGE as u64 - 1);
            std::thread::sleep(Duration::from_micros(200));
            let mut page = content(thread, ((start - self.address) as usize) / PAGE);
            page.resize(PAGE, 0);
            let mut copy = Copy {
                to: start,
                from: page.as_ptr() as u64,
                length: PAGE as u64,
                mode: 0,
                copied: 0,
            };
            let number = request(3, size_of::<Copy>());
            // SAFETY: `page` is a page long and alive; the destination is ours.
            let done = unsafe { libc::ioctl(self.fd.as_raw_fd(), number, &mut copy) };
            check(done).expect("the page was asked for");
        }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length.
        unsafe { libc::munmap(self.address as *mut _, PAGES * PAGE) };
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
