//! Terms that refine the code of an event, as perf writes them.

use cyclometer_arch::Coded;
use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::Family;
use cyclometer_core::syntax::Term;
use cyclometer_core::{Error, ErrorKind, EventCode, Recovery, Result};

use crate::table::{Cpu, Entry};

/// The code of a table's event, without terms.
pub(crate) fn coded(entry: &Entry<'_>) -> Coded {
    Coded { code: entry.code(), config: entry.config(), counters: entry.counters() }
}

const FLAGS: [&str; 4] = ["inv", "edge", "any", "eq"];

pub(crate) fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name)
}

/// Whether [`apply`] knows a term.
pub(crate) fn is_attribute(name: &str) -> bool {
    const VALUES: [&str; 8] =
        ["event", "umask", "umask2", "cmask", "ldlat", "frontend", "offcore_rsp", "snoop_rsp"];
    is_flag(name) || VALUES.contains(&name)
}

/// Changes a code by one of perf's terms.
pub(crate) fn apply(cpu: &Cpu<'_>, coded: &mut Coded, term: &Term, text: &str) -> Result<()> {
    let value = term.value.unwrap_or(1);
    let code = &mut coded.code;
    let byte = || u8::try_from(value).map_err(|_| too_large(&term.name, value, 0xff, text));
    match term.name.as_str() {
        "event" => {
            code.select =
                u16::try_from(value).map_err(|_| too_large(&term.name, value, u16::MAX.into(), text))?;
        }
        // Beyond eight bits the second unit mask follows, as in perf's format.
        "umask" => {
            let both = u16::try_from(value).map_err(|_| too_large("umask", value, 0xffff, text))?;
            (code.umask, code.umask2) = (both as u8, (both >> 8) as u8);
        }
        "umask2" => code.umask2 = byte()?,
        "cmask" => code.cmask = byte()?,
        "inv" => code.inv = flag(term, value, text)?,
        "edge" => code.edge = flag(term, value, text)?,
        "any" => code.any = flag(term, value, text)?,
        "eq" => code.eq = flag(term, value, text)?,
        "ldlat" => refine(code, ExtraRegisterKind::LoadLatency, value, text)?,
        "frontend" => refine(code, ExtraRegisterKind::Frontend, value, text)?,
        "offcore_rsp" => refine(code, offcore(code), value, text)?,
        "snoop_rsp" => refine(code, ExtraRegisterKind::SnoopResponse0, value, text)?,
        _ => return Err(no_attribute(cpu, &term.name, text)),
    }
    if is_flag(&term.name) || matches!(term.name.as_str(), "cmask" | "event" | "umask" | "umask2") {
        // A fixed counter supports none of this.
        coded.counters = coded.general_alone();
    }
    Ok(())
}

/// Sets a code's extra register; perf has one word for all of them.
fn refine(code: &mut EventCode, register: ExtraRegisterKind, value: u64, text: &str) -> Result<()> {
    if let Some(other) = code.extra.filter(|other| kind(other.register) != kind(register)) {
        let message = format!("{text} is refined by {} already", other.register.name());
        return Err(Error::new(ErrorKind::InvalidInput, message)
            .with_recovery(Recovery::fix("an event takes one of ldlat, frontend, offcore_rsp, snoop_rsp")));
    }
    code.extra = Some(ExtraRegister { register, value });
    Ok(())
}

/// The offcore response register of a code.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`: event 0xBB, or 0x2B from Sapphire Rapids on, is refined by
/// MSR_OFFCORE_RSP_1.
fn offcore(code: &EventCode) -> ExtraRegisterKind {
    match (code.extra, code.select) {
        (Some(known), _) => known.register,
        (None, 0xbb | 0x2b) => ExtraRegisterKind::OffcoreResponse1,
        (None, _) => ExtraRegisterKind::OffcoreResponse0,
    }
}

fn flag(term: &Term, value: u64, text: &str) -> Result<bool> {
    match value {
        0 | 1 => Ok(value == 1),
        _ => Err(too_large(&term.name, value, 1, text)),
    }
}

fn too_large(field: &str, value: u64, greatest: u64, text: &str) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("'{field}' of {text} is {value:#x}, more than its field holds"),
    )
    .with_recovery(Recovery::fix(format!("the greatest value is {greatest:#x}")))
}

fn no_attribute(cpu: &Cpu<'_>, name: &str, text: &str) -> Error {
    let known: &[&str] = match cpu.family() {
        Family::Intel => &[
            "event",
            "umask",
            "cmask",
            "inv",
            "edge",
            "any",
            "eq",
            "ldlat",
            "frontend",
            "offcore_rsp",
            "snoop_rsp",
        ],
        Family::Amd => &["event", "umask", "cmask", "inv", "edge"],
        Family::Arm | Family::RiscV | Family::Apple => &["event"],
    };
    Error::new(ErrorKind::InvalidInput, format!("an event has no field '{name}' (in {text})"))
        .with_recovery(Recovery::fix(format!("fields on {}: {}", cpu.id(), known.join(", "))))
}

/// The class of a register; equal classes are interchangeable.
pub(crate) fn kind(register: ExtraRegisterKind) -> u8 {
    match register {
        ExtraRegisterKind::LoadLatency => 1,
        ExtraRegisterKind::Frontend => 2,
        ExtraRegisterKind::SnoopResponse0 | ExtraRegisterKind::SnoopResponse1 => 3,
        _ => 0,
    }
}
