//! A machine of numbers: kernels as in a sweep, and hidden events that are counted with noise.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod events;
pub mod kernels;

pub use events::{Hidden, HiddenKind, Machine};
pub use kernels::table;
