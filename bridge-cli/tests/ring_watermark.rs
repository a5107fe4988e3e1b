//! Nothing that is older than a round comes after it: with more threads than CPUs appending, which are
//! preempted in the middle of it. `TRACEBRAID_SOAK=1`: ten million events.

#![allow(unsafe_code)]

mod foreign_region;
mod ring_program;
mod support;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use bridge::source::Rings;
use bridge::source::sdk_ring::{How, SdkRings, Wanted, now};
use bridge::source::spare::Spare;
use ring_program::Program;
use support::test;
use tracebraid_bpf::spec::{Filter, ProbeId};
use tracebraid_ring::requests::{Words, has_come_to};
use tracebraid_ring::{Consumer, Region};
use tracebraid_wire::region::{self, CLOCK_TSC, Group, control};
use tracebraid_wire::schema::Schema;

fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

fn events() -> u64 {
    if is_soak() { 10_000_000 } else { 300_000 }
}

/// A program's region, read as a bridge does it but for the times, which stay those of the records.
struct Reader {
    region: Arc<Region>,
    consumers: Vec<Consumer<Arc<Region>>>,
    is_tsc: bool,
    /// Has the lock.
    _file: File,
}

impl Reader {
    /// Takes the region of a program and wants `app:words` of it.
    fn of(program: &Program) -> Reader {
        let foreign = foreign_region::Region::of(program.pid);
        let (geometry, header, file) = (foreign.geometry(), foreign.header, foreign.file);
        lock(&file);
        let cpus = header.cpu_rings as usize;
        let mapped = OwnedFd::from(file.try_clone().unwrap());
        let region = Arc::new(Region::open(mapped, geometry).unwrap());
        let own = Group::Own.first(cpus)..Group::OwnLocked.first(cpus) + cpus;
        let reader = Reader {
            consumers: own
                .map(|ring| Consumer::new(Arc::clone(&region), ring))
                .collect(),
            region,
            is_tsc: header.clock == CLOCK_TSC,
            _file: file,
        };
        reader.want_words();
        reader
    }

    fn want_words(&self) {
        let mut directory = vec![0; region::DIRECTORY_BYTES];
        self._file
            .read_exact_at(&mut directory, region::DIRECTORY as u64)
            .unwrap();
        let event = region::listed(&directory)
            .find(|point| Schema::parse(point.schema).is_ok_and(|it| it.name == "words"))
            .expect("app:words")
            .event;
        let at = region::WANTED as u64 + u64::from(event);
        self._file.write_all_at(&[region::WANTED_ALL], at).unwrap();
        let number = self.words().ask();
        self.await_answer(self.words().answered, number);
    }

    fn words(&self) -> Words<'_> {
        let word = |which: usize| {
            // SAFETY: within the header area, 4-aligned; everybody uses it as an atomic.
            unsafe {
                &*self
                    .region
                    .header()
                    .add(region::CONTROL + which)
                    .cast::<AtomicU32>()
            }
        };
        Words {
            asked: word(control::ASKED),
            answered: word(control::ANSWERED),
            flush_asked: word(control::FLUSH_ASKED),
            flushed: word(control::FLUSHED),
            bell: word(control::BELL),
            serving: word(control::SERVING),
        }
    }

    fn await_answer(&self, word: &AtomicU32, number: u32) {
        let bell = self.words().bell;
        // SAFETY: a mapped, aligned word.
        unsafe { libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
        let end = Instant::now() + Duration::from_secs(20);
        while !has_come_to(word.load(std::sync::atomic::Ordering::Acquire), number) {
            assert!(Instant::now() < end, "the helper does not answer");
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// The time by the records' clock.
    fn now(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.is_tsc {
            // SAFETY: reading the counter has no preconditions.
            return unsafe { std::arch::x86_64::_rdtsc() };
        }
        assert!(!self.is_tsc, "only x86-64 has that clock");
        now()
    }

    /// Reads until there were so many events, in rounds: notes the time, has it flushed where that is wanted,
    /// and takes what the rings hold by then.
    fn take(&mut self, flush: bool) -> Late {
        let mut late = Late::default();
        let mut watermark = 0;
        while late.of < events() {
            let mut heads = Vec::with_capacity(self.consumers.len());
            let begin = self.now();
            if flush {
                let number = self.words().ask_flush();
                self.await_answer(self.words().flushed, number);
            }
            heads.extend(self.consumers.iter().map(Consumer::head));
            for (consumer, head) in self.consumers.iter_mut().zip(heads) {
                let each = |record: &[u64]| {
                    late.of += 1;
                    if record[1] < watermark {
                        late.count += 1;
                        late.most = late.most.max(watermark - record[1]);
                    }
                };
                consumer
                    .drain(head, each)
                    .expect("a ring of a good program");
            }
            watermark = begin;
        }
        late
    }
}

/// Events that came after a round that began later than they are old.
#[derive(Debug, Default)]
struct Late {
    count: u64,
    of: u64,
    /// By how much at most, in ticks of the records' clock.
    most: u64,
}

fn lock(file: &File) {
    // SAFETY: all zeros is a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: a descriptor of ours and a filled lock.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn raw() {
    let mut program = Program::start("crowd 6");
    let late = Reader::of(&program).take(true);
    println!("with the flush: {late:?}");
    assert_eq!(late.count, 0, "{late:?}");
    program.kill();
    if is_soak() {
        let mut program = Program::start("crowd 6");
        let late = Reader::of(&program).take(false);
        println!("without the flush: {late:?}");
        assert!(late.count > 0, "the reader would not have noticed any");
        program.kill();
    }
}

/// The same of the bridge's own source, in nanoseconds.
fn of_the_source() {
    let mut program = Program::start("crowd 6");
    let (mut rings, errors) = SdkRings::of(&[program.pid], &Filter::default(), How::default());
    assert!(errors.is_empty(), "{errors:?}");
    let listed = rings.listed();
    let words = listed.iter().find(|point| point.name == "words").unwrap();
    let wanted = Wanted {
        probe: ProbeId(1),
        what: Arc::clone(words.decoder().probe()),
        kinds: words.fields.iter().map(|field| field.1).collect(),
        probed_in: Vec::new(),
        filter: None,
    };
    rings.want(vec![wanted]);
    let (mut count, mut late, mut most, mut until) = (0, 0, 0, 0);
    let mut spare = Spare::default();
    while count < events() {
        let mut shares = Vec::new();
        rings
            .round(&mut spare, &mut shares, &mut Vec::new())
            .unwrap();
        for event in shares.iter().flat_map(|share| &share.events) {
            count += 1;
            if event.time < until {
                late += 1;
                most = most.max(until - event.time);
            }
        }
        until = until.max(shares[0].until);
        if !rings.has_backlog() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    println!("{late} of {count} late, by {most} ns at most");
    assert_eq!((late, rings.take_warnings()), (0, Vec::new()));
    program.kill();
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "after_a_flush_no_event_comes_that_is_older_than_its_round",
            raw,
        ),
        test(
            "no_event_of_the_source_comes_after_a_round_has_promised_that_none_will",
            of_the_source,
        ),
    ]);
}
