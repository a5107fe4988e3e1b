//! How probes of kernel functions are attached: the way is chosen by what a definition takes and what the
//! kernel can do, and what comes is the same whichever way it is.

mod support;

use std::sync::OnceLock;

use libtest_mimic::Trial;

use support::{Ran, bpf_test, bridge, build, kprobe_test, run_bridge, test};

/// Runs `attach -v ARGS -- kernel_calls FILE`.
fn attach(args: &[&str]) -> Ran {
    let target = build("kernel_calls").display().to_string();
    let mut all = vec!["attach", "-v"];
    all.extend(args);
    all.extend(["--", &target, "/etc/passwd"]);
    let ran = run_bridge(&all);
    assert!(!ran.out.contains("<not captured>"), "{}", ran.out);
    // Each kernel accepts what is made for each way.
    assert!(!ran.err.contains("refuses the code"), "{}", ran.err);
    ran
}

/// Bodies as addresses and values. Other tasks hit the same probes, so that some hits may be lost.
fn halves(ran: &Ran, name: &str) -> Vec<(String, String)> {
    let mut bodies = ran.bodies(name);
    bodies.retain(|body| !body.starts_with("LOST "));
    assert!(
        !bodies.is_empty(),
        "nothing of {name}: {}{}",
        ran.out,
        ran.err
    );
    let halves = bodies.iter().map(|body| {
        let halves = body.split_once(')');
        let (address, values) = halves.unwrap_or_else(|| panic!("no address: {body}"));
        (address.to_owned(), values.trim().to_owned())
    });
    halves.collect()
}

fn values(ran: &Ran, name: &str) -> Vec<String> {
    halves(ran, name)
        .into_iter()
        .map(|(_, values)| values)
        .collect()
}

fn addresses(ran: &Ran, name: &str) -> Vec<String> {
    halves(ran, name)
        .into_iter()
        .map(|(address, _)| address)
        .collect()
}

/// The line of `-v` that says how a probe was attached.
fn way<'a>(ran: &'a Ran, name: &str) -> &'a str {
    let is_it = |line: &&str| line.contains("through ") && line.contains(name);
    let line = ran.err.lines().find(is_it);
    line.unwrap_or_else(|| panic!("no way of {name} is said: {}", ran.err))
}

/// What `doctor` says of a capability: whether it is there.
fn has(capability: &str) -> bool {
    static DOCTOR: OnceLock<String> = OnceLock::new();
    let text = DOCTOR.get_or_init(|| {
        let output = bridge().arg("doctor").output().expect("bridge-cli starts");
        String::from_utf8(output.stdout).expect("UTF-8")
    });
    let is_it = |line: &&str| line.split_whitespace().nth(1) == Some(capability);
    let line = text.lines().find(is_it);
    line.unwrap_or_else(|| panic!("doctor says nothing of {capability}: {text}"))
        .starts_with("yes")
}

/// A test of what this kernel may lack.
fn with(capability: &str, name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    if has(capability) {
        return kprobe_test(name, run);
    }
    Trial::test(name, || Ok(()))
        .with_kind(format!("needs a kernel with {capability}"))
        .with_ignored_flag(true)
}

/// Whether the kernel has a symbol.
fn has_symbol(name: &str) -> bool {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    text.lines()
        .any(|line| line.split_whitespace().nth(2) == Some(name))
}

fn main() {
    let trials = vec![
        with(
            "trampolines",
            "arguments_by_name_are_what_the_registers_of_a_kprobe_hold",
            || {
                let ran = attach(&[
                    "-e",
                    "f:named do_sys_openat2 dfd=dfd:s32 file=filename:ustring flags=how->flags",
                    "-e",
                    "p:multi do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring flags=+0(%dx):u64",
                    "-e",
                    "p:regs do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring flags=+0(%dx):u64 more=%r12",
                ]);
                let named = values(&ran, "fprobes:named");
                let without = |line: String| line.split(" more=").next().unwrap_or("").to_owned();
                let registers: Vec<String> = values(&ran, "kprobes:regs")
                    .into_iter()
                    .map(without)
                    .collect();
                assert_eq!(named, registers, "{}", ran.err);
                assert_eq!(named, values(&ran, "kprobes:multi"), "{}", ran.err);
                let opened = "dfd=-100 file=\"/etc/passwd\" flags=32768";
                assert!(named.contains(&opened.to_owned()), "{named:?}");
                assert_eq!(
                    addresses(&ran, "fprobes:named"),
                    addresses(&ran, "kprobes:regs")
                );
                assert_eq!(
                    addresses(&ran, "kprobes:multi"),
                    addresses(&ran, "kprobes:regs")
                );
                assert!(way(&ran, "fprobes:named").contains("through fentry: 1 probe"));
                let kprobe = way(&ran, "kprobes:regs");
                assert!(kprobe.contains("through kprobe: "), "{kprobe}");
                assert!(
                    kprobe.contains("registers that hold no argument"),
                    "{kprobe}"
                );
            },
        ),
        with(
            "trampolines",
            "a_return_has_the_arguments_of_its_entry",
            || {
                let ran = attach(&[
                    "-e",
                    "r:opened do_sys_openat2 file=+0($arg2):ustring dfd ret=$retval:s32",
                    "-e",
                    "f:fexit do_sys_openat2%return flags=how->flags ret=$retval:s32",
                ]);
                // Apart: where a return is awaited by a kretprobe as well, it is that one's return address that
                // stands on the stack.
                let plain = attach(&["-e", "r:plain do_sys_openat2 ret=$retval:s32 more=%r12"]);
                let opened = values(&ran, "kprobes:opened");
                let missing = "file=\"/no/such/file\" dfd=-100 ret=-2".to_owned();
                assert!(opened.contains(&missing), "{opened:?}");
                assert!(
                    values(&ran, "fprobes:fexit").contains(&"flags=32768 ret=-2".to_owned()),
                    "{}",
                    ran.out
                );
                assert_eq!(
                    addresses(&ran, "kprobes:opened"),
                    addresses(&plain, "kprobes:plain")
                );
                assert!(way(&ran, "kprobes:opened").contains("through fexit: 2 probes"));
                assert!(way(&plain, "kprobes:plain").contains("through kretprobe: 1 probe"));
                assert_eq!(ran.row("kprobes:opened")[2], "0", "misses: {}", ran.err);
            },
        ),
        with(
            "trampolines",
            "members_are_followed_through_structures",
            || {
                // By what name a file is opened by its `struct filename` has changed.
                let definitions = ["do_filp_open", "do_file_open"].map(|function| {
                    format!(
                        "f:opened {function} dfd name=pathname->name:string uptr=pathname->uptr:x64"
                    )
                });
                let is_good = |it: &&String| run_bridge(&["probe", "-e", it.as_str()]).status == 0;
                let opened = definitions.iter().find(is_good);
                let read = "p:rd vfs_read count name=file->f_path.dentry->d_name.name:string mode=file->f_mode";
                let mut arguments = vec!["-e", read];
                arguments.extend(opened.iter().flat_map(|it| ["-e", it.as_str()]));
                let ran = attach(&arguments);
                if opened.is_some() {
                    let opened = values(&ran, "fprobes:opened");
                    let missing = "dfd=-100 name=\"/no/such/file\" uptr=0x";
                    assert!(
                        opened.iter().any(|line| line.starts_with(missing)),
                        "{opened:?}"
                    );
                }
                let read = values(&ran, "kprobes:rd");
                let head = "count=5 name=\"passwd\" mode=";
                assert!(read.iter().any(|line| line.starts_with(head)), "{read:?}");
            },
        ),
        with(
            "kprobe_multi",
            "five_hundred_functions_of_a_pattern_are_one_link",
            || {
                let ran = attach(&[
                    "-e",
                    "kprobe:__x64_sys_*",
                    "-e",
                    "kretprobe:tcp_*",
                    "--count",
                ]);
                let line = ran
                    .err
                    .lines()
                    .find(|line| line.contains("attached "))
                    .unwrap_or_else(|| panic!("{}", ran.err));
                let count: usize = line
                    .split_whitespace()
                    .find_map(|word| word.parse().ok())
                    .unwrap();
                assert!(count >= 500, "{line}");
                println!("{line}");
                let way = way(&ran, "kprobes:p___x64_sys_");
                assert!(way.contains("through kprobe_multi: "), "{way}");
                assert!(way.contains("there are many"), "{way}");
                assert_eq!(ran.row("kprobes:p___x64_sys_getppid_0")[..2], ["1", "1"]);
            },
        ),
        kprobe_test(
            "what_the_kernel_lacks_is_made_up_for_and_that_is_said",
            || {
                let ran = attach(&["-e", "p:x do_sys_openat2 dfd=%di:s32"]);
                let way = way(&ran, "kprobes:x");
                match has("kprobe_multi") {
                    true => assert!(way.contains("through kprobe_multi: "), "{way}"),
                    false => {
                        assert!(way.contains("through kprobe: "), "{way}");
                        assert!(way.contains("this kernel has no kprobe_multi"), "{way}");
                    }
                }
                assert!(values(&ran, "kprobes:x").contains(&"dfd=-100".to_owned()));
            },
        ),
        kprobe_test("inside_a_function_there_is_only_a_kprobe", || {
            // With or without an endbr64, before or behind the place for ftrace.
            let definitions = [5, 9].map(|at| format!("p:in do_sys_openat2+{at} a=%di:s32"));
            let is_good = |it: &&String| run_bridge(&["probe", "-e", it.as_str()]).status == 0;
            let definition = definitions
                .iter()
                .find(is_good)
                .expect("a place behind ftrace's");
            let ran = attach(&["-e", definition]);
            let way = way(&ran, "kprobes:in");
            assert!(way.contains("through kprobe: "), "{way}");
            assert!(way.contains("it stands inside the function"), "{way}");
        }),
        kprobe_test(
            "arguments_of_the_entry_stand_beside_registers_of_the_return",
            || {
                let ran = attach(&[
                    "-e",
                    "r:opened do_sys_openat2 dfd=$arg1:s32 file=+0($arg2):ustring ret=$retval:s32 more=%r12",
                    "-e",
                    "r:read vfs_read count=$arg3 ret=$retval:s64 sp=%sp",
                ]);
                let opened = values(&ran, "kprobes:opened");
                let missing = "dfd=-100 file=\"/no/such/file\" ret=-2 more=0x";
                assert!(
                    opened.iter().any(|line| line.starts_with(missing)),
                    "{opened:?}"
                );
                // Reads end in one another: a pipe's, say, in that of its own reader.
                let read = values(&ran, "kprobes:read");
                assert!(
                    read.iter()
                        .any(|line| line.starts_with("count=0x5 ret=5 sp=0x")
                            || line.starts_with("count=5 ret=5 sp=0x")),
                    "{read:?}"
                );
                assert!(
                    read.iter().all(|line| !line.contains("<fault>")),
                    "{read:?}"
                );
                let way = way(&ran, "kprobes:opened");
                assert!(
                    way.contains("through kretprobe with a kprobe at the entry: "),
                    "{way}"
                );
            },
        ),
        kprobe_test("what_cannot_be_traced_is_refused_with_the_reason", || {
            let ran = attach(&[
                "-e",
                "p bpf_get_smp_processor_id_nowhere",
                "-e",
                "p:b kprobe_ftrace_handler",
                "-e",
                "fentry:vfs_raed",
            ]);
            assert!(ran.err.contains("did you mean vfs_read"), "{}", ran.err);
            assert!(ran.err.contains("its callers can be probed"), "{}", ran.err);
            assert!(!ran.out.contains("OPENED"), "the command ran");
        }),
        match has_symbol("__probestub_task_rename") {
            true => bpf_test("a_tracepoint_has_its_arguments_by_name", || {
                let ran = attach(&[
                    "-e",
                    "t:tp task_rename old=task->comm:string new=comm:string pid=task->pid first=$arg1",
                ]);
                let all = halves(&ran, "tracepoints:tp");
                let (address, values) = all.last().unwrap();
                assert!(
                    address.starts_with("(__probestub_task_rename+0x"),
                    "{address}"
                );
                let own = "old=\"kernel_calls\" new=\"renamed\" pid=";
                assert!(values.starts_with(own), "{values}: {}", ran.err);
                assert!(values.contains(" first=0xff"), "{values}");
                assert!(way(&ran, "tracepoints:tp").contains("through raw tracepoint: 1 probe"));
            }),
            false => Trial::test("a_tracepoint_has_its_arguments_by_name", || Ok(()))
                .with_kind("needs a kernel with names of tracepoints' arguments (6.10)")
                .with_ignored_flag(true),
        },
        bpf_test(
            "hits_of_a_tracepoint_that_its_filter_refuses_are_only_counted",
            || {
                let attempt = || {
                    attach(&[
                        "-e",
                        "t:tp task_rename new=+0($arg2):string",
                        "--filter",
                        "new == \"renamed\"",
                        "-e",
                        "t:none task_rename new=+0($arg2):string",
                        "--filter",
                        "new == \"renam\" || new ~ \"*named?\"",
                    ])
                };
                // Since such programs can be preempted, a task that takes another name meanwhile is in the way.
                let is_whole = |ran: &Ran| {
                    let names = ["tracepoints:tp", "tracepoints:none"];
                    names.iter().all(|name| ran.row(name)[3] == "0")
                };
                let ran = (0..10).map(|_| attempt()).find(is_whole);
                let ran = ran.expect("an attempt in which nothing is missed");
                let named = values(&ran, "tracepoints:tp");
                assert_eq!(named, ["new=\"renamed\""], "{}", ran.err);
                let row = ran.row("tracepoints:none");
                assert_eq!((&*row[0], &row[1]), ("0", &row[2]), "{}", ran.err);
                assert_ne!(row[1], "0", "{}", ran.err);
            },
        ),
        with(
            "trampolines",
            "a_filter_passes_the_same_calls_whichever_way_they_are_probed",
            || {
                let filter = ["--filter", "dfd == -100 && file ~ \"/etc/pass*\""];
                let filtered = |definition| ["-e", definition, filter[0], filter[1]];
                let ran = attach(
                    &[
                        filtered("f:named do_sys_openat2 dfd=dfd:s32 file=filename:ustring"),
                        filtered("p:multi do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring"),
                        filtered(
                            "p:regs do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring more=%r12",
                        ),
                        filtered("r:back do_sys_openat2 dfd=dfd:s32 file=filename:ustring"),
                    ]
                    .concat(),
                );
                for name in [
                    "fprobes:named",
                    "kprobes:multi",
                    "kprobes:regs",
                    "kprobes:back",
                ] {
                    let passed = values(&ran, name);
                    assert_eq!(passed.len(), 1, "{name}: {passed:?}");
                    assert!(
                        passed[0].starts_with("dfd=-100 file=\"/etc/passwd\""),
                        "{name}: {passed:?}"
                    );
                    let row = ran.row(name);
                    let counts: Vec<u64> = row[..3].iter().map(|it| it.parse().unwrap()).collect();
                    assert!(
                        counts[2] > 0 && counts[1] == counts[0] + counts[2],
                        "{}",
                        ran.err
                    );
                }
            },
        ),
        bpf_test("a_tracepoint_that_there_is_not_is_refused", || {
            let ran = attach(&["-e", "t:tp no_such_tracepoint"]);
            assert!(ran.err.contains("no tracepoint"), "{}", ran.err);
            assert!(!ran.out.contains("OPENED"), "the command ran");
        }),
        match has("kprobes") || has("kprobe_multi") || has("trampolines") {
            true => Trial::test("where_there_is_no_way_the_error_says_what_it_takes", || {
                Ok(())
            })
            .with_kind("needs a kernel without probes in its functions")
            .with_ignored_flag(true),
            false => test("where_there_is_no_way_the_error_says_what_it_takes", || {
                let ran = attach(&["-e", "fentry:vfs_read"]);
                for option in ["CONFIG_KPROBE_EVENTS", "CONFIG_FPROBE", "DIRECT_CALLS"] {
                    assert!(ran.err.contains(option), "{}", ran.err);
                }
                assert_eq!(ran.status, 7, "{}", ran.err);
                assert!(!ran.out.contains("OPENED"), "the command ran");
            }),
        },
    ];
    support::run(trials);
}
