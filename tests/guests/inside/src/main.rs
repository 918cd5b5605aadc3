//! What runs inside an emulated machine: process 1 of it, and the suite that tries the programs there.
//!
//! `cargo xtask guests` builds it without shared libraries, puts it with the command-line tool and a few programs of known
//! length into an initial RAM disk, and reads what it prints. The kernel's command line says by `machine=NAME` which cases run.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the console is how the suite tells what it found"
)]

#[cfg(target_os = "linux")]
mod apple;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod first;
#[cfg(target_os = "linux")]
mod msr;
#[cfg(target_os = "linux")]
mod nothing;
#[cfg(target_os = "linux")]
mod overflows;
#[cfg(target_os = "linux")]
mod perf;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod reads;
#[cfg(target_os = "linux")]
mod regions;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod selftest;
#[cfg(target_os = "linux")]
mod stat;
#[cfg(target_os = "linux")]
mod system;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    first::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this is the first process of an emulated Linux machine");
}
