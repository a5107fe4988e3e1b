//! Stacks of a running program: whose they are, where they end, and what their frames are called.

mod support;

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Attached, Ran, Target, bpf_test, run_bridge, scratch, test};

const WITH: &[&str] = &["-fno-omit-frame-pointer"];
const WITHOUT: &[&str] = &["-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

/// A program of `tests/targets`, built with these flags under a name of its own.
fn built(source: &str, name: &str, flags: &[&str]) -> String {
    let path = scratch("stacks").join(name);
    if !path.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/targets")
            .join(source);
        let is_rust = source
            .extension()
            .is_some_and(|extension| extension == "rs");
        let is_cpp = source
            .extension()
            .is_some_and(|extension| extension == "cc");
        let mut compiler = Command::new(match (is_rust, is_cpp) {
            (true, _) => "rustc",
            (false, true) => "c++",
            (false, false) => "cc",
        });
        match is_rust {
            true => compiler.args(["--edition", "2024", "-O", "-g"]),
            false => compiler.args(["-O1", "-g"]),
        };
        let status = compiler
            .arg("-o")
            .arg(&path)
            .arg(source)
            .args(flags)
            .status();
        assert!(status.expect("the compiler starts").success(), "{name}");
    }
    path.display().to_string()
}

/// Events of `attach --format json ARGS`, without what is told of losses: a kernel may drop calls of others.
fn events(ran: &Ran) -> Vec<Value> {
    let lines = ran.out.lines().filter(|line| line.starts_with('{'));
    let all = lines.map(|line| serde_json::from_str(line).expect("JSON"));
    all.filter(|event: &Value| event.get("lost").is_none())
        .collect()
}

fn frames(event: &Value) -> &Vec<Value> {
    let stack = event["stack"].as_array();
    stack.unwrap_or_else(|| panic!("no stack in {event}"))
}

/// The names of its frames, innermost first; `?` where one has none.
fn names(event: &Value) -> Vec<&str> {
    let frames = frames(event).iter();
    frames
        .map(|frame| frame["symbol"].as_str().unwrap_or("?"))
        .collect()
}

/// What says that a stack is not whole.
fn ending(event: &Value) -> String {
    match (event.get("stack_cut"), event.get("stack_incomplete")) {
        (Some(cut), None) => format!("cut at {cut}"),
        (None, Some(incomplete)) => format!("incomplete {incomplete}"),
        (None, None) => "whole".to_owned(),
        both => panic!("{both:?}"),
    }
}

/// The two hits of a probe in this program, by each unwinder, with their places in the source.
fn by_both_ways(target: &str, probe: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for way in ["fp", "dwarf"] {
        let args = ["--call-graph", way, "-F", "+srcline", "-e", probe];
        let (events, ran) = run(&args, &[target]);
        assert_eq!(events.len(), 2, "{way}: {}{}", ran.out, ran.err);
        all.extend(events);
    }
    all
}

/// Runs `attach --format json ARGS -- COMMAND`.
fn run(args: &[&str], command: &[&str]) -> (Vec<Value>, Ran) {
    let mut all = vec!["attach", "--format", "json"];
    all.extend(args);
    all.push("--");
    all.extend(command);
    let ran = run_bridge(&all);
    (events(&ran), ran)
}

const CHAIN: [&str; 5] = ["leaf", "inner", "middle", "outer", "main"];

fn main() {
    let trials = vec![
        bpf_test(
            "a_leaf_without_a_frame_and_a_first_instruction_keep_their_callers",
            || {
                let target = built("stacks.c", "with", WITH);
                let probe = format!("uprobe:{target}:leaf");
                let usdt = format!("usdt:{target}:demo:leaf");
                let (events, ran) = run(
                    &["-g", "-e", &probe, "-e", &usdt],
                    &[&target, "3", "0", "go"],
                );
                assert_eq!(events.len(), 6, "{}{}", ran.out, ran.err);
                for event in &events {
                    assert_eq!(names(event)[..5], CHAIN, "{event}");
                    assert_eq!(ending(event), "whole", "{event}");
                }
                let first = &frames(&events[0])[0];
                assert_eq!(
                    (&first["offset"], &first["module"]),
                    (&0.into(), &target.into())
                );
            },
        ),
        bpf_test(
            "without_frame_pointers_the_tables_give_the_callers_as_far_as_the_copy_reaches",
            || {
                let target = built("stacks.c", "without", WITHOUT);
                let usdt = format!("usdt:{target}:demo:leaf");
                let command = [&*target, "1", "200", "go"];
                let (events, ran) = run(&["-g", "-e", &usdt], &command);
                assert_eq!(names(&events[0])[..5], CHAIN, "{}{}", ran.out, ran.err);
                let deep = names(&events[1]);
                assert_eq!(deep[..3], ["leaf", "deep", "deep"], "{}", events[1]);
                assert_eq!(ending(&events[1]), "incomplete true", "{}", events[1]);
                let wanted = ["--call-graph", "dwarf", "--max-stack", "300", "-e", &usdt];
                let (events, _) = run(&wanted, &command);
                let deep = names(&events[1]);
                let count = deep.iter().filter(|name| **name == "deep").count();
                assert_eq!((count, deep[202]), (201, "main"), "{}", events[1]);
                assert_eq!(ending(&events[1]), "whole", "{}", events[1]);
                let (events, _) = run(&["--call-graph", "dwarf,512", "-e", &usdt], &command);
                assert_eq!(names(&events[0])[..5], CHAIN, "{}", events[0]);
                assert_eq!(ending(&events[1]), "incomplete true", "{}", events[1]);
            },
        ),
        bpf_test(
            "a_stack_that_is_deeper_than_wanted_is_cut_and_says_so",
            || {
                for (flags, name) in [(WITH, "with"), (WITHOUT, "without")] {
                    let target = built("stacks.c", name, flags);
                    let usdt = format!("usdt:{target}:demo:leaf");
                    let way = if flags == WITH { "fp" } else { "dwarf" };
                    let args = ["--call-graph", way, "--max-stack", "20", "-e", &usdt];
                    let (events, ran) = run(&args, &[&target, "1", "200", "go"]);
                    assert_eq!(names(&events[0])[..5], CHAIN, "{}{}", ran.out, ran.err);
                    assert_eq!(ending(&events[0]), "whole", "{}", events[0]);
                    assert_eq!(frames(&events[1]).len(), 20, "{}", events[1]);
                    assert_eq!(ending(&events[1]), "cut at 20", "{}", events[1]);
                }
            },
        ),
        bpf_test("text_has_a_line_for_each_frame_and_an_empty_one", || {
            let target = built("stacks.c", "with", WITH);
            let usdt = format!("usdt:{target}:demo:leaf");
            let args = [
                "attach", "-g", "-F", "+srcline", "-e", &usdt, "--", &target, "1", "0", "go",
            ];
            let ran = run_bridge(&args);
            let mut lines = ran.out.lines();
            let event = lines.next().unwrap_or_else(|| panic!("{}", ran.err));
            assert!(event.ends_with("demo:leaf: arg0=1"), "{event}");
            for name in ["leaf", "inner", "middle", "outer", "main"] {
                let frame = lines.next().unwrap();
                let (address, rest) = frame.strip_prefix('\t').unwrap().split_at(16);
                assert!(
                    u64::from_str_radix(address.trim_start(), 16).is_ok(),
                    "{frame}"
                );
                assert!(rest.starts_with(&format!(" {name}+0x")), "{frame}");
                assert!(rest.ends_with(&format!(" ({target})")), "{frame}");
                let source = lines.next().unwrap();
                assert!(
                    source.starts_with("  /") && source.contains("stacks.c:"),
                    "{source}"
                );
            }
            assert!(ran.out.ends_with("\n\n"), "{}", ran.out);
        }),
        bpf_test(
            "a_stack_through_a_library_has_no_frame_that_is_no_code",
            || {
                for (flags, name) in [(WITH, "sorted"), (WITHOUT, "sorted-without")] {
                    let target = built("sorted.c", name, flags);
                    let probe = format!("uprobe:{target}:leaf");
                    for way in ["fp", "dwarf"] {
                        let args = ["--call-graph", way, "-e", &probe];
                        let (events, ran) = run(&args, &[&target, "2"]);
                        assert!(events.len() >= 24, "{}{}", ran.out, ran.err);
                        for event in &events {
                            assert_eq!(names(event)[..2], ["leaf", "compare"], "{event}");
                            let mut modules = frames(event).iter().map(|frame| &frame["module"]);
                            assert!(
                                modules.all(|it| it.as_str().unwrap().starts_with('/')),
                                "{event}"
                            );
                            let has_main = names(event).contains(&"main");
                            assert!(has_main || ending(event) == "incomplete true", "{event}");
                            assert!(has_main || way == "fp", "{event}");
                        }
                    }
                }
            },
        ),
        bpf_test("without_g_no_event_has_a_stack", || {
            let target = built("stacks.c", "with", WITH);
            let usdt = format!("usdt:{target}:demo:leaf");
            let (events, ran) = run(&["-e", &usdt], &[&target, "1", "0", "go"]);
            assert_eq!(events.len(), 1, "{}", ran.err);
            assert!(events[0].get("stack").is_none(), "{}", events[0]);
        }),
        bpf_test(
            "system_calls_and_switches_have_the_kernels_frames_and_the_programs",
            || {
                let target = built("clocks.c", "clocks", WITH);
                for way in ["fp", "dwarf"] {
                    let args = ["--call-graph", way, "-e", "syscalls:sys_*_clock_gettime"];
                    let args = [&args[..], &["-e", "sched:sched_process_exit"]].concat();
                    let (events, ran) = run(&args, &[&target, "2"]);
                    assert_eq!(events.len(), 5, "{}{}", ran.out, ran.err);
                    let call = &events[0];
                    let kernel: Vec<_> = frames(call)
                        .iter()
                        .take_while(|frame| frame["kernel"] == true)
                        .collect();
                    assert!(
                        kernel.iter().any(|it| it["symbol"] == "do_syscall_64"),
                        "{call}"
                    );
                    let own =
                        |it: &&Value| it["symbol"].as_str().is_some_and(|it| it.contains("bpf_"));
                    assert!(!kernel.iter().copied().any(|it| own(&it)), "{call}");
                    let user = &frames(call)[kernel.len()..];
                    assert_eq!(user[0]["module"], "[vdso]", "{call}");
                    assert!(user[0]["symbol"].is_string(), "{call}");
                    let names = names(call);
                    let ask = names.iter().position(|name| *name == "ask");
                    assert!(ask.is_some_and(|at| names[at + 1] == "main"), "{call}");
                    assert!(
                        self::names(&events[4]).contains(&"do_exit"),
                        "{}",
                        events[4]
                    );
                }
            },
        ),
        bpf_test(
            "stacks_and_filters_of_threads_that_preempt_one_another_are_their_own",
            || {
                let target = built(
                    "shared_cpu.c",
                    "shared-cpu",
                    &[WITH, &["-pthread"]].concat(),
                );
                let count = match std::env::var_os("TRACEBRAID_SHORT") {
                    None => "10000",
                    Some(_) => "3000",
                };
                // The one at its entry, the other at its exit: programs that may be in each other's way.
                let (enter, exit) = ("syscalls:sys_enter_getppid", "syscalls:sys_exit_getuid");
                for filters in [&[][..], &["--filter", "common_pid != 0"]] {
                    let args = [&["-g", "-e", enter], filters, &["-e", exit], filters].concat();
                    let (events, ran) = run(&args, &[&target, count]);
                    for (event, own, other) in
                        [(enter, "parents", "users"), (exit, "users", "parents")]
                    {
                        let of: Vec<&Value> =
                            events.iter().filter(|it| it["event"] == event).collect();
                        let mixed = of.iter().find(|it| names(it).contains(&other));
                        assert!(mixed.is_none(), "{mixed:?}");
                        let named = of.iter().filter(|it| names(it).contains(&own)).count();
                        let known = of.len() + ran.lost(event);
                        let all = known..=known + ran.missed(event);
                        assert!(all.contains(&count.parse().unwrap()), "{}", ran.err);
                        let unnamed = of.iter().find(|it| !names(it).contains(&own));
                        assert!(named > of.len() / 2, "{named} {unnamed:?} {}", ran.err);
                    }
                }
            },
        ),
        bpf_test(
            "a_process_that_has_ended_before_it_is_looked_at_is_named",
            || {
                let target = built("stacks.c", "brief", WITH);
                let usdt = format!("usdt:{target}:demo:leaf");
                let bridge = Attached::start(&["--format", "json", "-g", "-e", &usdt, "-T", "60"]);
                for _ in 0..20 {
                    support::kill(bridge.pid, Signal::SIGSTOP);
                    let status = Command::new(&target).args(["1", "0", "go"]).status();
                    assert!(status.unwrap().success());
                    support::kill(bridge.pid, Signal::SIGCONT);
                }
                let ran = bridge.stop(Signal::SIGINT);
                let events = events(&ran);
                assert_eq!(events.len(), 20, "{}{}", ran.out, ran.err);
                for event in &events {
                    assert_eq!(names(event)[..5], CHAIN, "{event}");
                }
            },
        ),
        bpf_test("a_library_that_is_loaded_later_is_named", || {
            let library = support::build("plug.so").display().to_string();
            let target = Target::start("loader", &[&library]);
            let pid = target.pid.to_string();
            let usdt = format!("usdt:{library}:demo:plug");
            let bridge = Attached::start(&["--format", "json", "-g", "-p", &pid, "-e", &usdt]);
            target.go();
            target.finish();
            let ran = bridge.finish();
            let events = events(&ran);
            assert_eq!(events.len(), 6, "{}{}", ran.out, ran.err);
            for event in &events {
                assert_eq!(names(event)[..2], ["plug_run", "main"], "{event}");
                assert_eq!(frames(event)[0]["module"], library.as_str(), "{event}");
            }
        }),
        bpf_test(
            "code_made_at_run_time_has_the_names_that_its_program_keeps_of_it",
            || {
                let target = built("jit.c", "jit", WITH);
                let probe = format!("uprobe:{target}:leaf");
                let (events, ran) = run(&["-g", "-e", &probe], &[&target, "2"]);
                assert_eq!(events.len(), 2, "{}{}", ran.out, ran.err);
                let names_of = |event: &Value| format!("/tmp/perf-{}.map", event["pid"]);
                let removed = std::fs::remove_file(names_of(&events[0]));
                removed.expect("the program keeps its names");
                for event in &events {
                    assert_eq!(
                        names(event)[..3],
                        ["leaf", "made at run time", "main"],
                        "{event}"
                    );
                    assert_eq!(frames(event)[1]["offset"], 6, "{event}");
                }
            },
        ),
        bpf_test(
            "code_made_at_run_time_in_other_namespaces_has_its_names_too",
            || {
                // The file of names is where only the program sees it, under the number that it has there.
                let target = built("jit.c", "jit-apart", WITH);
                let probe = format!("uprobe:{target}:leaf");
                let apart = format!("mount -t tmpfs none /tmp && exec {target} 2 500000");
                let command = ["unshare", "-m", "-p", "-f", "sh", "-c", &apart];
                let (events, ran) = run(&["-g", "--follow", "-e", &probe], &command);
                assert_eq!(events.len(), 2, "{}{}", ran.out, ran.err);
                for event in &events {
                    let expected = ["leaf", "made at run time", "main"];
                    assert_eq!(names(event)[..3], expected, "{event}");
                }
            },
        ),
        bpf_test(
            "rust_names_are_those_of_the_source_inlined_functions_too",
            || {
                for (name, flags) in [
                    ("names", &["-Cforce-frame-pointers=yes"][..]),
                    (
                        "names-v0",
                        &["-Cforce-frame-pointers=yes", "-Csymbol-mangling-version=v0"],
                    ),
                ] {
                    let target = built("names.rs", name, flags);
                    let probe = format!("uprobe:{target}:reached");
                    for event in &by_both_ways(&target, &probe) {
                        let names = names(event);
                        assert_eq!(names[0], "reached", "{event}");
                        assert!(names[1].ends_with("inner::helper"), "{event}");
                        assert!(names[2].ends_with("between"), "{event}");
                        assert_eq!(frames(event)[2]["inlined"], true, "{event}");
                        assert!(
                            names[3].contains("Store<") && names[3].ends_with("put"),
                            "{event}"
                        );
                        assert_eq!(frames(event)[3]["address"], frames(event)[2]["address"]);
                        assert!(names[4].ends_with("main"), "{event}");
                        let line =
                            |at: usize| frames(event)[at]["srcline"].as_str().unwrap().to_owned();
                        assert!(line(2).ends_with("names.rs:18"), "{event}");
                        assert!(line(3).ends_with("names.rs:12"), "{event}");
                    }
                }
            },
        ),
        bpf_test("names_of_cpp_are_those_of_the_source", || {
            let target = built("names.cc", "names-cpp", &["-fno-omit-frame-pointer"]);
            let probe = format!("uprobe:{target}:reached");
            for event in &by_both_ways(&target, &probe) {
                let names = names(event);
                assert_eq!(names[0], "reached", "{event}");
                let template = "shop::Store<std::";
                assert!(
                    names[1].starts_with(template) && names[1].contains(">::put("),
                    "{event}"
                );
                assert_eq!(
                    names[2], "shop::Price::operator+(shop::Price const&) const",
                    "{event}"
                );
                assert_eq!(
                    names[3], "shop::(anonymous namespace)::hidden(int)",
                    "{event}"
                );
                assert!(
                    names[4].starts_with("shop::Cart::~Cart()::")
                        && names[4].ends_with("::operator()(int) const"),
                    "{event}"
                );
                assert_eq!(names[5..7], ["shop::Cart::~Cart()", "main"], "{event}");
                let line = frames(event)[2]["srcline"].as_str().unwrap_or_default();
                assert!(line.contains("names.cc:"), "{event}");
            }
        }),
        test("what_cannot_be_wanted_of_stacks_is_refused", || {
            for (args, said) in [
                (&["--max-stack", "5"][..], "add -g"),
                (&["-F", "+srcline"], "add -g"),
                (&["--call-graph", "lbr"], "fp, dwarf or dwarf,BYTES"),
                (&["--call-graph", "dwarf,70000"], "from 8 to 65528"),
                (&["-g", "--max-stack", "0"], "1..=1024"),
            ] {
                let mut all = vec!["attach", "-e", "sched:sched_switch", "-a"];
                all.extend(args);
                let ran = run_bridge(&all);
                assert_eq!(ran.status, 2, "{args:?}: {}", ran.err);
                assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
            }
        }),
    ];
    support::run(trials);
}
