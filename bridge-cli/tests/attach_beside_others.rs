//! Probes beside those of other tools: a name that somebody has defined in tracefs is free, and a place where
//! somebody's probe stands is one for ours too.

mod support;
mod tracing_instance;

use libtest_mimic::Trial;
use support::{bpf_test, build, run_bridge};
use tracing_instance::{Instance, takes};

/// A definition of the function as the kernel takes it, which knows offsets only.
fn as_the_kernel_takes_it(definition: &str) -> String {
    let ran = run_bridge(&["probe", "-e", definition]);
    let listed = ran.out.lines().next();
    let listed = listed.unwrap_or_else(|| panic!("{}", ran.err));
    listed.replacen("uprobes/", "", 1)
}

/// A test beside uprobes of tracefs.
fn beside_test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    let target = build("probed").display().to_string();
    let definition = as_the_kernel_takes_it(&format!("p:tried {target}:sum"));
    if takes(&definition) {
        return bpf_test(name, run);
    }
    Trial::test(name, || Ok(()))
        .with_kind("needs a kernel with CONFIG_UPROBE_EVENTS, and tracefs")
        .with_ignored_flag(true)
}

fn main() {
    let trials = vec![
        beside_test(
            "a_name_and_a_place_that_another_tool_has_taken_are_free_for_both",
            || {
                let target = build("probed").display().to_string();
                let theirs = as_the_kernel_takes_it(&format!("p:both {target}:sum a=%di:s32"));
                let instance = Instance::with_probes("beside", &[&theirs]);
                let name = instance.probes()[0].clone();
                let shown = name.replace('/', ":");
                let ours = format!("p:{name} {target}:sum a=%di:s32");
                assert_eq!(run_bridge(&["probe", "-e", &ours]).status, 0);
                instance.start();
                let ran = run_bridge(&["attach", "-e", &ours, "--", &target, "3"]);
                instance.stop();
                let values = |bodies: Vec<String>| -> Vec<String> {
                    let after = bodies.iter().map(|body| body.split_once(") "));
                    after.map(|it| it.unwrap().1.to_owned()).collect()
                };
                assert_eq!(values(ran.bodies(&shown)), ["a=-7"; 3], "{}", ran.err);
                let pid = support::pid_of(ran.events(&shown)[0]).to_owned();
                assert_eq!(values(instance.bodies("both", &pid)), ["a=-7"; 3]);
            },
        ),
        beside_test("what_another_tool_has_defined_is_no_event_to_probe", || {
            let target = build("probed").display().to_string();
            let theirs = as_the_kernel_takes_it(&format!("p:theirs {target}:sum"));
            let instance = Instance::with_probes("defined", &[&theirs]);
            let place = instance.probes()[0].replace('/', ".");
            let ran = run_bridge(&["probe", "-e", &format!("e:on {place}")]);
            assert_eq!(ran.status, 2);
            assert!(
                ran.err.contains("Attached event does not exist"),
                "{}",
                ran.err
            );
        }),
        bpf_test("a_name_of_the_kernel_s_own_events_is_taken", || {
            let target = build("probed").display().to_string();
            let ours = format!("p:sched/sched_switch {target}:sum");
            let ran = run_bridge(&["attach", "-e", &ours, "--", &target, "3"]);
            assert_eq!(ran.status, 2, "{}", ran.err);
            let said = "Given group/event name is already used by another event";
            assert!(ran.err.contains(said), "{}", ran.err);
        }),
    ];
    support::run(trials);
}
