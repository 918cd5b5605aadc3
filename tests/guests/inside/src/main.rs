//! The program inside an emulated machine: its process 1, and the suite that tests the tool there.
//!
//! `cargo xtask guests` builds it without shared libraries; `cargo xtask ci` takes the workspace's build for
//! x86-64, with the libraries. Both put it into an initial RAM disk, with the command-line tool and a few
//! programs of known length, and read the suite's output. The kernel's command line selects the cases by
//! `machine=NAME`.
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
