//! A program that chose its options before it wrapped its subscriber.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use tracebraid::Options;
use tracing::subscriber::NoSubscriber;

#[test]
fn wrapping_leaves_the_options_of_an_earlier_init_as_they_are() {
    let options = Options::new().no_thread().record("tracing_options:*");
    tracebraid::init_with(options).unwrap();
    let _until_the_end =
        tracing::subscriber::set_default(tracebraid::tracing::wrap(NoSubscriber::default()));
    assert!(
        tracebraid::status().helper.is_err(),
        "no thread was asked for"
    );
    tracing::debug!(n = 1, "recorded unasked");
    let points = tracebraid::tracepoints();
    let ours: Vec<_> = points
        .iter()
        .filter(|point| point.provider() == "tracing_options")
        .collect();
    assert!(!ours.is_empty());
    assert!(ours.iter().all(|point| point.is_enabled()), "{ours:?}");
}
