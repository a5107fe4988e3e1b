//! A bridge's filters, as the program evaluates them: only what passes is in the rings.
//!
//! This process is its own bridge: it opens its region as one would, through the descriptor.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::{event, tracepoint};
use tracebraid_ring::{Consumer, Geometry, Region};
use tracebraid_wire::kind::FieldKind;
use tracebraid_wire::record::{Elapsed, FieldRef, Fields, Header};
use tracebraid_wire::region::{self, WANTED_ALL, WANTED_COUNTED, WANTED_FILTERED, control};
use tracebraid_wire::schema::Schema;

/// What the bridge of this process is.
struct Bridge {
    region: Arc<Region>,
    consumers: Vec<Consumer<Arc<Region>>>,
    /// Holds the region's lock.
    _owner: File,
}

impl Bridge {
    fn take() -> Bridge {
        tracebraid::init();
        let path = fs::read_dir("/proc/self/fd")
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| {
                fs::read_link(path).is_ok_and(|to| to.as_os_str() == "/memfd:tracebraid (deleted)")
            })
            .expect("init makes the rings");
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: all zeros is a valid flock.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: a descriptor of ours and a filled lock.
        let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        assert_eq!(taken, 0);
        let mut bytes = [0; region::HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let header = region::Header::parse(&bytes).unwrap();
        let rings = header.rings as usize;
        let head = region::header_bytes(rings).next_multiple_of(Geometry::PAGE);
        let geometry = Geometry::new(head, rings, header.ring_bytes as usize).unwrap();
        let mapped = OwnedFd::from(file.try_clone().unwrap());
        let region = Arc::new(Region::open(mapped, geometry).unwrap());
        Bridge {
            consumers: (0..rings)
                .map(|ring| Consumer::new(Arc::clone(&region), ring))
                .collect(),
            region,
            _owner: file,
        }
    }

    fn word(&self, which: usize) -> &AtomicU32 {
        // SAFETY: within the header area and aligned; both sides use it as an atomic.
        unsafe { &*self.region.header().add(region::CONTROL + which).cast() }
    }

    /// The bytes of the header area from `at` on.
    ///
    /// No other thread of this process looks at them but the helper, between a request and its answer.
    #[allow(clippy::mut_from_ref)]
    fn area(&self, at: usize, length: usize) -> &mut [u8] {
        // SAFETY: within the header area; see above.
        unsafe { std::slice::from_raw_parts_mut(self.region.header().add(at), length) }
    }

    /// The event id of the tracepoint with this name.
    fn event(&self, name: &str) -> u16 {
        let used = self.word(control::DIRECTORY_USED).load(Ordering::Acquire) as usize;
        region::listed(self.area(region::DIRECTORY, used))
            .find(|point| Schema::parse(point.schema).unwrap().name == name)
            .expect("the tracepoint is listed")
            .event
    }

    /// Wants these events, with filters; waits for the answer.
    fn want(&self, wanted: &[(u16, u8, &str)]) {
        self.area(region::WANTED, region::MAX_EVENTS + 1).fill(0);
        let filters = self.area(region::FILTERS, region::FILTERS_BYTES);
        let mut used = 0;
        for &(event, how, filter) in wanted {
            self.area(region::WANTED, region::MAX_EVENTS + 1)[usize::from(event)] = how;
            if !filter.is_empty() {
                used += region::write_filter(&mut filters[used..], event, filter).unwrap();
            }
        }
        self.word(control::FILTERS_USED)
            .store(used as u32, Ordering::Release);
        let asked = self.word(control::ASKED);
        let number = asked.fetch_add(1, Ordering::AcqRel) + 1;
        let bell = self.word(control::BELL);
        bell.fetch_add(1, Ordering::AcqRel);
        // SAFETY: a mapped, aligned word.
        unsafe { libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
        let end = Instant::now() + Duration::from_secs(20);
        while self.word(control::ANSWERED).load(Ordering::Acquire) != number {
            assert!(Instant::now() < end, "the helper does not answer");
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// Hits of an event that its filter refused so far.
    fn filtered(&self, event: u16) -> u32 {
        let cpus = self.consumers.len() / region::Group::ALL.len();
        let on = |cpu| {
            let at = region::filtered_offset(false, cpus, cpu, event);
            // SAFETY: within the header area and aligned; both sides use it as an atomic.
            let count: &AtomicU32 = unsafe { &*self.region.header().add(at).cast() };
            count.load(Ordering::Relaxed)
        };
        (0..cpus).map(on).sum()
    }

    /// Takes the records: event and body.
    fn records(&mut self) -> Vec<(u16, Vec<u8>)> {
        let mut records = Vec::new();
        for consumer in &mut self.consumers {
            let head = consumer.head();
            consumer
                .drain(head, |record| {
                    let header = Header::parse(record[0], record[1]).unwrap();
                    let body = record[2..].iter().flat_map(|word| word.to_le_bytes());
                    records.push((header.event, body.collect()));
                })
                .unwrap();
        }
        records
    }

    /// The first field, a number, of each record of the event.
    fn numbers(&mut self, event: u16) -> Vec<u64> {
        let kind = FieldKind::from_byte(4).unwrap();
        let mut numbers: Vec<u64> = self
            .records()
            .iter()
            .filter(|(found, _)| *found == event)
            .map(|(_, body)| match Fields::new(body).next(kind) {
                Some((_, FieldRef::Word(number))) => number,
                other => panic!("no number: {other:?}"),
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The bridge, for one test at a time. It is never given back.
fn bridge() -> MutexGuard<'static, Bridge> {
    static BRIDGE: LazyLock<Mutex<Bridge>> = LazyLock::new(|| Mutex::new(Bridge::take()));
    // A test that failed leaves nothing that the next one does not set anew.
    let mut bridge = BRIDGE.lock().unwrap_or_else(PoisonError::into_inner);
    bridge.want(&[]);
    bridge.records();
    bridge
}

fn every_kind(number: u64, user: Option<&str>) {
    event!(
        every_kind,
        number = number,
        user = user,
        small = number as u8,
        signed = -(number as i16),
        deep = -i128::from(number),
        wide = u128::from(number) << 70,
        maybe = (number > 5).then_some(number as u32),
        yes = number.is_multiple_of(2),
        letter = 'ä',
        half = number as f32 / 2.0,
        took = Duration::from_micros(number),
    );
}

fn with_text(number: u64, bytes: &[u8], list: &[u32]) {
    event!(with_text, number = number, bytes = bytes, list = ?list);
}

fn plain(number: u64) {
    event!(plain, number = number);
}

#[test]
fn only_what_passes_its_filter_is_in_the_ring_and_the_others_are_counted() {
    let mut bridge = bridge();
    let (kinds, text) = (bridge.event("every_kind"), bridge.event("with_text"));
    let thread = thread_number();
    // SAFETY: a name with its NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"passing".as_ptr()) };
    let mut passing = |event: u16, filter: &str| {
        bridge.want(&[(event, WANTED_FILTERED, filter)]);
        let before = bridge.filtered(event);
        for number in 0..10 {
            every_kind(number, (number % 3 != 0).then_some("alice"));
            with_text(number, b"\xff.", &[number as u32, 7]);
        }
        let numbers = bridge.numbers(event);
        let filtered = bridge.filtered(event) - before;
        assert_eq!(numbers.len() + filtered as usize, 10, "{filter}");
        numbers
    };
    for (filter, numbers) in [
        ("number == 3", &[3][..]),
        ("number > 7 || small < 2", &[0, 1, 8, 9]),
        ("signed <= -8", &[8, 9]),
        ("deep == -4", &[4]),
        ("wide == 0xc00000000000000000", &[3]),
        ("maybe >= 0", &[6, 7, 8, 9]),
        ("!(maybe != 7)", &[0, 1, 2, 3, 4, 5, 7]),
        ("yes == true && number < 5", &[0, 2, 4]),
        ("letter == 'ä' && half == 1.5", &[3]),
        ("took > 7us", &[8, 9]),
        ("user ~ 'al*' && number < 6", &[1, 2, 4, 5]),
        ("user != 'alice'", &[]),
        ("!(user == 'alice')", &[0, 3, 6, 9]),
        (&format!("common_pid == {thread} && number == 1"), &[1]),
        ("common_pid == 1", &[]),
        ("cpu >= 0 && cpu < 8192 && number == 2", &[2]),
        ("comm == 'passing' && number == 5", &[5]),
        ("comm == 'somebody'", &[]),
        ("0", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ] {
        assert_eq!(passing(kinds, filter), numbers, "{filter}");
    }
    assert_eq!(passing(text, "list == '[3, 7]'"), [3]);
    assert_eq!(passing(text, "bytes ~ '?.' && list ~ '[[]4*'"), [4]);
}

#[tracepoint]
fn paused(pause: Duration) {
    thread::sleep(pause);
}

#[test]
fn a_filter_on_how_long_a_body_took_lets_pass_what_the_record_says() {
    let mut bridge = bridge();
    let (entry, exit) = (bridge.event("paused"), bridge.event("paused__return"));
    let shown = FieldKind {
        kind: tracebraid::Kind::Elapsed,
        optional: false,
    };
    let short = Duration::from_micros(100);
    let long = Duration::from_millis(40);
    // With the entry in the rings, whose stamp the return then has, and without.
    for entries in [WANTED_ALL, 0] {
        bridge.want(&[
            (entry, entries, ""),
            (exit, WANTED_FILTERED, "ns > 30000000"),
        ]);
        for _ in 0..5 {
            paused(short);
            paused(long);
        }
        let mut returns = 0;
        for (event, body) in bridge.records() {
            if event == exit {
                let Some((_, FieldRef::Elapsed(elapsed))) = Fields::new(&body).next(shown) else {
                    panic!("{body:?}");
                };
                assert!(
                    matches!(elapsed, Elapsed::Nanoseconds(30_000_001..)),
                    "{elapsed:?}"
                );
                returns += 1;
            }
        }
        assert!(returns >= 5, "{returns}");
    }
}

/// A value that must not be looked at.
struct Unseen;

impl std::fmt::Debug for Unseen {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        unreachable!("nobody wants to know")
    }
}

#[test]
fn a_hit_of_which_only_the_number_is_wanted_is_counted_and_neither_formatted_nor_recorded() {
    let mut bridge = bridge();
    let names = ["plain", "unseen", "paused", "paused__return"];
    let events = names.map(|name| bridge.event(name));
    bridge.want(&events.map(|event| (event, WANTED_COUNTED, "")));
    let panics = tracebraid::status().panics;
    let before = events.map(|event| bridge.filtered(event));
    for number in 0..7 {
        plain(number);
        event!(unseen, what = ?Unseen);
        paused(Duration::ZERO);
    }
    assert!(bridge.records().is_empty());
    let counts = [0, 1, 2, 3].map(|at| bridge.filtered(events[at]) - before[at]);
    assert_eq!(counts, [7; 4]);
    assert_eq!(tracebraid::status().panics, panics);
}

/// Threads that hit at once.
const THREADS: usize = 4;

fn thread_number() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}

#[test]
fn a_filter_that_is_missing_or_bad_keeps_the_event_off() {
    let mut bridge = bridge();
    let event = bridge.event("plain");
    let refused = |bridge: &Bridge| {
        bridge
            .word(control::FILTERS_REFUSED)
            .load(Ordering::Relaxed)
    };
    for filter in [
        "",
        "number == ",
        "nobody == 1",
        "number == -1",
        "number == 1 &&",
    ] {
        bridge.want(&[(event, WANTED_FILTERED, filter)]);
        assert_eq!(refused(&bridge), 1, "{filter}");
        plain(1);
        assert_eq!(bridge.numbers(event), [0; 0], "{filter}");
    }
    bridge.want(&[(event, WANTED_FILTERED, "number == 1")]);
    assert_eq!(refused(&bridge), 0);
    plain(1);
    plain(2);
    bridge.want(&[(event, WANTED_ALL, "number == 1")]);
    plain(3);
    bridge.want(&[]);
    plain(1);
    assert_eq!(bridge.numbers(event), [1, 3]);
}

#[test]
fn callbacks_see_what_the_filter_keeps_from_the_ring() {
    let mut bridge = bridge();
    let event = bridge.event("plain");
    let seen = Arc::new(AtomicU64::new(0));
    let all = tracebraid::tracepoints();
    let point = all.iter().find(|point| point.name() == "plain").unwrap();
    let attachment = point
        .attach({
            let seen = Arc::clone(&seen);
            move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    bridge.want(&[(event, WANTED_FILTERED, "number == 2")]);
    (0..4).for_each(plain);
    drop(attachment);
    assert_eq!(seen.load(Ordering::Relaxed), 4);
    assert_eq!(bridge.numbers(event), [2]);
}

#[test]
fn filters_change_while_threads_go_through_them() {
    let mut bridge = bridge();
    let event = bridge.event("plain");
    let stop = AtomicBool::new(false);
    let mut recorded = 0;
    let mut wrong = Vec::new();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    plain(number % 100);
                    number += 1;
                }
            });
        }
        for round in 0..300_u64 {
            let filter = format!("number == {} || number == 100", round % 50 * 2);
            bridge.want(&[(event, WANTED_FILTERED, &filter)]);
            thread::sleep(Duration::from_micros(300));
            let numbers = bridge.numbers(event);
            recorded += numbers.len();
            // A thread that was preempted between its look at the filter and the ring may come late, with
            // a number that passed before. It comes once.
            let late = |number: u64| number != round % 50 * 2;
            let before = |number: u64| number == (round + 49) % 50 * 2;
            if numbers.iter().any(|number| number % 2 == 1)
                || numbers
                    .iter()
                    .filter(|&&number| late(number) && !before(number))
                    .count()
                    > THREADS
            {
                wrong.push((numbers, filter));
            }
            if round % 7 == 0 {
                bridge.want(&[]);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(recorded > 0);
    assert_eq!(wrong, []);
}
