//! Events of the kernel's PMU devices: from terms to config words, sysfs names, core PMUs.

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind, PerfClass, PerfEvent};
use cyclometer_core::pmu::{ConfigWord, ConfigWords, FormatField, KernelPmu};
use cyclometer_core::syntax::{Term, parse_number};
use cyclometer_core::{Error, ErrorKind, Machine, Recovery, Result};

use crate::suggest::nearest;

/// The encoding of a device's event.
pub(crate) struct DeviceEvent {
    pub event: PerfEvent,
    pub scale: f64,
    pub unit: Option<String>,
}

/// Encodes terms for a device, as perf does: first the named events, then the fields, which override them.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` for a term that is neither field nor event; `ErrorKind::InvalidInput` for a
/// value that does not fit, or an event that needs a parameter.
pub(crate) fn encode(pmu: &KernelPmu, terms: &[Term], text: &str) -> Result<DeviceEvent> {
    let mut found = DeviceEvent { event: empty(pmu), scale: 1.0, unit: None };
    for term in terms.iter().filter(|term| is_event(pmu, term)) {
        let named = &pmu.events[&term.name];
        found.scale = named.scale.unwrap_or(1.0);
        found.unit = named.unit.clone();
        for term in sysfs_terms(&named.terms, text)? {
            refine(pmu, &term, text, &mut found.event)?;
        }
    }
    for term in terms.iter().filter(|term| !is_event(pmu, term)) {
        refine(pmu, term, text, &mut found.event)?;
    }
    Ok(found)
}

fn refine(pmu: &KernelPmu, term: &Term, text: &str, event: &mut PerfEvent) -> Result<()> {
    apply(pmu, term, text, &mut event.words)?;
    let extras = extras(pmu, &term.name, term.value.unwrap_or(1));
    if !extras.is_empty() {
        event.extras = extras;
    }
    Ok(())
}

/// Encodes a named event of a device, with fields that override its own.
pub(crate) fn encode_refined(
    pmu: &KernelPmu,
    name: &str,
    fields: &[Term],
    text: &str,
) -> Result<DeviceEvent> {
    let named = Term { name: name.to_owned(), value: None };
    let terms: Vec<Term> = std::iter::once(named).chain(fields.iter().cloned()).collect();
    encode(pmu, &terms, text)
}

/// Encodes a named event of a device.
pub(crate) fn encode_named(pmu: &KernelPmu, name: &str, text: &str) -> Result<DeviceEvent> {
    encode(pmu, &[Term { name: name.to_owned(), value: None }], text)
}

fn empty(pmu: &KernelPmu) -> PerfEvent {
    PerfEvent {
        cpus: pmu.cpus.clone().or_else(|| pmu.cpumask.clone()),
        ..PerfEvent::new(&pmu.name, pmu.pmu_type, 0, class(pmu))
    }
}

/// The shared registers that a field of a core PMU needs, with its value. The kernel uses the other of two
/// registers if one holds another value.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`: the format attributes, the `extra_reg` tables and `intel_alt_er`.
fn extras(pmu: &KernelPmu, field: &str, value: u64) -> Vec<ExtraRegister> {
    use ExtraRegisterKind::{Frontend, LoadLatency, OffcoreResponse0, OffcoreResponse1, SnoopResponse0};
    let registers: &[ExtraRegisterKind] = match field {
        _ if !pmu.is_core() || value == 0 => &[],
        "offcore_rsp" => &[OffcoreResponse0, OffcoreResponse1],
        "ldlat" => &[LoadLatency],
        "frontend" => &[Frontend],
        "snoop_rsp" => &[SnoopResponse0, ExtraRegisterKind::SnoopResponse1],
        _ => &[],
    };
    registers.iter().map(|register| ExtraRegister { register: *register, value }).collect()
}

fn class(pmu: &KernelPmu) -> PerfClass {
    match pmu {
        _ if pmu.is_core() => PerfClass::Core,
        _ if pmu.name == "software" => PerfClass::Software,
        _ if pmu.cpumask.is_some() => PerfClass::SystemDevice,
        _ => PerfClass::TaskDevice,
    }
}

fn is_event(pmu: &KernelPmu, term: &Term) -> bool {
    term.value.is_none() && !pmu.formats.contains_key(&term.name) && pmu.events.contains_key(&term.name)
}

fn sysfs_terms(terms: &str, text: &str) -> Result<Vec<Term>> {
    terms.trim().split(',').filter(|term| !term.is_empty()).map(|term| sysfs_term(term, text)).collect()
}

fn sysfs_term(term: &str, text: &str) -> Result<Term> {
    let (name, value) = match term.split_once('=') {
        None => return Ok(Term { name: term.to_owned(), value: None }),
        Some(pair) => pair,
    };
    let value = parse_number(value).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, format!("the event {text} needs a value for '{name}'"))
            .with_recovery(Recovery::fix(format!("write it with its fields, as in pmu/…,{name}=1/")))
    })?;
    Ok(Term { name: name.to_owned(), value: Some(value) })
}

/// Puts a term into its field.
pub(crate) fn apply(pmu: &KernelPmu, term: &Term, text: &str, words: &mut ConfigWords) -> Result<()> {
    let field = field(pmu, &term.name).ok_or_else(|| unknown_term(pmu, term, text))?;
    field.deposit(term.value.unwrap_or(1), words).map_err(|greatest| {
        Error::new(
            ErrorKind::InvalidInput,
            format!("'{}' of {text} is {:#x}, more than its field holds", term.name, term.value.unwrap_or(1)),
        )
        .with_recovery(Recovery::fix(format!("the greatest value is {greatest:#x}")))
    })
}

fn field(pmu: &KernelPmu, name: &str) -> Option<FormatField> {
    let whole = |word| Some(FormatField { word, ranges: vec![(0, 63)] });
    match (pmu.formats.get(name), name) {
        (Some(field), _) => Some(field.clone()),
        (None, "config") => whole(ConfigWord::Config),
        (None, "config1") => whole(ConfigWord::Config1),
        (None, "config2") => whole(ConfigWord::Config2),
        _ => None,
    }
}

fn unknown_term(pmu: &KernelPmu, term: &Term, text: &str) -> Error {
    let known = pmu.formats.keys().chain(pmu.events.keys()).map(String::as_str);
    let near = nearest(&term.name, known);
    let whole_words = ["config", "config1", "config2"];
    let fields: Vec<&str> = pmu.formats.keys().map(String::as_str).chain(whole_words).collect();
    let recovery = match near.is_empty() {
        false => Recovery::OfferNearest { names: near },
        true => Recovery::fix(format!("fields of {}: {}", pmu.name, fields.join(", "))),
    };
    Error::new(
        ErrorKind::UnknownEvent,
        format!("the PMU '{}' has no field or event '{}' (in {text})", pmu.name, term.name),
    )
    .with_recovery(recovery)
}

/// The devices that a name before the slash means: one, or for `cpu` every core PMU of a hybrid.
pub(crate) fn devices<'m>(machine: &'m Machine, name: &str) -> Vec<&'m KernelPmu> {
    match machine.pmu(name) {
        Some(pmu) => vec![pmu],
        None if name == "cpu" => machine.core_pmus().collect(),
        None => Vec::new(),
    }
}

/// Every device event of that name, in any case; core PMUs are adjacent.
pub(crate) fn named_events<'m>(machine: &'m Machine, name: &str) -> Vec<(&'m KernelPmu, &'m str)> {
    let find = |pmu: &'m KernelPmu| {
        pmu.events.keys().find(|known| known.eq_ignore_ascii_case(name)).map(|known| (pmu, known.as_str()))
    };
    let core: Vec<_> = machine.core_pmus().filter_map(find).collect();
    match core.is_empty() {
        false => core,
        true => machine.pmus.iter().find_map(find).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pmu_without_fields_has_the_whole_words() {
        let pmu = KernelPmu { name: "breakpoint".to_owned(), ..KernelPmu::default() };
        let term = Term { name: "x".to_owned(), value: None };
        let error = unknown_term(&pmu, &term, "breakpoint/x/");
        assert_eq!(error.recovery().to_string(), "fields of breakpoint: config, config1, config2");
    }
}
