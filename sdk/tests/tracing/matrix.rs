//! Each small program's stream is what a subscriber saw: the same events, values and nesting.

use std::collections::HashMap;

use tracing::dispatcher::{Dispatch, with_default};

use crate::recorder::Recorder;
use crate::shapes::SHAPES;
use crate::turn;

/// The stream, as the recorder writes: without providers and durations, with spans counted from 1.
fn stream() -> Vec<String> {
    let mut numbers = HashMap::new();
    let mut lines = Vec::new();
    tracebraid::drain(|event| {
        if event.provider() == "tracing" {
            return;
        }
        let mut line = format!("{}:", event.name());
        let names: Vec<&str> = event.fields().map(|(name, _)| name).collect();
        let numbered: &[usize] = match names[..] {
            ["level", "id", "parent", ..] => &[1, 2],
            ["level", "span", ..] => &[1],
            ["id", "follows"] => &[0, 1],
            _ => &[0],
        };
        for (index, (name, value)) in event.fields().enumerate() {
            let mut value = value.to_string();
            if name == "ns" && event.name().ends_with("__close") {
                continue;
            }
            if numbered.contains(&index) {
                let next = numbers.len() as u64 + 1;
                if numbered == [1, 2] && index == 1 {
                    numbers.insert(value.clone(), next);
                }
                value = numbers.get(&value).copied().unwrap_or(0).to_string();
            }
            line.push_str(&format!(" {name}={value}"));
        }
        lines.push(line);
    })
    .unwrap();
    lines
}

/// Without what the recorder cannot know: it writes names as they are.
fn comparable(lines: Vec<String>) -> Vec<String> {
    lines
        .into_iter()
        .map(|line| match line.split_once(": ") {
            Some((name, rest)) => format!("{}: {rest}", name.replace(' ', "_")),
            None => line,
        })
        .collect()
}

#[test]
fn every_shape_of_program_streams_what_a_subscriber_sees() {
    let mut turn = turn();
    let reference = Dispatch::new(Recorder::default());
    let around = Dispatch::new(tracebraid::tracing::wrap(Recorder::default()));
    let alone = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("*:*");
    assert!(SHAPES.len() >= 30);
    for (name, shape) in SHAPES {
        let run = |dispatch: &Dispatch| {
            stream();
            with_default(dispatch, shape);
            let recorded = dispatch.downcast_ref::<Recorder>().map(Recorder::take);
            (stream(), comparable(recorded.unwrap_or_default()))
        };
        let (_, expected) = run(&reference);
        assert!(!expected.is_empty());
        let (seen, _) = run(&alone);
        assert_eq!(seen, expected, "{name}: with no other subscriber");

        let (seen, recorded) = run(&around);
        // A field that says something says it to each that formats it.
        if !name.contains("itself") || !name.contains("field") {
            assert_eq!(
                seen, expected,
                "{name}: around a subscriber that wants it all"
            );
            assert_eq!(recorded, expected, "{name}: what that subscriber sees");
        }
    }
}
