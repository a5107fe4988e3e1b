//! Attaching, one file a kind. Every attachment is a link, and a link is a file descriptor.

pub(crate) mod arguments;
pub(crate) mod event;
pub(crate) mod fentry;
pub(crate) mod function;
pub(crate) mod kprobe_multi;
pub(crate) mod raw;
pub(crate) mod tracepoint;
pub(crate) mod user;
