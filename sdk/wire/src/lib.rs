//! What the bytes mean that an instrumented program and a bridge share.
//!
//! Three things cross from one to the other, all of them plain little-endian bytes:
//!
//! * the **ELF note** `tracebraid` of each executable or library ([`note`]): where its tables are;
//! * the **tables** ([`table`]): one row a site (a place in code), one row a tracepoint;
//! * the **schema** ([`schema`]) of a tracepoint: provider, name, fields and their [`kind`]s.
//!
//! All of it can be read from the file alone, without running it: rows hold self-relative 32-bit
//! offsets, so nothing needs a relocation. The crate allocates nothing, depends on nothing and
//! takes every byte for hostile.
#![no_std]
#![forbid(unsafe_code)]

pub mod glob;
pub mod kind;
pub mod note;
pub mod record;
pub mod region;
pub mod schema;
pub mod table;
