//! The code of an event's counter: one, or several with a register each.

use cyclometer_catalog::table::Also;
use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::{CounterMask, EventCode};

use super::Form;
use super::counters::{self, FIXED, NamedCounters};
use crate::error::ImportResult;
use crate::json::JsonRecord;

/// The codes of an event, the vendor's default first.
pub(super) struct EventCodes {
    pub first: Also,
    pub also: Vec<Also>,
}

/// The fields that can be lists, and belong together by position.
struct Lists {
    selects: Vec<u64>,
    umasks: Vec<u64>,
    registers: Vec<u64>,
    values: Vec<u64>,
    counters: NamedCounters,
    /// Whether position `i` of the codes is for counter `i` of the list only.
    binds_counter: bool,
}

/// Reads the codes of an event.
pub(super) fn codes(record: &JsonRecord<'_>, form: Form) -> ImportResult<EventCodes> {
    let lists = lists(record, form)?;
    let plain = plain(record)?;
    let mut codes = Vec::new();
    for position in positions(record, &lists)? {
        codes.push(Also { code: code(record, &lists, plain, position)?, counters: at(&lists, position) });
    }
    let mut first = codes.remove(0);
    if let Some(number) = lists.counters.fixed {
        fixed(record, &mut first, number)?;
    }
    Ok(EventCodes { first, also: codes })
}

fn lists(record: &JsonRecord<'_>, form: Form) -> ImportResult<Lists> {
    let or_zero = |list: Vec<u64>| if list.is_empty() { vec![0] } else { list };
    let selects = record.numbers("EventCode", 0xff)?;
    let most = if form == Form::Intel { 0xff } else { 0xffff };
    let umasks = or_zero(record.numbers("UMask", most)?);
    let mut counters = counters::named(record, form)?;
    if selects.is_empty() && form == Form::LinuxUncounted {
        counters.fixed = pseudo_code(&umasks);
    }
    let is_fixed = counters.fixed.is_some() && counters.general.is_empty();
    if selects.is_empty() && (form == Form::Intel || !is_fixed) {
        return Err(record.error("EventCode", "is missing"));
    }
    let mut registers = record.numbers("MSRIndex", u32::MAX.into())?;
    registers.retain(|&address| address != 0);
    let restriction = record.text("ProgrammingRestriction")?;
    Ok(Lists {
        selects: or_zero(selects),
        umasks,
        registers,
        values: or_zero(record.numbers("MSRValue", u64::MAX)?),
        counters,
        binds_counter: restriction.eq_ignore_ascii_case("MSRIndex-UMask-Counter"),
    })
}

/// The fixed counter of an event that has a unit mask only: Linux leaves out an event select of 0, which only
/// fixed events have.
fn pseudo_code(umasks: &[u64]) -> Option<u8> {
    let [umask] = umasks else { return None };
    let index = u8::try_from(umask.checked_sub(1)?).ok()?;
    (index < FIXED).then_some(index)
}

/// The fields that are the same for all codes of an event.
fn plain(record: &JsonRecord<'_>) -> ImportResult<EventCode> {
    Ok(EventCode {
        umask2: small(record, "UMaskExt")?,
        cmask: small(record, "CounterMask")?,
        inv: record.flag("Invert")?,
        edge: record.flag("EdgeDetect")?,
        eq: record.flag("Equal")?,
        any: record.flag("AnyThread")?,
        ..EventCode::default()
    })
}

fn small(record: &JsonRecord<'_>, field: &str) -> ImportResult<u8> {
    Ok(record.number(field, 0xff)? as u8)
}

/// Which positions of the lists are codes of this event.
///
/// With one register only its own position is: the second unit mask of a pair means the second register,
/// which such an event must not use.
fn positions(record: &JsonRecord<'_>, lists: &Lists) -> ImportResult<Vec<usize>> {
    let count = lists.selects.len().max(lists.umasks.len());
    let pairs = |list: &[u64]| list.len() <= 1 || list.len() == count;
    for (field, list) in [("EventCode", &lists.selects), ("UMask", &lists.umasks)] {
        if !pairs(list) {
            return Err(record.error(field, format!("{} values beside {count}", list.len())));
        }
    }
    if count > 1 && !pairs(&lists.registers) {
        return Err(record.error("MSRIndex", format!("{} values beside {count}", lists.registers.len())));
    }
    if lists.binds_counter && count > 1 && lists.counters.general.len() != count {
        let found = lists.counters.general.len();
        return Err(record.error("Counter", format!("{found} values beside {count}, which it is bound to")));
    }
    match lists.registers.as_slice() {
        [address] => Ok(vec![own_position(*address).min(count - 1)]),
        _ => Ok((0..count).collect()),
    }
}

/// The position of a register among those of its kind.
fn own_position(address: u64) -> usize {
    match u32::try_from(address).ok().and_then(ExtraRegisterKind::from_msr) {
        Some(
            ExtraRegisterKind::OffcoreResponse1 | ExtraRegisterKind::SnoopResponse1 | ExtraRegisterKind::Omr1,
        ) => 1,
        Some(ExtraRegisterKind::Omr2) => 2,
        Some(ExtraRegisterKind::Omr3) => 3,
        _ => 0,
    }
}

/// The value at a position; a list of one value is for all.
fn pick(list: &[u64], position: usize) -> u64 {
    list.get(position).or(list.first()).copied().unwrap_or(0)
}

fn at(lists: &Lists, position: usize) -> Option<CounterMask> {
    let counters = match lists.counters.general.get(position) {
        Some(&n) if lists.binds_counter => CounterMask::from_bits(1 << n, 0),
        _ => lists.counters.mask(),
    };
    (!counters.is_empty()).then_some(counters)
}

fn code(
    record: &JsonRecord<'_>,
    lists: &Lists,
    plain: EventCode,
    position: usize,
) -> ImportResult<EventCode> {
    let umasks = pick(&lists.umasks, position);
    Ok(EventCode {
        select: pick(&lists.selects, position) as u16,
        umask: umasks as u8,
        umask2: plain.umask2 | (umasks >> 8) as u8,
        extra: extra(record, lists, position)?,
        ..plain
    })
}

fn extra(record: &JsonRecord<'_>, lists: &Lists, position: usize) -> ImportResult<Option<ExtraRegister>> {
    if lists.registers.is_empty() {
        return Ok(None);
    }
    let address = pick(&lists.registers, position);
    let register = u32::try_from(address).ok().and_then(ExtraRegisterKind::from_msr);
    let register = register.ok_or_else(|| {
        record.error("MSRIndex", format!("{address:#x} is no register that refines events"))
    })?;
    Ok(Some(ExtraRegister { register, value: pick(&lists.values, position) }))
}

/// Gives an event of a fixed counter its pseudo code (select 0, unit mask index + 1) and its counter.
///
/// Where the file has the pseudo code, the index is taken from it: Silvermont's file numbers the counters
/// from 1 beside it, and Jaketown's has a wrong number in one entry. Files without it (Nehalem, Westmere,
/// Bonnell) number from 1.
fn fixed(record: &JsonRecord<'_>, entry: &mut Also, number: u8) -> ImportResult<()> {
    let EventCode { select, umask, .. } = entry.code;
    let index = match (select, umask) {
        (0, umask @ 1..) => umask - 1,
        (_, 0) => number.saturating_sub(1),
        // A code of its own, which general counters take too.
        _ => number,
    };
    if index >= FIXED {
        return Err(record.error("Counter", format!("there is no fixed counter {index}")));
    }
    if select == 0 || umask == 0 {
        entry.code.select = 0;
        entry.code.umask = index + 1;
    }
    let general = entry.counters.unwrap_or(CounterMask::EMPTY);
    entry.counters = Some(general.or(CounterMask::from_bits(0, 1 << index)));
    Ok(())
}
