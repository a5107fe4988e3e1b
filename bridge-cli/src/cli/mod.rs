//! The command line: arguments in, plain option structs out, an exit status back.

mod args;
mod report;
