//! What an expansion leaves in the program.

mod gate;
mod point;
