//! Common parts of the tests of this crate.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part; a test that cannot go on fails"
)]

use std::num::NonZeroU64;

use cyclometer_arch::{
    Coded, Fault, Placed, PmuReg, ProgramOptions, Register, RegisterProgram, Registers, carry_out,
    register_program,
};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};
use cyclometer_sim::{Concept, Model, Settings, SimMachine, ThreadId, Workload};

pub fn model(id: &str) -> &'static Model {
    Model::find(id).unwrap()
}

/// A machine with one thread of a workload on CPU 0.
pub fn running(id: &str, workload: &str) -> (SimMachine, ThreadId) {
    running_with(id, workload, Settings::default())
}

pub fn running_with(id: &str, workload: &str, settings: Settings) -> (SimMachine, ThreadId) {
    let mut machine = SimMachine::new(model(id), settings);
    let thread = machine.spawn(Workload::named(workload).unwrap(), &[0]).unwrap();
    (machine, thread)
}

/// A register of the machine's chip, by name.
pub fn register(machine: &SimMachine, name: &str) -> PmuReg {
    let chip = &machine.model().chip;
    PmuReg::of(chip, Register::parse(chip, name).unwrap()).unwrap()
}

pub fn read(machine: &mut SimMachine, name: &str) -> u64 {
    machine.read(0, register(machine, name)).unwrap()
}

pub fn write(machine: &mut SimMachine, name: &str, value: u64) -> Result<(), Fault> {
    machine.write(0, register(machine, name), value)
}

pub fn set(machine: &mut SimMachine, name: &str, value: u64) {
    write(machine, name, value).unwrap();
}

/// An event on a general counter, in user mode.
pub fn on(counter: u8, select: u16, umask: u8) -> Placed {
    let coded = Coded::new(EventCode { select, umask, ..EventCode::default() });
    Placed { coded, counter: CounterId::General(counter), modes: Modes::USER, period: None }
}

/// The event of a fixed counter, in user mode.
pub fn fixed(family: Family, counter: u8) -> Placed {
    let umask = if family == Family::Intel { counter + 1 } else { 0 };
    let coded = Coded::new(EventCode { umask, ..EventCode::default() });
    let coded = coded.on(CounterMask::from_bits(0, 1 << counter));
    Placed { coded, counter: CounterId::Fixed(counter), modes: Modes::USER, period: None }
}

/// The first counter that counts a concept, fixed ones last.
pub fn counting(model: &Model, concept: Concept) -> Option<Placed> {
    let row = model.events.iter().find(|row| row.meaning.is_sum_of(&[concept]))?;
    let (select, umask) = model.select(row.code);
    Some(on(row.counters.general_bits().trailing_zeros() as u8, select, umask))
}

pub fn every(placed: Placed, period: u64) -> Placed {
    Placed { period: NonZeroU64::new(period), ..placed }
}

pub fn program(machine: &SimMachine, placed: &[Placed]) -> RegisterProgram {
    register_program(&machine.model().chip, placed, ProgramOptions::default()).unwrap()
}

/// Programs a CPU and lets it count.
pub fn start(machine: &mut SimMachine, cpu: u32, program: &RegisterProgram) {
    carry_out(&program.set_up, machine, cpu).unwrap();
    carry_out(&program.start, machine, cpu).unwrap();
}

/// The values of a program's counters on CPU 0.
pub fn values(machine: &mut SimMachine, program: &RegisterProgram) -> Vec<u64> {
    program.reads.iter().map(|read| machine.read(0, read.register).unwrap()).collect()
}

/// Runs for so long and lets nobody attend to what happens.
pub fn run(machine: &mut SimMachine, ns: u64) {
    machine.run(ns, |_, _| {});
}
