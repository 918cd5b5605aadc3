//! The parsers of foreign bytes, each as a function of bytes.
//!
//! A target panics where a parser breaks its promise. `cargo xtask mutate` runs each one on changed files of
//! its corpus; the programs of `fuzz/fuzz_targets` run the same functions under libFuzzer.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod mutation;
mod targets;

pub use targets::{SELF_TEST, TARGETS, target, translation_sample};

/// A parser of foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Its name, which is that of its corpus and of its fuzzer.
    pub name: &'static str,
    /// The files or messages that it reads.
    pub reads: &'static str,
    /// Reads bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
}

/// Runs the target with a name.
///
/// # Panics
///
/// Where no target has that name, and where a parser breaks a promise.
pub fn run(name: &str, bytes: &[u8]) {
    match target(name) {
        Some(target) => (target.run)(bytes),
        None => panic!("there is no target {name}"),
    }
}
