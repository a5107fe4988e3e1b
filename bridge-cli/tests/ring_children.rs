//! Children of a program whose rings are read.

mod ring_program;
mod ring_stream;
mod support;

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use ring_program::{Program, seq, tid};
use ring_stream::{attach, seqs, times_are_in_order};
use support::test;

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test("children_are_left_out_unless_they_are_followed", || {
            let mut program = Program::start("forker");
            let attached = attach(&program, &[]);
            let children = program.ask("go");
            assert_eq!(children.split(' ').count(), 3);
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(
                seqs(&ran, "app:tick"),
                (0..30).collect::<Vec<_>>(),
                "{}",
                ran.err
            );
            program.finish();
        }),
        test(
            "followed_children_come_each_with_its_own_pid_and_once",
            || {
                let mut program = Program::start("forker");
                let attached = attach(&program, &["--follow"]);
                let children = program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                let mut of: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
                for line in ran.events("app:tick") {
                    of.entry(tid(line)).or_default().push(seq(line));
                }
                let mut expected = BTreeMap::from([(program.pid, (0..30).collect::<Vec<u64>>())]);
                for (index, child) in children.split(' ').enumerate() {
                    let first = 1000 * (index as u64 + 1);
                    expected.insert(child.parse().unwrap(), (first..first + 10).collect());
                }
                assert_eq!(of, expected, "{}", ran.err);
                assert_eq!(ran.row("app:tick")[..2], ["60", "60"]);
                times_are_in_order(&ran);
                program.finish();
            },
        ),
        test(
            "a_child_that_initialises_itself_and_a_program_that_a_child_becomes_are_followed",
            || {
                let mut program = Program::start("family");
                let attached = attach(&program, &["--follow"]);
                let child: u32 = program.ask("go").parse().unwrap();
                let ran = attached.stop(Signal::SIGINT);
                let of = |first: u64| -> Vec<(u32, u64)> {
                    let lines = ran.events("app:tick").into_iter();
                    lines
                        .map(|line| (tid(line), seq(line)))
                        .filter(|(_, seq)| (first..first + 1000).contains(seq))
                        .collect()
                };
                assert_eq!(
                    of(5000),
                    (5000..5010).map(|seq| (child, seq)).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                assert_eq!(of(7000).len(), 10, "{}", ran.err);
                program.finish();
            },
        ),
    ]);
}
