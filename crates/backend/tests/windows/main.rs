//! Windows of events on simulated chips: every number in a row is the true count.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod errors;
mod golden;
mod properties;
mod threads;
mod troubles;
