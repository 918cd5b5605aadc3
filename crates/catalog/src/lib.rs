//! From an event's name to the candidates that count it on a machine.
//!
//! The tables and the host provide the names. The tables are those of the kernel's generic events (with
//! perf's spellings and our portable ones), of the operating system's accounting, and of the software PMU.
//! The host's own names in sysfs arrive as plain values in [`Machine`]. This crate never accesses the host.
#![forbid(unsafe_code)]

pub mod about;
mod accounts;
pub mod among;
pub mod claims;
pub mod cpus;
pub mod decode;
mod description;
mod device;
pub mod encode;
mod energy;
mod generic;
pub mod glossary;
mod gpu;
mod host;
mod host_event;
mod libpfm;
mod listing;
mod meaning;
pub mod metric;
mod notes;
mod pmu_names;
pub mod portable;
mod registers;
mod resolve;
pub mod search;
pub mod select;
mod soft;
mod suggest;
pub mod table;
mod terms;
pub mod ways;

#[cfg(test)]
mod testing;

use cyclometer_core::Machine;

pub use host::{Tables, table_id};
pub use listing::{Listing, ListingKind, count_vendor, list, list_vendor};
pub use resolve::{DEFAULT_EVENTS, resolve, resolve_list, resolve_list_in};
pub use soft::{SoftEvent, soft_events};
pub use suggest::nearest as nearest_names;

/// The `perf_event_attr.type` values of the kernel's own classes.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `enum perf_type_id`.
pub mod perf_type {
    /// Generic hardware events.
    #[doc(alias = "PERF_TYPE_HARDWARE")]
    pub const HARDWARE: u32 = 0;
    /// Kernel software events.
    #[doc(alias = "PERF_TYPE_SOFTWARE")]
    pub const SOFTWARE: u32 = 1;
    /// Generic cache events.
    #[doc(alias = "PERF_TYPE_HW_CACHE")]
    pub const HW_CACHE: u32 = 3;
    /// Raw codes of the (first) core PMU.
    #[doc(alias = "PERF_TYPE_RAW")]
    pub const RAW: u32 = 4;
}

fn has_core_pmu(machine: &Machine) -> bool {
    machine.core_pmus().next().is_some()
}
