//! Which file a path means: the one that the target runs, as it knows it by name, whatever is there under the name
//! by now or for the bridge.

mod support;

use std::path::Path;
use std::process::Command;

use support::{Attached, Ran, Target, bpf_test, build, run_bridge};

fn path(name: &str) -> String {
    build(name).display().to_string()
}

/// By another process: a program that is open for writing, here or in a child of a neighbour, cannot be started.
fn copy(name: &str, to: &Path) {
    let copied = Command::new("cp").arg(path(name)).arg(to).status();
    assert!(copied.unwrap().success());
}

fn main() {
    support::run(vec![
        bpf_test("a_program_that_was_replaced_is_probed_as_it_runs", || {
            // Another program has its name by now, in which the functions are elsewhere.
            let place = support::scratch("replaced");
            let program = place.join("program");
            copy("ticker", &program);
            let target = Target::spawn(Command::new(&program).args(["5", "-1"]));
            std::fs::remove_file(&program).unwrap();
            copy("probed", &program);
            let pid = target.pid.to_string();
            let definition = format!("p:tick {}:tick i=%di:s64", program.display());
            let bridge = Attached::start(&["-p", &pid, "-e", &definition]);
            target.go();
            target.finish();
            let ran = bridge.finish();
            assert_eq!(ran.bodies("uprobes:tick").len(), 5, "{}", ran.err);
        }),
        bpf_test(
            "a_relative_path_means_the_file_that_the_target_runs_where_another_has_taken_its_name",
            || {
                let directory = support::scratch("relative");
                let (below, app) = (directory.join("below"), directory.join("app"));
                std::fs::create_dir(&below).unwrap();
                copy("ticker", &app);
                let target = Target::spawn(Command::new(&app).args(["1000000", "1000"]));
                target.go();
                let hits = |from: &Path, name: &str| {
                    let mut bridge = support::bridge();
                    bridge.current_dir(from).args(["attach", "-T", "0.5", "-p"]);
                    let definition = format!("p:tick {name}:tick");
                    bridge.args([&target.pid.to_string(), "-e", &definition]);
                    let ran = Ran::from(bridge.output().unwrap());
                    assert!(
                        !ran.bodies("uprobes:tick").is_empty(),
                        "{name}: {}",
                        ran.err
                    );
                };
                std::fs::remove_file(&app).unwrap();
                hits(&directory, "./app");
                copy("probed", &app);
                hits(&directory, "./app");
                hits(&below, "../app");
            },
        ),
        bpf_test(
            "a_path_of_a_usdt_probe_means_the_file_below_the_root_of_the_target",
            || {
                let directory = support::scratch("rooted");
                let app = directory.join("app");
                // Below our own root the path leads to something else.
                std::fs::write(&app, "no program").unwrap();
                let script = "mount -t tmpfs none \"$1\" && cp \"$2\" \"$1/app\" && echo READY $$ && exec sleep 100";
                let target = Target::spawn(
                    Command::new("unshare")
                        .args(["-m", "sh", "-c", script, "sh"])
                        .arg(&directory)
                        .arg(path("ticker")),
                );
                let probe = format!("usdt:{}:demo:tick", app.display());
                let pid = target.pid.to_string();
                let ran = run_bridge(&["attach", "-v", "-p", &pid, "-T", "0.1", "-e", &probe]);
                assert!(ran.err.contains("attached 1 probes"), "{}", ran.err);
            },
        ),
    ]);
}
