//! Samples of kperf: records of the kernel's trace buffer, to windows of threads.
//!
//! ```text
//!   sys::macos::Kdebug ──> KdebugRecords ──> ThreadSamples ──> SampleRows ──> core::window::WindowRow
//!   bytes                  one record  counters of a     differences between
//!                                      thread, at once   samples of a thread
//! ```
//!
//! An interrupt of a counter writes `PERF_KPC_HNDLR` at its start and end. In between, the action writes
//! what it notes: the accumulated counters of the interrupted thread, four values a record
//! (`PERF_KPC_DATA_THREAD`). A timer writes the latter alone. Each CPU writes its records in order; those of
//! different CPUs alternate.
//!
//! The bytes come from the kernel, and are not trusted: any bytes give records, samples or a number of broken
//! ones, in bounded memory.
//!
//! # Source
//!
//! xnu `osfmk/kperf/buffer.h`, `osfmk/kperf/kperf_kpc.c`, `osfmk/kern/kpc_common.c` (`kpc_sample_kperf`),
//! `bsd/sys/kdebug_private.h` (`kd_buf`).

mod record;
mod rows;
mod samples;
mod sampling;

pub use record::{KdebugEvent, KdebugRecord, KdebugRecords};
pub use rows::SampleRows;
pub use samples::{OverflowInterrupt, ThreadSample, ThreadSamples};
pub use sampling::{
    KperfWindows, SampledCounters, SampledThreads, SamplingTools, SamplingTrigger, least_period,
};
