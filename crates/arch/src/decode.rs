//! Register values, bit by bit, and the event codes in them.

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::{ConfigWord, ConfigWords, Family};
use cyclometer_core::{CounterId, EventCode};

use crate::chip::Chip;
use crate::decoded_event::DecodedEvent;
use crate::field::{BitRange, FieldKind, FieldSpec, low_mask, runs};
use crate::register::Register;
use crate::{amd, apple, arm, intel, riscv};

/// A decoded value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decoded {
    /// Its fields, from bit 0 up; those that are 0 only where that says something.
    pub fields: Vec<Field>,
    /// The codes of events in it. One value can mean several events: look each of them up.
    pub events: Vec<DecodedEvent>,
    /// Surprises in the value, such as reserved bits.
    pub warnings: Vec<String>,
}

/// One field of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its highest bit.
    pub high: u8,
    /// Its lowest bit.
    pub low: u8,
    /// The vendor's name; `reserved` for bits without one.
    pub name: String,
    /// Its value, shifted down to bit 0.
    pub value: u64,
    /// The meaning of the value.
    pub meaning: String,
}

/// The fields of a register on a chip: what a page about registers shows.
///
/// Fields do not overlap; bits without a field are reserved.
pub fn layout(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    let mut fields = every_field(chip, register);
    fields.retain(|field| field.presence.is_on(chip.pmu_version));
    fields
}

/// The same with fields that other versions of the PMU have, which can overlap.
pub(crate) fn every_field(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    let mut fields = match register {
        Register::Perf(word) => perf_layout(chip, word),
        Register::RdpmcIndex => rdpmc_layout(chip),
        Register::Intel(register) => intel::layout::register(chip, register),
        Register::Amd(register) => amd::layout(chip, register),
        Register::Arm(register) => arm::layout(chip, register),
        Register::RiscV(register) => riscv::layout(chip, register),
        Register::Apple(register) => apple::layout(chip, register),
    };
    fields.sort_by_key(|field| field.low);
    for field in fields.iter_mut().filter(|field| field.source.is_empty()) {
        field.source = register.source();
    }
    fields
}

fn rdpmc_layout(chip: &Chip) -> Vec<FieldSpec> {
    match chip.family {
        Family::Intel => intel::layout::RDPMC.to_vec(),
        _ => amd::RDPMC.to_vec(),
    }
}

fn perf_layout(chip: &Chip, word: ConfigWord) -> Vec<FieldSpec> {
    match (chip.family, word) {
        (Family::Intel, word) => intel::layout::perf(word),
        (Family::Arm, word) => arm::perf_layout(chip, word),
        (Family::Amd, ConfigWord::Config) => amd::perf_layout(),
        (Family::RiscV, ConfigWord::Config) => riscv::perf_layout(),
        (Family::Apple, ConfigWord::Config) => apple::perf_layout(chip),
        _ => Vec::new(),
    }
}

/// Explains a register's value.
///
/// Every set bit is in a field, named `reserved` where the chip has none there. perf's `config` and `config1`
/// belong together: [`decode_words`].
pub fn decode(chip: &Chip, register: Register, value: u64) -> Decoded {
    if register == Register::RdpmcIndex {
        return rdpmc(chip, value);
    }
    let mut decoded = explain(&layout(chip, register), value);
    decoded.events = match register {
        Register::Perf(ConfigWord::Config) => perf_events(chip, value),
        Register::Perf(_) | Register::RdpmcIndex => Vec::new(),
        Register::Intel(register) => intel::code::events(chip, register, value),
        Register::Amd(register) => amd::events(register, value),
        Register::Arm(register) => arm::events(chip, register, value),
        Register::RiscV(register) => riscv::events(register, value),
        Register::Apple(register) => apple::events(chip, register, value),
    };
    match register {
        Register::Intel(register) => {
            decoded.warnings.extend(intel::code::remark(register, value));
            decoded.warnings.extend(intel::shared::remark(chip, register));
        }
        Register::Amd(_) => {
            let remarks = decoded.events.iter().filter_map(|event| amd::remark(&event.code));
            decoded.warnings.extend(remarks.map(str::to_owned));
        }
        _ => {}
    }
    decoded
}

fn perf_events(chip: &Chip, config: u64) -> Vec<DecodedEvent> {
    match chip.family {
        Family::Intel => intel::code::perf_events(chip, config),
        Family::Amd => amd::perf_events(config),
        Family::Arm => arm::perf_events(chip, config),
        Family::RiscV => riscv::perf_events(config),
        Family::Apple => apple::perf_events(chip, config),
    }
}

/// Explains perf's config words together: `config1` becomes the extra register of the event in `config`.
///
/// Where generations differ in which register that is, there is an event for each; fields of later words have
/// the word's name before them.
pub fn decode_words(chip: &Chip, words: &ConfigWords) -> Decoded {
    let mut decoded = decode(chip, Register::Perf(ConfigWord::Config), words.config);
    for (word, name, value) in
        [(ConfigWord::Config1, "config1", words.config1), (ConfigWord::Config2, "config2", words.config2)]
    {
        let mut more = decode(chip, Register::Perf(word), value);
        more.fields.iter_mut().for_each(|field| field.name = format!("{name}.{}", field.name));
        decoded.warnings.extend(more.warnings.iter().map(|warning| format!("{name}: {warning}")));
        decoded.fields.extend(more.fields);
    }
    if chip.family == Family::Intel {
        match words.config1 {
            0 => no_latency(&mut decoded),
            value => refine(&mut decoded, value),
        }
    }
    decoded
}

/// Adds the event with a latency of 0, which is one of its own in some tables.
fn no_latency(decoded: &mut Decoded) {
    let register = ExtraRegisterKind::LoadLatency;
    let extra = Some(ExtraRegister { register, value: 0 });
    let measures = |event: &&DecodedEvent| intel::extra_registers(&event.code).contains(&register);
    let with = |event: &DecodedEvent| DecodedEvent { code: EventCode { extra, ..event.code }, ..*event };
    let more: Vec<DecodedEvent> = decoded.events.iter().filter(measures).map(with).collect();
    decoded.events.extend(more);
}

/// Gives events of Intel the extra registers that `config1` can be.
fn refine(decoded: &mut Decoded, config1: u64) {
    let mut refined = Vec::new();
    for event in &decoded.events {
        let kinds = intel::extra_registers(&event.code);
        if kinds.is_empty() {
            refined.push(*event);
            continue;
        }
        refined.extend(kinds.iter().map(|register| {
            let extra = Some(ExtraRegister { register: *register, value: config1 });
            DecodedEvent { code: EventCode { extra, ..event.code }, ..*event }
        }));
        for kind in kinds {
            let beyond = config1 & !intel::layout::extra(*kind).mask();
            if beyond != 0 {
                let name = kind.name();
                decoded.warnings.push(format!("config1: {beyond:#x} lies beyond what {name} has"));
            }
        }
    }
    if refined.iter().all(|event| event.code.extra.is_none()) {
        decoded.warnings.push("config1: the event in config refers to no extra register".to_owned());
    }
    decoded.events = refined;
}

fn explain(layout: &[FieldSpec], value: u64) -> Decoded {
    let mut decoded = Decoded::default();
    let mut covered = 0;
    for spec in layout {
        covered |= spec.mask();
        let part = spec.take(value);
        if part != 0 || spec.kind == FieldKind::Always {
            decoded.fields.push(field(spec, part));
        }
        if part != 0 && spec.kind == FieldKind::Ignored {
            let (bits, name) = (BitRange(spec.low, spec.high), spec.full_name());
            decoded.warnings.push(format!("{bits} ({name}) means nothing here: {}", spec.meaning));
        }
    }
    for run in runs(value & !covered) {
        decoded.warnings.push(match run {
            BitRange(low, high) if low == high => format!("{run} is reserved on this CPU"),
            _ => format!("{run} are reserved on this CPU"),
        });
        decoded.fields.push(reserved(&run, value));
    }
    decoded.fields.sort_by_key(|field| field.low);
    decoded
}

fn field(spec: &FieldSpec, value: u64) -> Field {
    Field { high: spec.high, low: spec.low, name: spec.full_name(), value, meaning: spec.explain(value) }
}

fn reserved(&BitRange(low, high): &BitRange, value: u64) -> Field {
    let value = value >> low & low_mask(u32::from(high - low) + 1);
    Field { high, low, name: "reserved".to_owned(), value, meaning: "no field of this CPU".to_owned() }
}

/// Explains what `rdpmc` was given.
fn rdpmc(chip: &Chip, value: u64) -> Decoded {
    let ecx = value as u32;
    let mut decoded = Decoded::default();
    let (named, meaning) = match chip.family {
        Family::Intel if ecx == intel::RDPMC_METRICS => (None, Some("PERF_METRICS".to_owned())),
        Family::Intel => {
            let counter = intel::code::rdpmc(chip, ecx);
            (counter, counter.map(|counter| format!("counter {counter}")))
        }
        _ => amd_rdpmc(chip, ecx),
    };
    decoded.fields = rdpmc_fields(chip, ecx, &meaning);
    if let Some(CounterId::Fixed(n)) = named {
        decoded.events.push(DecodedEvent { counter: named, ..DecodedEvent::new(intel::code::fixed_code(n)) });
    }
    if value >> 32 != 0 {
        decoded.warnings.push("rdpmc looks at ECX, the lower 32 bits".to_owned());
        decoded.fields.push(reserved(&BitRange(32, 63), value));
    }
    decoded.warnings.extend(named.and_then(|counter| intel::shared::rdpmc_remark(chip, counter)));
    if meaning.is_none() {
        decoded.warnings.push(format!("rdpmc faults (#GP): {ecx:#x} is no counter of this CPU"));
        decoded.warnings.extend(misplaced_fixed(chip, ecx));
    }
    decoded
}

/// The fields of an index; that of the counter's number says which counter it is.
fn rdpmc_fields(chip: &Chip, ecx: u32, meaning: &Option<String>) -> Vec<Field> {
    let named = |spec: &FieldSpec| {
        let field = field(spec, spec.take(ecx.into()));
        match (spec.low, meaning) {
            (0, Some(meaning)) => Field { meaning: meaning.clone(), ..field },
            (0, None) => Field { meaning: "no counter of this CPU".to_owned(), ..field },
            _ => field,
        }
    };
    rdpmc_layout(chip).iter().map(named).collect()
}

/// The index that was meant, where somebody shifted the type by too little.
fn misplaced_fixed(chip: &Chip, ecx: u32) -> Option<String> {
    let meant = intel::RDPMC_FIXED | (ecx & 0xff);
    (chip.family == Family::Intel && ecx & !0xff == 0x0040_0000)
        .then(|| format!("fixed counter {} is {meant:#x}: the type stands in bits 16-31", ecx & 0xff))
}

/// A counter of AMD: of the core, of the data fabric, of the L3 cache.
fn amd_rdpmc(chip: &Chip, ecx: u32) -> (Option<CounterId>, Option<String>) {
    let counters = chip.counters_or(amd::ALL_COUNTERS);
    match ecx {
        0..amd::RDPMC_FABRIC => {
            let counter = Some(CounterId::General(ecx as u8)).filter(|counter| counters.contains(*counter));
            (counter, counter.map(|counter| format!("counter {counter}")))
        }
        amd::RDPMC_FABRIC..amd::RDPMC_L3 => {
            (None, Some(format!("counter {} of the data fabric", ecx - amd::RDPMC_FABRIC)))
        }
        amd::RDPMC_L3..=0xf => (None, Some(format!("counter {} of the L3 cache", ecx - amd::RDPMC_L3))),
        _ => (None, None),
    }
}
