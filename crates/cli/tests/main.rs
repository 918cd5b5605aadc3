//! The tool, run as users run it.
//!
//! All files are modules of one program, because each test program is linked and lint-checked by itself.

#[cfg(all(feature = "fake-devices", target_os = "linux", target_arch = "x86_64"))]
#[path = "../../backend/tests/support/fake_devices.rs"]
mod fake_devices;
#[cfg(all(feature = "fake-devices", target_os = "linux"))]
#[path = "../../backend/tests/support/fake_mac.rs"]
mod fake_mac;
mod support;

mod advise;
mod agreement;
mod by_code;
mod catalogue;
mod catalogue_json;
mod ci_action;
mod claims;
mod compare;
mod convert;
mod event_files;
mod exports;
mod failures;
#[cfg(feature = "fake-devices")]
mod gpu;
#[cfg(feature = "fake-devices")]
mod kperf;
mod machine;
mod markers;
mod metrics;
#[cfg(feature = "fake-devices")]
mod msr;
mod pictures;
mod record;
mod refused;
#[cfg(feature = "fake-devices")]
mod registers;
mod reverse;
mod run;
#[cfg(feature = "fake-devices")]
mod selfcounts;
mod selftest;
mod simulated;
mod soft;
mod stat;
mod streams;
mod surroundings;
#[cfg(feature = "fake-devices")]
mod sweep;
mod traces;
mod tutorial;
