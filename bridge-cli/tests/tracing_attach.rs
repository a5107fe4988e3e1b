//! What a program says through `tracing`, attached to from outside.

mod ring_program;
mod support;

use nix::sys::signal::Signal;
use ring_program::{Program, command};
use support::{Attached, Ran, bpf_test, run_bridge, test};

fn attach(program: &Program, more: &[&str]) -> Attached {
    let pid = program.pid.to_string();
    let mut args = vec!["-p", &pid];
    args.extend(more);
    Attached::start(&args)
}

/// Events and bodies, in order, without what differs from run to run.
fn stream(ran: &Ran) -> Vec<String> {
    let line = |line: &str| {
        let text = line.split_once(": shop.cart:")?.1;
        let (name, body) = text.split_once(": ")?;
        let kept = |word: &&str| {
            !["id=", "span=", "parent=", "ns="]
                .iter()
                .any(|it| word.starts_with(it))
        };
        let body: Vec<&str> = body.split(' ').filter(kept).collect();
        let name = match name.split_once(".rs:") {
            Some(_) => "event",
            None => name,
        };
        Some(format!("{name} {}", body.join(" ")).trim().to_owned())
    };
    ran.out.lines().filter_map(line).collect()
}

fn expected(items: u64) -> Vec<String> {
    let of = |item: u64| {
        let mut lines = vec![
            format!("add level=3 item={item}"),
            "add__enter".to_owned(),
            format!("event level=4 message=\"looked up\" item={item} user=ada"),
        ];
        if item.is_multiple_of(2) {
            lines.push("event level=2 message=\"sold out\" left=-1 ratio=0.5".to_owned());
        }
        lines.extend(["add__exit", "add__close"].map(str::to_owned));
        lines
    };
    (0..items).flat_map(of).collect()
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "every_span_and_event_comes_in_order_from_the_first_on",
            || {
                let mut program = Program::start("shop");
                // Nothing of it has ever been registered.
                let attached = attach(&program, &["--via", "ring", "-e", "shop.c*:*"]);
                assert_eq!(program.ask("50"), "done");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(stream(&ran), expected(50), "{}", ran.err);
                assert_eq!(ran.row("shop.cart:add")[..2], ["50", "50"]);

                // Known by now, chosen one by one, and one that is new.
                let attached = attach(
                    &program,
                    &[
                        "--via",
                        "ring",
                        "-e",
                        "shop.cart:add",
                        "-e",
                        "shop.cart:*.rs:*",
                    ],
                );
                assert_eq!(program.ask("2"), "done");
                assert_eq!(program.ask("late"), "done");
                let ran = attached.stop(Signal::SIGINT);
                let seen = stream(&ran);
                assert_eq!(seen.len(), 6, "{seen:#?}");
                assert_eq!(seen[5], "event level=5 message=\"never said before\"");
                program.finish();
            },
        ),
        test("a_filter_compares_each_value_as_what_it_is", || {
            let mut program = Program::start("shop");
            let filter = "level <= 4 && item >= 48 && user ~ \"a*\"";
            let attached = attach(
                &program,
                &["--via", "ring", "-e", "shop.cart:*", "--filter", filter],
            );
            assert_eq!(program.ask("50"), "done");
            let ran = attached.stop(Signal::SIGINT);
            let looked_up =
                |item| format!("event level=4 message=\"looked up\" item={item} user=ada");
            assert_eq!(stream(&ran), [looked_up(48), looked_up(49)], "{}", ran.err);

            // By now they are known, and what happens to the span has neither level nor user.
            let attached = attach(
                &program,
                &["--via", "ring", "-e", "shop.cart:*", "--filter", filter],
            );
            assert_eq!(program.ask("50"), "done");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(stream(&ran), [looked_up(48), looked_up(49)], "{}", ran.err);
            let pid = program.pid.to_string();
            // One that has the field may still come.
            let misspelt = ["-e", "shop.cart:*", "--filter", "lvl <= 4", "-T", "0.2"];
            let ran =
                run_bridge(&[&["attach", "-p", &pid, "--via", "ring"], &misspelt[..]].concat());
            assert_eq!(ran.status, 0, "{}", ran.err);
            for said in ["Field not found", "waiting for one that has it"] {
                assert!(ran.err.contains(said), "{}", ran.err);
            }
            assert!(ran.out.is_empty(), "{}", ran.out);
            program.finish();
        }),
        test("a_condition_is_for_those_that_have_its_fields", || {
            let mut program = Program::start("shop");
            assert_eq!(program.ask("1"), "done");
            let when = "shop.cart:* if item == 40 && level == 4";
            let pid = program.pid.to_string();
            let attached =
                Attached::start(&["-p", &pid, "-e", "shop.cart:*", "--snapshot-when", when]);
            assert_eq!(program.ask("50"), "done");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(ran.status, 0, "{}", ran.err);
            assert!(!ran.err.contains("cannot be used"), "{}", ran.err);
            let taken = [format!("reason={when:?}")];
            assert_eq!(ran.bodies("bridge:snapshot"), taken, "{}", ran.err);
            program.finish();
        }),
        test("a_command_is_traced_from_its_first_word", || {
            let program = command("shop-at-once");
            let mut bridge = support::bridge();
            bridge.args(["attach", "--via", "ring", "-e", "shop.cart:*", "--"]);
            bridge.arg(program.get_program());
            for (name, value) in program.get_envs() {
                bridge.env(name, value.unwrap_or_default());
            }
            let ran = Ran::from(bridge.output().unwrap());
            assert_eq!(stream(&ran), expected(1), "{}", ran.err);
        }),
        test("a_list_has_what_the_program_comes_across", || {
            let mut program = Program::start("shop");
            program.tell("run");
            let pid = program.pid.to_string();
            let ran = run_bridge(&["list", "-v", "-p", &pid, "shop.cart:*"]);
            let lines: Vec<&str> = ran
                .out
                .lines()
                .filter(|line| !line.starts_with(' '))
                .collect();
            assert_eq!(lines.len(), 8, "{}{}", ran.out, ran.err);
            assert_eq!(lines[..2], ["shop.cart:add", "shop.cart:add__close"]);
            assert!(
                ran.out.contains("item: any") && ran.out.contains("ring_program/roles.rs:"),
                "{}",
                ran.out
            );
            program.kill();
        }),
        test("a_name_that_nothing_has_is_waited_for_and_said", || {
            let program = Program::start("shop");
            let attached = attach(&program, &["--via", "ring", "-e", "shop.crat:*"]);
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(ran.status, 0, "{}", ran.err);
            assert!(
                ran.err.contains("-e shop.crat:*: ") && ran.err.contains("waiting"),
                "{}",
                ran.err
            );
            program.finish();
        }),
        bpf_test("other_tools_see_all_of_it_through_two_usdt_probes", || {
            let mut program = Program::start("shop");
            let attached = attach(
                &program,
                &["--via", "usdt", "-e", "tracing:event", "-e", "tracing:span"],
            );
            // The helper thread looks at semaphores a few times a second.
            let mut told = 0;
            for _ in 0..100 {
                assert_eq!(program.ask("1"), "done");
                told += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let ran = attached.stop(Signal::SIGINT);
            let events = ran.bodies("tracing:event");
            assert!(
                !events.is_empty() && events.len() <= 2 * told,
                "{}",
                ran.err
            );
            let said = |text: &str| events.iter().any(|body| body.ends_with(text));
            assert!(
                said("message=\"looked up\"") && said("message=\"sold out\""),
                "{events:#?}"
            );
            assert!(
                events[0].starts_with("target=shop::cart name="),
                "{events:#?}"
            );
            let spans = ran.bodies("tracing:span");
            assert!(
                spans.iter().any(
                    |body| body.contains("name=add level=3") && body.ends_with("message=close")
                )
            );
            program.finish();
        }),
    ]);
}
