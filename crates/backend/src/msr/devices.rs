//! Devices by CPU, each opened when it is first used.

use std::collections::HashMap;

use cyclometer_arch::{Fault, PmuReg, RegisterAddress, Registers};

use super::cpu_msrs::CpuMsrs;
use super::faults::{Attempt, MsrOperation, fault};
use super::place::MsrLocation;

/// The registers of a machine's CPUs.
#[derive(Debug)]
pub(super) struct Devices {
    place: MsrLocation,
    open: HashMap<u32, Box<dyn CpuMsrs>>,
    /// The last read or written values of registers that have some bits a driver may not write.
    seen: HashMap<(u32, PmuReg), u64>,
}

impl Devices {
    pub(super) fn new(place: MsrLocation) -> Devices {
        Devices { place, open: HashMap::new(), seen: HashMap::new() }
    }

    /// Opens the device of a CPU, unless it is open; `register` is the one to be accessed.
    pub(super) fn open(&mut self, cpu: u32, register: PmuReg) -> Result<&dyn CpuMsrs, Fault> {
        if !self.open.contains_key(&cpu) {
            let attempt = Attempt { cpu, register, what: MsrOperation::Open };
            let device = self.place.open(cpu);
            let device = device.map_err(|error| fault(attempt, &error, &self.place.surroundings(cpu)))?;
            self.open.insert(cpu, device);
        }
        // The entry was inserted above, if it was missing.
        self.open.get(&cpu).map(AsRef::as_ref).ok_or(Fault::NoCpu { cpu })
    }

    fn fault(&self, attempt: Attempt, error: &std::io::Error) -> Fault {
        fault(attempt, error, &self.place.surroundings(attempt.cpu))
    }

    /// Checks that a write keeps the bits that a driver may not change.
    fn permit(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
        let ours = register.access().writable();
        match ours {
            0 => return Err(Fault::ReadOnly { register }),
            u64::MAX => return Ok(()),
            _ => {}
        }
        let before = match self.seen.get(&(cpu, register)) {
            Some(before) => *before,
            None => self.read(cpu, register)?,
        };
        let others = (before ^ value) & !ours;
        if others == 0 { Ok(()) } else { Err(Fault::Reserved { register, bits: others }) }
    }
}

/// The number of a register; registers that are not MSRs do not exist on these CPUs.
fn address(register: PmuReg) -> Result<u32, Fault> {
    match register.address() {
        RegisterAddress::Msr(address) => Ok(address),
        _ => Err(Fault::NoRegister { register }),
    }
}

impl Registers for Devices {
    fn read(&mut self, cpu: u32, register: PmuReg) -> Result<u64, Fault> {
        let address = address(register)?;
        let read = self.open(cpu, register)?.read(address);
        let value =
            read.map_err(|error| self.fault(Attempt { cpu, register, what: MsrOperation::Read }, &error))?;
        if !matches!(register.access().writable(), 0 | u64::MAX) {
            self.seen.insert((cpu, register), value);
        }
        Ok(value)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
        let address = address(register)?;
        self.permit(cpu, register, value)?;
        let device = self.open(cpu, register)?;
        let Err(error) = device.write(address, value) else {
            self.seen.entry((cpu, register)).and_modify(|seen| *seen = value);
            return Ok(());
        };
        let what = MsrOperation::Write { value, before: device.read(address).ok() };
        Err(self.fault(Attempt { cpu, register, what }, &error))
    }

    /// `wrmsr` of these registers serialises.
    fn barrier(&mut self, _cpu: u32) {}
}
