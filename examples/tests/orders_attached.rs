//! `orders` asked over HTTP/2 while the bridge is attached: what h2, tower-http, the service and the kernel
//! say is one stream, in order, each thing within what it is part of.

#[cfg(target_os = "linux")]
mod attached;
#[cfg(target_os = "linux")]
mod service;

#[cfg(target_os = "linux")]
fn main() {
    use tracebraid_tests::requirement::{self, Need, trial};

    requirement::run(vec![trial(
        "libraries_the_service_and_the_kernel_are_one_stream_in_order_and_nested",
        &[Need::Root, Need::Tracefs],
        attached::one_stream,
    )]);
}

#[cfg(not(target_os = "linux"))]
fn main() {}
