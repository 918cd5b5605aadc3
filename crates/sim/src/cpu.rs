//! One logical CPU: its registers, and counters that count.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cyclometer_arch::{Access, Fault, PmuReg, Register, amd, apple, arm, intel, layout};
use cyclometer_core::pmu::Family;
use cyclometer_core::{Concept, CounterId};
use cyclometer_semantics::{Activity, ActivityProgress, Meaning, Semantics};

use crate::family::{Acting, Active, Overflow, active, extent, status_bit};
use crate::model::Model;

/// The registers of a model, and the bits that each of them has.
#[derive(Debug)]
pub(crate) struct ModelRegisters {
    listed: HashSet<PmuReg>,
    bits: HashMap<Register, u64>,
}

impl ModelRegisters {
    pub(crate) fn of(model: &Model) -> ModelRegisters {
        let has = |entry: &PmuReg| match entry.register() {
            Register::Intel(intel::Register::Extra(kind)) => model.extra.contains(&kind),
            Register::Intel(intel::Register::Metrics) => model.metrics > 0,
            _ => true,
        };
        let listed: HashSet<PmuReg> = PmuReg::all(&model.chip).into_iter().filter(has).collect();
        let bits = |register| layout(&model.chip, register).iter().fold(0, |bits, field| bits | field.mask());
        let bits = listed.iter().map(|entry| (entry.register(), bits(entry.register()))).collect();
        ModelRegisters { listed, bits }
    }

    pub(crate) fn check(&self, register: PmuReg) -> Result<(), Fault> {
        if self.listed.contains(&register) { Ok(()) } else { Err(Fault::NoRegister { register }) }
    }
}

#[derive(Debug)]
struct SimulatedCounter {
    id: CounterId,
    value: u64,
    width: u32,
    overflow: Overflow,
    active: Option<Active>,
}

/// A stretch of cycles, with its instruction stream and mode.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub progress: &'a ActivityProgress,
    pub activity: &'a Activity,
    pub user: bool,
}

/// Registers and counters.
#[derive(Debug)]
pub(crate) struct SimulatedCpu {
    model: &'static Model,
    semantics: Arc<Semantics>,
    layout: Arc<ModelRegisters>,
    /// The values that reads return.
    written: HashMap<Register, u64>,
    /// The values that have taken effect: on Arm and Apple only after a barrier.
    acting: HashMap<Register, u64>,
    counters: Vec<SimulatedCounter>,
    /// Overflow flags, and on Intel the flag of frozen counters.
    status: u64,
    shares: SlotShares,
}

/// The parts of PERF_METRICS: slots and parts of them since it was last written.
#[derive(Clone, Copy, Debug, Default)]
struct SlotShares {
    slots: u64,
    parts: [u64; Activity::SLOT_PARTS.len()],
}

impl SlotShares {
    /// The value of PERF_METRICS with so many fields.
    fn word(&self, fields: usize) -> u64 {
        let share = |part: u64| (u128::from(part) * 255 / u128::from(self.slots.max(1))) as u64;
        (0..fields).fold(0, |word, field| word | share(self.parts[field]) << (8 * field))
    }
}

impl Acting for HashMap<Register, u64> {
    fn acting(&self, register: Register) -> u64 {
        self.get(&register).copied().unwrap_or(0)
    }
}

impl SimulatedCpu {
    pub(crate) fn new(
        model: &'static Model,
        layout: Arc<ModelRegisters>,
        semantics: Arc<Semantics>,
    ) -> SimulatedCpu {
        let none = HashMap::new();
        let counter = |id| {
            let (width, overflow) = extent(model, &none, id);
            SimulatedCounter { id, value: 0, width, overflow, active: None }
        };
        let counters = model.counters().map(counter).collect();
        SimulatedCpu {
            model,
            semantics,
            layout,
            written: HashMap::new(),
            acting: none,
            counters,
            status: 0,
            shares: SlotShares::default(),
        }
    }

    pub(crate) fn read(&self, entry: PmuReg) -> u64 {
        let register = canonical(entry.register());
        match register {
            Register::Intel(register) => self.read_intel(register),
            Register::Amd(amd::Register::Counter(n)) => self.value(CounterId::General(n)),
            Register::Amd(amd::Register::GlobalStatus) => self.status,
            Register::Apple(apple::Register::Counter(n)) => self.value(apple_counter(n)),
            Register::Apple(apple::Register::Status) => self.status,
            Register::Arm(register) => self.read_arm(register),
            register => self.written.acting(register),
        }
    }

    fn read_intel(&self, register: intel::Register) -> u64 {
        use intel::Register as R;
        match register {
            R::Counter(n) | R::FullWidthCounter(n) => self.value(CounterId::General(n)),
            R::FixedCounter(n) => self.value(CounterId::Fixed(n)),
            R::GlobalStatus => self.status,
            R::GlobalInUse => self.in_use(),
            R::Capabilities => FULL_WIDTH_WRITES | if self.model.metrics > 0 { HAS_METRICS } else { 0 },
            R::Metrics => self.shares.word(self.model.metrics),
            register => self.written.of_intel(register),
        }
    }

    fn read_arm(&self, register: arm::Register) -> u64 {
        use arm::Register as R;
        match register {
            R::Counter(n) => self.value(CounterId::General(n)),
            R::CycleCounter => self.value(CounterId::Fixed(arm::CYCLE_COUNTER)),
            R::OverflowSet | R::OverflowClear => self.status,
            R::EnableClear => self.written.of_arm(R::EnableSet),
            R::InterruptClear => self.written.of_arm(R::InterruptSet),
            R::Control => {
                let counters = u64::from(self.model.chip.counters.known().general_bits().count_ones());
                self.written.of_arm(register) | counters << arm::PMCR_N_SHIFT
            }
            R::CommonEvents0 => self.common_events(0),
            R::CommonEvents1 => self.common_events(32),
            register => self.written.of_arm(register),
        }
    }

    /// A bit for each of 32 common events that the CPU has.
    fn common_events(&self, first: u16) -> u64 {
        let bit = |select: u16| select.checked_sub(first).filter(|bit| *bit < 32);
        self.semantics
            .rows()
            .iter()
            .filter_map(|row| bit(self.model.select(row.code).0))
            .fold(0, |bits, bit| bits | 1 << bit)
    }

    /// IA32_PERF_GLOBAL_INUSE.
    fn in_use(&self) -> u64 {
        let select = |n| self.written.of_intel(intel::Register::EventSelect(n));
        let fixed = |n: u8| self.written.of_intel(intel::Register::FixedControl) >> (4 * n) & 0xf;
        let mut bits = 0;
        for counter in &self.counters {
            let (used, interrupts) = match counter.id {
                CounterId::General(n) => (select(n) != 0, select(n) & intel::INT != 0),
                CounterId::Fixed(n) => (fixed(n) != 0, fixed(n) & intel::FIXED_PMI != 0),
            };
            bits |= u64::from(used) << status_bit(Family::Intel, counter.id) | u64::from(interrupts) << 63;
        }
        bits
    }

    /// Writes a register as silicon takes it: reserved bits fault on Intel and are dropped elsewhere.
    ///
    /// # Source
    ///
    /// Linux `arch/x86/kvm/pmu.c`, `kvm_pmu_set_msr`: AMD ignores writes to reserved bits and read-only
    /// registers, Intel raises #GP. Arm ARM, RES0. No source says that Apple's registers fault.
    pub(crate) fn write(&mut self, entry: PmuReg, value: u64) -> Result<(), Fault> {
        let family = self.model.chip.family;
        if entry.access() == Access::Read {
            return if family == Family::Amd { Ok(()) } else { Err(Fault::ReadOnly { register: entry }) };
        }
        let bits = self.layout.bits.get(&entry.register()).copied().unwrap_or(0);
        let narrow = matches!(entry.register(), Register::Intel(intel::Register::Counter(_)));
        if family == Family::Intel && value & !bits != 0 && !narrow {
            return Err(Fault::Reserved { register: entry, bits: value & !bits });
        }
        match canonical(entry.register()) {
            Register::Intel(register) => self.write_intel(register, value),
            Register::Amd(register) => self.write_amd(register, value & bits),
            Register::Apple(register) => self.write_apple(register, value & bits),
            Register::Arm(register) => self.write_arm(register, value & bits),
            _ => {}
        }
        Ok(())
    }

    fn write_intel(&mut self, register: intel::Register, value: u64) {
        use intel::Register as R;
        match register {
            // 32 bits, sign-extended.
            R::Counter(n) => self.preset(CounterId::General(n), value as u32 as i32 as i64 as u64),
            R::FullWidthCounter(n) => self.preset(CounterId::General(n), value),
            R::FixedCounter(n) => self.preset(CounterId::Fixed(n), value),
            R::GlobalStatusReset => self.status &= !value,
            // The shares begin anew, whatever the value.
            R::Metrics => self.shares = SlotShares::default(),
            register => self.keep(Register::Intel(register), value),
        }
        self.act();
    }

    fn write_amd(&mut self, register: amd::Register, value: u64) {
        use amd::Register as R;
        match register {
            R::Counter(n) => self.preset(CounterId::General(n), value),
            R::GlobalStatusClear => self.status &= !value,
            register => self.keep(Register::Amd(register), value),
        }
        self.act();
    }

    fn write_apple(&mut self, register: apple::Register, value: u64) {
        match register {
            apple::Register::Counter(n) => {
                self.preset(apple_counter(n), value);
                if value >> self.model.counter_width().overflow_bit & 1 == 0 {
                    self.status &= !(1 << n);
                }
            }
            register => self.keep(Register::Apple(register), value),
        }
    }

    fn write_arm(&mut self, register: arm::Register, value: u64) {
        use arm::Register as R;
        let old = |register| self.written.of_arm(register);
        match register {
            R::Counter(n) => self.preset(CounterId::General(n), value),
            R::CycleCounter => self.preset(CounterId::Fixed(arm::CYCLE_COUNTER), value),
            R::OverflowClear => self.status &= !(value & self.counter_bits()),
            R::EnableSet => self.keep(Register::Arm(register), (old(register) | value) & self.counter_bits()),
            R::EnableClear => self.keep(Register::Arm(R::EnableSet), old(R::EnableSet) & !value),
            R::InterruptSet => {
                self.keep(Register::Arm(register), (old(register) | value) & self.counter_bits())
            }
            R::InterruptClear => self.keep(Register::Arm(R::InterruptSet), old(R::InterruptSet) & !value),
            R::Control => self.write_arm_control(value),
            register => self.keep(Register::Arm(register), value),
        }
    }

    fn write_arm_control(&mut self, value: u64) {
        for counter in &mut self.counters {
            let reset = match counter.id {
                CounterId::General(_) => arm::PMCR_P,
                CounterId::Fixed(_) => arm::PMCR_C,
            };
            if value & reset != 0 {
                counter.value = 0;
            }
        }
        // The number of counters is read-only; event counters of this core have 32 bits.
        let kept = arm::PMCR_E | arm::PMCR_LC;
        self.keep(Register::Arm(arm::Register::Control), value & kept);
    }

    /// The bits of the counters that the CPU has.
    fn counter_bits(&self) -> u64 {
        self.counters.iter().fold(0, |bits, counter| bits | self.status_mask(counter.id))
    }

    fn keep(&mut self, register: Register, value: u64) {
        self.written.insert(register, value);
    }

    /// Lets written values take effect.
    pub(crate) fn act(&mut self) {
        self.acting = self.written.clone();
        self.settle();
    }

    /// Writes a register as hardware or the kernel does: the value takes effect at once.
    pub(crate) fn force(&mut self, register: Register, value: u64) {
        self.written.insert(register, value);
        self.acting.insert(register, value);
        self.settle();
    }

    /// Decides anew what each counter counts.
    fn settle(&mut self) {
        for counter in &mut self.counters {
            counter.active = active(self.model, &self.semantics, &self.acting, counter.id);
            (counter.width, counter.overflow) = extent(self.model, &self.acting, counter.id);
        }
    }

    fn value(&self, id: CounterId) -> u64 {
        self.counters.iter().find(|counter| counter.id == id).map_or(0, |counter| counter.value)
    }

    /// Gives a counter a value.
    pub(crate) fn preset(&mut self, id: CounterId, value: u64) {
        if let Some(counter) = self.counters.iter_mut().find(|counter| counter.id == id) {
            counter.value = value & low_bits(counter.width);
        }
    }

    fn status_mask(&self, id: CounterId) -> u64 {
        1 << status_bit(self.model.chip.family, id)
    }

    pub(crate) fn has_overflowed(&self, id: CounterId) -> bool {
        self.status & self.status_mask(id) != 0
    }

    pub(crate) fn forget_overflow(&mut self, id: CounterId) {
        self.status &= !self.status_mask(id);
    }

    fn is_frozen(&self) -> bool {
        self.model.chip.family == Family::Intel && self.status & intel::CTR_FRZ != 0
    }

    /// The counters that a stretch changes, with their events.
    fn counting(&self, user: bool) -> impl Iterator<Item = (&SimulatedCounter, Active)> {
        let runs = !self.is_frozen();
        let counts = move |active: &Active| runs && if user { active.user } else { active.kernel };
        self.counters.iter().filter_map(move |counter| Some((counter, counter.active.filter(counts)?)))
    }

    /// The cycles of a stretch up to the next overflow, at most `limit`.
    pub(crate) fn until_overflow(&self, stretch: Stretch<'_>, limit: u64) -> u64 {
        let until = |(counter, active): (&SimulatedCounter, Active)| {
            let distance = counter.overflow.distance(counter.value, counter.width);
            active.meaning.cycles_until(stretch.progress, stretch.activity, distance, limit)
        };
        self.counting(stretch.user).filter_map(until).min().unwrap_or(limit)
    }

    /// Counts a stretch of at most [`Self::until_overflow`] cycles; whether an overflow asks for an
    /// interrupt.
    pub(crate) fn count(&mut self, stretch: Stretch<'_>, cycles: u64) -> bool {
        self.count_shares(stretch, cycles);
        self.add(stretch.user, |meaning| meaning.counted(stretch.progress, stretch.activity, cycles))
    }

    /// Counts an interrupt that comes in a stretch; whether an overflow asks for another one.
    pub(crate) fn count_interrupt(&mut self, stretch: Stretch<'_>) -> bool {
        self.add(stretch.user, |meaning| meaning.counted_at_interrupt(stretch.progress, stretch.activity))
    }

    /// Adds events to the counters that count in a mode; whether an overflow asks for an interrupt.
    fn add(&mut self, user: bool, events: impl Fn(&Meaning) -> u64) -> bool {
        let (family, frozen) = (self.model.chip.family, self.is_frozen());
        let (mut raised, mut overflowed) = (false, 0);
        for counter in self.counters.iter_mut().filter(|_| !frozen) {
            let counts = |active: &Active| if user { active.user } else { active.kernel };
            let Some(active) = counter.active.filter(counts) else { continue };
            let events = events(&active.meaning);
            if u128::from(events) >= counter.overflow.distance(counter.value, counter.width) {
                overflowed |= 1 << status_bit(family, counter.id);
                raised |= active.interrupts;
            }
            counter.value = counter.value.wrapping_add(events) & low_bits(counter.width);
        }
        self.status |= overflowed;
        raised
    }

    /// PERF_METRICS count while they and the counter of slots do.
    fn count_shares(&mut self, stretch: Stretch<'_>, cycles: u64) {
        let enabled =
            self.acting.of_intel(intel::Register::GlobalControl) >> intel::GLOBAL_METRICS_BIT & 1 == 1;
        let slots = CounterId::Fixed(intel::SLOTS);
        if !enabled || !self.counting(stretch.user).any(|(counter, _)| counter.id == slots) {
            return;
        }
        let events = |concept| Meaning::sum(&[concept]).counted(stretch.progress, stretch.activity, cycles);
        self.shares.slots += events(Concept::Slots);
        for (part, concept) in self.shares.parts.iter_mut().zip(Activity::SLOT_PARTS) {
            *part += events(concept);
        }
    }

    /// Whether an interrupt that comes now has to wait.
    pub(crate) fn holds_interrupts(&self) -> bool {
        self.model.chip.family == Family::Apple
            && self.acting.of_apple(apple::Register::Control) & apple::PMCR0_ACTIVE != 0
    }

    /// Whether the cause of an interrupt is gone, and the interrupt with it: on Arm, where flags drive a
    /// line.
    pub(crate) fn takes_back_interrupts(&self) -> bool {
        self.model.chip.family == Family::Arm && !self.line_is_up()
    }

    /// Whether a counter that interrupts has its flag set.
    pub(crate) fn has_flag(&self) -> bool {
        let interrupts = |counter: &SimulatedCounter| counter.active.is_some_and(|active| active.interrupts);
        self.counters.iter().any(|counter| interrupts(counter) && self.has_overflowed(counter.id))
    }

    /// Whether the line of interrupts is up: on Arm, as long as a flag is set whose counter interrupts.
    pub(crate) fn line_is_up(&self) -> bool {
        let enabled = self.acting.of_arm(arm::Register::InterruptSet);
        let on = self.acting.of_arm(arm::Register::Control) & arm::PMCR_E != 0;
        self.model.chip.family == Family::Arm && on && self.status & enabled != 0
    }

    /// The effect of an interrupt of the PMU on its registers.
    pub(crate) fn take_interrupt(&mut self) {
        match self.model.chip.family {
            Family::Apple => {
                let register = Register::Apple(apple::Register::Control);
                self.force(register, self.acting.acting(register) | apple::PMCR0_ACTIVE);
            }
            Family::Intel => {
                let debug = self.acting.of_intel(intel::Register::DebugControl);
                if debug & intel::FREEZE_PERFMON_ON_PMI != 0 {
                    self.status |= intel::CTR_FRZ;
                }
            }
            _ => {}
        }
    }

    /// Whether user mode may use the registers.
    pub(crate) fn is_open_to_user(&self) -> bool {
        self.model.chip.family == Family::Apple
            && self.acting.of_apple(apple::Register::Control) & apple::PMCR0_USER != 0
    }

    /// Opens the registers to user mode, as a patched kernel does; only Apple's can be.
    pub(crate) fn open_to_user(&mut self) {
        if self.model.chip.family == Family::Apple {
            let register = Register::Apple(apple::Register::Control);
            self.force(register, self.acting.acting(register) | apple::PMCR0_USER);
        }
    }

    /// The kernel writes its own value to the register that enables counters.
    pub(crate) fn rewrite_control(&mut self) {
        match self.model.chip.family {
            Family::Apple => self.force(Register::Apple(apple::Register::Control), KERNELS_PMCR0),
            Family::Intel => self.force(Register::Intel(intel::Register::GlobalControl), 0),
            Family::Arm => self.force(Register::Arm(arm::Register::Control), 0),
            Family::Amd if self.model.chip.is_of_version(2) => {
                self.force(Register::Amd(amd::Register::GlobalControl), 0);
            }
            _ => {
                for n in 0..amd::MOST_COUNTERS {
                    self.force(Register::Amd(amd::Register::EventSelect(n)), 0);
                }
            }
        }
    }
}

/// PERF_CAPABILITIES: counters can be written in full width.
///
/// # Source
///
/// Intel SDM volume 3, "Full-Width Writes to Performance Counter Registers".
const FULL_WIDTH_WRITES: u64 = 1 << 13;
/// PERF_CAPABILITIES: PERF_METRICS is there.
///
/// # Source
///
/// Linux `arch/x86/events/perf_event.h`, `union perf_capabilities`.
const HAS_METRICS: u64 = 1 << 15;

/// The value that xnu writes to PMCR0: PMC0 and PMC1 count and interrupt as FIQs; everything else is off.
///
/// # Source
///
/// xnu, `PMCR0_INIT` of its code for counters (cpc) on arm64, 0x3403. The older
/// `osfmk/arm64/monotonic_arm64.c` has an initial value without the enable bits and with the bit that stops
/// the counters at interrupts.
const KERNELS_PMCR0: u64 = 0b11 | 0b11 << 12 | apple::PMCR0_MODE_FIQ;

/// AMD's legacy registers are other names of the first four extended ones.
const fn canonical(register: Register) -> Register {
    match register {
        Register::Amd(amd::Register::LegacyEventSelect(n)) => Register::Amd(amd::Register::EventSelect(n)),
        Register::Amd(amd::Register::LegacyCounter(n)) => Register::Amd(amd::Register::Counter(n)),
        register => register,
    }
}

fn apple_counter(n: u8) -> CounterId {
    if n < apple::FIRST_CONFIGURABLE { CounterId::Fixed(n) } else { CounterId::General(n) }
}

const fn low_bits(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}
