//! A machine of numbers: kernels as in a sweep, and hidden events that are counted with noise.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "the table is ours")]

pub mod events;
pub mod kernels;

pub use events::{Hidden, HiddenKind, Machine};
pub use kernels::table;
