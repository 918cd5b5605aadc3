//! Windows of events on simulated chips: every number in a row is what really happened.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod errors;
mod golden;
mod properties;
mod threads;
mod troubles;
