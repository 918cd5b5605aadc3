//! The source kperf of this machine.

use cyclometer_backend::kperf::{self, KperfSharing, RunningProcesses};
use cyclometer_core::ladder::Works;
use cyclometer_core::{Machine, Result, Rung, Source};

use crate::{EventTables, chips};

/// The source kperf, where it works.
///
/// # Errors
///
/// Those of [`kperf::source`].
pub(crate) fn open(
    machine: &Machine,
    tables: &EventTables,
    (sharing, processes): (KperfSharing, RunningProcesses),
) -> Result<Option<Box<dyn Source>>> {
    let state = machine.ladder.state(Rung::Kperf);
    match state.is_some_and(|state| matches!(state.works, Works::Yes | Works::Partly)) {
        true => {
            let cores = chips::for_counting(machine, tables);
            kperf::source(cores, machine.online.clone(), (sharing, processes))
        }
        false => Ok(None),
    }
}
