//! The sources of counts, and the launcher of commands.
//!
//! A source opens the events of the plan, or reports why it cannot ([`Refusal`](cyclometer_core::Refusal)). A
//! source never scales, guesses, falls back or chooses: `session` does, by data.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod affinity;
#[cfg(not(target_os = "linux"))]
#[path = "affinity_other.rs"]
mod affinity;
#[cfg(unix)]
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "perf, which has a hierarchy of its own, is Linux's")
)]
mod cgroup;
mod code_mappings;
#[cfg(all(unix, not(feature = "fake-devices")))]
mod counter_accounts;
#[cfg(all(unix, feature = "fake-devices"))]
#[path = "counter_accounts_fake.rs"]
mod counter_accounts;
#[cfg(target_os = "linux")]
pub mod gpu;
#[cfg(unix)]
pub mod kdebug;
#[cfg(unix)]
pub mod kperf;
#[cfg(unix)]
mod launch;
mod miss_counts;
#[cfg(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))]
mod miss_run;
#[cfg(all(unix, not(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))))]
#[path = "miss_run_other.rs"]
mod miss_run;
mod modelled_counts;
#[cfg(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))]
mod modelled_run;
#[cfg(all(unix, not(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))))]
#[path = "modelled_run_other.rs"]
mod modelled_run;
#[cfg(all(feature = "registers", target_os = "linux", target_arch = "x86_64"))]
pub mod msr;
#[cfg(not(all(feature = "registers", target_os = "linux", target_arch = "x86_64")))]
#[path = "msr_other.rs"]
pub mod msr;
#[cfg(unix)]
mod os;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod own_counts;
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
#[path = "own_counts_other.rs"]
mod own_counts;
#[cfg(target_os = "linux")]
mod perf;
#[cfg(not(target_os = "linux"))]
#[path = "perf_other.rs"]
mod perf;
pub mod registers;
#[cfg(unix)]
mod selfcounts;
#[cfg(all(unix, feature = "simulated"))]
pub mod sim;
#[cfg(all(unix, not(feature = "simulated")))]
#[path = "sim_other.rs"]
pub mod sim;
#[cfg(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))]
mod soft;
#[cfg(all(unix, not(all(feature = "software-pmu", target_os = "linux", target_arch = "x86_64"))))]
#[path = "soft_other.rs"]
mod soft;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod soft_events;
#[cfg(all(unix, not(all(target_os = "linux", target_arch = "x86_64"))))]
#[path = "soft_events_other.rs"]
mod soft_events;
#[cfg(unix)]
mod soft_settings;
#[cfg(target_os = "linux")]
mod sources;
#[cfg(not(target_os = "linux"))]
#[path = "sources_other.rs"]
mod sources;
#[cfg(feature = "registers")]
pub mod sysreg;
#[cfg(not(feature = "registers"))]
#[path = "sysreg_other.rs"]
pub mod sysreg;
mod thread_events;
mod thread_name;
#[cfg(unix)]
mod usage;

pub use affinity::{AffinityGuard, bind_to, on_cpu};
#[cfg(unix)]
pub use cgroup::counted_cgroup_root;
pub use code_mappings::code_mappings;
#[cfg(target_os = "linux")]
pub use cyclometer_sys::ring::{ForkRecord, MappingRecord, TaskRecord};
pub use cyclometer_sys::user_read::Serialisation;
#[cfg(unix)]
pub use launch::{Attached, Launcher, Pinned, StandardInput, check_program, standard_output_is_null};
pub use miss_counts::{MissRun, MissRunKind, MissSums, WindowMisses};
#[cfg(unix)]
pub use miss_run::miss_run;
pub use modelled_counts::{ModelRunSettings, ModelledRun};
#[cfg(unix)]
pub use modelled_run::modelled_run;
#[cfg(unix)]
pub use os::OsSource;
#[cfg(target_os = "linux")]
pub use perf::PerfSource;
#[cfg(target_os = "linux")]
pub use perf::overflow::{
    FurtherPeriod, Mode, OverflowRecord, OverflowSample, OverflowSampling, Overflows, Wake,
};
pub use perf::{thread_events, thread_refusal};
#[cfg(unix)]
pub use selfcounts::SelfCountsSource;
#[cfg(unix)]
pub use soft::{Software, baseline_lacks, counted_file, name_files, software};
#[cfg(unix)]
pub use soft_events::event_number;
#[cfg(unix)]
pub use soft_settings::{SoftwareSettings, WantedEvents};
pub use sources::{region_sources, sources};
#[cfg(feature = "registers")]
pub use sysreg::{Port, PortDenied, SysregAccess, SysregBus};
pub use thread_events::ThreadEvent;
pub use thread_name::thread_name;
