//! The bus: registers of x86, and the restore daemon.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use cyclometer_arch::{Fault, PmuReg, Registers, Step};
use cyclometer_core::{CpuSet, Error, ErrorKind, PartReason, Recovery, Result};

use super::binding;
use super::devices::Devices;
use super::folder::Folder;
use super::place::MsrLocation;
use super::process;
use super::restore_daemon::DaemonConnection;
use crate::registers::journal::{Journal, Process};
use crate::registers::{Bound, Bus, Chips};

/// Registers of x86 through `/dev/cpu/N/msr`.
///
/// A device is opened at its first use, and the restore daemon starts at the first [`Bus::keep`]. Dropping
/// the bus makes the daemon restore registers that are still kept, and waits up to 10 seconds for its end.
#[derive(Debug)]
pub struct MsrBus {
    place: MsrLocation,
    chips: Chips,
    devices: Devices,
    keeping: Option<Keeping>,
    since: Instant,
}

/// The CPUs whose registers are kept, their journals, and the restore daemon.
#[derive(Debug)]
struct Keeping {
    line: DaemonConnection,
    folder: Folder,
    boot: String,
    maker: Process,
    daemon: Process,
    kept: BTreeMap<u32, Vec<Step>>,
}

impl MsrBus {
    /// The registers of this machine, whose CPUs are `chips`.
    pub fn new(chips: Chips) -> MsrBus {
        MsrBus::at(MsrLocation::here(), chips)
    }

    /// The registers of a place.
    pub fn at(place: MsrLocation, chips: Chips) -> MsrBus {
        let devices = Devices::new(place.clone());
        MsrBus { place, chips, devices, keeping: None, since: Instant::now() }
    }

    /// The process id of the restore daemon; `None` before anything is kept.
    pub fn daemon(&self) -> Option<u32> {
        self.keeping.as_ref().map(|keeping| keeping.line.pid())
    }
}

impl Registers for MsrBus {
    fn read(&mut self, cpu: u32, register: PmuReg) -> std::result::Result<u64, Fault> {
        self.devices.read(cpu, register)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> std::result::Result<(), Fault> {
        self.devices.write(cpu, register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        self.devices.barrier(cpu);
    }
}

impl Bus for MsrBus {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> Result<()> {
        let keeping = match &mut self.keeping {
            Some(keeping) => keeping,
            none => none.insert(Keeping::start(&self.place, &self.chips)?),
        };
        match keeping.kept.get(&cpu) {
            Some(kept) if kept == restoring => Ok(()),
            Some(_) => keeping.renew(cpu, restoring),
            None => keeping.begin(cpu, restoring),
        }
    }

    fn let_go(&mut self, cpu: u32) {
        if let Some(keeping) = &mut self.keeping {
            keeping.let_go(cpu);
        }
    }

    fn exercise(&mut self, cpu: u32) -> Result<()> {
        binding::exercise(cpu)
    }

    fn bind(&mut self, child: u32, among: &CpuSet) -> Result<Bound> {
        let cpu = binding::bind(child, among)?;
        Ok(Bound { cpu, company: Some(PartReason::BoundTo { cpu }) })
    }

    fn is_bound(&mut self, child: u32, cpu: u32) -> bool {
        binding::is_bound(child, cpu)
    }

    fn claimed(&mut self, cpu: u32) -> Option<Error> {
        let folder = Folder::of(&self.place);
        let holder = folder.read(&folder.file(cpu)).ok()?;
        Some(held(cpu, &holder, &process::boot().ok()?))
    }
}

impl Drop for MsrBus {
    fn drop(&mut self) {
        let keeping = self.keeping.take();
        // A fork of the writing process has a copy of the line, and must not use it.
        if let Some(keeping) = keeping.filter(|keeping| keeping.maker.pid == std::process::id()) {
            keeping.line.end();
        }
    }
}

impl Keeping {
    fn start(place: &MsrLocation, chips: &Chips) -> Result<Keeping> {
        let failed = |error: io::Error| {
            let message = format!("cannot start the process that restores registers: {error}");
            Error::new(ErrorKind::Os, message).with_source(error)
        };
        let maker = process::this().map_err(failed)?;
        let boot = process::boot().map_err(failed)?;
        let line = DaemonConnection::start(place, chips, maker).map_err(failed)?;
        let gone = || failed(io::Error::other("it has ended already"));
        let daemon = process::with_id(line.pid()).ok_or_else(gone)?;
        Ok(Keeping { line, folder: Folder::of(place), boot, maker, daemon, kept: BTreeMap::new() })
    }

    fn journal(&self, cpu: u32, restoring: &[Step]) -> Journal {
        let Keeping { boot, maker, daemon, .. } = self;
        Journal { boot: boot.clone(), maker: *maker, daemon: *daemon, cpu, steps: Journal::named(restoring) }
    }

    /// Claims the registers of a CPU. The file comes first, since only one process may own them.
    fn begin(&mut self, cpu: u32, restoring: &[Step]) -> Result<()> {
        let journal = self.journal(cpu, restoring);
        self.folder.claim(&journal).map_err(|error| self.not_claimed(cpu, error))?;
        match self.line.keep(&journal) {
            Ok(()) => {
                self.kept.insert(cpu, restoring.to_vec());
                Ok(())
            }
            Err(error) => {
                let _ = self.folder.remove(cpu);
                Err(not_kept(cpu, error))
            }
        }
    }

    /// Replaces the restore steps of registers that this process owns.
    fn renew(&mut self, cpu: u32, restoring: &[Step]) -> Result<()> {
        let journal = self.journal(cpu, restoring);
        let file = self.folder.file(cpu);
        self.folder.replace(&journal).map_err(|error| {
            let message = format!("cannot write {}: {error}", file.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        self.line.keep(&journal).map_err(|error| not_kept(cpu, error))?;
        self.kept.insert(cpu, restoring.to_vec());
        Ok(())
    }

    fn let_go(&mut self, cpu: u32) {
        if self.kept.remove(&cpu).is_none() {
            return;
        }
        // A daemon that does not answer may still restore the registers: then the file stays.
        let forgotten = self.line.let_go(cpu).is_ok() || !process::runs(self.daemon);
        if forgotten {
            let _ = self.folder.remove(cpu);
        }
    }

    /// Why the registers of a CPU could not be claimed.
    fn not_claimed(&self, cpu: u32, error: io::Error) -> Error {
        let file = self.folder.file(cpu);
        if error.kind() != io::ErrorKind::AlreadyExists {
            let message =
                format!("cannot write {}, which tells how registers are restored: {error}", file.display());
            let kind = match error.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::Io,
            };
            return Error::new(kind, message).with_recovery(Recovery::None).with_source(error);
        }
        match self.folder.read(&file) {
            Ok(holder) => held(cpu, &holder, &self.boot),
            Err(_) => left(cpu),
        }
    }
}

/// The error that names the process which owns the registers of a CPU.
fn held(cpu: u32, holder: &Journal, boot: &str) -> Error {
    if holder.boot == boot && process::runs(holder.maker) {
        let message = format!("process {} uses the counter registers of CPU {cpu}", holder.maker.pid);
        return Error::new(ErrorKind::CounterBusy, message);
    }
    left(cpu)
}

fn left(cpu: u32) -> Error {
    let message = format!(
        "the counter registers of CPU {cpu} are as a process left them that died; `sudo cyclometer doctor --restore` \
         gives them back"
    );
    Error::new(ErrorKind::CounterBusy, message)
        .with_recovery(Recovery::GrantAccess { command: "sudo cyclometer doctor --restore".to_owned() })
}

fn not_kept(cpu: u32, error: io::Error) -> Error {
    let message = format!(
        "the registers of CPU {cpu} could not be restored after a crash: the restore daemon reports: {error}"
    );
    Error::new(ErrorKind::Os, message).with_source(error)
}
