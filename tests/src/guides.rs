//! The guides' examples, compiled and run as tests.

#[doc = include_str!("../../docs/sdk.md")]
struct Sdk;

#[doc = include_str!("../../docs/tracing.md")]
struct Tracing;
