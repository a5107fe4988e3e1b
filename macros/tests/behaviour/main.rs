//! What is emitted, when and in which order, seen by in-process probes.
#![forbid(unsafe_code)]

mod description;
mod fields;
mod functions;
mod futures;
mod log;
