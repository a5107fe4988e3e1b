//! `bridge-cli` as a library: it attaches to a running process, takes its events and the kernel's, and
//! gives them out as one stream in order of time.
//!
//! An event goes one way: source → merge → symbolize → export. No later stage is imported by an earlier one, and
//! every option reaches this library as a plain struct; only `cli` knows of argument parsing.

pub mod attach;
pub mod cli;
pub mod condition;
pub mod definition;
pub mod doctor;
pub mod error;
pub mod event;
pub mod export;
pub mod filter;
pub mod glob;
pub mod instructions;
pub mod keys;
pub mod launch;
pub mod list;
pub mod merge;
pub mod mount;
pub mod nearest;
pub mod print;
pub mod probe;
pub mod resolve;
pub mod selector;
pub mod snapshot;
pub mod source;
pub mod stack;
pub mod stat;
pub mod summary;
pub mod symbolize;
pub mod syscalls;
pub mod target;
pub mod tracefs;

pub use error::{Error, ErrorKind, Result};
