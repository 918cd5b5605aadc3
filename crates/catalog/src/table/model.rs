//! What a table of events says, as plain values: one CPU, its counters, its events.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, EventCode};

/// One CPU (or one core type of a hybrid) and its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuTable {
    /// Its facts.
    pub header: Header,
    /// Its events, by name.
    pub events: Vec<TableEvent>,
    /// What the kernel counts for its generic events on this CPU.
    pub generic: Vec<Generic>,
}

/// The facts of a CPU that events and counters depend on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Its id in the manner of Linux's pmu-events folders: `skylake`, `alderlake/core`, `apple-m1`.
    pub cpu: String,
    /// What people call it: `Sapphire Rapids`, `Alder Lake P-core (Golden Cove)`.
    pub title: String,
    /// How its registers are laid out.
    pub family: Family,
    /// Which CPUs it is, one pattern each: `GenuineIntel-6-8f`, `arm-0x41-0xd0c`, `apple-0x1b588bb3`.
    pub matches: Vec<String>,
    /// Version of the architecture's PMU: Intel's perfmon version, AMD's PerfMon version; 0 when there is none.
    pub pmu_version: u32,
    /// Bits of the event select field.
    pub selector_bits: u32,
    /// Width of a counter in bits.
    pub counter_width_bits: u32,
    /// The bit that tells an overflow; the width where a carry does.
    pub overflow_bit: u32,
    /// The counters there are.
    pub counters: CounterMask,
    /// Version of the vendor's file.
    pub version: String,
    /// Date of the vendor's file, `2026-03-24`; empty where it has none.
    pub date: String,
    /// Where the facts come from: repository, commit and path.
    pub sources: Vec<String>,
    /// Under which licence the source is published.
    pub licence: String,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableEvent {
    /// The vendor's name.
    pub name: String,
    /// Other names of the same event, the vendor's older ones for example.
    pub aliases: Vec<String>,
    /// What a counter is told. Of a fixed event the vendor's pseudo code: select 0, unit mask index + 1.
    pub code: EventCode,
    /// The whole config word, where an event is no select and unit mask (RISC-V).
    pub config: Option<u64>,
    /// The counters that may count it; empty where the vendor names none.
    pub counters: CounterMask,
    /// Codes that count the same with another extra register.
    pub also: Vec<Also>,
    /// Whether the vendor wants it to be replaced.
    pub deprecated: bool,
    /// Whether nothing else may be counted when it is sampled.
    pub taken_alone: bool,
    /// Names of errata that concern it.
    pub errata: Vec<String>,
    /// The vendor's own words: only of a file that the user gave, never in a table of ours.
    pub about: String,
}

/// Another code of an event, with another extra register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Also {
    /// The whole code.
    pub code: EventCode,
    /// The counters that may count it so.
    pub counters: CounterMask,
}

/// What the kernel makes of a generic event on a CPU.
///
/// # Source
///
/// Linux `arch/x86/events/{intel,amd}/core.c`, `drivers/perf/arm_pmuv3.c`, `drivers/perf/riscv_pmu_sbi.c`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generic {
    /// Its name in perf: `cache-misses`, `L1-dcache-load-misses`.
    pub name: String,
    /// The raw config.
    pub config: u64,
    /// The raw config1: an offcore response.
    pub config1: u64,
}
