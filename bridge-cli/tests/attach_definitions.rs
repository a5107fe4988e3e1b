//! Probe definitions, attached: what they fetch of a running program is what is there, and what cannot be
//! probed is refused before anything is attached.

mod support;

use std::path::Path;

use support::{Ran, bpf_test, build, run_bridge, test};

fn path(name: &str) -> String {
    build(name).display().to_string()
}

/// Runs `attach ARGS -- probed COMMAND`.
fn attach(args: &[&str], command: &[&str]) -> Ran {
    let target = path("probed");
    let mut all = vec!["attach"];
    all.extend(args);
    all.extend(["--", &target]);
    all.extend(command);
    let ran = run_bridge(&all);
    assert!(!ran.out.contains("<not captured>"), "{}", ran.out);
    ran
}

/// A body without its address.
fn after_address(body: &str) -> &str {
    let (address, rest) = body.split_once(") ").unwrap_or((body, ""));
    assert!(address.starts_with("(0x"), "{body}");
    rest
}

fn main() {
    let trials = vec![
        bpf_test(
            "registers_memory_texts_arrays_and_bits_have_their_values",
            || {
                let target = path("probed");
                let definition = format!(
                    "p:sum {target}:sum a=%di:s32 b=%si:s64 t=+0(%dx):string c=%cx:s16 d=%r8:u8 x=%r8:x8 \
                 id=+0(%r9):s32 user=+0(+8(%r9)):string raw=+16(%r9):u8[8] bits=+24(%r9):b4@28/32 \
                 tags=+32(%r9):string[4] balance=+64(%r9):s16 one=\\7 text=\\\"lit\" who=$comm ch=+0(%dx):char"
                );
                let ran = attach(&["-e", &definition], &["3"]);
                let expected = "a=-7 b=4294967298 t=\"some text\" c=-300 d=200 x=0xc8 id=42 user=\"ada\" \
                            raw={1,2,3,250,251,252,253,254} bits=10 tags={\"one\",\"two\",\"three\",<fault>} \
                            balance=-1234 one=0x7 text=\"lit\" who=\"probed\" ch='s'";
                let bodies = ran.bodies("uprobes:sum");
                assert_eq!(bodies.len(), 3, "{}{}", ran.out, ran.err);
                for body in &bodies {
                    assert_eq!(after_address(body), expected);
                }
                assert_eq!(ran.row("uprobes:sum")[..2], ["3", "3"]);
                assert_eq!(ran.status, 3);
            },
        ),
        bpf_test("a_return_has_what_was_returned_and_both_addresses", || {
            let target = path("probed");
            let file = support::scratch("probes").join("returns");
            let text = format!(
                "# two returns and an entry\np:in {target}:back v=%di:s64\nr:out {target}:back v=$retval:s64\n\
                 p:name {target}:name%return s=+0($retval):string w=$comm\n"
            );
            std::fs::write(&file, text).unwrap();
            let ran = attach(&["--probes", file.to_str().unwrap()], &["2"]);
            let values = |name: &str| -> Vec<String> {
                let bodies = ran.bodies(name);
                bodies
                    .iter()
                    .map(|body| after_address(body).to_owned())
                    .collect()
            };
            assert_eq!(values("uprobes:in"), ["v=-2", "v=-3"], "{}", ran.err);
            assert_eq!(values("uprobes:out"), ["v=-2", "v=-3"]);
            assert_eq!(values("uprobes:name"), ["s=\"a name\" w=\"probed\""; 2]);
            let entry = ran.bodies("uprobes:in")[0].split(')').next().unwrap()[1..].to_owned();
            let returned = &ran.bodies("uprobes:out")[0];
            assert!(
                returned.contains(&format!(" <- {entry})")),
                "{returned} and {entry}"
            );
        }),
        bpf_test("text_in_pages_that_nobody_has_touched_is_read", || {
            let target = path("probed");
            let definition = format!("p:name {target}:name s=+0(%di):string u=+0(%di):ustring");
            let ran = attach(&["-e", &definition], &["1", "cold"]);
            let bodies = ran.bodies("uprobes:name");
            let value = "s=\"acrosspages\" u=\"acrosspages\"";
            assert_eq!(
                bodies
                    .iter()
                    .map(|body| after_address(body))
                    .collect::<Vec<_>>(),
                [value],
                "{}",
                ran.err
            );
        }),
        bpf_test(
            "what_cannot_be_read_costs_the_argument_and_not_the_event",
            || {
                let target = path("probed");
                let definition = format!(
                    "p:back {target}:back s=+0(%di):string w=+0(%di):u32 v=%di:s64 a=+0(%di):u8[4] d=+0(+8(%di)):u8"
                );
                let ran = attach(&["-e", &definition], &["1"]);
                let body = &ran.bodies("uprobes:back")[0];
                assert_eq!(
                    after_address(body),
                    "s=<fault> w=<fault> v=-2 a=<fault> d=<fault>"
                );
            },
        ),
        bpf_test("long_text_is_cut_at_the_limit_and_says_so", || {
            let target = path("probed");
            let definition = format!("p:sum {target}:sum t=+0(%dx):string");
            let ran = attach(&["-e", &definition, "--string-limit", "16"], &["1"]);
            assert_eq!(
                after_address(&ran.bodies("uprobes:sum")[0]),
                "t=\"some text\""
            );
            let definition = format!("p:name {target}:name t=+0(%di):string");
            let mut args = vec!["-e", &definition, "--string-limit", "16"];
            let ran = attach(&args, &["1", "cold"]);
            assert_eq!(
                after_address(&ran.bodies("uprobes:name")[0]),
                "t=\"acrosspages\""
            );
            // The page behind the text is full of x.
            let definition = format!("p:name {target}:name t=+11(%di):string t2=+12(%di):string");
            args[1] = &definition;
            let ran = attach(&args, &["1", "cold"]);
            let cut = "t=\"\" t2=\"xxxxxxxxxxxxxxx\"…";
            assert_eq!(after_address(&ran.bodies("uprobes:name")[0]), cut);
        }),
        bpf_test("text_is_whole_up_to_the_limit_whatever_that_is", || {
            let target = path("texts");
            let definition = format!("p:take {target}:take text=+0(%di):string length=%si:s32");
            for limit in [16, 64, 4096] {
                let wanted = limit.to_string();
                let args = [
                    "attach",
                    "-e",
                    &definition,
                    "--string-limit",
                    &wanted,
                    "--",
                    &target,
                ];
                let ran = run_bridge(&args);
                let bodies = ran.bodies("uprobes:take");
                assert_eq!(bodies.len(), 15, "{}", ran.err);
                for body in &bodies {
                    let (text, length) = body.split_once(" length=").unwrap();
                    let length: usize = length.parse().unwrap();
                    let mark = if length < limit { "" } else { "…" };
                    let expected = format!("text=\"{}\"{mark}", "a".repeat(length.min(limit - 1)));
                    assert_eq!(after_address(text), expected, "{limit}: {length}");
                }
            }
            let args = [
                "attach",
                "-e",
                &definition,
                "--string-limit",
                "4097",
                "--",
                &target,
            ];
            let ran = run_bridge(&args);
            assert_eq!(ran.status, 2, "{}", ran.err);
            assert!(ran.err.contains("16..=4096"), "{}", ran.err);
        }),
        bpf_test(
            "pointers_that_lead_nowhere_are_faults_and_no_empty_text",
            || {
                let target = path("probed");
                let definition = format!(
                    "p:bad {target}:back null=@0:string low=@8:string kernel=@0xffffffff81000000:string \
                 none=@0x8000000000000000:string last=%di:s64"
                );
                let ran = attach(&["-e", &definition], &["1"]);
                let body = &ran.bodies("uprobes:bad")[0];
                let expected = "null=<fault> low=<fault> kernel=<fault> none=<fault> last=-2";
                assert_eq!(after_address(body), expected);
            },
        ),
        bpf_test("patterns_and_short_forms_stand_for_functions", || {
            let target = path("probed");
            let (entry, exit) = (
                format!("uprobe:{target}:[bn]a* v=%di"),
                format!("uretprobe:{target}:back"),
            );
            let ran = attach(&["-e", &entry, "-e", &exit], &["2"]);
            for name in [
                "uprobes:p_probed_back",
                "uprobes:p_probed_name",
                "uprobes:r_probed_back",
            ] {
                assert_eq!(ran.row(name)[..2], ["2", "2"], "{name}: {}", ran.err);
            }
        }),
        bpf_test(
            "a_filter_behind_a_definition_is_read_against_its_arguments",
            || {
                let target = path("probed");
                let definition = format!("p:back {target}:back v=%di:s64 w=$comm");
                let ran = attach(
                    &["-e", &definition, "--filter", "v == -3 && w ~ \"prob*\""],
                    &["4"],
                );
                let bodies = ran.bodies("uprobes:back");
                let values: Vec<&str> = bodies.iter().map(|body| after_address(body)).collect();
                assert_eq!(values, ["v=-3 w=\"probed\""], "{}", ran.err);
                let ran = attach(&["-e", &definition, "--filter", "nobody == 1"], &["1"]);
                assert!(ran.err.contains("Field not found"), "{}", ran.err);
                assert!(!ran.out.contains("WRONG"), "the command ran");
            },
        ),
        bpf_test("the_reference_counter_is_up_while_attached", || {
            let target = path("probed");
            let image = bridge::target::Binary::open(Path::new(&target)).unwrap();
            let symbols = std::process::Command::new("nm")
                .arg(&target)
                .output()
                .unwrap();
            let symbols = String::from_utf8(symbols.stdout).unwrap();
            let line = symbols
                .lines()
                .find(|line| line.ends_with(" probed_semaphore"))
                .unwrap();
            let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
            let bridge::target::Place::File { offset, .. } = image.place(address) else {
                panic!("the semaphore has no place in the file");
            };
            let definition = format!("p:up {target}:back({offset:#x}) v=%di:s32");
            let ran = attach(&["-e", &definition], &["1"]);
            assert!(
                ran.out.contains("SEMAPHORE 1 WRONG 0"),
                "{}{}",
                ran.out,
                ran.err
            );
            let ran = attach(&["-e", &format!("p:up {target}:back")], &["1"]);
            assert!(ran.out.contains("SEMAPHORE 0 WRONG 0"), "{}", ran.out);
        }),
        bpf_test("each_version_of_a_function_is_hit_by_itself", || {
            let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
            let library = support::scratch("versions").join("libversioned.so");
            let script = targets.join("versioned.map");
            let status = std::process::Command::new("cc")
                .args(["-O2", "-fPIC", "-shared"])
                .arg(targets.join("versioned.c"))
                .arg(format!("-Wl,--version-script={}", script.display()))
                .arg("-o")
                .arg(&library)
                .status();
            assert!(status.unwrap().success());
            let library = library.display().to_string();
            let of = |event: &str, symbol: &str| format!("p:{event} {library}:{symbol} v=%di:s32");
            let all = [
                of("new", "rate"),
                of("old", "rate@FIRST"),
                of("bare", "bare"),
            ];
            let mut args = vec!["attach"];
            all.iter().for_each(|one| args.extend(["-e", one]));
            let program = path("versions");
            args.extend(["--", &program, &library]);
            let ran = run_bridge(&args);
            for (event, first) in [("new", 20), ("old", 10), ("bare", 30)] {
                let bodies = ran.bodies(&format!("uprobes:{event}"));
                let values: Vec<&str> = bodies.iter().map(|body| after_address(body)).collect();
                let expected: Vec<String> = (first..first + 3).map(|v| format!("v={v}")).collect();
                assert_eq!(values, expected, "{event}: {}", ran.err);
            }
        }),
        bpf_test(
            "a_program_in_a_sandbox_survives_a_return_probe_or_is_warned_of",
            || {
                let target = support::Target::start("sandboxed", &[]);
                let (pid, file) = (target.pid.to_string(), path("sandboxed"));
                let definition = format!("r:work {file}:work v=$retval:s32");
                let bridge = support::Attached::start(&["-p", &pid, "-e", &definition]);
                target.go();
                let (status, out) = target.finish();
                let ran = bridge.finish();
                match status.success() {
                    true => {
                        assert!(out.contains("SUM 55"), "{out}");
                        assert_eq!(ran.bodies("uprobes:work").len(), 10, "{}", ran.err);
                    }
                    false => assert!(ran.err.contains("seccomp"), "{}", ran.err),
                }
            },
        ),
        bpf_test("thousands_of_functions_take_few_descriptors", || {
            use std::fmt::Write as _;
            use std::os::unix::process::CommandExt as _;
            // An emulated CPU takes its time for them, and old kernels a descriptor for each.
            let count = match std::env::var_os("TRACEBRAID_SHORT") {
                Some(_) => 300,
                None => 5000,
            };
            let place = support::scratch("thousands");
            let mut source = String::from("#include <stdlib.h>\n");
            let mut calls = String::new();
            for number in 0..count {
                let _ = writeln!(
                    source,
                    "__attribute__((noinline)) int f{number}(int v) {{ return v + {number}; }}"
                );
                let _ = writeln!(calls, "sum += f{number}(sum);");
            }
            let _ = writeln!(
                source,
                "int main(void) {{ volatile int sum = 0; {calls} return 3; }}"
            );
            let (file, program) = (place.join("many.c"), place.join("many"));
            std::fs::write(&file, source).unwrap();
            let status = std::process::Command::new("cc")
                .arg("-O0")
                .arg(&file)
                .arg("-o")
                .arg(&program)
                .status();
            assert!(status.unwrap().success());
            let pattern = format!("uprobe:{}:f[0-9]*", program.display());
            let mut command = support::bridge();
            command
                .args(["attach", "--count", "-e", &pattern, "--"])
                .arg(&program);
            // SAFETY: a system call with plain numbers, which is async-signal-safe.
            #[allow(unsafe_code)]
            unsafe {
                command.pre_exec(|| {
                    let files = nix::sys::resource::Resource::RLIMIT_NOFILE;
                    nix::sys::resource::setrlimit(files, 1024, 1024)?;
                    Ok(())
                });
            }
            let ran = Ran::from(command.output().unwrap());
            assert_eq!(ran.status, 3, "{}", ran.err);
            assert!(ran.err.contains(&format!("{count} events")), "{}", ran.err);
        }),
        bpf_test(
            "a_definition_at_a_place_with_a_semaphore_goes_with_it",
            || {
                let target = path("ticker");
                let binary = bridge::target::Binary::open(Path::new(&target)).unwrap();
                let mut probes = binary.usdt_probes().iter();
                let guarded = probes.find(|probe| probe.name == "guarded").unwrap();
                let bridge::target::Place::File { offset, .. } = guarded.locations[0].place else {
                    panic!("{guarded:?}");
                };
                let plain = format!("p:plain {target}:{offset:#x} i=%di:s64");
                for events in [["demo:guarded", &plain], [&plain, "demo:guarded"]] {
                    let args = ["attach", "-e", events[0], "-e", events[1], "--", &target];
                    let ran = run_bridge(&[&args[..], &["3", "0", "at-once"]].concat());
                    assert!(ran.out.contains("HITS 3 3 1"), "{}{}", ran.out, ran.err);
                    for name in ["demo:guarded", "uprobes:plain"] {
                        assert_eq!(ran.row(name)[..2], ["3", "3"], "{name}: {}", ran.err);
                    }
                }
            },
        ),
        bpf_test("several_definitions_of_one_place_are_hit_each", || {
            let target = path("probed");
            let one = format!("p:one {target}:back a=%di:s64");
            let two = format!("p:two {target}:back b=%di:x16");
            let three = format!("p:three {target}:back");
            let ran = attach(&["-e", &one, "-e", &two, "-e", &three], &["2"]);
            for name in ["uprobes:one", "uprobes:two", "uprobes:three"] {
                assert_eq!(ran.row(name)[..2], ["2", "2"], "{name}: {}", ran.err);
            }
            assert_eq!(after_address(&ran.bodies("uprobes:two")[0]), "b=0xfffe");
        }),
        bpf_test(
            "a_hundred_arguments_and_the_longest_arrays_come_whole",
            || {
                let target = path("probed");
                let mut definition = format!("p:many {target}:sum");
                for index in 0..122 {
                    definition.push_str(&format!(" n{index}=+0(%r9):s32"));
                }
                for index in 0..5 {
                    definition.push_str(&format!(" a{index}=+0(%sp):u64[64]"));
                }
                let ran = attach(&["-e", &definition], &["1"]);
                let body = &ran.bodies("uprobes:many")[0];
                assert_eq!(body.matches("=42").count(), 122, "{body}");
                assert_eq!(body.matches(',').count(), 5 * 63, "{body}");
            },
        ),
        bpf_test(
            "a_return_probe_on_code_with_unwind_tables_is_warned_of",
            || {
                let own = std::env::current_exe().unwrap().display().to_string();
                let definition = format!("r:never {own}:main");
                let ran = attach(&["-e", &definition], &["1"]);
                assert!(ran.err.contains("a panic or exception"), "{}", ran.err);
                let target = path("probed");
                let ran = attach(&["-e", &format!("r:back {target}:back")], &["1"]);
                assert!(!ran.err.contains("a panic or exception"), "{}", ran.err);
            },
        ),
        test(
            "everything_that_is_wrong_is_said_at_once_and_nothing_runs",
            || {
                let target = path("probed");
                let functions = bridge::target::Binary::open(Path::new(&target))
                    .unwrap()
                    .functions();
                let sum = functions
                    .iter()
                    .find(|function| function.symbol == "sum")
                    .unwrap();
                let code = std::fs::read(&target).unwrap();
                let inside = (1..sum.size)
                    .find(|&at| {
                        let from = &code[sum.offset as usize..];
                        bridge::instructions::is_boundary(from, at) == Some(false)
                    })
                    .unwrap();
                let wrong = [
                    format!("p:a {target}:sum+{inside}"),
                    format!("p:b {target}:summ"),
                    "p:c /tmp:0x10".to_owned(),
                    format!("p:d {target}:0x99999999"),
                    format!("p:e {target}:sum %rdi"),
                    "p:f /etc/passwd:main".to_owned(),
                    format!("uprobe:{target}:no_such_*"),
                ];
                let mut args = Vec::new();
                for definition in &wrong {
                    args.extend(["-e", definition]);
                }
                let ran = attach(&args, &["1"]);
                assert_ne!(ran.status, 3, "the command ran");
                assert!(!ran.out.contains("WRONG"), "{}", ran.out);
                for said in [
                    "in the middle of an instruction of sum",
                    "did you mean sum?",
                    "Not a regular file",
                    "is in no part of the file that is loaded",
                    "Invalid register name",
                    "The file is no program for this machine",
                    "No function matches the pattern",
                ] {
                    assert!(ran.err.contains(said), "{said} is not in {}", ran.err);
                }
            },
        ),
    ];
    support::run(trials);
}
