//! The bus: registers of one CPU, reached from the thread that is on it.

use std::collections::BTreeMap;
use std::time::Instant;

use cyclometer_arch::{Access, Fault, PmuReg, Register, RegisterAddress, Registers, Step, apple, carry_out};
use cyclometer_core::{CpuSet, Error, ErrorKind, MissingReason, PartReason, Recovery, Result};

use crate::registers::{Bound, Bus, OnCpu};

/// The bits of PMCR0 that let overflows interrupt: the interrupts of PMC0 to PMC7, of PMC8 and PMC9, and
/// their mode.
///
/// # Source
///
/// AsahiLinux/docs, system-registers.md, PMCR0.
const INTERRUPTS: u64 = 0xff << 12 | 0b11 << 44 | apple::PMCR0_MODE;

/// Accesses to the system registers of the CPU where the calling thread is.
pub trait Port {
    /// Reads a register by its encoding.
    ///
    /// # Errors
    ///
    /// Why the CPU refuses the read.
    fn read(&mut self, register: [u8; 5]) -> std::result::Result<u64, PortDenied>;

    /// Writes a whole register.
    ///
    /// # Errors
    ///
    /// Why the CPU refuses the write.
    fn write(&mut self, register: [u8; 5], value: u64) -> std::result::Result<(), PortDenied>;

    /// Waits until written values take effect.
    fn barrier(&mut self);

    /// The CPU that the thread is on.
    fn cpu_now(&self) -> u32;

    /// The CPU that the thread is bound to; `None` where the system binds none.
    fn bound_to(&self) -> Option<u32>;

    /// A number that stays the same as long as the thread keeps its CPU; `None` where that is unknown.
    fn switches(&self) -> Option<u64>;

    /// Binds a process and its future descendants to one CPU.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn bind(&mut self, process: u32, cpu: u32) -> std::io::Result<()>;

    /// The evidence that another user has used the PMU since the port was made, if there is any.
    fn disturbance(&mut self) -> Option<MissingReason> {
        None
    }
}

/// Why an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortDenied {
    /// The port does not know the register.
    NoRegister,
    /// User mode may not use the registers, or not any more.
    Closed,
}

/// Apple's registers of one CPU, from a thread that is on it.
///
/// It belongs to its thread. On a bound thread, only the registers of that CPU can be used; on an unbound
/// one, those of the CPU that it is on. Any other CPU gives [`Fault::NoCpu`].
///
/// Programs cannot enable overflow interrupts that were off when the bus was made. Such an interrupt has no
/// handler in user mode, and may hang a CPU. So programs for this bus have no period. They leave user access
/// enabled (`ProgramOptions::user_access` false), as disabling it would lock this process out.
///
/// Steps that were given to [`Bus::keep`] are carried out when the bus is dropped, also by a panic, unless
/// they were let go. [`SysregAccess`](super::SysregAccess) documents who restores the registers when this
/// process is killed.
pub struct SysregBus {
    port: Box<dyn Port>,
    /// The process that made the bus.
    process: u32,
    began: Instant,
    /// The interrupt bits of PMCR0 that were set before.
    interrupts_found: u64,
    kept: BTreeMap<u32, Vec<Step>>,
}

impl std::fmt::Debug for SysregBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kept = self.kept.keys().collect::<Vec<_>>();
        f.debug_struct("SysregBus").field("bound_to", &self.bound_to()).field("kept", &kept).finish()
    }
}

impl SysregBus {
    /// A bus over a port.
    ///
    /// # Errors
    ///
    /// [`PortDenied::Closed`] when PMCR0 cannot be read.
    pub fn new(mut port: Box<dyn Port>) -> std::result::Result<SysregBus, PortDenied> {
        let control = port.read(CONTROL)?;
        Ok(SysregBus {
            port,
            process: std::process::id(),
            began: Instant::now(),
            interrupts_found: control & INTERRUPTS,
            kept: BTreeMap::new(),
        })
    }

    /// The CPU whose registers these are; `None`: those of the thread's present CPU.
    pub fn bound_to(&self) -> Option<u32> {
        self.port.bound_to()
    }

    /// Checks that the thread's accesses reach that CPU.
    fn reaches(&self, cpu: u32) -> std::result::Result<(), Fault> {
        let here = self.port.bound_to().unwrap_or_else(|| self.port.cpu_now());
        if here == cpu { Ok(()) } else { Err(Fault::NoCpu { cpu }) }
    }

    /// Checks that the thread is on that CPU. A thread that was bound elsewhere may still read, but writes
    /// nothing.
    fn is_on(&self, cpu: u32) -> std::result::Result<(), Fault> {
        self.reaches(cpu)?;
        if self.port.cpu_now() == cpu { Ok(()) } else { Err(Fault::NoCpu { cpu }) }
    }

    /// Refuses a value of PMCR0 that enables interrupts which were off at the beginning and are off now.
    fn check_interrupts(&mut self, register: PmuReg, value: u64) -> std::result::Result<(), Fault> {
        if register.register() != Register::Apple(apple::Register::Control) {
            return Ok(());
        }
        let now = self.port.read(CONTROL).map_err(|denied| fault(denied, register))?;
        match value & INTERRUPTS & !now & !self.interrupts_found {
            0 => Ok(()),
            bits => Err(Fault::System {
                register,
                writing: true,
                reason: format!("no handler answers the PMU's interrupts in user mode (bits {bits:#x})"),
                is_forbidden: false,
            }),
        }
    }
}

/// PMCR0.
const CONTROL: [u8; 5] = [3, 1, 15, 0, 0];

fn encoding(register: PmuReg) -> std::result::Result<[u8; 5], Fault> {
    match (register.register(), register.address()) {
        (Register::Apple(_), RegisterAddress::SysReg(encoding)) => Ok(encoding),
        _ => Err(Fault::NoRegister { register }),
    }
}

fn fault(denied: PortDenied, register: PmuReg) -> Fault {
    match denied {
        PortDenied::NoRegister => Fault::NoRegister { register },
        PortDenied::Closed => Fault::Privilege { register },
    }
}

impl Registers for SysregBus {
    fn read(&mut self, cpu: u32, register: PmuReg) -> std::result::Result<u64, Fault> {
        self.reaches(cpu)?;
        self.port.read(encoding(register)?).map_err(|denied| fault(denied, register))
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> std::result::Result<(), Fault> {
        self.is_on(cpu)?;
        let encoding = encoding(register)?;
        if register.access() == Access::Read {
            return Err(Fault::ReadOnly { register });
        }
        self.check_interrupts(register, value)?;
        self.port.write(encoding, value).map_err(|denied| fault(denied, register))
    }

    fn barrier(&mut self, _cpu: u32) {
        self.port.barrier();
    }
}

impl Bus for SysregBus {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> Result<()> {
        self.reaches(cpu)?;
        self.kept.insert(cpu, restoring.to_vec());
        Ok(())
    }

    fn let_go(&mut self, cpu: u32) {
        self.kept.remove(&cpu);
    }

    fn exercise(&mut self, cpu: u32) -> Result<()> {
        self.is_on(cpu)?;
        for round in 0..EXERCISE_ROUNDS {
            std::hint::black_box(round);
        }
        // The barrier makes later reads of a counter include all of it.
        self.port.barrier();
        Ok(self.is_on(cpu)?)
    }

    fn bind(&mut self, child: u32, among: &CpuSet) -> Result<Bound> {
        let cpu = self.bound_to().ok_or_else(|| {
            let text = "no process can be bound to a CPU here, and its counts would be those of others";
            Error::new(ErrorKind::ArchUnsupported, text)
                .with_recovery(Recovery::fix("count the calling thread in short windows instead"))
        })?;
        if !among.contains(cpu) {
            let text = format!("the registers are those of CPU {cpu}, and the events count on CPUs {among}");
            return Err(Error::new(ErrorKind::NoSuchTarget, text).with_recovery(Recovery::fix(
                "use the registers of one of these CPUs, or the events of that one",
            )));
        }
        self.port.bind(child, cpu).map_err(|error| {
            let text = format!("cannot bind process {child} to CPU {cpu}: {error}");
            Error::new(ErrorKind::Os, text).with_source(error)
        })?;
        Ok(Bound { cpu, company: Some(PartReason::BoundTo { cpu }) })
    }

    fn disturbance(&mut self) -> Option<MissingReason> {
        self.port.disturbance()
    }
}

/// Rounds of at least one cycle each: enough for a driver to see counters move.
const EXERCISE_ROUNDS: u32 = 4096;

impl OnCpu for SysregBus {
    fn cpu_now(&self) -> u32 {
        self.port.cpu_now()
    }

    fn switches(&self) -> Option<u64> {
        self.port.switches()
    }
}

impl Drop for SysregBus {
    fn drop(&mut self) {
        // A fork of the process has a copy of the bus, which must not write.
        if self.process != std::process::id() {
            return;
        }
        for (cpu, steps) in std::mem::take(&mut self.kept) {
            // A CPU that the thread has left, or whose registers were closed, cannot be written from here.
            let _ = carry_out(&steps, self, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_arch::{Chip, Coded, Placed, ProgramOptions, RegisterProgram, register_program, restore};
    use cyclometer_core::{CounterId, EventCode, Modes};
    use cyclometer_sim::Model;
    use std::cell::RefCell;
    use std::num::NonZeroU64;
    use std::rc::Rc;

    /// Registers in memory, and the CPU of the thread.
    #[derive(Default)]
    struct Fake {
        values: BTreeMap<[u8; 5], u64>,
        cpu: u32,
        bound: Option<u32>,
        closed: bool,
        barriers: u32,
        children: Vec<(u32, u32)>,
    }

    struct FakePort(Rc<RefCell<Fake>>);

    impl Port for FakePort {
        fn read(&mut self, register: [u8; 5]) -> std::result::Result<u64, PortDenied> {
            let fake = self.0.borrow();
            if fake.closed {
                Err(PortDenied::Closed)
            } else {
                Ok(fake.values.get(&register).copied().unwrap_or(0))
            }
        }

        fn write(&mut self, register: [u8; 5], value: u64) -> std::result::Result<(), PortDenied> {
            let mut fake = self.0.borrow_mut();
            if fake.closed {
                return Err(PortDenied::Closed);
            }
            fake.values.insert(register, value);
            Ok(())
        }

        fn barrier(&mut self) {
            self.0.borrow_mut().barriers += 1;
        }

        fn cpu_now(&self) -> u32 {
            self.0.borrow().cpu
        }

        fn bound_to(&self) -> Option<u32> {
            self.0.borrow().bound
        }

        fn switches(&self) -> Option<u64> {
            None
        }

        fn bind(&mut self, process: u32, cpu: u32) -> std::io::Result<()> {
            self.0.borrow_mut().children.push((process, cpu));
            Ok(())
        }
    }

    fn m1() -> &'static Chip {
        &Model::find("apple-m1").unwrap().chip
    }

    fn register(name: &str) -> PmuReg {
        PmuReg::of(m1(), Register::parse(m1(), name).unwrap()).unwrap()
    }

    /// A bus on CPU 4, with these values in PMCR0.
    fn bus(control: u64, bound: Option<u32>) -> (SysregBus, Rc<RefCell<Fake>>) {
        let values = BTreeMap::from([(CONTROL, control)]);
        let fake = Rc::new(RefCell::new(Fake { values, cpu: 4, bound, ..Fake::default() }));
        (SysregBus::new(Box::new(FakePort(Rc::clone(&fake)))).unwrap(), fake)
    }

    fn program(period: Option<u64>) -> RegisterProgram {
        let coded = Coded::new(EventCode { select: 0xcb, ..EventCode::default() });
        let placed = Placed {
            coded,
            counter: CounterId::General(5),
            modes: Modes::USER,
            period: period.and_then(NonZeroU64::new),
        };
        register_program(m1(), &[placed], ProgramOptions::default()).unwrap()
    }

    const USER: u64 = apple::PMCR0_USER;

    #[test]
    fn a_program_reaches_its_registers_and_leaves_other_bits() {
        let (mut bus, fake) = bus(USER | 1 << 23, Some(4));
        let program = program(None);
        carry_out(&program.set_up, &mut bus, 4).unwrap();
        carry_out(&program.start, &mut bus, 4).unwrap();
        let fake = fake.borrow();
        assert_eq!(fake.values[&CONTROL], USER | 1 << 23 | 1 << 5);
        assert_eq!(fake.values[&[3, 1, 15, 1, 0]], 1 << 13);
        assert_eq!(fake.values[&[3, 1, 15, 5, 0]], 0xcb << 24);
        assert!(fake.barriers >= 2);
    }

    #[test]
    fn counters_8_and_9_skip_an_encoding() {
        let (mut bus, fake) = bus(USER, Some(4));
        bus.write(4, register("PMC8"), 8).unwrap();
        bus.write(4, register("PMC9"), 9).unwrap();
        assert_eq!(fake.borrow().values[&[3, 2, 15, 9, 0]], 8);
        assert_eq!(fake.borrow().values[&[3, 2, 15, 10, 0]], 9);
    }

    #[test]
    fn registers_of_another_cpu_are_refused() {
        let (mut bound, fake) = bus(USER, Some(4));
        assert_eq!(bound.read(5, register("PMC0")), Err(Fault::NoCpu { cpu: 5 }));
        assert_eq!(bound.keep(5, &[]).unwrap_err().to_string(), "there is no CPU 5");
        // Another user has bound the thread to another CPU.
        fake.borrow_mut().cpu = 6;
        assert_eq!(bound.write(4, register("PMC0"), 1), Err(Fault::NoCpu { cpu: 4 }));
        let (mut free, fake) = bus(USER, None);
        assert!(free.read(4, register("PMC0")).is_ok());
        fake.borrow_mut().cpu = 6;
        assert_eq!(free.read(4, register("PMC0")), Err(Fault::NoCpu { cpu: 4 }));
        assert!(free.read(6, register("PMC0")).is_ok());
    }

    #[test]
    fn an_interrupt_that_nobody_would_answer_is_refused() {
        let (mut bus, fake) = bus(USER, Some(4));
        let fault = carry_out(&program(Some(10_000)).start, &mut bus, 4).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "cannot write PMCR0: no handler answers the PMU's interrupts in user mode (bits 0x20400)"
        );
        assert_eq!(fake.borrow().values[&CONTROL], USER);
    }

    #[test]
    fn interrupts_of_the_kernel_can_be_put_back() {
        // The state under xnu: PMC0 and PMC1 count and interrupt.
        let (mut bus, fake) = bus(USER | 0x3403, None);
        bus.write(4, register("PMCR0"), USER | 0x400).unwrap();
        bus.write(4, register("PMCR0"), USER | 0x3403).unwrap();
        assert_eq!(fake.borrow().values[&CONTROL], USER | 0x3403);
        assert!(bus.write(4, register("PMCR0"), USER | 0x7403).is_err());
    }

    #[test]
    fn what_is_read_only_or_closed_is_told() {
        let (mut bus, fake) = bus(USER, Some(4));
        let status = register("PMSR");
        assert_eq!(bus.write(4, status, 0), Err(Fault::ReadOnly { register: status }));
        let skylake = &Model::find("skylake").unwrap().chip;
        let foreign = PmuReg::of(skylake, Register::parse(skylake, "IA32_PMC0").unwrap()).unwrap();
        assert_eq!(bus.read(4, foreign), Err(Fault::NoRegister { register: foreign }));
        fake.borrow_mut().closed = true;
        assert_eq!(bus.read(4, status), Err(Fault::Privilege { register: status }));
    }

    #[test]
    fn a_child_is_bound_to_the_cpu_whose_registers_these_are() {
        let (mut bound, fake) = bus(USER, Some(4));
        let efficient: CpuSet = [0, 1, 2, 3].into_iter().collect();
        let error = bound.bind(77, &efficient).unwrap_err();
        assert_eq!(error.to_string(), "the registers are those of CPU 4, and the events count on CPUs 0-3");
        assert!(fake.borrow().children.is_empty());
        let all: CpuSet = (0..8).collect();
        let place = bound.bind(77, &all).unwrap();
        assert_eq!((place.cpu, place.company), (4, Some(PartReason::BoundTo { cpu: 4 })));
        assert_eq!(fake.borrow().children, [(77, 4)]);
        let (mut free, _) = bus(USER, None);
        assert_eq!(free.bind(77, &all).unwrap_err().kind(), ErrorKind::ArchUnsupported);
    }

    #[test]
    fn only_the_cpu_of_the_thread_can_be_exercised() {
        let (mut bus, fake) = bus(USER, Some(4));
        assert!(bus.exercise(4).is_ok());
        assert!(bus.exercise(5).is_err());
        fake.borrow_mut().cpu = 6;
        assert!(bus.exercise(4).is_err());
    }

    #[test]
    fn what_is_kept_is_written_back_by_drop_and_what_was_let_go_is_not() {
        for let_go in [false, true] {
            let (mut bus, fake) = bus(USER | 1, Some(4));
            fake.borrow_mut().values.insert([3, 1, 15, 1, 0], 0x100);
            let program = program(None);
            let saved: Vec<(PmuReg, u64)> = program
                .touched()
                .into_iter()
                .map(|register| (register, bus.read(4, register).unwrap()))
                .collect();
            bus.keep(4, &restore(&program, &saved)).unwrap();
            carry_out(&program.set_up, &mut bus, 4).unwrap();
            carry_out(&program.start, &mut bus, 4).unwrap();
            if let_go {
                bus.let_go(4);
            }
            drop(bus);
            let (control, modes) = if let_go { (USER | 1 | 1 << 5, 0x2100) } else { (USER | 1, 0x100) };
            assert_eq!(fake.borrow().values[&CONTROL], control);
            assert_eq!(fake.borrow().values[&[3, 1, 15, 1, 0]], modes);
        }
    }
}
