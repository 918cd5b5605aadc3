//! Finds and restores registers that are left when the restore daemon dies with its maker.

use std::path::Path;

use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use super::devices::Devices;
use super::folder::Folder;
use super::place::MsrLocation;
use super::process;
use super::restore_daemon::restore;
use crate::registers::journal::Journal;
use crate::registers::{Chips, LeftRegisters, LeftState, Restoration, Restored};

/// The registers of this machine that journals name. Only the user who wrote them, mostly root, can read
/// them.
pub fn left_registers() -> Vec<LeftRegisters> {
    left_registers_in(&MsrLocation::here())
}

/// Restores registers of this machine that no running process restores.
///
/// A register is written only if it is on the list of the CPU's chip and was written in this boot.
pub fn restore_registers(chips: &Chips) -> Vec<Restoration> {
    restore_registers_in(&MsrLocation::here(), chips)
}

/// As [`left_registers`], of a place.
pub fn left_registers_in(place: &MsrLocation) -> Vec<LeftRegisters> {
    found(&Folder::of(place)).into_iter().map(|(registers, _)| registers).collect()
}

/// As [`restore_registers`], of a place.
pub fn restore_registers_in(place: &MsrLocation, chips: &Chips) -> Vec<Restoration> {
    let folder = Folder::of(place);
    let mut devices = Devices::new(place.clone());
    let each = found(&folder).into_iter().map(|(registers, journal)| {
        let outcome = settle(&folder, &mut devices, chips, &registers, journal.as_ref());
        Restoration { registers, outcome }
    });
    each.collect()
}

fn found(folder: &Folder) -> Vec<(LeftRegisters, Option<Journal>)> {
    let unreadable = |path: &Path, why: String| {
        let state = LeftState::Unreadable { why };
        (LeftRegisters { file: path.display().to_string(), cpu: None, pid: None, state }, None)
    };
    let files = match folder.files() {
        Ok(files) => files,
        Err(error) => {
            let why =
                format!("whether counter registers were left as they were written is not known: {error}");
            return vec![unreadable(folder.path(), why)];
        }
    };
    let read = |path: &std::path::PathBuf| match folder.read(path) {
        // The file was removed meanwhile, so the registers were restored.
        Err(_) if !path.exists() => None,
        Err(error) => Some(unreadable(path, error.why)),
        Ok(journal) if folder.file(journal.cpu) != *path => {
            Some(unreadable(path, "it tells of another CPU than its name".to_owned()))
        }
        Ok(journal) => Some((registers(path, &journal), Some(journal))),
    };
    files.iter().filter_map(read).collect()
}

fn registers(path: &Path, journal: &Journal) -> LeftRegisters {
    let state = match process::boot() {
        Err(error) => LeftState::Unreadable { why: format!("this boot has no name: {error}") },
        Ok(boot) if boot != journal.boot => LeftState::Reset,
        _ if process::runs(journal.maker) => LeftState::InUse,
        _ if process::runs(journal.daemon) => LeftState::BeingRestored { by: journal.daemon.pid },
        _ => LeftState::Left,
    };
    let (cpu, pid) = (Some(journal.cpu), Some(journal.maker.pid));
    LeftRegisters { file: path.display().to_string(), cpu, pid, state }
}

fn settle(
    folder: &Folder,
    devices: &mut Devices,
    chips: &Chips,
    registers: &LeftRegisters,
    journal: Option<&Journal>,
) -> Result<Restored> {
    match (&registers.state, journal) {
        (LeftState::InUse | LeftState::BeingRestored { .. }, _) => Ok(Restored::Untouched),
        (LeftState::Reset, Some(journal)) => forgotten(folder, journal).map(|()| Restored::Forgotten),
        (LeftState::Left, Some(journal)) => {
            restored(devices, chips, journal)?;
            forgotten(folder, journal).map(|()| Restored::Restored)
        }
        _ => Err(Error::new(ErrorKind::Io, registers.to_string())
            .with_recovery(Recovery::fix("a boot resets the registers"))),
    }
}

fn restored(devices: &mut Devices, chips: &Chips, journal: &Journal) -> Result<()> {
    let cpu = journal.cpu;
    let no_chip = || {
        let message = format!("cannot restore the registers of CPU {cpu}: its chip is unknown");
        Error::new(ErrorKind::ArchUnsupported, message)
            .with_recovery(Recovery::fix("a boot resets the registers"))
    };
    let steps = journal.steps(chips.of(cpu).ok_or_else(no_chip)?)?;
    restore(&steps, devices, cpu).map_err(|fault| {
        let error = Error::from(fault);
        Error::new(error.kind(), format!("cannot restore the registers of CPU {cpu}: {error}"))
            .with_recovery(Recovery::None)
            .with_source(error)
    })
}

fn forgotten(folder: &Folder, journal: &Journal) -> Result<()> {
    folder.remove(journal.cpu).map_err(|error| {
        let message = format!("cannot remove {}: {error}", folder.file(journal.cpu).display());
        Error::new(ErrorKind::Io, message).with_source(error)
    })
}
