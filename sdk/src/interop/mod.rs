//! Other people's instrumentation, as tracepoints of ours.

pub mod tracing;
