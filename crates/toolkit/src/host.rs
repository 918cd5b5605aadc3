//! Machines: this one, and recorded ones.

use cyclometer_backend::msr;
use cyclometer_backend::registers::{LeftRegisters, Restoration};
use cyclometer_catalog::Listing;
use cyclometer_core::ladder::Works;
use cyclometer_core::{Machine, Result, Rung};
use cyclometer_detect::{
    FactRecorder, FactSource, RecordedFacts, detect, detect_for_counting, detect_for_regions,
    detect_without_nvml, with_power_counters,
};

use crate::tables::host_database;
use crate::{EventTables, built_sources, chips};

#[cfg(feature = "fake-devices")]
#[path = "fake_facts.rs"]
mod facts;
#[cfg(not(feature = "fake-devices"))]
#[path = "host_facts.rs"]
mod facts;

/// Detects the machine that this runs on, for a measurement.
///
/// Never fails: facts that cannot be found out are missing from the result. It probes counters on the calling
/// thread, as far as they do not follow from others. It checks whether a process may be traced only if no
/// hardware counts and this process is not traced.
pub fn machine() -> Machine {
    here(detect_for_counting)
}

/// Detects the machine that this runs on, for regions of this program, as a [`Monitor`](crate::Monitor) does.
/// Sources that regions do not need are not tried: no process is forked, and a tracer of this process is not
/// disturbed.
pub fn machine_for_regions() -> Machine {
    here(detect_for_regions)
}

/// Detects the machine that this runs on and tries every source, as a diagnosis needs. Drivers of GPUs
/// are not asked.
pub fn diagnosed_machine() -> Machine {
    here(detect_without_nvml)
}

/// As [`diagnosed_machine`], with the devices that NVIDIA's management library lists. Asking it may wake
/// them.
pub fn diagnosed_machine_with_gpus() -> Machine {
    here(detect)
}

/// This machine, as a function of its facts.
fn here(detect: fn(&dyn FactSource) -> Machine) -> Machine {
    let facts = facts::here();
    let mut machine = built_sources::limit(detect(facts.as_ref()));
    let state = machine.ladder.state(Rung::Kperf);
    // Kperf offers fewer counters: the database of the host names those that the power manager has.
    if state.is_some_and(|state| state.works == Works::Partly)
        && let Some(power) = host_database::power_counters(facts.as_ref())
    {
        with_power_counters(&mut machine, power);
    }
    machine
}

/// Detects this machine and records every fact that was looked at, so that another machine can replay the
/// result.
///
/// `note` becomes the recording's first line.
pub fn record_machine(note: &str) -> (Machine, String) {
    let host = facts::here();
    let recorder = FactRecorder::new(host.as_ref());
    let machine = detect(&recorder);
    let text = recorder.to_text(note);
    (machine, text)
}

impl EventTables {
    /// The catalogue's tables, and on a Mac before them the event database of its macOS, whose events follow
    /// the version of macOS. `machine` is the one that this runs on. Where the database cannot be used, the
    /// second value says why, for a warning.
    pub fn here(machine: &Machine) -> (EventTables, Option<String>) {
        EventTables::of_facts(facts::here().as_ref(), machine)
    }
}

/// Detects the machine that a recording was made on.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` naming the line that is no fact.
pub fn replay_machine(recording: &str) -> Result<Machine> {
    Ok(detect(&RecordedFacts::parse(recording)?))
}

/// Counter registers of this machine that were written and have not been restored yet. Only the user that
/// wrote them, mostly root, can find them.
pub fn left_registers() -> Vec<LeftRegisters> {
    msr::left_registers()
}

/// Restores counter registers of this machine whose writer died, and whose restore daemon died too.
pub fn restore_registers() -> Vec<Restoration> {
    msr::restore_registers(&chips::for_restoring(&machine()))
}

/// Every event that can be named on a machine, with whether it can be counted there; without the vendor's
/// hundreds.
pub fn list_events(machine: &Machine) -> Vec<Listing> {
    list_events_in(machine, &EventTables::embedded())
}

/// As [`list_events`], with tables of the user's: portable names then resolve through these.
pub fn list_events_in(machine: &Machine, tables: &EventTables) -> Vec<Listing> {
    cyclometer_catalog::list(machine, tables.tables())
}

/// The vendor's events of a machine whose name or alias `fits`.
pub fn list_vendor_events(
    machine: &Machine,
    tables: &EventTables,
    fits: &dyn Fn(&str) -> bool,
) -> Vec<Listing> {
    cyclometer_catalog::list_vendor(machine, tables.tables(), fits)
}

/// How many events of the vendor's a machine has.
pub fn count_vendor_events(machine: &Machine, tables: &EventTables) -> usize {
    cyclometer_catalog::count_vendor(machine, tables.tables())
}
