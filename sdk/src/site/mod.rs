//! What an expansion leaves in the program.
//!
//! The proc macros emit no assembly of their own: they call the macros here, which know the platform.

mod absent;
mod gate;
mod point;
