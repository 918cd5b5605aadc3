//! From slots on counters to register programs, one for each turn.

use cyclometer_arch::{
    Coded, Placed, PmuReg, ProgramOptions, Register, RegisterProgram, intel, register_program,
};
use cyclometer_core::event::{Part, RegisterEvent};
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::pmu::Family;
use cyclometer_core::{Modes, Refusal, Slot, SlotId};

use super::{Bus, CorePmu};

/// What counts in one turn on one core PMU.
#[derive(Clone, Debug)]
pub(super) struct TurnProgram {
    pub(super) program: RegisterProgram,
    /// For each of its reads the event.
    pub(super) of: Vec<Place>,
}

/// An event of a core PMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) slot: SlotId,
    /// The index of its part.
    pub(super) part: usize,
    pub(super) turn: Option<u32>,
}

/// The programs of all turns, at least one; `None` where the PMU has nothing to count.
pub(super) fn turns(
    slots: &[Slot],
    core: &CorePmu,
    options: ProgramOptions,
) -> Result<Option<Vec<TurnProgram>>, Refusal> {
    let on_core = |slot| Some((slot, part_on(slot, core)?));
    let members: Vec<(&Slot, (usize, &RegisterEvent))> = slots.iter().filter_map(on_core).collect();
    if members.is_empty() {
        return Ok(None);
    }
    let last = slots.iter().filter_map(|slot| slot.turn).max();
    let turns = (0..=last.unwrap_or(0)).map(|turn| {
        let counts = |(slot, _): &&(&Slot, _)| slot.turn.is_none_or(|own| own == turn);
        let (mut placed, mut of) = (Vec::new(), Vec::new());
        for (slot, (part, event)) in members.iter().filter(counts) {
            placed.push((*slot, self::placed(slot, event, turn)?));
            of.push(Place { slot: slot.id, part: *part, turn: slot.turn });
        }
        Ok(TurnProgram { program: program(core, options, &placed)?, of })
    });
    turns.collect::<Result<Vec<_>, _>>().map(Some)
}

/// What the chip lets a program do.
///
/// # Source
///
/// Intel SDM volume 4, IA32_PERF_CAPABILITIES: bit 13, full-width writes.
pub(super) fn options(core: &CorePmu, cpu: u32, bus: &mut dyn Bus) -> ProgramOptions {
    let capabilities = PmuReg::of(&core.chip, Register::Intel(intel::Register::Capabilities));
    let value = match (core.chip.family, capabilities) {
        // What cannot be read is not there.
        (Family::Intel, Ok(register)) => bus.read(cpu, register).unwrap_or(0),
        _ => 0,
    };
    ProgramOptions { full_width_writes: value >> 13 & 1 == 1, ..ProgramOptions::default() }
}

fn part_on<'s>(slot: &'s Slot, core: &CorePmu) -> Option<(usize, &'s RegisterEvent)> {
    slot.parts.iter().enumerate().find_map(|(i, part)| match part {
        Part::Registers(event) if event.pmu == core.name => Some((i, event)),
        _ => None,
    })
}

fn placed(slot: &Slot, event: &RegisterEvent, turn: u32) -> Result<Placed, Refusal> {
    let Some(seat) = event.seat_in(turn) else {
        let text = format!("{} has no counter of {}", slot.name, event.pmu);
        return Err(Refusal { slot: Some(slot.id), kind: RefusalKind::NotSupported, text });
    };
    Ok(Placed {
        coded: Coded::new(seat.code).on([seat.counter].into_iter().collect()),
        counter: seat.counter,
        modes: slot.filter.unwrap_or(Modes::USER_KERNEL),
        period: None,
    })
}

/// The program of events; the refusal names one that cannot be programmed even alone, or else the first.
fn program(
    core: &CorePmu,
    options: ProgramOptions,
    events: &[(&Slot, Placed)],
) -> Result<RegisterProgram, Refusal> {
    let all: Vec<Placed> = events.iter().map(|(_, placed)| *placed).collect();
    let together = match register_program(&core.chip, &all, options) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let alone = |placed: &Placed| register_program(&core.chip, &[*placed], options).err();
    let culprit = events.iter().find_map(|(slot, placed)| Some((*slot, alone(placed)?)));
    let first = events.first().map(|(slot, _)| *slot);
    let (slot, error) = culprit.map_or((first, together), |(slot, error)| (Some(slot), error));
    let name = slot.map_or("", |slot| slot.name.as_str());
    Err(Refusal {
        slot: slot.map(|slot| slot.id),
        kind: RefusalKind::NotSupported,
        text: format!("{name} on {}: {error}", core.name),
    })
}
