//! However the bridge ends, what was on for it goes off, and the next one finds all as it was.

use std::time::{Duration, Instant};

use tracebraid_tests::requirement;
use tracebraid_tests::scenario::eventually;

use super::bridge::{Attached, LONG, Via};
use super::target::Target;

/// By when everything is off again, where the machine has nothing else to do.
const SOON: Duration = Duration::from_secs(1);

pub(crate) fn by_ctrl_c(via: Via) {
    ends(via, &[], |attached| {
        let ran = attached.interrupt();
        ran.assert_well();
        assert!(ran.lines().any(|line| line.event == "serve:along"));
    });
}

pub(crate) fn by_its_duration(via: Via) {
    ends(via, &["-T", "3"], |attached| {
        attached.finish().assert_well()
    });
}

/// The kernel takes away what the bridge had attached, and frees the lock that it held.
pub(crate) fn by_kill_9(via: Via) {
    let kills = if requirement::is_soak() { 200 } else { 5 };
    let mut target = Target::start(&["serve"]);
    let mut fastest = Duration::MAX;
    for _ in 0..kills {
        let took = end_one(&mut target, via, &[], |attached| {
            attached.signal(libc::SIGKILL);
            let ran = attached.finish();
            assert_eq!(ran.status, None);
        });
        fastest = fastest.min(took);
    }
    assert!(fastest < SOON, "{fastest:?}");
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
}

fn ends(via: Via, arguments: &[&str], end: impl FnOnce(Attached)) {
    let mut target = Target::start(&["serve"]);
    end_one(&mut target, via, arguments, end);
    // A second one finds all as the first did.
    let attached = Attached::start(target.pid(), via, &["-e", "serve:asked"]);
    wait_until_on(&mut target, "serve:asked");
    assert_eq!(target.ask("hit 7"), "7");
    let ran = attached.interrupt();
    ran.assert_well();
    assert_eq!(ran.row("serve:asked"), (7, 7, 0));
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
}

/// Attaches and ends; how long after the end everything was off.
fn end_one(
    target: &mut Target,
    via: Via,
    arguments: &[&str],
    end: impl FnOnce(Attached),
) -> Duration {
    assert_eq!(
        (target.ask("sites_on"), target.semaphores()),
        ("0".into(), 0)
    );
    let attached = Attached::start(target.pid(), via, &[&["-e", "serve:*"], arguments].concat());
    wait_until_on(target, "serve:charge__return");
    assert_eq!(target.semaphores() > 0, via == Via::Usdt);
    let before = target.along();
    eventually("hits", LONG, || target.along() > before + 10);
    end(attached);
    let ended = Instant::now();
    eventually("keys off and semaphores 0", LONG, || {
        target.ask("sites_on") == "0" && target.semaphores() == 0
    });
    let took = ended.elapsed();
    assert_eq!(target.ask("is_enabled *"), "false");
    assert_eq!(target.ask("hit 3"), "0");
    took
}

fn wait_until_on(target: &mut Target, name: &str) {
    let question = format!("is_enabled {name}");
    eventually("switched on", LONG, || target.ask(&question) == "true");
}

/// What a target that is killed had committed is printed, and the bridge ends well.
pub(crate) fn of_the_target_by_kill_9(via: Via) {
    let mut target = Target::start(&["serve"]);
    let attached = Attached::start(target.pid(), via, &["-e", "serve:*"]);
    wait_until_on(&mut target, "serve:asked");
    assert_eq!(target.ask("hit 500"), "500");
    target.kill(libc::SIGKILL);
    let killed = Instant::now();
    let ran = attached.finish();
    let took = killed.elapsed();
    ran.assert_well();
    assert_eq!(ran.row("serve:asked"), (500, 500, 0));
    let asked: Vec<_> = ran
        .lines()
        .filter(|line| line.event == "serve:asked")
        .collect();
    for (n, line) in asked.iter().enumerate() {
        assert_eq!(line.body, format!("n={n} seen={n}"));
    }
    assert_eq!(asked.len(), 500);
    if via == Via::Ring {
        // The program is dead, though its parent has not noticed: nobody waits for its answer.
        assert!(took < 2 * SOON, "the bridge took {took:?} to end");
    }
}

/// Two bridges: the second is told, and takes the other way.
pub(crate) fn rings_have_one_owner() {
    let mut target = Target::start(&["serve"]);
    let first = Attached::start(target.pid(), Via::Ring, &["-e", "serve:asked"]);
    wait_until_on(&mut target, "serve:asked");
    let pid = target.pid().to_string();
    let refused = super::bridge::run(&[
        "attach", "-p", &pid, "--via", "ring", "-e", "serve:*", "-T", "1",
    ]);
    assert_eq!(refused.status, Some(3), "{}", refused.err);
    assert!(refused.err.contains("another bridge"), "{}", refused.err);
    let second = Attached::start(target.pid(), Via::Usdt, &["-e", "serve:asked"]);
    eventually("the semaphore is up", LONG, || target.semaphores() > 0);
    assert_eq!(target.ask("hit 9"), "9");
    for ran in [first.interrupt(), second.interrupt()] {
        ran.assert_well();
        assert_eq!(ran.row("serve:asked"), (9, 9, 0));
    }
    eventually("all off", LONG, || target.ask("sites_on") == "0");
}

/// A daemon closes what it does not know, the SDK's descriptors too, and the numbers become files of its
/// own: these stay as they are, and the bridge comes through by USDT, since nobody in the program can see
/// any more who has its rings.
pub(crate) fn of_descriptors(via: Via) {
    let mut target = Target::start(&["serve"]);
    assert_eq!(target.ask("close_descriptors"), "closed");
    let attached = Attached::start(target.pid(), via, &["-e", "serve:asked"]);
    wait_until_on(&mut target, "serve:asked");
    assert_eq!(target.ask("hit 7"), "7");
    let ran = attached.interrupt();
    ran.assert_well();
    assert_eq!(ran.row("serve:asked"), (7, 7, 0));
    assert_eq!(
        ran.err.contains("closed the SDK's descriptors"),
        via == Via::Auto
    );
    eventually("all off", LONG, || target.ask("sites_on") == "0");
    assert_eq!(target.ask("own_files"), "0 0 0 0 0 0 0 0");
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
}
