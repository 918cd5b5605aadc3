//! Fields of Apple's registers.

use crate::apple::{ALL_COUNTERS, COUNTERS_PER_PMESR, FIRST_CONFIGURABLE, Register};
use crate::chip::Chip;
use crate::field::{FieldSpec, set_bits};

const CONTROL: &[FieldSpec] = &[
    FieldSpec::bits(8, 10, "INTERRUPT_MODE", "how an overflow interrupts").with_values(&[
        (0, "overflows do not interrupt"),
        (1, "overflows raise a PMI"),
        (2, "overflows interrupt through the interrupt controller (AIC)"),
        (3, "overflows halt"),
        (4, "overflows raise a FIQ"),
    ]),
    FieldSpec::bit(11, "PMI_ACTIVE", "an interrupt is pending; written as 0: clears it"),
    FieldSpec::bit(20, "STOP_ON_PMI", "an interrupt stops the counters"),
    FieldSpec::bit(21, "BIT_21", "unused (xnu); counts L2 events of all cores (Linux): sources disagree"),
    FieldSpec::bit(22, "BLOCK_PMI", "no interrupt until the return from an exception"),
    FieldSpec::bit(23, "GLOBAL_L2C", "counts L2 events of all cores of the cluster"),
    FieldSpec::bits(24, 26, "PC_CAPTURE", "captures the program counter at overflows of PMC5 to PMC7")
        .by(CAPTURE),
    FieldSpec::bit(30, "EL0_ACCESS", "EL0 may use the PMU's registers"),
    FieldSpec::bit(31, "FORCE_CLOCK", "keeps the PMU's clock running")
        .by("xnu osfmk/arm64/monotonic_arm64.c"),
];

const CAPTURE: &str = "xnu osfmk/arm64/kpc.c, kpc_pmi_handler";

const PC_CAPTURE: &[FieldSpec] = &[
    FieldSpec::bits(0, 47, "PC", "the captured program counter").always(),
    FieldSpec::bits(56, 58, "PMC", "the counter that overflowed"),
];

const KPC: &[FieldSpec] = &[
    FieldSpec::bits(0, 15, "SELECTOR", "event").always(),
    FieldSpec::bit(16, "EL0_32", "counts at EL0 in 32-bit code; no current chip does"),
    FieldSpec::bit(17, "EL0", "counts at EL0"),
    FieldSpec::bit(18, "EL1", "counts at EL1; release kernels since macOS 15 drop it"),
    FieldSpec::bit(19, "EL3", "counts at EL3; no current chip does"),
];

pub(crate) fn layout(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    match register {
        Register::Control => control(chip),
        Register::Modes => modes(chip),
        Register::EventSelect(n) => event_select(chip, n),
        Register::Status => per_counter(chip, FieldSpec::bit(0, "OVF_PMC", "the counter overflowed"), 0, 8),
        Register::PcCapture => PC_CAPTURE.to_vec(),
        Register::Counter(_) => counter(chip),
        Register::KpcConfig(_) => KPC.to_vec(),
        Register::Watchpoints => unpublished("watchpoints"),
        Register::Breakpoints => unpublished("breakpoints and address match"),
        Register::OpcodeMatch | Register::OpcodeValue(_) | Register::OpcodeMask(_) => {
            unpublished("opcode match")
        }
        Register::MemoryMap => unpublished("memory map filter"),
        Register::Threshold(_) => unpublished("threshold"),
    }
}

/// A register whose bits nobody has published.
fn unpublished(meaning: &'static str) -> Vec<FieldSpec> {
    vec![FieldSpec::bits(0, 63, "VALUE", meaning)]
}

/// Linux' driver takes the event alone.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`, format `event` (`config:0-7`); chips with 16-bit events are not
/// upstream.
pub(crate) fn perf_layout(chip: &Chip) -> Vec<FieldSpec> {
    vec![FieldSpec::bits(0, selector_bits(chip) - 1, "EVENT", "event").always()]
}

/// Bits of an event: 8 on A14, M1, A15 and M2, 16 from A16 and M3 on.
///
/// # Source
///
/// xnu `pexpert/pexpert/arm64/H15.h`, `CPMU_16BIT_EVENTS`.
pub(crate) const fn selector_bits(chip: &Chip) -> u8 {
    match chip.selector_bits {
        Some(9..) => 16,
        _ => 8,
    }
}

fn counter(chip: &Chip) -> Vec<FieldSpec> {
    let overflow = chip.counter_width.map_or(63, |width| width.overflow_bit.clamp(1, 63)) as u8;
    vec![
        FieldSpec::bits(0, overflow - 1, "COUNT", "the count").always(),
        FieldSpec::bit(overflow, "OVERFLOW", "the counter overflowed: this bit raises the interrupt"),
    ]
}

fn event_select(chip: &Chip, n: u8) -> Vec<FieldSpec> {
    let (first, width) = (FIRST_CONFIGURABLE + COUNTERS_PER_PMESR * n, selector_bits(chip));
    let event = FieldSpec::bits(0, width - 1, "EVENT_PMC", "event of the counter");
    let here = (0..COUNTERS_PER_PMESR).filter(|i| general(chip) >> (first + i) & 1 == 1);
    here.map(|i| event.of((first + i).into(), width * i)).collect()
}

fn general(chip: &Chip) -> u64 {
    chip.counters_or(ALL_COUNTERS).general_bits() & ALL_COUNTERS.general_bits()
}

/// One bit for each counter: PMC0 to PMC7 from `low`, PMC8 and PMC9 from `high`.
fn per_counter(chip: &Chip, field: FieldSpec, low: u8, high: u8) -> Vec<FieldSpec> {
    let fixed = chip.counters_or(ALL_COUNTERS).fixed_bits() & 0b11;
    set_bits(fixed | general(chip)).map(|n| field.of(n.into(), bit_of(n, low, high))).collect()
}

/// The bit of counter `n` in a field that is split behind PMC7.
pub(crate) const fn bit_of(n: u8, low: u8, high: u8) -> u8 {
    if n < 8 { low + n } else { high + n - 8 }
}

fn control(chip: &Chip) -> Vec<FieldSpec> {
    let mut fields = per_counter(chip, FieldSpec::bit(0, "EN_PMC", "the counter counts"), 0, 32);
    fields.extend_from_slice(CONTROL);
    let interrupt = FieldSpec::bit(0, "PMI_EN_PMC", "an overflow of the counter interrupts");
    fields.extend(per_counter(chip, interrupt, 12, 44));
    fields
}

fn modes(chip: &Chip) -> Vec<FieldSpec> {
    let level = |name, meaning, low, high| per_counter(chip, FieldSpec::bit(0, name, meaning), low, high);
    let mut fields = level("EL0_32_PMC", "counts at EL0 in 32-bit code; no current chip does", 0, 32);
    fields.extend(level("EL0_PMC", "the counter counts at EL0", 8, 40));
    fields.extend(level("EL1_PMC", "the counter counts at EL1", 16, 48));
    fields.extend(level("EL3_PMC", "counts at EL3; no current chip does", 24, 56));
    fields
}
