//! Register programs from slots on counters, one for each rotation group.

use cyclometer_arch::{
    Chip, Coded, EncodeError, Placed, PmuReg, ProgramOptions, Register, RegisterProgram, intel,
    register_program,
};
use cyclometer_core::event::{Part, RegisterEvent};
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::pmu::Family;
use cyclometer_core::reason::RegisterRefusal;
use cyclometer_core::{Modes, Refusal, Slot, SlotId};

use super::{Bus, CorePmu, OverflowSource, WindowSetup};

/// The parts of the programs on one core PMU.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    chip: Chip,
    options: ProgramOptions,
    members: Vec<(SlotPart, Option<u32>, Placed)>,
}

/// The events that count in one rotation group, or all the time.
#[derive(Clone, Debug)]
pub(super) struct GroupOf {
    pub(super) rotation_group: Option<u32>,
    pub(super) members: Vec<(SlotPart, Placed)>,
}

/// An event of a core PMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotPart {
    pub(super) slot: SlotId,
    /// The index of its part.
    pub(super) part: usize,
}

impl Recipe {
    /// The recipe of these slots on a core PMU; `None` where it has nothing to count.
    ///
    /// # Errors
    ///
    /// The slot that cannot be programmed.
    pub(super) fn of(
        slots: &[Slot],
        core: &CorePmu,
        options: ProgramOptions,
    ) -> Result<Option<Recipe>, Refusal> {
        let on_core = |slot| parts_on(slot, core).map(move |part| (slot, part));
        let members: Vec<(&Slot, (usize, &RegisterEvent))> = slots.iter().flat_map(on_core).collect();
        if members.is_empty() {
            return Ok(None);
        }
        let last = slots.iter().filter_map(|slot| slot.rotation_group).max();
        for rotation_group in 0..=last.unwrap_or(0) {
            // Events of one rotation group and those that always count are in the registers at the same time.
            let counts =
                |(slot, _): &&(&Slot, _)| slot.rotation_group.is_none_or(|own| own == rotation_group);
            let placed = members
                .iter()
                .filter(counts)
                .map(|(slot, (_, event))| Ok((*slot, placed(slot, event, rotation_group)?)));
            check(core, options, &placed.collect::<Result<Vec<_>, Refusal>>()?)?;
        }
        let member = |(slot, (part, event)): &(&Slot, (usize, &RegisterEvent))| {
            let placed = placed(slot, event, slot.rotation_group.unwrap_or(0))?;
            Ok((SlotPart { slot: slot.id, part: *part }, slot.rotation_group, placed))
        };
        let members = members.iter().map(member).collect::<Result<_, Refusal>>()?;
        Ok(Some(Recipe { chip: core.chip, options, members }))
    }

    /// The group that always counts first, then each rotation group.
    pub(super) fn groups(&self) -> Vec<GroupOf> {
        let mut groups: Vec<GroupOf> = Vec::new();
        for (place, rotation_group, placed) in self.members.iter().copied() {
            match groups.iter_mut().find(|group| group.rotation_group == rotation_group) {
                Some(group) => group.members.push((place, placed)),
                None => groups.push(GroupOf { rotation_group, members: vec![(place, placed)] }),
            }
        }
        groups.sort_by_key(|group| group.rotation_group);
        groups
    }

    /// Its events; `None` where they rotate, as then not all of them count at the same time.
    pub(super) fn at_once(&self) -> Option<Vec<(SlotPart, Placed)>> {
        self.members
            .iter()
            .map(|(place, rotation_group, placed)| rotation_group.is_none().then_some((*place, *placed)))
            .collect()
    }

    /// The setup of windows that end at some of its events; sources are indices of [`Recipe::at_once`].
    ///
    /// # Errors
    ///
    /// Those of [`WindowSetup::new`].
    pub(super) fn window_setup(
        &self,
        placed: &[Placed],
        ends: &[OverflowSource],
    ) -> cyclometer_core::Result<WindowSetup> {
        WindowSetup::new(&self.chip, placed, ends, self.options)
    }

    /// The recipe of its events with other periods, in the same order.
    pub(super) fn with_periods(&self, placed: &[Placed]) -> Recipe {
        let members = self.members.iter().zip(placed);
        let members =
            members.map(|((place, rotation_group, _), placed)| (*place, *rotation_group, *placed)).collect();
        Recipe { members, ..self.clone() }
    }

    /// The program of some of its events.
    pub(super) fn program(&self, placed: &[Placed]) -> Result<RegisterProgram, EncodeError> {
        register_program(&self.chip, placed, self.options)
    }
}

/// The options of programs that the chip supports.
///
/// # Source
///
/// Intel SDM volume 4, IA32_PERF_CAPABILITIES: bit 13, full-width writes.
pub(super) fn options(core: &CorePmu, cpu: u32, bus: &mut dyn Bus) -> ProgramOptions {
    let capabilities = PmuReg::of(&core.chip, Register::Intel(intel::Register::Capabilities));
    let value = match (core.chip.family, capabilities) {
        // A register that cannot be read is absent.
        (Family::Intel, Ok(register)) => bus.read(cpu, register).unwrap_or(0),
        _ => 0,
    };
    ProgramOptions { full_width_writes: value >> 13 & 1 == 1, ..ProgramOptions::default() }
}

/// The parts of a slot on a core PMU: one, or the summands of a sum.
fn parts_on<'s>(slot: &'s Slot, core: &'s CorePmu) -> impl Iterator<Item = (usize, &'s RegisterEvent)> {
    slot.parts.iter().enumerate().filter_map(|(i, part)| match part {
        Part::Registers(event) if event.pmu == core.name => Some((i, event)),
        _ => None,
    })
}

fn placed(slot: &Slot, event: &RegisterEvent, rotation_group: u32) -> Result<Placed, Refusal> {
    let Some(assignment) = event.assignment_in(rotation_group) else {
        let reason = RegisterRefusal::NoCounter { event: slot.name.clone(), pmu: event.pmu.clone() };
        return Err(Refusal::of_slot(slot.id, RefusalKind::NotSupported, reason));
    };
    Ok(Placed {
        coded: Coded::new(assignment.code).on([assignment.counter].into_iter().collect()),
        counter: assignment.counter,
        modes: slot.filter.unwrap_or(Modes::USER_KERNEL),
        period: None,
    })
}

/// Checks that events can count at the same time. The refusal names one that cannot be programmed even alone,
/// or else the first.
fn check(core: &CorePmu, options: ProgramOptions, events: &[(&Slot, Placed)]) -> Result<(), Refusal> {
    let all: Vec<Placed> = events.iter().map(|(_, placed)| *placed).collect();
    let together = match register_program(&core.chip, &all, options) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let alone = |placed: &Placed| register_program(&core.chip, &[*placed], options).err();
    let culprit = events.iter().find_map(|(slot, placed)| Some((*slot, alone(placed)?)));
    let first = events.first().map(|(slot, _)| *slot);
    let (slot, error) = culprit.map_or((first, together), |(slot, error)| (Some(slot), error));
    let reason = RegisterRefusal::NotEncoded {
        event: slot.map(|slot| slot.name.clone()),
        pmu: core.name.clone(),
        error: error.to_string(),
    };
    Err(Refusal { slot: slot.map(|slot| slot.id), kind: RefusalKind::NotSupported, reason: reason.into() })
}
