//! Probe definitions in kernel functions, attached: what they fetch is what the kernel's own probes print of
//! the same calls.

mod support;

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use support::{Ran, build, kprobe_test, run_bridge};

const PARTS: &str =
    "a_kernel_function_of_which_the_compiler_left_only_copies_is_answered_with_these";

/// Runs `attach ARGS -- kernel_calls FILE`.
fn attach(args: &[&str]) -> Ran {
    let target = build("kernel_calls").display().to_string();
    let mut all = vec!["attach"];
    all.extend(args);
    all.extend(["--", &target, "/etc/passwd"]);
    let ran = run_bridge(&all);
    assert!(!ran.out.contains("<not captured>"), "{}", ran.out);
    ran
}

/// Bodies without their addresses.
fn values(ran: &Ran, name: &str) -> Vec<String> {
    let bodies = ran.bodies(name);
    let after = |body: &String| body.split_once(") ").map_or("", |it| it.1).to_owned();
    bodies.iter().map(after).collect()
}

/// Functions of the kernel that have no code of their own name, each with a part or copy that the compiler left.
fn left() -> Vec<(String, String)> {
    let table = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let symbols = table.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let kind = words.next()?;
        // Those of modules have a tab and the module behind them.
        words
            .next()
            .filter(|name| "tT".contains(kind) && !name.contains('\t'))
    });
    let symbols: BTreeSet<&str> = symbols.collect();
    let left = symbols.iter().filter_map(|symbol| {
        let (name, rest) = symbol.split_once('.')?;
        let is_copy = rest.starts_with("isra.") || rest.starts_with("constprop.");
        (is_copy && !name.starts_with('_') && !symbols.contains(name))
            .then(|| (name.to_owned(), (*symbol).to_owned()))
    });
    left.collect()
}

fn main() {
    let left = left();
    let parts = match left.is_empty() {
        true => Trial::test(PARTS, || Ok(()))
            .with_kind("the compiler has left no parts of this kernel's functions")
            .with_ignored_flag(true),
        false => support::test(PARTS, move || {
            for (name, symbol) in left.iter().step_by(left.len().div_ceil(5)) {
                let ran = run_bridge(&["probe", "-e", &format!("p {name}")]);
                let says = format!("the compiler has left no {name}, but ");
                assert!(ran.err.contains(&says), "{name}: {}", ran.err);
                // Eight of them at most.
                let is_named = ran.err.contains(symbol.as_str()) || ran.err.contains(" more: name");
                assert!(is_named, "{name}: {}", ran.err);
            }
        }),
    };
    let trials = vec![
        parts,
        kprobe_test(
            "the_entry_of_a_function_has_its_registers_and_texts",
            || {
                let definition = "p:open do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring flags=+0(%dx):x64 who=$comm";
                let ran = attach(&["-e", definition]);
                let all = values(&ran, "kprobes:open");
                let flags = |file: &str| {
                    let line = all.iter().find(|line| line.contains(file));
                    line.unwrap_or_else(|| panic!("no {file}: {}{}", ran.out, ran.err))
                        .clone()
                };
                let expected = "dfd=-100 file=\"/etc/passwd\" flags=0x8000 who=\"kernel_calls\"";
                assert_eq!(flags("/etc/passwd"), expected);
                let bodies = ran.bodies("kprobes:open");
                assert!(
                    bodies
                        .iter()
                        .all(|body| body.starts_with("(do_sys_openat2+0x")),
                    "{}",
                    ran.out
                );
            },
        ),
        kprobe_test("the_return_of_a_function_has_what_it_returned", || {
            let ran = attach(&[
                "-e",
                "r:opened do_sys_openat2 ret=$retval:s32 raw=$retval:x64",
            ]);
            let all = values(&ran, "kprobes:opened");
            assert!(
                all.iter().any(|line| line.starts_with("ret=-2 raw=0x")),
                "{}{}",
                ran.out,
                ran.err
            );
            assert!(ran.out.contains(" <- do_sys_openat2) ret="), "{}", ran.out);
        }),
        kprobe_test("memory_is_read_in_every_type", || {
            let definition = "p:types __x64_sys_getppid a8=+112(%di):u8 b8=+112(%di):s8 c8=+112(%di):x8 \
                a16=+112(%di):u16 b16=+112(%di):s16 a32=+104(%di):u32 b32=+104(%di):s32 c64=+96(%di):x64 \
                str=+0(+56(%di)):ustring id=+72(%di):u16 lo=+112(%di):b4@0/16 arr=+112(%di):x8[2] bad=+0(+72(%di)):u8";
            let ran = attach(&["-e", definition]);
            let expected = "a8=130 b8=-126 c8=0x82 a16=65410 b16=-126 a32=4294967291 b32=-5 \
                c64=0x123456789abcdef0 str=\"hello\" id=77 lo=2 arr={0x82,0xff} bad=<fault>";
            assert_eq!(values(&ran, "kprobes:types"), [expected], "{}", ran.err);
        }),
        kprobe_test("memory_of_the_kernel_is_not_read_as_the_process_s", || {
            let definition = "p:whose __x64_sys_getppid a=+u112(%di):u8 b=+112(%di):u8 \
                s=+0(+56(%di)):ustring k=@linux_banner:ustring d=+0(+u56(%di)):string";
            let ran = attach(&["-e", definition]);
            let expected = "a=<fault> b=130 s=\"hello\" k=<fault> d=<fault>";
            assert_eq!(values(&ran, "kprobes:whose"), [expected], "{}", ran.err);
        }),
        kprobe_test("symbols_of_the_kernel_are_named", || {
            let definition = "p:sym __x64_sys_getppid st=$stack0:symbol sts=$stack0:symstr d=@linux_banner:string";
            let ran = attach(&["-e", definition, "--string-limit", "32"]);
            let line = &values(&ran, "kprobes:sym")[0];
            assert!(line.starts_with("st=do_syscall_64+0x"), "{line}");
            assert!(line.contains(" sts=\"do_syscall_64+0x"), "{line}");
            assert!(line.contains(" d=\"Linux version "), "{line}");
        }),
        kprobe_test(
            "short_forms_filters_and_user_probes_stand_beside_one_another",
            || {
                let target = build("kernel_calls").display().to_string();
                let user = format!("uprobe:{target}:main n=%di:s32");
                let ran = attach(&[
                    "-e",
                    "kprobe:do_sys_openat2 f=+0(%si):ustring",
                    "--filter",
                    "f == \"/etc/passwd\"",
                    "-e",
                    &user,
                    "-e",
                    "fexit:do_sys_openat2 $retval:s32",
                ]);
                assert_eq!(
                    values(&ran, "kprobes:p_do_sys_openat2_0"),
                    ["f=\"/etc/passwd\""],
                    "{}",
                    ran.err
                );
                assert_eq!(values(&ran, "uprobes:p_kernel_main"), ["n=2"]);
                assert!(
                    values(&ran, "fprobes:do_sys_openat2__exit").contains(&"arg1=-2".to_owned())
                );
            },
        ),
        kprobe_test("what_cannot_be_probed_is_refused_and_nothing_runs", || {
            let ran = attach(&[
                "-e",
                "p no_such_function_at_all",
                "-e",
                "p do_sys_openat2 %rdi",
            ]);
            assert!(
                ran.err.contains("Invalid probed address or symbol"),
                "{}",
                ran.err
            );
            assert!(ran.err.contains("Invalid register name"), "{}", ran.err);
            assert!(!ran.out.contains("OPENED"), "the command ran");
        }),
    ];
    support::run(trials);
}
