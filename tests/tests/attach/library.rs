//! Libraries that come after the bridge.

use std::process::Command;
use std::time::Duration;

use tracebraid_tests::scenario::eventually;

use tracebraid_tests::variant::{self, Variant};

use super::bridge::{Attached, Via};
use super::directory;
use super::target::{Target, built};

const SOON: Duration = Duration::from_secs(30);

/// Loaded, closed and loaded again: attached each time.
pub(crate) fn loaded_twice(via: Via) {
    let mut target = Target::start(&["serve"]);
    let attached = Attached::start(target.pid(), via, &["-e", "usdt:*:addon:*"]);
    let open = format!("open {}", built().addon.display());
    for (round, ids) in [[1, 2], [3, 4]].iter().enumerate() {
        assert_eq!(target.ask(&open), "open");
        wait_until_on(&mut target, "addon:work");
        for id in ids {
            assert_eq!(target.ask(&format!("work {id}")), "worked");
        }
        assert_eq!(target.ask("close"), "closed", "round {round}");
    }
    let ran = attached.interrupt();
    ran.assert_well();
    let bodies: Vec<&str> = ran.lines().map(|line| line.body).collect();
    assert_eq!(bodies, ["id=1", "id=2", "id=3", "id=4"], "{}", ran.err);
}

/// A library with a copy of the SDK of its own appends to rings of its own, if it makes any.
pub(crate) fn with_rings_of_its_own() {
    let mut target = Target::start(&["serve"]);
    target.ask(&format!("open {}", built().addon.display()));
    target.ask("init");
    let attached = Attached::start(target.pid(), Via::Ring, &["-e", "addon:work"]);
    wait_until_on(&mut target, "addon:work");
    assert_eq!(target.semaphores(), 0);
    target.ask("work 5");
    let ran = attached.interrupt();
    ran.assert_well();
    let bodies: Vec<&str> = ran.lines().map(|line| line.body).collect();
    assert_eq!(bodies, ["id=5"], "{}", ran.err);
}

/// The same crate in the program and in the library: one name, two tracepoints, and each hit is seen once.
pub(crate) fn with_a_name_that_the_program_has_too(via: Via) {
    let mut target = Target::start(&["serve"]);
    target.ask(&format!("open {}", built().addon.display()));
    let attached = Attached::start(target.pid(), via, &["-e", "shapes:queued"]);
    eventually("both are on", SOON, || target.ask("sites_on") == "2");
    target.ask("queue 1");
    target.ask("work 2");
    target.ask("queue 3");
    let ran = attached.interrupt();
    ran.assert_well();
    let bodies: Vec<&str> = ran.lines().map(|line| line.body).collect();
    assert_eq!(
        bodies,
        ["id=1 depth=2", "id=2 depth=1", "id=3 depth=2"],
        "{}",
        ran.err
    );
}

/// With the SDK in a Rust `dylib`, which the program and the library are linked with.
const SHARED_SDK: Variant = Variant {
    flags: &["-Cprefer-dynamic"],
    ..Variant::release("shared-sdk")
};

/// The library's tracepoints are in the program's rings. Each time it is loaded they are new ones there.
pub(crate) fn with_the_programs_copy_of_the_sdk(via: Via) {
    let names = ["host", "libguest.so", "libdynamic.so"];
    let packages = ["host", "guest", "dynamic"];
    let files = variant::build_files(&SHARED_SDK, directory(), &packages, &names);
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", variant::GNU])
        .output()
        .expect("rustc starts");
    let libraries = String::from_utf8_lossy(&libraries.stdout);
    let path = format!("{}:{}", files.display(), libraries.trim());
    let mut host = Command::new(files.join("host"));
    let mut target = Target::spawn(host.env("LD_LIBRARY_PATH", path));
    let attached = Attached::start(target.pid(), via, &["-e", "usdt:*:guest:*"]);
    let open = format!("open {}", files.join("libguest.so").display());
    for round in 0..3 {
        assert_eq!(target.ask(&open), "open");
        wait_until_on(&mut target, "guest:work");
        target.ask(&format!("work {round}"));
        // It is unloaded: what is loaded next has tracepoints of its own.
        assert_eq!(target.ask("close"), "closed false");
    }
    let ran = attached.interrupt();
    ran.assert_well();
    let bodies: Vec<&str> = ran.lines().map(|line| line.body).collect();
    assert_eq!(bodies, ["id=0", "id=1", "id=2"], "{}", ran.err);
}

fn wait_until_on(target: &mut Target, name: &str) {
    let question = format!("is_enabled {name}");
    eventually("switched on", SOON, || target.ask(&question) == "true");
}
