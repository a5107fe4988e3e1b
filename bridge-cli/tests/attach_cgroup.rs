//! `-G`: only hits of tasks in one cgroup and in those below it, whoever else does the same meanwhile.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use nix::sys::signal::Signal;
use support::{Attached, Target, bpf_test_unless, build, run_bridge};

const USAGE: i32 = 2;

/// A cgroup with one below it. They go with it, after their tasks.
struct Cgroups {
    outer: PathBuf,
    inner: PathBuf,
}

impl Cgroups {
    fn new(name: &str) -> Cgroups {
        let root = mounted().expect("seen when the tests were listed");
        let outer = root.join(format!("tracebraid-{name}-{}", std::process::id()));
        let inner = outer.join("inner");
        fs::create_dir_all(&inner).unwrap();
        Cgroups { outer, inner }
    }

    /// Moves a process there.
    fn take(directory: &Path, pid: u32) {
        fs::write(directory.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for directory in [&self.inner, &self.outer] {
            // A task that has just ended leaves a moment later.
            let start = Instant::now();
            while fs::remove_dir(directory).is_err() && start.elapsed() < support::LONG {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn mounted() -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut points = table.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        after.starts_with("cgroup2 ").then(|| point.into())
    });
    points.next()
}

/// Mounts a hierarchy where nobody but these tests and what they start sees it.
fn mount_here() -> nix::Result<()> {
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, private, none)?;
    let point = support::scratch("cgroup2");
    mount(
        Some("none"),
        &point,
        Some("cgroup2"),
        MsFlags::empty(),
        none,
    )
}

/// Why there can be no cgroups; a hierarchy that nobody has mounted is mounted for these tests.
fn no_cgroups() -> Option<String> {
    if mounted().is_none()
        && let Err(error) = mount_here()
    {
        return Some(format!("cgroups of version 2 cannot be mounted: {error}"));
    }
    let probe = mounted()?.join(format!("tracebraid-ask-{}", std::process::id()));
    match fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)) {
        Ok(()) => None,
        Err(error) => Some(format!("cgroups cannot be made: {error}")),
    }
}

/// Runs three programs that sleep often: in the inner cgroup, in the outer, in neither; returns the threads of
/// the first two, and of the third.
fn three() -> (Cgroups, [Target; 3]) {
    let cgroups = Cgroups::new("tasks");
    let targets = [0, 1, 2].map(|_| Target::start("ticker", &["60", "1000"]));
    Cgroups::take(&cgroups.inner, targets[0].pid);
    Cgroups::take(&cgroups.outer, targets[1].pid);
    (cgroups, targets)
}

/// Whether a line of a switch or of a system call is of this program.
fn names(line: &str, pid: u32) -> bool {
    line.contains(&format!("ticker-{pid} ")) || line.contains(&format!("_pid={pid} "))
}

fn main() {
    let reason = no_cgroups();
    let reason = reason.as_ref();
    support::run(vec![
        bpf_test_unless(
            reason,
            "hits_of_tasks_in_a_cgroup_and_below_it_come_and_no_others",
            || {
                let (cgroups, targets) = three();
                let path = cgroups.outer.display().to_string();
                let ticker = build("ticker").display().to_string();
                let probe = format!("usdt:{ticker}:demo:tick");
                let args = [
                    "-G",
                    &path,
                    "-e",
                    &probe,
                    "-e",
                    "sched:sched_switch",
                    "-e",
                    "syscalls:sys_enter_clock_nanosleep",
                ];
                let attached = Attached::start(&args);
                targets.iter().for_each(Target::go);
                let pids = [0, 1, 2].map(|index: usize| targets[index].pid);
                targets.into_iter().for_each(|target| drop(target.finish()));
                let ran = attached.stop(Signal::SIGINT);
                for event in ["demo:tick", "syscalls:sys_enter_clock_nanosleep"] {
                    let lines = ran.events(event).into_iter();
                    let lines: Vec<&str> = lines.filter(|it| !it.contains(": LOST ")).collect();
                    let of = |pid| lines.iter().filter(|line| names(line, pid)).count();
                    let came = pids.map(of);
                    assert_eq!(came[0] + came[1], lines.len(), "{event}: {}", ran.err);
                    let most = came.map(|hits| hits + ran.missed(event));
                    let expected = [0, 1].map(|index| came[index]..=most[index]);
                    assert!(
                        expected.iter().all(|hits| hits.contains(&60)),
                        "{event}: {came:?}: {}",
                        ran.err
                    );
                }
                let switches = ran.events("sched:sched_switch");
                assert!(switches.len() >= 120, "{}", ran.err);
                for line in switches {
                    assert!(names(line, pids[0]) || names(line, pids[1]), "{line}");
                }
            },
        ),
        bpf_test_unless(
            reason,
            "a_cgroup_is_named_by_its_path_in_the_hierarchy_or_by_its_number",
            || {
                let (cgroups, targets) = three();
                let root = mounted().unwrap();
                let below = cgroups
                    .inner
                    .strip_prefix(&root)
                    .unwrap()
                    .display()
                    .to_string();
                let number = fs::metadata(&cgroups.inner).unwrap().ino().to_string();
                let ticker = build("ticker").display().to_string();
                let probe = format!("usdt:{ticker}:demo:tick");
                let by_path = Attached::start(&["-c", "-G", &below, "-e", &probe]);
                let by_number = Attached::start(&["-c", "-G", &number, "-e", &probe]);
                targets.iter().for_each(Target::go);
                targets.into_iter().for_each(|target| drop(target.finish()));
                for attached in [by_path, by_number] {
                    let ran = attached.stop(Signal::SIGINT);
                    assert_eq!(ran.row("demo:tick")[..2], ["60", "60"], "{}", ran.err);
                }
            },
        ),
        bpf_test_unless(
            reason,
            "a_target_that_is_not_in_the_cgroup_has_no_hits",
            || {
                let (cgroups, [inside, _outer, outside]) = three();
                let path = cgroups.inner.display().to_string();
                for (target, hits) in [(inside, 60), (outside, 0)] {
                    let pid = target.pid.to_string();
                    let attached =
                        Attached::start(&["-c", "-G", &path, "-p", &pid, "-e", "demo:tick"]);
                    target.go();
                    let ran = attached.finish();
                    let said = format!("bridge-cli: {hits} events in ");
                    assert!(ran.err.contains(&said), "{}", ran.err);
                }
            },
        ),
        bpf_test_unless(
            reason,
            "a_cgroup_that_is_not_there_is_told_and_nothing_is_attached",
            || {
                for wrong in ["no/such/cgroup", "/etc", "18446744073709551615"] {
                    let ran =
                        run_bridge(&["attach", "-T", "1", "-G", wrong, "-e", "sched:sched_switch"]);
                    assert!(
                        ran.status != 0
                            && ran.err.contains("there is no cgroup")
                            && ran.out.is_empty(),
                        "{}",
                        ran.err
                    );
                }
                let args = ["attach", "-G", "/", "--via", "ring", "-p", "1", "-e", "a:b"];
                let ran = run_bridge(&args);
                assert_eq!(ran.status, USAGE, "{}", ran.err);
                assert!(
                    ran.err.contains("-G is decided in the kernel"),
                    "{}",
                    ran.err
                );
            },
        ),
    ]);
}
