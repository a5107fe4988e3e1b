//! `orders-load`: asks `orders` for work for a fixed time, over loopback only, at a fixed rate or as fast as
//! it is answered.
//!
//! At a fixed rate each connection has its own timetable. A request that could not be sent when it was due, since
//! the one before was slow, is still measured from the time it was due: otherwise a service that
//! stands still for a second would show one slow request instead of all that waited.
//!
//! Of each eight requests six order something, one looks up an order, and one asks for a charge
//! that the service declines, so that its error paths are seen too.

mod client;
mod connection;
mod http2;
mod options;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::options::Options;
use crate::report::Report;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("orders-load: {message}\n\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.connections)
            .map(|number| scope.spawn(move || drive(&options, number, start)))
            .collect();
        let panicked = |_| Report::broken("a thread of the load driver panicked".to_owned());
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
    });
    let report = Report::merge(reports);
    print!("{}", report.render(&options, start.elapsed()));
    if report.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One connection's share of the work.
fn drive(options: &Options, number: u32, start: Instant) -> Report {
    let mut client = match Client::open(options.address, options.http2) {
        Ok(client) => client,
        Err(error) => return Report::broken(format!("{}: {error}", options.address)),
    };
    let mut report = Report::default();
    let mut last_order = None;
    let connections = f64::from(options.connections);
    let interval = options
        .rate
        .map(|rate| Duration::from_secs_f64(connections / rate));
    // The connections' timetables interleave.
    let mut due = start + interval.unwrap_or_default() * number / options.connections;
    let end = start + options.duration;
    for turn in u64::from(number).. {
        if due >= end {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let answer = match (turn % 8, last_order) {
            (3, Some(id)) => client.get(&format!("/orders/{id}")),
            (7, _) => client.post("/orders", &order(turn, -1)),
            _ => client.post("/orders", &order(turn, 4200)),
        };
        match answer {
            Ok(answer) => {
                last_order = answer.order().or(last_order);
                report.add(answer.status, due.elapsed());
            }
            Err(error) => {
                report.fail(error.to_string());
                break;
            }
        }
        due = match interval {
            Some(interval) => due + interval,
            None => Instant::now(),
        };
        // Far behind, the rest of the timetable is dropped, so that the driver ends in time.
        if Instant::now() > end + Duration::from_secs(5) {
            report.fail("more than five seconds behind the timetable".to_owned());
            break;
        }
    }
    report
}

/// An order's JSON.
fn order(turn: u64, cents: i64) -> String {
    let user = ["ada", "grace", "edsger", "barbara"][(turn % 4) as usize];
    let item = ["tea", "cup", "kettle", "spoon"][(turn / 4 % 4) as usize];
    format!(r#"{{"user":"{user}","cents":{cents},"items":["{item}","sugar"]}}"#)
}
