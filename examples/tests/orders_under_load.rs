//! `orders` and `orders-load`, as a user would run them.
#![cfg(target_os = "linux")]

mod service;

use std::process::Command;

use service::{Scratch, Service};

#[test]
fn every_request_is_answered_and_each_eighth_turn_is_declined() {
    let data = Scratch::create("orders-answers");
    let service = Service::start(&["--data", data.path()]);
    let (good, text) = service.load(&["--rate", "200", "--seconds", "1"]);
    assert!(good, "{text}");
    assert!(text.starts_with("200 answers in "), "{text}");
    // Each of 4 connections takes 50 turns from its own number on; turns 7, 15, … 47 are declined.
    assert!(text.contains("  402 × 24"), "{text}");
    assert!(!text.contains("failed:"), "{text}");
}

#[test]
fn at_rate_max_a_connection_asks_as_soon_as_it_was_answered() {
    let data = Scratch::create("orders-max");
    let service = Service::start(&["--data", data.path(), "--no-fsync"]);
    let arguments = ["--rate", "max", "--seconds", "1", "--connections", "1"];
    let (good, text) = service.load(&arguments);
    assert!(good && text.contains("(asked for max)"), "{text}");
    let number = |word: &str| -> Option<usize> { word.parse().ok() };
    let answers = text.split(' ').next().and_then(number).expect("a number");
    let declined = text.split("402 × ").nth(1);
    let declined = declined.and_then(|rest| number(rest.split_whitespace().next()?));
    // No turn is left out: turns 7, 15, 23, … are declined.
    assert!(answers > 8, "{text}");
    assert_eq!(declined, Some(answers / 8), "{text}");
}

#[test]
fn a_connection_of_either_version_of_http_is_served() {
    let data = Scratch::create("orders-http2");
    let service = Service::start(&["--data", data.path()]);
    let (good, text) = service.load(&["--http2", "--rate", "64", "--seconds", "1"]);
    assert!(good, "{text}");
    assert!(text.starts_with("64 answers in "), "{text}");
    // Turns 7 and 15 of each of 4 connections are declined.
    assert!(text.contains("  402 × 8"), "{text}");
}

#[test]
fn an_order_is_found_after_a_restart() {
    let data = Scratch::create("orders-restart");
    let directory = data.path();
    let first = Service::start(&["--data", directory]);
    assert!(
        first
            .load(&["--rate", "50", "--seconds", "1", "--connections", "1"])
            .0
    );
    drop(first);

    let second = Service::start(&["--data", directory, "--no-fsync"]);
    let (good, text) = second.load(&["--rate", "8", "--seconds", "1", "--connections", "1"]);
    // A number given twice would violate the table's key, which is a 500.
    assert!(good, "{text}");
    assert!(text.contains("  201 × 6"), "{text}");
}

#[test]
fn the_load_driver_refuses_addresses_that_are_not_this_machine_s() {
    let output = Command::new(env!("CARGO_BIN_EXE_orders-load"))
        .arg("192.0.2.1:80")
        .output()
        .expect("orders-load runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no loopback address"));
}

#[test]
fn a_service_that_is_gone_is_a_failure_of_the_load() {
    let data = Scratch::create("orders-gone");
    let mut service = Service::start(&["--data", data.path()]);
    service.kill();
    let (good, text) = service.load(&["--seconds", "1"]);
    assert!(!good);
    assert!(text.contains("failed: "), "{text}");
}
