//! The C interface: handles, error codes and messages over the façade.
//!
//! Every function catches panics, checks its pointers and keeps the last error in the monitor that it was
//! called on. `include/cyclometer.h` is made from these files; a test compares.
//!
//! # Safety
//!
//! C programs promise the following, for all functions. A pointer to an object is null, or was handed out by
//! this library and not freed. No thread uses an object while it is freed. A text is null or ends with a zero
//! byte. A pointer for a result is null, or as many bytes can be written there as the size beside it says.
#![allow(non_camel_case_types, reason = "the names of the header")]
#![allow(clippy::missing_safety_doc, reason = "one contract for all functions, above and in the header")]

mod api;
mod counters;
mod counts;
mod info;
mod markers;
mod monitor;
mod pointers;
mod regions;
mod samples;
mod status;

pub use api::{cyclometer_api, cyclometer_api_t, cyclometer_event_t};
pub use counters::{
    cyclometer_configure, cyclometer_disable, cyclometer_enable, cyclometer_read, cyclometer_read_all,
    cyclometer_reset,
};
pub use counts::{
    cyclometer_count_state_t, cyclometer_count_t, cyclometer_counts_calls, cyclometer_counts_event,
    cyclometer_counts_find, cyclometer_counts_free, cyclometer_counts_get, cyclometer_counts_label,
    cyclometer_counts_length, cyclometer_counts_name, cyclometer_counts_reason, cyclometer_counts_t,
    cyclometer_provenance_t,
};
pub use info::{
    cyclometer_arch_t, cyclometer_capabilities, cyclometer_capabilities_t, cyclometer_ladder,
    cyclometer_message, cyclometer_remedy, cyclometer_status_text, cyclometer_version,
};
pub use markers::{cyclometer_marker_attached, cyclometer_marker_begin, cyclometer_marker_end};
pub use monitor::{
    cyclometer_close, cyclometer_load, cyclometer_open, cyclometer_scope_t, cyclometer_set_scope,
    cyclometer_t,
};
pub use regions::{cyclometer_region_begin, cyclometer_region_end, cyclometer_region_t, cyclometer_total};
pub use samples::{
    cyclometer_sample_t, cyclometer_samples_close, cyclometer_samples_lost, cyclometer_samples_next,
    cyclometer_samples_open, cyclometer_samples_reason, cyclometer_samples_t,
};
pub use status::cyclometer_status_t;
