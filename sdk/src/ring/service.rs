//! The program's side of the control words: what a bridge asks for, and whether it still lives.
//!
//! ```text
//! bridge: wanted bytes, ASKED += 1, ring ──▶ helper: state of each point, text, ANSWERED = ASKED, wake
//!         FLUSH_ASKED += 1, ring         ──▶         membarrier, FLUSHED = FLUSH_ASKED, wake
//! ```
//! In which order the words are read and written is the business of `tracebraid_ring::requests`.
//! Whoever holds the exclusive lock of the memfd (an open-file-description lock, which the kernel frees
//! when its holder dies) is served. When nobody does, everything that was on for a bridge goes off.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracebraid_ring::requests::{Helper, Turn, Words};
use tracebraid_ring::{Mode, Region};
use tracebraid_wire::region::{self, FILTERS_BYTES, MAX_EVENTS, control};

use super::clock::{self, Ticks};
use super::directory::word;
use super::filter;
use super::page;
use super::rings::Rings;
use crate::environment;
use crate::gate;

/// How far the helper is with what a bridge asks for.
static STATE: Helper = Helper::new();
/// Whether a bridge has ever been served.
static SERVED_ONCE: AtomicBool = AtomicBool::new(false);
/// The process that reads its own rings (`drain`); 0: none.
static OWN_READER: AtomicU32 = AtomicU32::new(0);
/// Whether full rings overwrite where no bridge has another wish.
static FLIGHT_RECORDER: AtomicBool = AtomicBool::new(false);
/// When clocks were last noted, ns.
static NOTED: AtomicU64 = AtomicU64::new(0);
/// How often clocks are noted, ns.
const NOTE_EVERY: u64 = 1_000_000_000;

/// Waits for a request, or until the time is up.
pub(crate) fn wait(timeout: Duration) {
    let Some(rings) = page::current() else {
        std::thread::sleep(timeout);
        return;
    };
    futex_wait(word(rings.region, control::BELL), STATE.heard(), timeout);
}

/// The words by which a bridge asks.
fn words(region: &Region) -> Words<'_> {
    Words {
        asked: word(region, control::ASKED),
        answered: word(region, control::ANSWERED),
        flush_asked: word(region, control::FLUSH_ASKED),
        flushed: word(region, control::FLUSHED),
        bell: word(region, control::BELL),
        serving: word(region, control::SERVING),
    }
}

/// A new region: of it nothing is in force.
pub(super) fn begin_anew() {
    STATE.begin_anew();
}

/// How long a program that a bridge has started, or a child that it follows, waits for that bridge to have
/// its rings.
const ATTACH: Duration = Duration::from_secs(2);
/// How long it waits for a bridge that has started it and that wants a CPU and gets none.
const STARVED: Duration = Duration::from_secs(20);

/// The region whose reader this process has told of its own; null: none.
static FOLLOWED_BY: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());

/// This process, a child of fork, has told the reader of its parent's region that it has one of its own now.
pub(super) fn be_followed(parent: &'static Region) {
    FOLLOWED_BY.store(ptr::from_ref(parent).cast_mut(), Ordering::Release);
}

/// Waits for the bridge that follows this child, so that it gets the first event, however soon the child
/// ends. A bridge that is gone is not waited for.
pub(crate) fn await_follower() {
    let parent = FOLLOWED_BY.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: a region is never unmapped.
    let (Some(parent), Some(rings)) = (unsafe { parent.as_ref() }, page::current()) else {
        return;
    };
    // Where this process has closed the descriptor nobody can tell.
    let is_read = || parent.has_file() && is_owned(parent);
    let end = Instant::now() + ATTACH;
    while !is_owned(rings.region) && is_read() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for the bridge that has started this program (`bridge-cli attach -- CMD` says so in the
/// environment variable `TRACEBRAID_ATTACH`: its pid, and `,follow` where it wants the programs too that
/// this one starts), so that it gets the first event. A bridge that is gone is not waited for.
pub(crate) fn await_bridge() {
    let Some(wish) = environment::variable("TRACEBRAID_ATTACH") else {
        return;
    };
    let (pid, follow) = match wish.strip_suffix(",follow") {
        Some(pid) => (pid, true),
        None => (wish.as_str(), false),
    };
    let Ok(pid) = pid.parse::<libc::pid_t>() else {
        return;
    };
    // SAFETY: no preconditions; signal 0 is none.
    let lives = || unsafe { libc::kill(pid, 0) } == 0;
    // SAFETY: no preconditions.
    let is_ours = unsafe { libc::getppid() } == pid;
    let start = Instant::now();
    let may_wait = || {
        let waited = start.elapsed();
        waited < ATTACH || waited < STARVED && wants_cpu(pid)
    };
    while (is_ours || follow)
        && !STATE.has_answered()
        && page::current().is_some()
        && lives()
        && may_wait()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process runs or would, if it were let (state `R` of `/proc/PID/stat`, proc(5)).
fn wants_cpu(pid: libc::pid_t) -> bool {
    // A name of 64 bytes at most stands before the state.
    let mut stat = [0; 128];
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut stat));
    let stat = &stat[..read.unwrap_or(0)];
    // The name may have parentheses of its own; nothing behind it has.
    let name_end = stat.iter().rposition(|&byte| byte == b')');
    name_end.and_then(|end| stat.get(end + 2)) == Some(&b'R')
}

/// Does what is asked. Whether the state of tracepoints changed.
pub(crate) fn serve() -> bool {
    let Some(rings) = page::current() else {
        return false;
    };
    let words = words(rings.region);
    STATE.hear(&words);
    flush(&words);
    // A line takes two points: the second is noted as soon as there is a helper.
    let few = word(rings.region, control::PAIRS).load(Ordering::Relaxed) < 2;
    if few || crate::clock::now().wrapping_sub(NOTED.load(Ordering::Relaxed)) >= NOTE_EVERY {
        note_clocks(rings.region);
    }
    if filter::any_retired() {
        gate::lock().listing.tidy();
    }
    match STATE.turn(&words, || is_owned(rings.region)) {
        Turn::Rest => false,
        Turn::Nobody => {
            answer(&words);
            false
        }
        Turn::Serve => {
            SERVED_ONCE.store(true, Ordering::Release);
            choose_mode(
                rings,
                word(rings.region, control::MODE_ASKED).load(Ordering::Acquire),
            );
            let (wanted, filters) = (wanted(rings.region), filters(rings.region));
            let patterns = patterns(rings.region);
            let listing = &mut gate::lock().listing;
            listing.set_wanted(wanted, filters);
            listing.set_patterns(patterns);
            true
        }
        Turn::Forget => {
            forget(rings);
            STATE.erased(&words);
            choose_mode(rings, 0);
            let listing = &mut gate::lock().listing;
            listing.set_wanted(Vec::new(), BTreeMap::new());
            listing.set_patterns(Vec::new());
            true
        }
    }
}

/// Says that the text is as the last request wanted it.
pub(crate) fn done(stuck: bool) {
    let Some(rings) = page::current() else {
        return;
    };
    if stuck {
        word(rings.region, control::SITES_STUCK).fetch_add(1, Ordering::Relaxed);
    }
    let refused = gate::lock().listing.refused();
    word(rings.region, control::FILTERS_REFUSED).store(refused, Ordering::Relaxed);
    answer(&words(rings.region));
}

/// Whether events that the program itself enabled go to the rings.
pub(crate) fn has_own_reader() -> bool {
    OWN_READER.load(Ordering::Relaxed) == std::process::id()
}

/// What full rings do where no bridge has another wish.
pub(crate) fn set_flight_recorder(on: bool) {
    FLIGHT_RECORDER.store(on, Ordering::Release);
}

/// Whether what the program wants recorded from the beginning is recorded now: a flight recorder always,
/// and else until the first bridge says what it wants.
pub(crate) fn records_unasked(rings: &Rings) -> bool {
    if FLIGHT_RECORDER.load(Ordering::Acquire) {
        rings.overwrites()
    } else {
        !SERVED_ONCE.load(Ordering::Acquire)
    }
}

/// Whether somebody has the rings who would take a snapshot.
pub(crate) fn is_attended(rings: &Rings) -> bool {
    is_owned(rings.region)
}

/// Does with full rings what a bridge asks for, or what the program chose.
fn choose_mode(rings: &Rings, asked: u32) {
    let mode = match asked {
        region::MODE_DISCARD => Mode::Discard,
        region::MODE_OVERWRITE => Mode::Overwrite,
        _ if FLIGHT_RECORDER.load(Ordering::Acquire) => Mode::Overwrite,
        _ => Mode::Discard,
    };
    // Where sequences cannot be told apart from new ones the mode stays; the region says which it is.
    rings.set_mode(mode, barrier);
}

/// Writes down what time it is by both clocks, for whoever reads the rings later.
pub(super) fn note_clocks(region: &Region) {
    let pair = Ticks::now();
    NOTED.store(pair.nanoseconds, Ordering::Relaxed);
    clock::note(pair);
    let written = word(region, control::PAIRS);
    let number = written.load(Ordering::Relaxed);
    let place = match number {
        0 => 0,
        later => 1 + (later as usize - 1) % (region::PAIRS_ROOM - 1),
    };
    for (index, value) in [pair.ticks, pair.nanoseconds].into_iter().enumerate() {
        let at = region::PAIRS + 16 * place + 8 * index;
        // SAFETY: within the header area, 8-aligned; used as an atomic by everybody.
        unsafe { &*region.header().add(at).cast::<AtomicU64>() }.store(value, Ordering::Relaxed);
    }
    written.store(number.wrapping_add(1).max(1), Ordering::Release);
}

/// Takes the rings for this process itself. `None` where a bridge has them.
pub(crate) fn claim(rings: &Rings) -> io::Result<Option<File>> {
    if !rings.region.has_file() {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    let file = reopen(rings.region.file())?;
    let claimed = set_lock(&file)?;
    OWN_READER.store(
        if claimed { std::process::id() } else { 0 },
        Ordering::Release,
    );
    Ok(claimed.then_some(file))
}

fn answer(words: &Words<'_>) {
    if STATE.answer(words) {
        futex_wake(words.answered);
    }
}

fn wanted(region: &Region) -> Vec<u8> {
    let mut copy = vec![0u8; MAX_EVENTS + 1];
    for (event, byte) in copy.iter_mut().enumerate() {
        // SAFETY: within the header area; a bridge writes these bytes, so each is read as a volatile one.
        *byte = unsafe { region.header().add(region::WANTED + event).read_volatile() };
    }
    copy
}

/// The texts of the filters, by event.
fn filters(region: &Region) -> BTreeMap<u16, String> {
    let used = word(region, control::FILTERS_USED).load(Ordering::Acquire) as usize;
    let mut copy = vec![0u8; used.min(FILTERS_BYTES)];
    for (at, byte) in copy.iter_mut().enumerate() {
        // SAFETY: as above.
        *byte = unsafe { region.header().add(region::FILTERS + at).read_volatile() };
    }
    region::filters(&copy)
        .map(|(event, text)| (event, text.to_owned()))
        .collect()
}

/// What is wanted of tracepoints that are made at run time.
fn patterns(region: &Region) -> Vec<String> {
    let used = word(region, control::PATTERNS_USED).load(Ordering::Acquire) as usize;
    let mut copy = vec![0u8; used.min(region::PATTERNS_BYTES)];
    for (at, byte) in copy.iter_mut().enumerate() {
        // SAFETY: as above.
        *byte = unsafe { region.header().add(region::PATTERNS + at).read_volatile() };
    }
    region::patterns(&copy).map(str::to_owned).collect()
}

/// Clears what a bridge that is gone left behind.
fn forget(rings: &Rings) {
    // SAFETY: within the header area.
    unsafe { ptr::write_bytes(rings.region.header().add(region::WANTED), 0, MAX_EVENTS + 1) };
    for left in [
        control::FILTERS_USED,
        control::MODE_ASKED,
        control::PATTERNS_USED,
    ] {
        word(rings.region, left).store(0, Ordering::Release);
    }
}

fn flush(words: &Words<'_>) {
    if let Some(number) = STATE.flush(words) {
        barrier();
        STATE.flushed(words, number);
        futex_wake(words.flushed);
    }
}

/// Restarts every append that is in the middle of its sequence, in all threads of the process, and makes
/// those that committed visible. Whether that was possible.
fn barrier() -> bool {
    const EXPEDITED_RSEQ: libc::c_int = 1 << 7;
    const REGISTER_EXPEDITED_RSEQ: libc::c_int = 1 << 8;
    let membarrier = |command: libc::c_int| {
        // SAFETY: membarrier takes numbers only.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    // Where it is refused the bridge's hold-back remains.
    membarrier(EXPEDITED_RSEQ) || membarrier(REGISTER_EXPEDITED_RSEQ) && membarrier(EXPEDITED_RSEQ)
}

fn lock_of(kind: libc::c_int) -> libc::flock {
    // SAFETY: all zeros is a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Whether somebody else holds the lock. Where the program has closed the descriptor nobody can tell, and so
/// nobody is served; the region says it.
fn is_owned(region: &Region) -> bool {
    if !region.has_file() {
        // SAFETY: within the header area, 4-aligned; readers copy it.
        unsafe { &*region.header().add(region::HELPER).cast::<AtomicU32>() }
            .store(0, Ordering::Relaxed);
        return false;
    }
    let file = region.file();
    let mut lock = lock_of(libc::F_WRLCK);
    // SAFETY: a descriptor of ours and a lock to fill.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    result == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

fn set_lock(file: &File) -> io::Result<bool> {
    let lock = lock_of(libc::F_WRLCK);
    // SAFETY: as above.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
        error => Err(error),
    }
}

/// Another open file description of the same memfd: locks belong to descriptions.
fn reopen(file: BorrowedFd<'_>) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: a mapped, aligned word (shared with other processes) and a timeout. Every outcome only
    // means: look again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const time,
        )
    };
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: a mapped, aligned word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_wants_a_cpu_and_who_sleeps_or_is_gone_does_not() {
        // SAFETY: no preconditions.
        assert!(wants_cpu(unsafe { libc::gettid() }));
        let mut sleeper = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = sleeper.id() as libc::pid_t;
        let end = Instant::now() + Duration::from_secs(60);
        while wants_cpu(pid) {
            assert!(Instant::now() < end, "it does not fall asleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!wants_cpu(pid));
    }
}
