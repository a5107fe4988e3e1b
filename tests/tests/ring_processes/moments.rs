//! Events at odd moments: before `main`, while a thread's variables are destroyed, in `atexit` handlers,
//! and after an `init` that failed.

#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::thread;

use tracebraid::{ErrorKind, Options};
use tracebraid_tests::scenario::Scenario;

use super::{begin, note, take};

const BEFORE_MAIN: &str = "events_before_main_are_read";

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(BEFORE_MAIN, &[], before_main),
    Scenario::new(
        "events_in_destructors_of_thread_locals_are_read",
        &[],
        || destructors(Options::new()),
    ),
    Scenario::new(
        "events_in_destructors_of_thread_locals_are_read_under_locks",
        &[],
        || destructors(super::locked()),
    ),
    Scenario::new(
        "events_in_destructors_of_thread_locals_are_read_with_an_area_of_our_own",
        &[],
        own_area,
    ),
    Scenario::new("events_in_atexit_handlers_are_read", &[], at_exit),
    Scenario::new(
        "events_after_an_init_that_failed_go_nowhere_and_harm_nothing",
        &[],
        failed_init,
    ),
    Scenario::new(
        "an_init_that_failed_says_why_and_may_be_called_again",
        &[],
        init_again,
    ),
    Scenario::new(
        "events_without_init_go_nowhere_and_harm_nothing",
        &[],
        no_init,
    ),
];

#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = early;

/// Runs before `main`, in every process of this test.
extern "C" fn early() {
    // No rings yet, whatever is on.
    note(0, 0);
    if std::env::var("TRACEBRAID_SCENARIO").is_ok_and(|name| name == BEFORE_MAIN) {
        begin(Options::new());
        note(1, 1);
        note(1, 2);
    }
}

fn before_main() {
    note(2, 3);
    let seen: Vec<_> = take()
        .into_iter()
        .map(|seen| (seen.who, seen.index))
        .collect();
    assert_eq!(seen, [(1, 1), (1, 2), (2, 3)]);
}

/// Fires when it is destroyed.
struct Last(u64);

impl Drop for Last {
    fn drop(&mut self) {
        note(self.0, 0);
        note(self.0, 1);
    }
}

thread_local! {
    static FIRST: OnceLock<Last> = const { OnceLock::new() };
    static SECOND: OnceLock<Last> = const { OnceLock::new() };
}

/// A destructor as C has them, which runs after those of Rust; and again and again, as often as there
/// may be rounds, so after whatever the rings have set up for the thread is gone.
unsafe extern "C" fn destroy(round: *mut libc::c_void) {
    let round = round.addr();
    note(3, round as u64);
    if round < ROUNDS {
        let key = KEY.get().expect("made before threads");
        // SAFETY: a key of ours.
        unsafe { libc::pthread_setspecific(*key, std::ptr::without_provenance(round + 1)) };
    }
}

/// Rounds of destructors: fewer than PTHREAD_DESTRUCTOR_ITERATIONS, 4.
const ROUNDS: usize = 3;

static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

fn destructors(options: Options) {
    const THREADS: usize = 50;
    begin(options);
    let mut key = 0;
    // SAFETY: a place for the key, and a destructor of the right type.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(destroy)) };
    assert_eq!(made, 0);
    KEY.set(key).expect("set once");
    for thread in 0..THREADS {
        let body = move || {
            // Half of the threads have fired nothing before they end.
            if thread % 2 == 0 {
                note(0, 0);
            }
            FIRST.with(|first| first.set(Last(1)).is_ok());
            SECOND.with(|second| second.set(Last(2)).is_ok());
            // SAFETY: a key of ours.
            unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
        };
        thread::spawn(body).join().unwrap();
    }
    let seen = take();
    let of = |who| seen.iter().filter(|seen| seen.who == who).count();
    let expected = (THREADS / 2, 2 * THREADS, 2 * THREADS, ROUNDS * THREADS);
    assert_eq!((of(0), of(1), of(2), of(3)), expected);
    assert_eq!(tracebraid::lost("note"), 0);
}

/// The same where the C library registers no area: this scenario, started again so.
fn own_area() {
    const TUNABLE: &str = "glibc.pthread.rseq=0";
    if std::env::var_os("GLIBC_TUNABLES").is_some_and(|tunable| tunable == TUNABLE) {
        return destructors(Options::new());
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .env("GLIBC_TUNABLES", TUNABLE)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// Runs after `main`: the process ends badly where something is wrong.
extern "C" fn last() {
    note(2, 2);
    let seen = std::panic::catch_unwind(|| {
        take()
            .into_iter()
            .map(|seen| (seen.who, seen.index))
            .collect::<Vec<_>>()
    });
    if seen.is_ok_and(|seen| seen == [(1, 1), (2, 2)]) {
        println!("read after main");
        return;
    }
    // SAFETY: no preconditions.
    unsafe { libc::_exit(3) };
}

fn at_exit() {
    begin(Options::new());
    // SAFETY: a handler of the right type.
    assert_eq!(unsafe { libc::atexit(last) }, 0);
    note(1, 1);
}

fn limit_descriptors(soft: Option<libc::rlim_t>) {
    // SAFETY: a limit of ours, read and set.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = soft.unwrap_or(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

fn failed_init() {
    limit_descriptors(Some(0));
    tracebraid::init();
    limit_descriptors(None);
    // Patching needs a descriptor, which there now is.
    tracebraid::enable("note").expect("the process can patch itself");
    for index in 0..1_000 {
        note(1, index);
    }
    let threads: Vec<_> = (0..4)
        .map(|who| thread::spawn(move || note(who, 0)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let error = tracebraid::drain(|_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rings);
    assert_eq!(tracebraid::lost("note"), 0);
    // A child has none either.
    super::children::assert_ended_well(super::children::in_child(|| note(5, 5)));
    assert!(super::ring_memory().is_empty());
}

fn init_again() {
    let told = || tracebraid::status().rings.expect_err("there are none");
    assert!(told().contains("init() was not called"), "{}", told());
    limit_descriptors(Some(0));
    tracebraid::init();
    let why = told();
    limit_descriptors(None);
    assert!(why.contains("Too many open files"), "{why}");
    assert_eq!(told(), why);
    // It is not tried by anybody else.
    assert!(tracebraid::drain(|_| {}).is_err());
    begin(Options::new());
    assert_eq!(tracebraid::status().rings, Ok(()));
    note(1, 1);
    assert_eq!(take().len(), 1);
}

fn no_init() {
    tracebraid::enable("note").expect("the process can patch itself");
    note(1, 1);
    assert_eq!(
        tracebraid::drain(|_| {}).unwrap_err().kind(),
        ErrorKind::Rings
    );
    super::children::assert_ended_well(super::children::in_child(|| note(5, 5)));
    assert!(super::ring_memory().is_empty());
}
