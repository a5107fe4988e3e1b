//! Texts that nobody would write: read or refused, soon, without a panic.

mod kernel;

use std::time::{Duration, Instant};

use kernel::{Event, GETPPID, VFS_READ};
use proptest::prelude::*;
use tracebraid_filter::{ErrorKind, Fields, Filter, MAX_TEXT, Next, Value, Values};

/// An event of which nothing is known.
struct Nothing;

impl Values for Nothing {
    fn value(&self, _: u16) -> Value<'_> {
        Value::Missing
    }

    fn thread(&self) -> Option<i32> {
        None
    }

    fn cpu(&self) -> Option<u32> {
        None
    }

    fn comm(&self) -> Option<[u8; 16]> {
        None
    }
}

fn kind(text: &str) -> Option<ErrorKind> {
    Filter::parse(text, &Event::named("sched_switch"))
        .err()
        .map(|error| error.kind())
}

/// Parses on a thread whose stack is small: reading may not call itself.
fn on_a_small_stack(text: String) -> Option<ErrorKind> {
    std::thread::Builder::new()
        .stack_size(128 * 1024)
        .spawn(move || {
            let filter = Filter::parse(&text, &Event::named("sched_switch"));
            match filter {
                Ok(filter) => {
                    filter.matches(&Nothing);
                    assert!(!filter.to_string().is_empty());
                    None
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    Some(error.kind())
                }
            }
        })
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn nesting_is_as_deep_as_the_text_is_long_and_no_stack_overflows() {
    let most = (MAX_TEXT - "cpu<1".len()) / 2;
    let nested = |open: &str, depth: usize| {
        let close = ")".repeat(depth * open.matches('(').count());
        format!("{}cpu<1{close}", open.repeat(depth))
    };
    assert_eq!(on_a_small_stack(nested("(", most)), None);
    assert_eq!(on_a_small_stack(nested("!", MAX_TEXT - 5)), None);
    assert_eq!(on_a_small_stack(nested("!(", (MAX_TEXT - 5) / 3)), None);
    assert_eq!(
        on_a_small_stack(nested("cpu<1||(", (MAX_TEXT - 5) / 9)),
        None
    );
    assert_eq!(
        on_a_small_stack("(".repeat(MAX_TEXT)),
        Some(ErrorKind::TooManyOpen)
    );
    assert_eq!(
        on_a_small_stack(nested("(", most + 1)),
        Some(ErrorKind::TextTooLong)
    );
}

#[test]
fn a_text_beyond_the_limit_is_refused_whatever_it_says() {
    for text in ["(", "!", "a", "\"", "cpu == 1 || ", "ö", "\0"] {
        let long = text.repeat(64 * 1024 / text.len());
        assert_eq!(on_a_small_stack(long), Some(ErrorKind::TextTooLong));
    }
}

#[test]
fn a_filter_of_the_longest_text_is_read_and_evaluated() {
    let terms = vec!["cpu<1"; (MAX_TEXT + 2) / 7].join("&&");
    let filter = Filter::parse(&terms, &Event::named("sched_switch")).unwrap();
    let steps = filter.program().steps;
    assert_eq!(steps.len(), 585);
    for (index, step) in steps.iter().enumerate() {
        for next in [step.then, step.otherwise] {
            assert!(!matches!(next, Next::Step(later) if usize::from(later) <= index));
        }
    }
    assert!(!filter.matches(&Nothing));
}

#[test]
fn sets_of_cpus_cannot_be_made_to_take_much() {
    struct Large(Event);
    impl Fields for Large {
        fn field(&self, name: &str) -> Option<tracebraid_filter::Field> {
            self.0.field(name)
        }

        fn cpus(&self) -> u16 {
            u16::MAX
        }
    }
    let start = Instant::now();
    let large = Large(Event::named("sched_switch"));
    let terms = vec!["cpu&CPUS{0,N}"; (MAX_TEXT + 2) / 15].join("||");
    assert!(Filter::parse(&terms, &large).is_ok());
    let regions = vec!["0-N:1/2"; (MAX_TEXT - 10) / 8].join(",");
    assert!(Filter::parse(&format!("cpu&CPUS{{{regions}}}"), &large).is_ok());
    assert_eq!(
        Filter::parse("cpu & CPUS{0-8192}", &large)
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidCpuList
    );
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn strings_have_the_length_that_the_kernel_allows() {
    let compared = |length| format!("prev_comm == \"{}\"", "a".repeat(length));
    assert_eq!(kind(&compared(255)), None);
    assert_eq!(kind(&compared(256)), Some(ErrorKind::OperandTooLong));
    let digits = |count| format!("prev_pid == {}", "0".repeat(count));
    assert_eq!(kind(&digits(23)), None);
    assert_eq!(kind(&digits(24)), Some(ErrorKind::OperandTooLong));
}

#[test]
fn an_error_shows_the_text_and_a_caret() {
    for (text, shown) in [
        (
            "prev_pid == 09",
            "Illegal integer value\n  prev_pid == 09\n              ^^",
        ),
        (
            "prev_pid\t=\t0",
            "Invalid operator\n  prev_pid = 0\n           ^",
        ),
        (
            "prev_pid == 0 &&",
            "Meaningless filter expression\n  prev_pid == 0 &&\n                  ^",
        ),
        ("größe == 0", "Field not found\n  größe == 0\n  ^^^^^"),
        ("", "No filter found\n  \n  ^"),
        ("== 0", "The name of a field is expected\n  == 0\n  ^"),
    ] {
        let error = Filter::parse(text, &Event::named("sched_switch")).unwrap_err();
        assert_eq!(error.to_string(), shown);
    }
    let far = format!(
        "{} && prev_pid = 0",
        vec!["prev_pid == 0"; 100].join(" && ")
    );
    let shown = Filter::parse(&far, &Event::named("sched_switch"))
        .unwrap_err()
        .to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let caret = lines[2].find('^').unwrap();
    assert_eq!(lines[1].chars().nth(caret), Some('='));
    assert!(lines[1].chars().count() < 130);
}

#[test]
fn a_value_of_another_form_than_the_field_counts_as_missing() {
    struct Other(Value<'static>);
    impl Values for Other {
        fn value(&self, _: u16) -> Value<'_> {
            self.0
        }

        fn thread(&self) -> Option<i32> {
            None
        }

        fn cpu(&self) -> Option<u32> {
            None
        }

        fn comm(&self) -> Option<[u8; 16]> {
            None
        }
    }
    let event = Event::named("probe");
    for text in ["u64v == 1", "u64v != 1", "u64v & 1", "str != \"a\""] {
        let filter = Filter::parse(text, &event).unwrap();
        for value in [Value::Missing, Value::Float(1.0), Value::SignedWide(1)] {
            assert!(!filter.matches(&Other(value)), "{text} {value:?}");
        }
    }
    let addresses = Filter::parse("__probe_ip.function == vfs_read", &event).unwrap();
    assert!(addresses.matches(&Other(Value::Unsigned(VFS_READ.start))));
    assert!(!addresses.matches(&Other(Value::Unsigned(VFS_READ.end))));
    assert!(!addresses.matches(&Other(Value::Unsigned(GETPPID.start))));
}

/// Pieces that filters are made of, in any order.
fn scrambled() -> impl Strategy<Value = String> {
    let pieces = [
        "prev_pid",
        "prev_comm",
        "cpu",
        "comm",
        "common_pid",
        " ",
        " ",
        "\t",
        "==",
        "!=",
        "~",
        "<=",
        "&",
        "&&",
        "||",
        "|",
        "!",
        "(",
        ")",
        "\"",
        "'",
        "0",
        "0x1f",
        "-1",
        "a*",
        "[",
        "]",
        "CPUS",
        "{",
        "}",
        "0-1",
        ".function",
        ".ustring",
        "vfs_read",
        "ö",
        "\0",
        "\\",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40)
        .prop_map(|parts| parts.concat())
}

fn is_read_or_refused(text: &str) {
    let event = Event::named("sched_switch");
    match Filter::parse(text, &event) {
        Ok(filter) => {
            filter.matches(&Nothing);
            let printed = filter.to_string();
            let again = Filter::parse(&printed, &event).unwrap();
            assert_eq!(again.to_string(), printed);
        }
        Err(error) => {
            assert!(error.column() <= text.len());
            assert!(error.to_string().contains('^'));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_in_any_order_are_read_or_refused(text in scrambled()) {
        is_read_or_refused(&text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        is_read_or_refused(&text);
    }
}
