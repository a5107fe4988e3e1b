//! Real sessions against this very process: it probes itself and counts its own hits.
//!
//! Without the rights each test is ignored and says why; with `TRACEBRAID_REQUIRE=bpf` it fails.

mod counts;
mod faults;
mod kernel;
mod order;
mod programs;
mod semaphores;
mod solo;
mod stacks;
mod stubs;
mod text;
mod tracepoints;
mod user;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tracebraid_bpf::record::{Lost, Record};
use tracebraid_bpf::spec::{Fetch, Filter, KernelEvent, KernelProbe, ProbeId, Spec};
use tracebraid_bpf::{ErrorKind, FetchBy, Options, Session};

type Outcome = Result<(), Failed>;

/// The sentence that a test proves, and the test.
type Test = (&'static str, fn() -> Outcome);

/// One that is run for each way of attaching user probes.
type UserTest = (&'static str, fn(&Options) -> Outcome);

fn main() {
    if let Ok(held) = std::env::var(semaphores::HOLD) {
        let (way, process) = held.split_once(' ').unwrap_or_default();
        let options = if way == "perf" {
            perf()
        } else {
            Options::default()
        };
        return semaphores::hold(process.parse().unwrap_or(0), &options);
    }
    let mut arguments = Arguments::from_args();
    // The tests probe the same stubs of the same process.
    arguments.test_threads = Some(1);
    let required = std::env::var("TRACEBRAID_REQUIRE")
        .is_ok_and(|wanted| wanted.split(',').any(|word| word == "bpf"));
    let mut trials = Vec::new();
    let mut add = |name: String, missing: Option<String>, test: Box<dyn Fn() -> Outcome + Send>| {
        trials.push(Trial::ignorable_test(name, move || match &missing {
            Some(reason) if required => Err(format!("required, but {reason}").into()),
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => test().map(|()| Completion::Completed),
        }));
    };
    for (tests, missing) in [
        (kernel::TESTS, missing(&system_call(), &Options::default())),
        (
            stacks::KERNEL_TESTS,
            missing(&system_call(), &Options::default()),
        ),
        (
            tracepoints::TESTS,
            named().map_or_else(Some, |spec| missing(&spec, &Options::default())),
        ),
        (
            solo::TESTS,
            named().map_or_else(Some, |spec| missing(&spec, &Options::default())),
        ),
    ] {
        for &(name, test) in tests {
            add(name.into(), missing.clone(), Box::new(test));
        }
    }
    for (options, suffix) in [(Options::default(), ""), (perf(), "_the_perf_way")] {
        let rights = missing(&user(), &options);
        let faults = rights.clone().or_else(faults::missing);
        let tracefs = named().map_or_else(Some, |_| None);
        let groups = [
            (user::TESTS, rights.clone()),
            (semaphores::TESTS, rights.clone()),
            (counts::TESTS, rights.clone()),
            (order::TESTS, rights.clone().or(tracefs)),
            (text::TESTS, rights.clone()),
            (programs::TESTS, rights.clone()),
            (stacks::TESTS, rights),
            (faults::TESTS, faults),
        ];
        for (tests, missing) in groups {
            for &(name, test) in tests {
                let options = options.clone();
                let run = Box::new(move || test(&options));
                add(format!("{name}{suffix}"), missing.clone(), run);
            }
        }
    }
    for (fetch_by, suffix) in [
        (FetchBy::Steps, "_step_by_step"),
        (FetchBy::RefusedCode, "_where_the_kernel_refuses_code"),
    ] {
        for &(name, test) in programs::TESTS {
            let mut options = Options::default();
            options.fetch_by = fetch_by;
            let missing = missing(&user(), &options);
            let run = Box::new(move || test(&options));
            add(format!("{name}{suffix}"), missing, run);
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Why no such session can be started here, if so.
fn missing(spec: &Spec, options: &Options) -> Option<String> {
    match Session::start_with(spec, options) {
        Ok(_) => None,
        Err(error) if matches!(error.kind(), ErrorKind::Permission { .. }) => {
            Some(error.to_string())
        }
        Err(error) => Some(format!("{error:?}")),
    }
}

fn system_call() -> Spec {
    let event = KernelEvent::SysEnter(vec![0]);
    Spec {
        kernel: vec![KernelProbe {
            id: ProbeId(0),
            event,
        }],
        ..Spec::default()
    }
}

fn named() -> Result<Spec, String> {
    let format = tracepoints::Format::read("sched", "sched_switch");
    let probe = format
        .map_err(|failed| failed.message().unwrap_or_default().to_owned())?
        .probe(0);
    Ok(Spec {
        tracepoints: vec![probe],
        ..Spec::default()
    })
}

fn user() -> Spec {
    let fetch = Fetch::Slots {
        count: 0,
        text: vec![],
    };
    Spec {
        user: vec![stubs::probe(0, stubs::slots_offset(), 0, fetch)],
        ..Spec::default()
    }
}

/// This process, this thread.
fn mine() -> Filter {
    Filter {
        processes: vec![std::process::id()],
        threads: vec![tid()],
        ..Filter::default()
    }
}

fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    #[allow(unsafe_code)]
    let tid = unsafe { libc::gettid() };
    tid as u32
}

/// Runs `work` under a session and hands back everything that came of it, in order of time.
fn under(spec: &Spec, options: &Options, work: impl FnOnce()) -> Result<Seen, Failed> {
    let mut session = Session::start_with(spec, options).map_err(|error| format!("{error:?}"))?;
    work();
    let mut seen = Seen::default();
    session.finish(&mut seen.records, &mut seen.lost)?;
    seen.records.sort_by_key(|record| record.time);
    seen.session = Some(session);
    Ok(seen)
}

#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    lost: Vec<Lost>,
    session: Option<Session>,
}

/// Fails with both sides where they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, wanted: T) -> Outcome {
    if seen == wanted {
        return Ok(());
    }
    Err(format!("{what}: {seen:?}, but it should be {wanted:?}").into())
}

/// The other way of attaching user probes, for kernels before 6.6.
fn perf() -> Options {
    let mut options = Options::default();
    options.force_perf_uprobes = true;
    options
}
