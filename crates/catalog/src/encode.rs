//! Everything that must be written to perf or to registers to count an event on a CPU.

use cyclometer_arch::apple::{KpcWord, kpc_word};
use cyclometer_arch::{Coded, CounterOptions, EncodeError, RegisterWrite, amd, perf_words, place, registers};
use cyclometer_core::pmu::{ConfigWords, Family};
use cyclometer_core::syntax::EventRequest;
use cyclometer_core::{CounterId, CounterMask, Modes, Result};

use crate::generic::{CacheEvent, HARDWARE, named};
use crate::pmu_names;
use crate::select::{Selected, cannot_be, chip, select};
use crate::table::{Cpu, Entry, Generic};

/// `PERF_TYPE_RAW`: the words are a code of the core PMU.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `enum perf_type_id`.
pub const RAW: u32 = 4;
/// `PERF_TYPE_HARDWARE`.
const HARDWARE_TYPE: u32 = 0;
/// `PERF_TYPE_HW_CACHE`.
const CACHE_TYPE: u32 = 3;

/// An event with its encodings.
#[derive(Clone, Debug)]
pub struct EventEncoding<'a> {
    /// The event.
    pub selected: Selected<'a>,
    /// The `PERF_TYPE_*` of perf's words: [`RAW`], except for events that only the kernel can encode. `None`
    /// where only the type in the PMU's `type` file is right: on hybrids and on Apple, where raw codes go to
    /// other cores.
    pub perf_type: Option<u32>,
    /// perf's words, or the reason why there are none.
    pub perf: std::result::Result<ConfigWords, EncodeError>,
    /// The counters that may count it; the CPU's general ones if the vendor names none.
    pub counters: CounterMask,
    /// The register writes for one counter, or the reason why there are none.
    pub registers: std::result::Result<Vec<RegisterWrite>, EncodeError>,
    /// macOS's word for the same counter and modes; `None` on other CPUs, and on fixed counters.
    pub kpc: Option<KpcWord>,
}

/// Encodes an event on a CPU. `counter` is the counter that the registers are for; `None` means the first
/// that fits. The modes are those of the request, and user and kernel if it names none.
///
/// A portable event that is a sum has several encodings.
///
/// # Errors
///
/// As [`select`].
pub fn encode<'a>(
    cpu: Cpu<'a>,
    request: &EventRequest,
    counter: Option<CounterId>,
) -> Result<Vec<EventEncoding<'a>>> {
    let how = CounterOptions::counting(request.modifiers.modes.unwrap_or(Modes::USER_KERNEL));
    let mut found = Vec::new();
    for selected in select(cpu, request)? {
        let mut encoding = encoded(cpu, selected, counter, how);
        if let Err(error @ EncodeError::TooLarge { .. }) = &encoding.perf {
            return Err(cannot_be(&request.text, error));
        }
        guests(&cpu, request, &mut encoding);
        found.push(encoding);
    }
    note_sum(&request.text, &mut found);
    Ok(found)
}

/// Adds to each summand of a portable event that their counts are to be added.
fn note_sum(text: &str, found: &mut [EventEncoding<'_>]) {
    if found.len() < 2 {
        return;
    }
    let names: Vec<&str> = found.iter().map(|encoding| encoding.selected.name.as_str()).collect();
    let note = format!("{text} is the sum {}: add their counts", names.join(" + "));
    for encoding in found {
        encoding.selected.notes.insert(0, note.clone());
    }
}

/// Restricts counting to guests or the host: AMD's registers have bits for it, others do not.
fn guests(cpu: &Cpu<'_>, request: &EventRequest, encoding: &mut EventEncoding<'_>) {
    let (guest, host) = (request.modifiers.guest_only, request.modifiers.host_only);
    if !guest && !host {
        return;
    }
    if cpu.family() != Family::Amd {
        encoding
            .selected
            .notes
            .push("G and H are not in these values: a hypervisor switches them".to_owned());
        return;
    }
    let bits = if guest { amd::GUEST_ONLY } else { 0 } | if host { amd::HOST_ONLY } else { 0 };
    for write in encoding.registers.iter_mut().flatten() {
        if write.register.is_amd_event_select() {
            write.value |= bits;
        }
    }
}

/// Encodes every event of a CPU, by name, for user and kernel mode.
pub fn encode_all<'a>(cpu: Cpu<'a>) -> impl Iterator<Item = EventEncoding<'a>> {
    cpu.events()
        .map(move |entry| encoded(cpu, of_entry(entry), None, CounterOptions::counting(Modes::USER_KERNEL)))
}

fn of_entry(entry: Entry<'_>) -> Selected<'_> {
    Selected {
        name: entry.name().to_owned(),
        entry: Some(entry),
        coded: Coded { code: entry.code(), config: entry.config(), counters: entry.counters() },
        generic: None,
        notes: Vec::new(),
    }
}

fn encoded<'a>(
    cpu: Cpu<'a>,
    selected: Selected<'a>,
    counter: Option<CounterId>,
    how: CounterOptions,
) -> EventEncoding<'a> {
    let chip = chip(&cpu);
    if let Some((perf_type, config)) = selected.generic.as_ref().and_then(|kernel| by_firmware(&cpu, kernel))
    {
        return EventEncoding {
            perf_type: Some(perf_type),
            perf: Ok(ConfigWords { config, ..ConfigWords::default() }),
            counters: counters(&cpu, &selected.coded),
            registers: Err(EncodeError::ByFirmware),
            kpc: None,
            selected,
        };
    }
    let perf = match &selected.generic {
        Some(kernel) => Ok(ConfigWords { config: kernel.config, config1: kernel.config1, config2: 0 }),
        None => perf_words(&chip, &selected.coded),
    };
    let registers = registers(&chip, &selected.coded, counter, how);
    EventEncoding {
        perf_type: raw_type(&cpu),
        perf,
        counters: counters(&cpu, &selected.coded),
        registers,
        kpc: kpc(&cpu, &selected.coded, counter, how.modes),
        selected,
    }
}

fn kpc(cpu: &Cpu<'_>, coded: &Coded, counter: Option<CounterId>, modes: Modes) -> Option<KpcWord> {
    if cpu.family() != Family::Apple {
        return None;
    }
    let chip = chip(cpu);
    kpc_word(&chip, coded, place(&chip, coded, counter).ok()?, modes).ok()
}

/// The type of raw codes, unless the kernel would use it for cores of another type.
///
/// # Source
///
/// Linux `arch/x86/events/core.c`: `PERF_TYPE_RAW` is `cpu_core` on hybrids.
fn raw_type(cpu: &Cpu<'_>) -> Option<u32> {
    let only = !cpu.id().contains('/') && cpu.family() != Family::Apple;
    only.then_some(RAW)
}

/// The kernel's device whose type goes with perf's words, if it has the same name on every machine.
pub fn device(cpu: &Cpu<'_>) -> Option<&'static str> {
    pmu_names::device(cpu)
}

/// perf's type and config of a generic event whose code the firmware chooses. The kernel passes its number in
/// the table to the firmware; as a raw code the number would mean another event.
///
/// # Source
///
/// Linux `drivers/perf/riscv_pmu_sbi.c`, `pmu_sbi_event_map`.
fn by_firmware(cpu: &Cpu<'_>, kernel: &Generic) -> Option<(u32, u64)> {
    if cpu.family() != Family::RiscV {
        return None;
    }
    let hardware = HARDWARE.iter().find(|hardware| named(hardware.names, &kernel.name));
    let cache = || CacheEvent::parse(&kernel.name).map(|cache| (CACHE_TYPE, cache.config()));
    hardware.map(|hardware| (HARDWARE_TYPE, hardware.config)).or_else(cache)
}

/// The counters that may count an event.
fn counters(cpu: &Cpu<'_>, coded: &Coded) -> CounterMask {
    coded.counters.unwrap_or_else(|| CounterMask::from_bits(cpu.counters().general_bits(), 0))
}
