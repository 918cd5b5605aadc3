//! Whether translated code does what the program would have done, at each of its instructions.
//!
//! - *Lockstep*: every instruction of translated code that is executed is compared with the program stepping
//!   natively.
//! - *Detach*: at every instruction of translated code the program is detached, or leaves it for a moment.
//! - *Kill*: at every instruction of translated code the program is killed, and counted up to there.
//! - *Fuzz*: random programs, natively and translated; `CYCLOMETER_FUZZ_PROGRAMS` and `CYCLOMETER_FUZZ_SEED`
//!   choose how many, and which is the first.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod compare;
mod detach;
mod elf;
mod fuzz;
mod instruction_pool;
mod kill;
mod lab;
mod lockstep;
mod probes;
mod programs;
mod random;
