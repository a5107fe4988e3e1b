//! Real sessions against this very process: it probes itself and counts its own hits.
//!
//! Without the rights each test is ignored and says why; with `TRACEBRAID_REQUIRE=bpf` it fails.

mod faults;
mod kernel;
mod stubs;
mod user;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tracebraid_bpf::record::{Lost, Record};
use tracebraid_bpf::spec::{Filter, Spec};
use tracebraid_bpf::{ErrorKind, Options, Session};

type Outcome = Result<(), Failed>;

/// The sentence that a test proves, and the test.
type Test = (&'static str, fn() -> Outcome);

fn main() {
    let mut arguments = Arguments::from_args();
    // The tests probe the same stubs of the same process.
    arguments.test_threads = Some(1);
    let required = std::env::var("TRACEBRAID_REQUIRE")
        .is_ok_and(|wanted| wanted.split(',').any(|word| word == "bpf"));
    let rights = missing();
    let faults = rights.clone().or_else(faults::missing);
    let groups = [
        (kernel::TESTS, &rights),
        (user::TESTS, &rights),
        (faults::TESTS, &faults),
    ];
    let trials = groups.into_iter().flat_map(|(tests, missing)| {
        tests.iter().map(|&(name, test)| {
            let missing = missing.clone();
            Trial::ignorable_test(name, move || match missing {
                Some(reason) if required => Err(format!("required, but {reason}").into()),
                Some(reason) => Ok(Completion::ignored_with(reason)),
                None => test().map(|()| Completion::Completed),
            })
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Why no session can be started here, if so.
fn missing() -> Option<String> {
    match Session::start(&Spec::default()) {
        Ok(_) => None,
        Err(error) if matches!(error.kind(), ErrorKind::Permission { .. }) => {
            Some(error.to_string())
        }
        Err(error) => Some(format!("{error:?}")),
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
