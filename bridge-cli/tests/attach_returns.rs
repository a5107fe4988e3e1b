//! Return probes with what the function was called with: each return has its own call's values, of recursive
//! calls, in several threads, after calls that never returned; what is not known of a call is a fault.

mod support;

use support::{Ran, bpf_test, build, pid_of, run_bridge};

/// Runs `attach ARGS -- returning THREADS`, with the place of a function for `@FUNCTION`.
fn attach(definitions: &[&str], more: &[&str], threads: &str) -> Ran {
    let target = build("returning").display().to_string();
    let definitions: Vec<String> = definitions
        .iter()
        .map(|definition| definition.replace('@', &format!("{target}:")))
        .collect();
    let mut all = vec!["attach"];
    all.extend(definitions.iter().flat_map(|it| ["-e", it]));
    all.extend(more);
    all.extend(["--", &target, threads]);
    let ran = run_bridge(&all);
    assert_eq!(ran.status, 3, "{}{}", ran.out, ran.err);
    ran
}

/// Bodies without their addresses.
fn values(ran: &Ran, event: &str) -> Vec<String> {
    let after = |body: &String| body.split_once(") ").map_or("", |it| it.1).to_owned();
    ran.bodies(event).iter().map(after).collect()
}

/// What `depth` returns.
fn depth(n: i128) -> i64 {
    (1..=n).fold(0_i64, |below, n| {
        below.wrapping_mul(2).wrapping_add(n as i64)
    })
}

fn main() {
    let trials = vec![
        bpf_test(
            "each_return_of_a_recursive_function_has_its_own_arguments",
            || {
                let definition = "r:out @depth n name:string seventh ret=$retval:s64";
                let ran = attach(&[definition, "p:in @depth n"], &[], "4");
                let lines = ran.events("uprobes:out");
                let of_threads = lines.iter().filter(|line| line.contains("name=\"thread\""));
                let mut threads: Vec<(&str, Vec<String>)> = Vec::new();
                for line in of_threads {
                    let body = line.split_once(") ").expect("values").1.to_owned();
                    match threads
                        .iter_mut()
                        .find(|(thread, _)| *thread == pid_of(line))
                    {
                        Some((_, all)) => all.push(body),
                        None => threads.push((pid_of(line), vec![body])),
                    }
                }
                assert_eq!(threads.len(), 4, "{}", ran.err);
                let expected: Vec<String> = (0..20)
                    .flat_map(|_| 0..=6)
                    .map(|n| {
                        let seventh = 106 - n;
                        format!("n={n} name=\"thread\" seventh={seventh} ret={}", depth(n))
                    })
                    .collect();
                for (thread, all) in threads {
                    assert_eq!(all, expected, "thread {thread}");
                }
                // The kernel follows no more than 64 calls in one another.
                let deep = lines.iter().filter(|line| line.contains("name=\"deep\""));
                let deep: Vec<&str> = deep.map(|line| line.split_once(") ").unwrap().1).collect();
                let expected: Vec<String> = (0..=100)
                    .map(|n| format!("n={n} name=\"deep\" seventh={} ret={}", 100 - n, depth(n)))
                    .collect();
                assert!(deep.len() >= 60, "{}", deep.len());
                assert!(
                    expected.ends_with(&deep.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()),
                    "{deep:#?}"
                );
            },
        ),
        bpf_test(
            "what_calls_that_never_returned_have_left_is_no_other_call_s",
            || {
                let ran = attach(&["r:out @jumps n jump ret=$retval:s32"], &[], "1");
                let expected: Vec<String> =
                    (0..=3).map(|n| format!("n={n} jump=0 ret={n}")).collect();
                assert_eq!(values(&ran, "uprobes:out"), expected, "{}", ran.err);
            },
        ),
        bpf_test("a_function_that_ends_in_another_one_keeps_its_own", || {
            let ran = attach(
                &[
                    "r:first @first value other ret=$retval:s64",
                    "r:last @last value ret=$retval:s64",
                    "r:again @last again=value",
                ],
                &[],
                "1",
            );
            assert_eq!(
                values(&ran, "uprobes:first"),
                ["value=7 other=8 ret=71"],
                "{}",
                ran.err
            );
            assert_eq!(values(&ran, "uprobes:last"), ["value=70 ret=71"]);
            assert_eq!(values(&ran, "uprobes:again"), ["again=70"]);
        }),
        bpf_test("what_lies_on_the_stack_is_as_it_was_at_the_entry", || {
            let ran = attach(
                &["r:large @large a=wide.a c=wide.c number ret=$retval:s32"],
                &[],
                "1",
            );
            assert_eq!(
                values(&ran, "uprobes:large"),
                ["a=11 c=33 number=4 ret=5"],
                "{}",
                ran.err
            );
        }),
        bpf_test(
            "a_return_whose_entry_another_process_made_has_faults_for_its_arguments",
            || {
                let ran = attach(&["r:out @forks number ret=$retval:s32"], &["--follow"], "1");
                let mut all = values(&ran, "uprobes:out");
                all.sort();
                let [child, parent] = &all[..] else {
                    panic!("{all:?} {}", ran.err);
                };
                assert_eq!(parent, "number=<fault> ret=0");
                assert!(child.starts_with("number=9 ret=9"), "{child}");
            },
        ),
        bpf_test("filters_see_the_arguments_of_the_entry", || {
            let target = build("returning").display().to_string();
            let definition = format!("r:out {target}:depth n name:string ret=$retval:s64");
            let filter = "n == 5 && name ~ \"thr*\" && ret > 0";
            let ran = run_bridge(&[
                "attach",
                "-e",
                &definition,
                "--filter",
                filter,
                "--",
                &target,
                "2",
            ]);
            let expected = format!("n=5 name=\"thread\" ret={}", depth(5));
            assert_eq!(
                values(&ran, "uprobes:out"),
                vec![expected; 40],
                "{}",
                ran.err
            );
            let hits: u64 = ran.row("uprobes:out")[1].parse().unwrap();
            assert!(hits >= 280 + 60, "{hits}");
        }),
    ];
    support::run(trials);
}
