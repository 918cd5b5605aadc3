//! Detection replayed: recorded machines, recordings with a fact changed, and garbage.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, as tests may")]

mod garbage;
mod golden;
mod ladder;
mod support;
