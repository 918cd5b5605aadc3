//! macOS: libraries that are opened at run time, and the private frameworks behind Apple's PMU.
//!
//! No framework is linked. The path of a library is given by the caller, so the same code runs on Linux,
//! where tests open a library that behaves as macOS does.

#[cfg(unix)]
mod kdebug;
mod kpc;
#[cfg(unix)]
mod kpc_functions;
#[cfg(unix)]
mod library;
mod offered;
#[cfg(unix)]
mod sampler;

#[cfg(unix)]
pub use kdebug::{KDEBUG_RECORD_BYTES, Kdebug, KdebugFunctions};
pub use kpc::{Kpc, KpcClasses};
#[cfg(unix)]
pub use kpc_functions::KpcFunctions;
#[cfg(unix)]
pub use library::{Library, LibraryError};
pub use offered::KpcCounters;
#[cfg(unix)]
pub use sampler::{KperfSampler, SAMPLER_THREAD_COUNTERS, SamplerFunctions};

/// The private framework that counts.
///
/// # Source
///
/// hashintel/hash `libs/darwin-kperf/sys`: the file lies in the shared cache, and `dlopen` finds it there.
pub const KPERF: &str = "/System/Library/PrivateFrameworks/kperf.framework/kperf";
