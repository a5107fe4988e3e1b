//! (being written)
pub mod value;
mod site;
mod emit;
mod fields;
#[doc(hidden)]
pub mod __private;
pub use value::Value;
