//! The lowest layer: one safe function for each instruction, system call and device, and owning types.
//!
//! This crate contains no policy. Every function either succeeds, or returns the error number of the
//! operating system. Unsafe code is allowed in this crate: one operation in each block, each with its reason.

#[cfg(target_os = "linux")]
pub mod affinity;
#[cfg(all(target_arch = "aarch64", any(target_os = "linux", target_os = "macos")))]
pub mod apple;
#[cfg(target_os = "linux")]
pub mod apple_pmu_device;
#[cfg(unix)]
pub mod counter_accounts;
#[cfg(target_arch = "x86_64")]
pub mod cpuid;
#[cfg(target_os = "linux")]
pub mod daemon;
#[cfg(unix)]
pub mod descriptor;
#[cfg(target_os = "linux")]
pub mod filesystem;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "filesystem_other.rs"]
pub mod filesystem;
#[cfg(target_os = "linux")]
pub mod folder_changes;
#[cfg(not(target_os = "linux"))]
#[path = "folder_changes_other.rs"]
pub mod folder_changes;
#[cfg(unix)]
pub mod fork;
#[cfg(unix)]
mod fork_handler;
pub mod host;
#[cfg(unix)]
pub mod identity;
#[cfg(target_os = "linux")]
pub mod invoker;
#[cfg(not(target_os = "linux"))]
#[path = "invoker_other.rs"]
pub mod invoker;
pub mod macos;
#[cfg(target_os = "linux")]
pub mod marks;
#[cfg(target_os = "linux")]
mod mask;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory;
#[cfg(all(target_os = "linux", not(target_env = "gnu")))]
#[path = "memory_other.rs"]
mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod msr;
#[cfg(target_os = "linux")]
pub mod nvml;
#[cfg(target_os = "linux")]
pub mod perf;
#[cfg(unix)]
pub mod process;
pub mod process_list;
pub mod ring;
#[cfg(target_os = "linux")]
pub mod shared;
#[cfg(unix)]
pub mod signals;
#[cfg(unix)]
pub mod stream;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod trace;
pub mod tracer_call;
pub mod user_read;
