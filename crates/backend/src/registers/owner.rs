//! Counters that another user has enabled.

use cyclometer_arch::{Chip, Fault, PmuReg, Register, Registers, amd, apple, arm, intel};
use cyclometer_core::CounterId;
use cyclometer_core::pmu::Family;

/// The counters of a CPU that count now, for perf, a watchdog, or any other user.
///
/// Only registers are read. A counter of perf for a process that does not run at this moment is not among
/// them, nor is one that is taken later. So a driver has to check that the registers keep the values that it
/// wrote.
///
/// On Apple's chips only the programmable counters are returned, as the kernel has the fixed ones enabled all
/// the time. RISC-V's counters are behind the firmware, which does not report their use: the answer is empty.
///
/// # Errors
///
/// The first fault of a register that every chip of the family has.
///
/// # Source
///
/// Intel SDM volume 3, "Architectural Performance Monitoring Version 4": a bit of IA32_PERF_GLOBAL_INUSE
/// means that an event select is not 0. Linux leaves selects behind when an event is closed
/// (`arch/x86/events/perf_event.h`, `x86_pmu_disable_event` clears the enable bit only), so each such counter
/// is checked further.
pub fn in_use(chip: &Chip, cpu: u32, bus: &mut dyn Registers) -> Result<Vec<CounterId>, Fault> {
    let mut look = Look { chip, cpu, bus };
    match chip.family {
        Family::Intel => look.intel(),
        Family::Amd => look.amd(),
        Family::Apple => look.apple(),
        Family::Arm => look.arm(),
        Family::RiscV => Ok(Vec::new()),
    }
}

/// Reads the registers of a CPU.
struct Look<'a> {
    chip: &'a Chip,
    cpu: u32,
    bus: &'a mut dyn Registers,
}

impl Look<'_> {
    fn general(&self) -> impl Iterator<Item = u8> + use<> {
        let counters = self.chip.counters.known().general_bits();
        (0..64).filter(move |n| counters >> n & 1 == 1)
    }

    fn fixed(&self) -> impl Iterator<Item = u8> + use<> {
        let counters = self.chip.counters.known().fixed_bits();
        (0..64).filter(move |n| counters >> n & 1 == 1)
    }

    /// The value of a register; `None` for one that is not on the chip's list.
    fn read(&mut self, register: Register) -> Result<Option<u64>, Fault> {
        match PmuReg::of(self.chip, register) {
            Ok(register) => self.bus.read(self.cpu, register).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The same for a register that some chips and most hypervisors lack.
    fn read_if_there(&mut self, register: Register) -> Result<Option<u64>, Fault> {
        match self.read(register) {
            Err(Fault::NoRegister { .. }) => Ok(None),
            other => other,
        }
    }

    fn intel(&mut self) -> Result<Vec<CounterId>, Fault> {
        use intel::Register as R;
        let enabled = match self.chip.pmu_version {
            None | Some(1) => u64::MAX,
            _ => self.read(Register::Intel(R::GlobalControl))?.unwrap_or(u64::MAX),
        };
        let programmed = match self.chip.pmu_version {
            Some(4..) => self.read_if_there(Register::Intel(R::GlobalInUse))?,
            _ => None,
        };
        // Hypervisors may return 0 for unknown registers, which means nothing.
        let programmed = programmed.filter(|bits| *bits != 0).unwrap_or(u64::MAX);
        let suspects = enabled & programmed;
        let mut found = Vec::new();
        for n in self.general().filter(|n| suspects >> n & 1 == 1) {
            let select = self.read(Register::Intel(R::EventSelect(n)))?;
            found.extend(select.filter(|select| select & intel::EN != 0).map(|_| CounterId::General(n)));
        }
        let bit = |n: u8| intel::GLOBAL_FIXED_SHIFT + u32::from(n);
        let mut fixed = self.fixed().filter(|n| *n < 16 && suspects >> bit(*n) & 1 == 1).peekable();
        if fixed.peek().is_some() {
            let control = self.read(Register::Intel(R::FixedControl))?.unwrap_or(0);
            let counts = |n: &u8| control >> (4 * n) & (intel::FIXED_OS | intel::FIXED_USR) != 0;
            found.extend(fixed.filter(counts).map(CounterId::Fixed));
        }
        Ok(found)
    }

    fn amd(&mut self) -> Result<Vec<CounterId>, Fault> {
        use amd::Register as R;
        let enabled = match self.chip.pmu_version {
            None | Some(1) => u64::MAX,
            _ => self.read(Register::Amd(R::GlobalControl))?.unwrap_or(u64::MAX),
        };
        let mut found = Vec::new();
        for n in self.general().filter(|n| enabled >> n & 1 == 1) {
            let select = match self.read(Register::Amd(R::EventSelect(n)))? {
                None => self.read(Register::Amd(R::LegacyEventSelect(n)))?,
                select => select,
            };
            found.extend(select.filter(|select| select & amd::EN != 0).map(|_| CounterId::General(n)));
        }
        Ok(found)
    }

    /// # Source
    ///
    /// AsahiLinux/docs, `docs/hw/cpu/system-registers.md`, PMCR0: the counters' enable bits are 0 to 7, 32
    /// and 33.
    fn apple(&mut self) -> Result<Vec<CounterId>, Fault> {
        let control = self.read(Register::Apple(apple::Register::Control))?.unwrap_or(0);
        let bit = |n: u8| if n < 8 { n } else { n + 24 };
        Ok(self
            .general()
            .filter(|n| *n < 10 && control >> bit(*n) & 1 == 1)
            .map(CounterId::General)
            .collect())
    }

    fn arm(&mut self) -> Result<Vec<CounterId>, Fault> {
        let enabled = self.read(Register::Arm(arm::Register::EnableSet))?.unwrap_or(0);
        let on = |n: &u8| enabled >> n & 1 == 1;
        let general = self.general().filter(on).map(CounterId::General);
        Ok(general.chain(self.fixed().filter(on).map(CounterId::Fixed)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_arch::ChipCounters;
    use cyclometer_core::CounterMask;
    use cyclometer_sim::{InjectedFault, Model, Settings, SimMachine};

    fn watched(model: &'static Model, counter: CounterId) -> Vec<CounterId> {
        let mut machine = SimMachine::new(model, Settings { cpus: 2, ..Settings::default() });
        machine.inject(InjectedFault::Watchdog { cpu: 1, counter, period_cycles: 1_000_000 }).unwrap();
        assert_eq!(in_use(&model.chip, 0, &mut machine), Ok(Vec::new()), "{}: the other CPU", model.id);
        in_use(&model.chip, 1, &mut machine).unwrap()
    }

    #[test]
    fn the_counter_of_a_watchdog_is_found_on_every_chip() {
        for model in Model::ALL {
            for counter in model.chip.counters.known().iter() {
                let apples_own = model.chip.family == Family::Apple && matches!(counter, CounterId::Fixed(_));
                let expected = if apples_own { Vec::new() } else { vec![counter] };
                assert_eq!(watched(model, counter), expected, "{} {counter}", model.id);
            }
        }
    }

    fn on(model: &str, writes: &[(&str, u64)]) -> Vec<CounterId> {
        let model = Model::find(model).unwrap();
        let mut machine = SimMachine::new(model, Settings::default());
        for (name, value) in writes {
            let register = Register::parse(&model.chip, name).unwrap();
            machine.write(0, PmuReg::of(&model.chip, register).unwrap(), *value).unwrap();
            machine.barrier(0);
        }
        in_use(&model.chip, 0, &mut machine).unwrap()
    }

    #[test]
    fn a_select_that_perf_left_behind_holds_no_counter() {
        let left = ("IA32_PERFEVTSEL2", 0x13_00c0);
        assert_eq!(on("skylake", &[("IA32_PERF_GLOBAL_CTRL", 0xff), left]), []);
        let enabled = ("IA32_PERFEVTSEL2", 0x53_00c0);
        assert_eq!(on("skylake", &[enabled]), [], "the global register does not enable it");
        assert_eq!(on("skylake", &[("IA32_PERF_GLOBAL_CTRL", 0xf), enabled]), [CounterId::General(2)]);
    }

    #[test]
    fn a_fixed_counter_needs_a_mode_and_its_global_bit() {
        let global = ("IA32_PERF_GLOBAL_CTRL", 0b111 << 32);
        assert_eq!(on("icelake", &[global, ("IA32_FIXED_CTR_CTRL", 0x8)]), [], "an interrupt only");
        let expected = [CounterId::Fixed(0), CounterId::Fixed(2)];
        assert_eq!(on("icelake", &[global, ("IA32_FIXED_CTR_CTRL", 0x201)]), expected);
    }

    #[test]
    fn on_amd_both_enable_bits_count_from_zen_4_on() {
        let select = ("PERF_CTL3", 0x43_0076);
        assert_eq!(on("amdzen2", &[select]), [CounterId::General(3)]);
        assert_eq!(on("amdzen4", &[select]), []);
        assert_eq!(on("amdzen4", &[select, ("PERF_CNTR_GLOBAL_CTL", 0b1000)]), [CounterId::General(3)]);
    }

    /// A machine with this answer for IA32_PERF_GLOBAL_INUSE: a fault under KVM, or 0 if it ignores unknown
    /// registers.
    struct Without<'a> {
        machine: &'a mut SimMachine,
        answer: Option<u64>,
    }

    impl Registers for Without<'_> {
        fn read(&mut self, cpu: u32, register: PmuReg) -> Result<u64, Fault> {
            match register.register() {
                Register::Intel(intel::Register::GlobalInUse) => {
                    self.answer.ok_or(Fault::NoRegister { register })
                }
                _ => self.machine.read(cpu, register),
            }
        }

        fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
            self.machine.write(cpu, register, value)
        }

        fn barrier(&mut self, cpu: u32) {
            self.machine.barrier(cpu);
        }
    }

    #[test]
    fn a_guest_without_the_register_of_users_is_looked_at_all_the_same() {
        let model = Model::find("skylake").unwrap();
        let mut machine = SimMachine::new(model, Settings::default());
        let counter = CounterId::General(1);
        machine.inject(InjectedFault::Watchdog { cpu: 0, counter, period_cycles: 1000 }).unwrap();
        for answer in [None, Some(0)] {
            let mut without = Without { machine: &mut machine, answer };
            assert_eq!(in_use(&model.chip, 0, &mut without), Ok(vec![counter]), "{answer:?}");
        }
    }

    #[test]
    fn a_fault_of_a_register_that_must_be_there_is_told() {
        let model = Model::find("amdzen4").unwrap();
        let mut machine = SimMachine::new(model, Settings::default());
        assert_eq!(in_use(&model.chip, 9, &mut machine), Err(Fault::NoCpu { cpu: 9 }));
        let legacy =
            Chip { counters: ChipCounters::of(CounterMask::first(4, 0)), pmu_version: None, ..model.chip };
        assert!(in_use(&legacy, 0, &mut machine).is_ok());
    }
}
