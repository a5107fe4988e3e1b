//! What to probe and what comes back; the only user of libbpf.
pub mod record;
pub mod spec;
