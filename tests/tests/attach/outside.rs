//! Programs in which nobody switches keys: the bridge does it from outside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tracebraid_tests::scenario::eventually;
use tracebraid_tests::variant::{self, Variant};

use super::bridge::{Attached, Via};
use super::directory;
use super::target::{Target, build, built};

const SOON: Duration = Duration::from_secs(30);

const STATIC_PIE: Variant = Variant {
    flags: &["-Ctarget-feature=+crt-static"],
    is_dynamic: false,
    ..Variant::release("static-pie")
};

fn without_init(program: &Path) -> Target {
    let mut command = Command::new(program);
    Target::spawn(command.arg("serve").env("TRACED_WITHOUT_INIT", "1"))
}

/// Each time it is loaded, at whatever address.
pub(crate) fn of_a_library() {
    let mut target = without_init(&built().traced);
    let attached = Attached::start(target.pid(), Via::Auto, &["-e", "usdt:*:addon:*"]);
    let open = format!("open {}", built().addon.display());
    for ids in [[1, 2], [3, 4]] {
        assert_eq!(target.ask(&open), "open");
        eventually("the library's tracepoint is on", SOON, || {
            target.ask("is_enabled addon:work") == "true"
        });
        for id in ids {
            assert_eq!(target.ask(&format!("work {id}")), "worked");
        }
        if ids[1] == 2 {
            assert_eq!(target.ask("close"), "closed");
        }
    }
    let ran = attached.interrupt();
    ran.assert_well();
    let bodies: Vec<&str> = ran.lines().map(|line| line.body).collect();
    assert_eq!(bodies, ["id=1", "id=2", "id=3", "id=4"], "{}", ran.err);
    assert_eq!(target.ask("is_enabled addon:work"), "false");
    assert_eq!(
        (target.ask("sites_on").as_str(), target.semaphores()),
        ("0", 0)
    );
}

/// A program that is linked statically and may lie anywhere.
pub(crate) fn static_program() -> PathBuf {
    let files = variant::build_files(&STATIC_PIE, directory(), &["traced"], &["traced"]);
    files.join("traced")
}

/// It is attached as any other.
pub(crate) fn of_a_static_program() {
    let program = static_program();
    build();
    let mut target = without_init(&program);
    let attached = Attached::start(target.pid(), Via::Auto, &["-e", "shapes:queued"]);
    for id in 1..=20 {
        target.ask(&format!("queue {id}"));
    }
    let ran = attached.interrupt();
    ran.assert_well();
    let bodies: Vec<String> = ran.lines().map(|line| line.body.to_owned()).collect();
    let expected: Vec<String> = (1..=20).map(|id| format!("id={id} depth=2")).collect();
    assert_eq!(bodies, expected, "{}", ran.err);
    assert_eq!(target.ask("sites_on"), "0");
}
