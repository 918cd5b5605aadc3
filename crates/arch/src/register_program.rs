//! Events on counters to what a driver does: the register program.

mod check;

use std::num::NonZeroU64;

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterWidth, Modes};

use self::check::{check_options, check_share, counters_once, counts_slots, share_of};

use crate::access::{Fault, PmuReg, Registers};
use crate::chip::{Chip, Coded, CounterOptions};
use crate::decode::layout;
use crate::error::EncodeError;
use crate::field::low_mask;
use crate::program::{combine, registers, takes_two_counters};
use crate::register::{Register, RegisterWrite};
use crate::{amd, apple, arm, intel};

/// An event on a counter, as a plan has placed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The event.
    pub coded: Coded,
    /// Its counter.
    pub counter: CounterId,
    /// The modes in which it counts.
    pub modes: Modes,
    /// After how many events the counter interrupts; `None`: never.
    pub period: Option<NonZeroU64>,
}

impl Placed {
    /// The same with an interrupt after each `events` events.
    ///
    /// # Errors
    ///
    /// A period of 0.
    pub fn every(self, events: u64) -> Result<Placed, EncodeError> {
        let period = NonZeroU64::new(events).ok_or(EncodeError::ZeroPeriod { counter: self.counter })?;
        Ok(Placed { period: Some(period), ..self })
    }
}

/// Options of a register program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProgramOptions {
    /// Whether Intel's general counters can be written in full width (PERF_CAPABILITIES bit 13): without it a
    /// period has at most 31 bits there.
    pub full_width_writes: bool,
    /// Whether an interrupt stops the counters until it is acknowledged. Intel from version 4 on, Apple, and
    /// Arm with [`ProgramOptions::has_freeze_on_overflow`], where every period is then on an event counter.
    ///
    /// Events of other counters until the interrupt is served are then not counted: Linux gave this up on
    /// Intel for that reason ("perf/intel: Remove Perfmon-v4 counter_freezing support").
    ///
    /// AMD's chips with PerfMonV2 can say that they freeze counters (CPUID 8000_0022 EAX bit 2), but the bit
    /// that asks for it is in no source of this crate; Linux freezes branch records only
    /// (`arch/x86/events/amd/lbr.c`).
    pub freeze_on_interrupt: bool,
    /// Whether an Arm PMU can freeze on an overflow: FEAT_PMUv3p7, ID_AA64DFR0_EL1.PMUVer from 7 on. It
    /// freezes the event counters while any of them has its overflow flag, also one that other software has
    /// left set.
    pub has_freeze_on_overflow: bool,
    /// Whether IA32_PERF_METRICS has the second level of the top-down method: P-cores from Golden Cove on.
    /// Other cores read 0 for those shares.
    pub has_second_level: bool,
    /// Whether Intel's registers of version 6 (IA32_PMC_GPn_CTR and those behind it) stand for the older
    /// ones.
    ///
    /// # Source
    ///
    /// Linux `arch/x86/events/intel/core.c`, `intel_pmu_init`, "V6+ MSR Aliasing".
    pub v6_registers: bool,
    /// Whether user mode gets access to the registers (Apple's PMCR0, bit 30).
    pub user_access: bool,
}

/// Bits of a register and the values they get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterBits {
    /// The register.
    pub register: PmuReg,
    /// The values of the bits.
    pub value: u64,
    /// The bits that are meant; the others keep what they have. All of them: the register need not be read
    /// first.
    pub mask: u64,
}

impl RegisterBits {
    /// The value of the register after the write, if it was `before`.
    pub const fn over(&self, before: u64) -> u64 {
        before & !self.mask | self.value
    }

    /// Whether a register's value has these bits as they are here.
    pub const fn are_in(&self, value: u64) -> bool {
        value & self.mask == self.value
    }

    /// The same bits as zeros.
    const fn cleared(self) -> RegisterBits {
        RegisterBits { value: 0, ..self }
    }
}

/// One step of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Bits are written.
    Write(RegisterBits),
    /// Earlier writes act from here on.
    Barrier,
}

/// Where an event's count is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterRead {
    /// The index of the event in what the program was made of.
    pub slot: usize,
    /// The counter.
    pub counter: CounterId,
    /// Its register.
    pub register: PmuReg,
    /// Where a first value is written: the same register, or Intel's other one that takes all bits.
    pub preset_register: PmuReg,
    /// How many bits of it count.
    pub width_bits: u32,
    /// The value before it has counted anything: 0, or a period below its overflow.
    pub preset: u64,
    /// Its bit in [`RegisterProgram::status`].
    pub status_bit: u32,
    /// Where the register holds no count but a share of slots: [`RegisterProgram::counts`] makes a count of
    /// it.
    pub share: Option<SlotShare>,
}

/// A share of slots in IA32_PERF_METRICS: an eighth of the register, as a fraction of 255 of the slots since
/// both were set to 0.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `icl_get_metrics_event_value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotShare {
    /// Its lowest bit in the register; it has 8.
    pub low: u8,
    /// Where in [`RegisterProgram::reads`] slots are counted.
    pub slots: usize,
}

impl SlotShare {
    /// How many slots it is, by the values of both registers. The more slots, the coarser: a 255th of them is
    /// the step.
    pub const fn of(&self, slots: u64, metrics: u64) -> u64 {
        let part = metrics >> self.low & intel::METRICS_WHOLE;
        (slots as u128 * part as u128 / intel::METRICS_WHOLE as u128) as u64
    }
}

impl CounterRead {
    /// The events between two values of the register, of which the first was read before the second: exact as
    /// long as there were fewer than 2^width. For a share the difference has no meaning:
    /// [`RegisterProgram::counts`].
    pub const fn between(&self, before: u64, after: u64) -> u64 {
        after.wrapping_sub(before) & low_mask(self.width_bits)
    }
}

/// The steps of a driver on one CPU to count events.
///
/// Bits of others are left as they are; order and barriers are those that the family needs.
///
/// ```
/// use cyclometer_arch::{Chip, ChipCounters, Coded, Placed, ProgramOptions, register_program};
/// use cyclometer_core::{CounterId, CounterMask, CounterWidth, EventCode, Modes};
///
/// let chip = Chip {
///     pmu_version: Some(4),
///     counter_width: Some(CounterWidth::carrying(48)),
///     counters: ChipCounters::of(CounterMask::first(4, 3)),
///     ..Chip::default()
/// };
/// let misses = Coded::new(EventCode { select: 0xc5, ..EventCode::default() });
/// let placed =
///     Placed { coded: misses, counter: CounterId::General(0), modes: Modes::USER, period: None };
/// let program = register_program(&chip, &[placed], ProgramOptions::default())?;
/// assert_eq!(program.reads[0].register.to_string(), "IA32_PMC0");
/// assert_eq!(program.reads[0].between(0xffff_ffff_fff0, 5), 21);
/// # Ok::<(), cyclometer_arch::EncodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterProgram {
    /// Stops the counters that are used, and gives them events, modes and first values.
    pub set_up: Vec<Step>,
    /// Lets them count.
    pub start: Vec<Step>,
    /// Lets them count no longer; values stay.
    pub stop: Vec<Step>,
    /// Takes away what was set up, enabling registers first. A driver that saved the registers uses
    /// [`restore`] instead.
    pub tear_down: Vec<Step>,
    /// The counters to read, in the order of the events.
    pub reads: Vec<CounterRead>,
    /// The values of the registers while the program counts: another value means that another program wrote
    /// there.
    pub holds: Vec<RegisterBits>,
    /// The values of the registers while it is set up and stopped; the registers that only enable counters
    /// are not among them.
    pub rests: Vec<RegisterBits>,
    /// Tells which counters overflowed; `None` where only their values do.
    pub status: Option<PmuReg>,
    /// How seen overflows are acknowledged.
    acknowledging: Acknowledging,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acknowledging {
    /// There is nothing to acknowledge.
    Nothing,
    /// The bits that were seen, written to a register, and a bit that thaws the counters.
    Bits { register: PmuReg, thaw: u64 },
    /// Bits of a register are written as 0.
    Zeros(RegisterBits),
}

impl RegisterProgram {
    /// The registers that the program writes, each once: what is to be saved before it.
    pub fn touched(&self) -> Vec<PmuReg> {
        let mut touched = Vec::new();
        for step in self.set_up.iter().chain(&self.start) {
            if let Step::Write(RegisterBits { register, .. }) = step
                && !touched.contains(register)
                && keeps_what_is_written(register.register())
            {
                touched.push(*register);
            }
        }
        touched
    }

    /// The bits of a register that the program writes.
    fn writes(&self, register: PmuReg) -> u64 {
        let of = |step: &Step| match step {
            Step::Write(bits) if bits.register == register => bits.mask,
            _ => 0,
        };
        self.set_up.iter().chain(&self.start).fold(0, |all, step| all | of(step))
    }

    /// The counts of all events between two readings of [`Self::reads`], in their order. `None` where the
    /// values are not as many as the reads.
    ///
    /// A share of slots is what it was after less what it was before, each since the program was set up.
    pub fn counts(&self, before: &[u64], after: &[u64]) -> Option<Vec<u64>> {
        if before.len() != self.reads.len() || after.len() != self.reads.len() {
            return None;
        }
        let count = |(i, read): (usize, &CounterRead)| match read.share {
            None => Some(read.between(before[i], after[i])),
            Some(share) => {
                let of = |values: &[u64]| Some(share.of(*values.get(share.slots)?, values[i]));
                Some(of(after)?.saturating_sub(of(before)?))
            }
        };
        self.reads.iter().enumerate().map(count).collect()
    }

    /// The steps in the handler of an interrupt before counting goes on: they acknowledge the bits of
    /// [`Self::status`] that were seen, and no others; no step where there is nothing to write.
    pub fn acknowledge(&self, seen: u64) -> Vec<Step> {
        match self.acknowledging {
            Acknowledging::Nothing => Vec::new(),
            Acknowledging::Bits { thaw, .. } if seen | thaw == 0 => Vec::new(),
            Acknowledging::Bits { register, thaw } => {
                vec![
                    Step::Write(RegisterBits { register, value: seen | thaw, mask: u64::MAX }),
                    Step::Barrier,
                ]
            }
            Acknowledging::Zeros(bits) => vec![Step::Write(bits), Step::Barrier],
        }
    }

    /// The state after [`Self::acknowledge`] and before counting goes on: no interrupt that still holds
    /// others, or that freezes the counters. `None` where an interrupt does neither.
    pub fn acknowledged(&self) -> Option<RegisterBits> {
        match self.acknowledging {
            Acknowledging::Zeros(bits) => Some(bits),
            Acknowledging::Bits { thaw, .. } if thaw != 0 => {
                self.status.map(|register| RegisterBits { register, value: 0, mask: thaw })
            }
            _ => None,
        }
    }
}

/// Writes back what registers held before a program, as [`RegisterProgram::touched`] names them: first
/// everything off, then as it was, enabling registers last. Bits that the program does not write keep what
/// they have by then, and so do registers that it does not touch.
///
/// A general counter of Intel gets all of its bits back only if the program was made with
/// [`ProgramOptions::full_width_writes`], else its lowest 32, sign-extended.
pub fn restore(program: &RegisterProgram, saved: &[(PmuReg, u64)]) -> Vec<Step> {
    let write = |&(register, value): &(PmuReg, u64)| {
        let mask = program.writes(register) & register.access().writable();
        Step::Write(RegisterBits { register, value: value & mask, mask })
    };
    let own = saved.iter().filter(|(register, _)| program.writes(*register) != 0);
    let (enabling, others): (Vec<_>, Vec<_>) = own.partition(|(register, _)| enables(register.register()));
    let mut steps = program.stop.clone();
    // Registers whose zeros change nothing: what was set there is cleared elsewhere.
    let clears =
        |step: &&Step| matches!(step, Step::Write(bits) if !keeps_what_is_written(bits.register.register()));
    steps.extend(program.tear_down.iter().filter(clears));
    steps.extend(others.iter().copied().map(write));
    steps.push(Step::Barrier);
    steps.extend(enabling.iter().copied().map(write));
    steps.push(Step::Barrier);
    steps
}

/// Makes the steps of a program on one CPU; bits that are not meant are read first.
///
/// # Errors
///
/// The first fault; the steps behind it are not made.
pub fn carry_out(steps: &[Step], on: &mut dyn Registers, cpu: u32) -> Result<(), Fault> {
    for step in steps {
        match step {
            Step::Barrier => on.barrier(cpu),
            Step::Write(bits) => {
                let before = if bits.mask == u64::MAX { 0 } else { on.read(cpu, bits.register)? };
                on.write(cpu, bits.register, bits.over(before))?;
            }
        }
    }
    Ok(())
}

/// The program that counts events on the counters where a plan has placed them.
///
/// A share of slots (Intel's `topdown-retiring` and the like) is placed on fixed counter
/// [`intel::METRICS_BASE`] and its number, beside SLOTS on fixed counter 3, in the same modes and without a
/// period.
///
/// # Errors
///
/// Errors of [`registers`](crate::registers()) and [`combine`](crate::combine()); a counter that the chip
/// does not have or that has two events; a period of more than half of the counter's range; a share without
/// slots; bits that are reserved; an option that the chip does not have; events of RISC-V, which firmware
/// programs.
pub fn register_program(
    chip: &Chip,
    placed: &[Placed],
    options: ProgramOptions,
) -> Result<RegisterProgram, EncodeError> {
    if chip.family == Family::RiscV {
        return Err(EncodeError::ByFirmware);
    }
    check_options(chip, placed, options)?;
    counters_once(chip, placed)?;
    let mut writes = Vec::new();
    for event in placed {
        writes.extend(writes_of(chip, event, placed)?);
    }
    let controls = combine(&writes)?.into_iter().map(|write| RegisterWrite {
        register: if options.v6_registers { v6(write.register) } else { write.register },
        ..write
    });
    let parts = ProgramParts {
        chip,
        options,
        controls: listed(chip, controls)?,
        reads: reads(chip, placed, options)?,
        presets: presets(chip, placed, options)?,
    };
    match chip.family {
        Family::Intel => parts.intel(),
        Family::Amd => parts.amd(),
        Family::Apple => parts.apple(),
        Family::Arm => parts.arm(),
        Family::RiscV => Err(EncodeError::ByFirmware),
    }
}

/// The registers that an event writes; a share only lets PERF_METRICS count.
fn writes_of(chip: &Chip, event: &Placed, placed: &[Placed]) -> Result<Vec<RegisterWrite>, EncodeError> {
    if let Some(share) = share_of(chip, &event.coded) {
        check_share(share, event, placed)?;
        return Ok(vec![intel::code::enable_metrics()?]);
    }
    if chip.family == Family::Intel && intel::code::is_metric(&event.coded.code) {
        let (family, pmu_version) = (chip.family, chip.pmu_version);
        return Err(EncodeError::NoField { field: "PERF_METRICS", family, pmu_version });
    }
    let how = CounterOptions { modes: event.modes, interrupt: event.period.is_some() };
    registers(chip, &event.coded, Some(event.counter), how)
}

/// The register of version 6 that is another name of a register.
fn v6(register: Register) -> Register {
    use intel::Register::{
        Counter, EventSelect, FixedCounter, FullWidthCounter, V6Counter, V6EventSelect, V6FixedCounter,
    };
    match register {
        Register::Intel(EventSelect(n)) => Register::Intel(V6EventSelect(n)),
        Register::Intel(Counter(n) | FullWidthCounter(n)) => Register::Intel(V6Counter(n)),
        Register::Intel(FixedCounter(n)) => Register::Intel(V6FixedCounter(n)),
        other => other,
    }
}

fn listed(
    chip: &Chip,
    writes: impl Iterator<Item = RegisterWrite>,
) -> Result<Vec<RegisterBits>, EncodeError> {
    writes.map(|write| whole_or_bits(chip, write.register, write.value, write.mask)).collect()
}

/// Bits of a register of the chip, none of them reserved.
fn whole_or_bits(
    chip: &Chip,
    register: Register,
    value: u64,
    mask: u64,
) -> Result<RegisterBits, EncodeError> {
    let fields = layout(chip, register).iter().fold(0, |bits, field| bits | field.mask());
    match value & !fields {
        0 => Ok(RegisterBits { register: PmuReg::of(chip, register)?, value, mask }),
        bits => Err(EncodeError::Reserved { register: register.to_string(), bits }),
    }
}

/// The register in which a counter counts.
fn counter_register(
    chip: &Chip,
    counter: CounterId,
    options: ProgramOptions,
) -> Result<Register, EncodeError> {
    let register = usual_register(chip, counter)?;
    Ok(if options.v6_registers { v6(register) } else { register })
}

fn usual_register(chip: &Chip, counter: CounterId) -> Result<Register, EncodeError> {
    Ok(match (chip.family, counter) {
        (Family::Intel, CounterId::General(n)) => Register::Intel(intel::Register::Counter(n)),
        (Family::Intel, CounterId::Fixed(n)) => Register::Intel(intel::Register::FixedCounter(n)),
        (Family::Amd, CounterId::General(n)) => Register::Amd(amd::counter_register(chip, n)),
        (Family::Apple, CounterId::General(n) | CounterId::Fixed(n)) => {
            Register::Apple(apple::Register::Counter(n))
        }
        (Family::Arm, CounterId::General(n)) => Register::Arm(arm::Register::Counter(n)),
        (Family::Arm, CounterId::Fixed(arm::CYCLE_COUNTER)) => Register::Arm(arm::Register::CycleCounter),
        (Family::Arm, CounterId::Fixed(_)) => Register::Arm(arm::Register::InstructionCounter),
        (Family::RiscV, _) => return Err(EncodeError::ByFirmware),
        (Family::Amd, CounterId::Fixed(_)) => return Err(EncodeError::NoRegister),
    })
}

/// The same counter's register for a first value: that of full width, where there is one.
fn preset_register(
    chip: &Chip,
    counter: CounterId,
    options: ProgramOptions,
) -> Result<Register, EncodeError> {
    match (chip.family, counter) {
        (Family::Intel, CounterId::General(n)) if options.full_width_writes && !options.v6_registers => {
            Ok(Register::Intel(intel::Register::FullWidthCounter(n)))
        }
        _ => counter_register(chip, counter, options),
    }
}

/// How many bits of a counter count, and which bit tells an overflow: the first above them where a carry
/// does.
fn extent(chip: &Chip, counter: CounterId) -> (u32, u32) {
    match (chip.family, counter) {
        // With PMCR.LC; the instruction counter has 64 bits always.
        (Family::Arm, CounterId::Fixed(_)) => (64, 64),
        _ => {
            let width = chip.counter_width.unwrap_or(CounterWidth::carrying(64));
            (width.bits.clamp(1, 64), width.overflow_bit.clamp(1, 64))
        }
    }
}

/// The bit of a counter in the register that tells overflows.
fn status_bit(family: Family, counter: CounterId) -> u32 {
    match (family, counter) {
        (Family::Intel, counter) => intel::code::global_bit(counter),
        (_, CounterId::General(n) | CounterId::Fixed(n)) => n.into(),
    }
}

/// The first value of a counter: `period` events below its overflow.
fn preset(chip: &Chip, event: &Placed, options: ProgramOptions) -> Result<u64, EncodeError> {
    let Some(period) = event.period else { return Ok(0) };
    let (width, overflow) = extent(chip, event.counter);
    let narrow = chip.family == Family::Intel
        && matches!(event.counter, CounterId::General(_))
        && !options.full_width_writes;
    let bits = if narrow { overflow.min(32) } else { overflow };
    let (value, greatest) = (period.get(), 1 << (bits - 1));
    if value > greatest {
        return Err(EncodeError::PeriodTooLong { counter: event.counter, period: value, greatest });
    }
    let top = 1u64.checked_shl(overflow).unwrap_or(0);
    Ok(top.wrapping_sub(value) & low_mask(width))
}

fn reads(chip: &Chip, placed: &[Placed], options: ProgramOptions) -> Result<Vec<CounterRead>, EncodeError> {
    let slots = placed.iter().position(counts_slots);
    let read = |(slot, event): (usize, &Placed)| match share_of(chip, &event.coded).zip(slots) {
        Some((share, slots)) => share_read(chip, slot, event.counter, SlotShare { low: 8 * share, slots }),
        None => Ok(CounterRead {
            slot,
            counter: event.counter,
            register: PmuReg::of(chip, counter_register(chip, event.counter, options)?)?,
            preset_register: PmuReg::of(chip, preset_register(chip, event.counter, options)?)?,
            width_bits: extent(chip, event.counter).0,
            preset: preset(chip, event, options)?,
            status_bit: status_bit(chip.family, event.counter),
            share: None,
        }),
    };
    placed.iter().enumerate().map(read).collect()
}

fn share_read(
    chip: &Chip,
    slot: usize,
    counter: CounterId,
    share: SlotShare,
) -> Result<CounterRead, EncodeError> {
    let register = PmuReg::of(chip, Register::Intel(intel::Register::Metrics))?;
    let (status_bit, share) = (intel::GLOBAL_METRICS_BIT, Some(share));
    Ok(CounterRead {
        slot,
        counter,
        register,
        preset_register: register,
        width_bits: 8,
        preset: 0,
        status_bit,
        share,
    })
}

/// The writes that give counters their first values, the second counter of a pair included.
fn presets(chip: &Chip, placed: &[Placed], options: ProgramOptions) -> Result<Vec<Step>, EncodeError> {
    let mut steps = Vec::new();
    let mut write = |register, value| {
        steps.push(Step::Write(whole_or_bits(chip, register, value, u64::MAX)?));
        Ok::<(), EncodeError>(())
    };
    let (shares, counted): (Vec<&Placed>, Vec<&Placed>) =
        placed.iter().partition(|event| share_of(chip, &event.coded).is_some());
    for event in counted {
        write(preset_register(chip, event.counter, options)?, preset(chip, event, options)?)?;
        if let CounterId::General(n) = event.counter
            && takes_two_counters(chip, &event.coded)
        {
            write(preset_register(chip, CounterId::General(n + 1), options)?, 0)?;
        }
    }
    if !shares.is_empty() {
        // Behind slots, of which they are shares: the kernel's order in `icl_set_topdown_event_period`.
        write(Register::Intel(intel::Register::Metrics), 0)?;
    }
    Ok(steps)
}

/// Whether a register keeps a value, so that it can be saved, checked and written back.
const fn keeps_what_is_written(register: Register) -> bool {
    !matches!(
        register,
        Register::Intel(intel::Register::GlobalStatusReset)
            | Register::Amd(amd::Register::GlobalStatusClear)
            | Register::Arm(
                arm::Register::EnableClear | arm::Register::OverflowClear | arm::Register::InterruptClear
            )
    )
}

/// Whether a register lets counters count.
const fn enables(register: Register) -> bool {
    matches!(
        register,
        Register::Intel(intel::Register::GlobalControl)
            | Register::Amd(amd::Register::GlobalControl)
            | Register::Apple(apple::Register::Control)
            | Register::Arm(arm::Register::EnableSet)
    )
}

/// The parts that make up a program.
struct ProgramParts<'a> {
    chip: &'a Chip,
    options: ProgramOptions,
    /// Events, modes, enabling registers last.
    controls: Vec<RegisterBits>,
    reads: Vec<CounterRead>,
    presets: Vec<Step>,
}

impl ProgramParts<'_> {
    fn register(&self, register: Register) -> Result<PmuReg, EncodeError> {
        Ok(PmuReg::of(self.chip, register)?)
    }

    /// A write of some bits of a register.
    fn bits(&self, register: Register, value: u64, mask: u64) -> Result<RegisterBits, EncodeError> {
        whole_or_bits(self.chip, register, value, mask)
    }

    /// The bits of all counters that are used in the register that tells overflows.
    fn status_bits(&self) -> u64 {
        self.reads.iter().fold(0, |bits, read| bits | 1 << read.status_bit)
    }

    /// The controls without those that enable, and those.
    fn split(&self) -> (Vec<RegisterBits>, Vec<RegisterBits>) {
        self.controls.iter().partition(|bits| !enables(bits.register.register()))
    }

    fn program(self, around: Around) -> RegisterProgram {
        let Around { off, set_up, start, neutral, holds, rests, status, acknowledging } = around;
        let with_barrier = |bits: Vec<RegisterBits>| {
            bits.into_iter().map(Step::Write).chain([Step::Barrier]).collect::<Vec<_>>()
        };
        let mut first = with_barrier(off.clone());
        first.extend(set_up.into_iter().map(Step::Write));
        first.extend(self.presets);
        first.push(Step::Barrier);
        let mut last = with_barrier(off.clone());
        last.extend(with_barrier(neutral));
        RegisterProgram {
            set_up: first,
            start: with_barrier(start),
            stop: with_barrier(off),
            tear_down: last,
            reads: self.reads,
            holds,
            rests,
            status,
            acknowledging,
        }
    }

    /// With a global register that enables counters, or without one by their event selects.
    fn x86(self, own: X86) -> Result<RegisterProgram, EncodeError> {
        let (selects, global) = self.split();
        let X86 { enable, extra, clear, status } = own;
        let acknowledging = match clear {
            Some(bits) => {
                let thaw = bits.value & !self.status_bits();
                Acknowledging::Bits { register: bits.register, thaw }
            }
            None => Acknowledging::Nothing,
        };
        let holds: Vec<RegisterBits> = selects.iter().chain(&extra).chain(&global).copied().collect();
        let neutral = selects.iter().chain(&extra).map(|bits| bits.cleared()).chain(clear).collect();
        let off_selects = || selects.iter().map(|bits| RegisterBits { value: bits.value & !enable, ..*bits });
        let (off, set_up, start): (Vec<_>, Vec<_>, _) = match global.is_empty() {
            true => (off_selects().collect(), extra.clone(), selects.clone()),
            false => {
                let off = global.iter().map(|bits| bits.cleared()).collect();
                (off, extra.iter().chain(&selects).copied().collect(), global.clone())
            }
        };
        let rests = match global.is_empty() {
            true => off_selects().chain(extra).collect(),
            false => set_up.clone(),
        };
        let set_up = set_up.into_iter().chain(clear).collect();
        Ok(self.program(Around { off, set_up, start, neutral, holds, rests, status, acknowledging }))
    }

    fn intel(self) -> Result<RegisterProgram, EncodeError> {
        use intel::Register::{DebugControl, GlobalStatus, GlobalStatusReset};
        let freeze = self.options.freeze_on_interrupt;
        let frozen = if freeze { intel::CTR_FRZ } else { 0 };
        let extra = match freeze {
            true => {
                let bit = intel::FREEZE_PERFMON_ON_PMI;
                vec![self.bits(Register::Intel(DebugControl), bit, bit)?]
            }
            false => Vec::new(),
        };
        let (clear, status) = match self.chip.pmu_version {
            None | Some(1) => (None, None),
            _ => {
                let bits = self.status_bits() | frozen;
                let clear = self.bits(Register::Intel(GlobalStatusReset), bits, u64::MAX)?;
                (Some(clear), Some(self.register(Register::Intel(GlobalStatus))?))
            }
        };
        self.x86(X86 { enable: intel::EN, extra, clear, status })
    }

    fn amd(self) -> Result<RegisterProgram, EncodeError> {
        use amd::Register::{GlobalStatus, GlobalStatusClear};
        let (clear, status) = match self.chip.pmu_version {
            None | Some(1) => (None, None),
            _ => {
                let clear = self.bits(Register::Amd(GlobalStatusClear), self.status_bits(), u64::MAX)?;
                (Some(clear), Some(self.register(Register::Amd(GlobalStatus))?))
            }
        };
        self.x86(X86 { enable: amd::EN, extra: Vec::new(), clear, status })
    }

    fn apple(self) -> Result<RegisterProgram, EncodeError> {
        use apple::Register::{Control, Status};
        let (selects, mut start) = self.split();
        let off = start.iter().map(|bits| off_without_mode(*bits)).collect();
        let also = [
            (self.options.freeze_on_interrupt, apple::PMCR0_STOP),
            (self.options.user_access, apple::PMCR0_USER),
        ];
        let also = also.iter().filter(|(set, _)| *set).fold(0, |sum, (_, bit)| sum | bit);
        for bits in &mut start {
            bits.value |= also;
            bits.mask |= also;
        }
        let interrupts = self.reads.iter().any(|read| read.preset != 0);
        let active = self.bits(Register::Apple(Control), 0, apple::PMCR0_ACTIVE)?;
        let mut neutral: Vec<RegisterBits> = selects.iter().map(|bits| bits.cleared()).collect();
        if also != 0 {
            neutral.push(self.bits(Register::Apple(Control), 0, also)?);
        }
        let holds = selects.iter().chain(&start).copied().collect();
        let status = Some(self.register(Register::Apple(Status))?);
        let acknowledging = if interrupts { Acknowledging::Zeros(active) } else { Acknowledging::Nothing };
        let rests = selects.clone();
        Ok(self.program(Around { off, set_up: selects, start, neutral, holds, rests, status, acknowledging }))
    }

    /// The bits of PMCR that freeze counters: the cycle counter stands still with the others only if asked
    /// to.
    ///
    /// # Source
    ///
    /// Arm ARM, "Freezing event counters" and "Prohibiting event and cycle counting".
    fn frozen_on_overflow(&self) -> u64 {
        let cycles = CounterId::Fixed(arm::CYCLE_COUNTER);
        let counts_cycles = self.reads.iter().any(|read| read.counter == cycles);
        arm::PMCR_FZO | if counts_cycles { arm::PMCR_DP } else { 0 }
    }

    fn arm(self) -> Result<RegisterProgram, EncodeError> {
        use arm::Register::{Control, EnableClear, EnableSet, InterruptClear, OverflowClear, OverflowSet};
        let own = self.status_bits();
        let whole = |register| self.bits(Register::Arm(register), own, u64::MAX);
        let off = vec![whole(EnableClear)?];
        let (silence, clear) = (whole(InterruptClear)?, whole(OverflowClear)?);
        let start = vec![self.bits(Register::Arm(EnableSet), own, own)?];
        let long =
            if self.chip.counter_width.is_some_and(|width| width.bits > 32) { arm::PMCR_LP } else { 0 };
        let frozen = if self.options.freeze_on_interrupt { self.frozen_on_overflow() } else { 0 };
        let (filters, _) = self.split();
        let set_up: Vec<RegisterBits> = filters
            .iter()
            .map(|bits| match bits.register.register() {
                Register::Arm(Control) => {
                    let also = arm::PMCR_LC | long | frozen;
                    RegisterBits { value: bits.value | also, mask: bits.mask | also, ..*bits }
                }
                _ => *bits,
            })
            .collect();
        let of_counter = |bits: &&RegisterBits| bits.mask == u64::MAX;
        let mut neutral: Vec<RegisterBits> =
            set_up.iter().filter(of_counter).map(|bits| bits.cleared()).collect();
        neutral.extend([silence, clear]);
        if frozen != 0 {
            neutral.push(self.bits(Register::Arm(Control), 0, frozen)?);
        }
        let holds = set_up.iter().chain(&start).copied().collect();
        let status = Some(self.register(Register::Arm(OverflowSet))?);
        let acknowledging = Acknowledging::Bits { register: clear.register, thaw: 0 };
        let rests = set_up.clone();
        let set_up = [silence, clear].into_iter().chain(set_up).collect();
        Ok(self.program(Around { off, set_up, start, neutral, holds, rests, status, acknowledging }))
    }
}

/// Apple's counters and their interrupts switched off; the interrupt mode is the machine's.
fn off_without_mode(bits: RegisterBits) -> RegisterBits {
    RegisterBits { value: 0, mask: bits.mask & !apple::PMCR0_MODE, ..bits }
}

/// Differences between Intel and AMD.
struct X86 {
    /// The bit of an event select that enables its counter.
    enable: u64,
    /// Other bits that are set.
    extra: Vec<RegisterBits>,
    /// Clears overflows.
    clear: Option<RegisterBits>,
    /// Tells overflows.
    status: Option<PmuReg>,
}

/// A program without what all of them have in common.
struct Around {
    off: Vec<RegisterBits>,
    set_up: Vec<RegisterBits>,
    start: Vec<RegisterBits>,
    neutral: Vec<RegisterBits>,
    holds: Vec<RegisterBits>,
    rests: Vec<RegisterBits>,
    status: Option<PmuReg>,
    acknowledging: Acknowledging,
}

#[cfg(test)]
mod tests;
