//! The toolkit, without hardware.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

mod energy;
mod event_files;
mod host_events;
mod metrics;
mod metrics_tables;
mod metrics_values;
mod monitor;
mod monitor_in_software_pmu;
mod passes;
mod recipes_in_software_pmu;
mod record;
mod routes;
#[cfg(feature = "fake-devices")]
mod selfcounts;
mod short_windows;
mod soft_table;
mod standing;
