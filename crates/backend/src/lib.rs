//! The sources of counts, and the launcher of commands.
//!
//! A source opens what the plan says, or says why not ([`Refusal`](cyclometer_core::Refusal)). It never
//! scales, guesses, retries with something else, or chooses: `session` does, by data.
#![forbid(unsafe_code)]

#[cfg(unix)]
mod cgroup;
#[cfg(unix)]
mod launch;
#[cfg(unix)]
mod os;
#[cfg(target_os = "linux")]
mod perf;
#[cfg(target_os = "linux")]
mod sources;
#[cfg(not(target_os = "linux"))]
#[path = "sources_other.rs"]
mod sources;
#[cfg(unix)]
mod usage;

#[cfg(unix)]
pub use launch::{Attached, Launcher};
#[cfg(unix)]
pub use os::OsSource;
#[cfg(target_os = "linux")]
pub use perf::PerfSource;
pub use sources::sources;
