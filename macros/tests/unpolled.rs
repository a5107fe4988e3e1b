//! A program whose only tracepoints are in futures that nobody polls: their returns may be compiled, for
//! their drop, and their sites not.

use tracebraid::tracepoint;

#[tracepoint]
async fn unpolled(n: u64) -> u64 {
    n
}

#[test]
fn a_program_whose_tracepoints_have_no_site_links_and_lists_them() {
    let future = unpolled(std::hint::black_box(1));
    // Those of the SDK itself, with its feature `tracing`, are there in any program.
    let all = tracebraid::tracepoints().into_iter();
    for tracepoint in all.filter(|tracepoint| tracepoint.provider() != "tracing") {
        assert!(tracepoint.name().starts_with("unpolled"), "{tracepoint:?}");
    }
    tracebraid::enable("*").unwrap();
    drop(future);
}
