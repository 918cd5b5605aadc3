//! The contents of a table of events as plain values: one CPU, its counters, its events.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth, EventCode};

/// One CPU (or one core type of a hybrid) and its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuTable {
    /// Its facts.
    pub header: Header,
    /// Its events, by name.
    pub events: Vec<TableEvent>,
    /// The kernel's encodings of its generic events on this CPU.
    pub generic: Vec<Generic>,
}

/// The facts of a CPU that events and counters depend on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Its id in the manner of Linux's pmu-events folders: `skylake`, `alderlake/core`, `apple-m1`.
    pub cpu: String,
    /// The common name: `Sapphire Rapids`, `Alder Lake P-core (Golden Cove)`.
    pub title: String,
    /// The layout of its registers.
    pub family: Family,
    /// The CPUs of this table, one pattern each: `GenuineIntel-6-8f`, `arm-0x41-0xd0c`, `apple-0x1b588bb3`.
    pub matches: Vec<String>,
    /// Version of the architecture's PMU: Intel's perfmon version, AMD's PerfMon version; `None` when there
    /// is none.
    pub pmu_version: Option<u32>,
    /// Bits of the event select field; `None` when unknown.
    pub selector_bits: Option<u32>,
    /// Width of the counters; `None` when unknown.
    pub counter_width: Option<CounterWidth>,
    /// The CPU's counters.
    pub counters: CounterMask,
    /// Version of the vendor's file.
    pub version: String,
    /// Date of the vendor's file, `2026-03-24`; empty where it has none.
    pub date: String,
    /// The sources of the facts: repository, commit and path.
    pub sources: Vec<String>,
    /// The licence under which the source is published.
    pub licence: String,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableEvent {
    /// The vendor's name.
    pub name: String,
    /// Other names of the same event, for example the vendor's older ones.
    pub aliases: Vec<String>,
    /// The code for a counter. For a fixed event it is the vendor's pseudo code: select 0, unit mask
    /// index + 1.
    pub code: EventCode,
    /// The whole config word, if an event has no select and unit mask (RISC-V).
    pub config: Option<u64>,
    /// The counters that may count it; `None` if the vendor names none.
    pub counters: Option<CounterMask>,
    /// Codes that count the same with another extra register.
    pub also: Vec<Also>,
    /// Whether the vendor deprecates it.
    pub deprecated: bool,
    /// Whether no other event may be counted while it is sampled.
    pub taken_alone: bool,
    /// Names of its errata.
    pub errata: Vec<String>,
    /// The vendor's own words: only from a file that the user gave, never in a table of ours.
    pub about: String,
}

/// Another code of an event, with another extra register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Also {
    /// The whole code.
    pub code: EventCode,
    /// The counters that may count this code; `None` if the vendor names none.
    pub counters: Option<CounterMask>,
}

/// The kernel's encoding of a generic event on a CPU.
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
