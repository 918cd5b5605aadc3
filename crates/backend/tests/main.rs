//! The sources on this machine, and on simulated chips.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod common;
#[cfg(all(feature = "fake-devices", target_os = "linux", target_arch = "x86_64"))]
#[path = "support/fake_devices.rs"]
mod fake_devices;

mod kperf_sampling;
mod launch;
#[cfg(feature = "fake-devices")]
mod msr;
mod os;
mod overflows;
mod perf;
mod perf_windows;
mod register_windows;
mod registers;
mod soft;
mod soft_windows;
