//! macOS's kperf as a source of counts: counters of CPUs, and of the calling thread.
//!
//! The kernel has one configuration for the whole machine. A program requests the counters of the power
//! manager beside the others (`CounterHold`), sets a configuration word for each configurable counter
//! (`CounterLayout`), lets the classes of counters count, and reads what each CPU or the calling thread has
//! counted (`KperfCounting`). Everything goes through the trait [`Kpc`], so the same code runs on macOS,
//! and on the library of the tests, which behaves as macOS does.
//!
//! # Source
//!
//! xnu `osfmk/kern/kpc_common.c`, `osfmk/arm64/kpc.c`, `tests/cpu_counters/kpc_tests.c`.

mod counting;
mod hold;
mod layout;
#[cfg(all(not(feature = "fake-devices"), not(target_os = "macos")))]
#[path = "place_elsewhere.rs"]
mod place;
#[cfg(feature = "fake-devices")]
#[path = "place_fake.rs"]
mod place;
#[cfg(all(not(feature = "fake-devices"), target_os = "macos"))]
#[path = "place_macos.rs"]
mod place;
mod refused;
mod windows;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::KperfRefusal;
use cyclometer_core::window::{WindowSpec, Windowing};
use cyclometer_core::{
    Counting, CpuSet, Error, ErrorKind, PartReason, Recovery, Refusal, Result, Rung, Slot, Source, Target,
};
use cyclometer_sys::macos::{Kpc, KpcCounters, KpcFunctions};

use crate::registers::CorePmu;
use counting::{CountedPlace, KperfCounting};
use hold::CounterHold;
use layout::CounterLayout;

pub use hold::KperfSharing;
pub use place::library;

/// The configurable counters that kperf offers, through the library of this build.
///
/// # Errors
///
/// The error number of the call that failed, `ENOENT` without the library.
pub fn probe() -> std::result::Result<KpcCounters, i32> {
    const ENOENT: i32 = 2;
    let kpc = library().and_then(|library| KpcFunctions::open(&library).ok()).ok_or(ENOENT)?;
    KpcCounters::ask(&kpc).map_err(|error| error.raw_os_error().unwrap_or(ENOENT))
}

/// The source over the library of this build; `None` on systems without one.
///
/// # Errors
///
/// Those of [`KperfSource::open_library`].
pub fn source(
    cores: Vec<CorePmu>,
    online: CpuSet,
    (sharing, processes): (KperfSharing, RunningProcesses),
) -> Result<Option<Box<dyn Source>>> {
    let open = |library: std::path::PathBuf| KperfSource::open_library(&library, cores, online);
    let source = library().map(open).transpose()?;
    Ok(source
        .map(|source| -> Box<dyn Source> { Box::new(source.sharing(sharing).running_processes(processes)) }))
}

/// The treatment of processes that run already, whose counters kperf cannot read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RunningProcesses {
    /// They are refused, so that another source counts them.
    #[default]
    Refused,
    /// The counts are those of all CPUs, and say so; rows are those of the process.
    ByCpus,
}

/// Counts by kperf.
pub struct KperfSource {
    kpc: Rc<dyn Kpc>,
    cores: Vec<CorePmu>,
    online: CpuSet,
    sharing: KperfSharing,
    processes: RunningProcesses,
    /// The library, for its other functions; empty where the functions came from elsewhere.
    library: PathBuf,
}

impl KperfSource {
    /// The source over these functions. `cores` are the machine's PMUs, `online` its CPUs.
    pub fn new(kpc: Rc<dyn Kpc>, cores: Vec<CorePmu>, online: CpuSet) -> KperfSource {
        let (sharing, processes) = Default::default();
        KperfSource { kpc, cores, online, sharing, processes, library: PathBuf::new() }
    }

    /// The source over a library: the framework, or one that behaves as it does.
    ///
    /// # Errors
    ///
    /// `ErrorKind::ArchUnsupported` for a library that is not there, or lacks a function.
    pub fn open_library(path: &Path, cores: Vec<CorePmu>, online: CpuSet) -> Result<KperfSource> {
        let functions = KpcFunctions::open(path).map_err(|error| {
            Error::new(ErrorKind::ArchUnsupported, format!("cannot use kperf: {error}"))
                .with_recovery(Recovery::fix("`cyclometer doctor` names the sources that work here"))
                .with_source(error)
        })?;
        let source = KperfSource::new(Rc::new(functions), cores, online);
        Ok(KperfSource { library: path.to_owned(), ..source })
    }

    /// The same source, which shares the counters with others, as those of other threads.
    #[must_use]
    pub fn sharing(self, sharing: KperfSharing) -> KperfSource {
        KperfSource { sharing, ..self }
    }

    /// The same source with another treatment of running processes.
    #[must_use]
    pub fn running_processes(self, processes: RunningProcesses) -> KperfSource {
        KperfSource { processes, ..self }
    }

    /// Whether a target is counted by counting all CPUs.
    fn counts_by_cpus(&self, on: &Target) -> bool {
        match on {
            Target::Child(_) => true,
            Target::Process { .. } => self.processes == RunningProcesses::ByCpus,
            _ => false,
        }
    }

    /// Where a target is counted. A refusal is that of the first slot, so that another source counts it.
    fn place(&self, slots: &[Slot], on: &Target) -> std::result::Result<CountedPlace, Refusal> {
        match on {
            Target::ThisThread => Ok(CountedPlace::ThisThread),
            Target::Cpus(cpus) => Ok(CountedPlace::cpus(cpus.iter().collect(), None)),
            _ if self.counts_by_cpus(on) => {
                Ok(CountedPlace::cpus(self.online.iter().collect(), Some(PartReason::WholeMac)))
            }
            _ => Err(Refusal {
                slot: slots.first().map(|slot| slot.id),
                kind: RefusalKind::TargetNotSupported,
                reason: KperfRefusal::RunningProcess.into(),
            }),
        }
    }
}

impl Source for KperfSource {
    fn rung(&self) -> Rung {
        Rung::Kperf
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let place = self.place(slots, on)?;
        let hold = CounterHold::take(Rc::clone(&self.kpc), &self.sharing, &self.cores)?;
        let layout = CounterLayout::of(slots, &self.cores, hold.counters())?;
        hold.try_words(&layout, slots)?;
        let cpus = self.online.iter().last().map_or(1, |last| last as usize + 1);
        Ok(Box::new(KperfCounting::new(hold, layout, place, cpus)))
    }

    fn windows(
        &self,
        slots: &[Slot],
        on: &Target,
        spec: &WindowSpec,
    ) -> std::result::Result<Box<dyn Windowing>, Refusal> {
        windows::open(self, slots, on, spec)
    }
}

#[cfg(test)]
mod tests;
