//! The setup of a recording: events on counters, and the sources whose periods end windows.

use std::num::NonZeroU64;

use cyclometer_arch::{
    Chip, CounterRead, EncodeError, Placed, PmuReg, ProgramOptions, RegisterBits, RegisterProgram, Step,
    register_program,
};
use cyclometer_core::{CounterId, Error, ErrorKind, Recovery, Result};

/// A counter whose overflow ends windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowSource {
    /// Its slot: the index of its event.
    pub slot: usize,
    /// Number of its events in a window; at least 1, at most half of the counter's range.
    pub period_events: u64,
}

/// Why a counter interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Period {
    /// It ends windows.
    Source(u64),
    /// It is narrow, and is read before it can wrap unnoticed.
    Guard(u64),
}

impl Period {
    pub(super) const fn events(self) -> u64 {
        match self {
            Period::Source(events) | Period::Guard(events) => events,
        }
    }
}

/// Counters of at most this width wrap within seconds.
const NARROW_BITS: u32 = 32;
/// A quarter of a narrow counter's range: neither the period nor the skid after it wraps.
const GUARD_EVENTS: u64 = 1 << (NARROW_BITS - 2);

/// Bits of a register on which a slot relies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub slot: usize,
    pub bits: RegisterBits,
}

/// The claims on one register, which is read once for all of them.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub register: PmuReg,
    pub claims: Vec<Claim>,
}

/// A validated recording of windows: the setup of every CPU.
///
/// ```
/// use cyclometer_arch::{Chip, ChipCounters, Coded, Placed, ProgramOptions};
/// use cyclometer_backend::registers::{OverflowSource, WindowSetup};
/// use cyclometer_core::{CounterId, CounterMask, CounterWidth, EventCode, Modes};
///
/// let chip = Chip {
///     pmu_version: Some(4),
///     counter_width: Some(CounterWidth::carrying(48)),
///     counters: ChipCounters::of(CounterMask::first(4, 3)),
///     ..Chip::default()
/// };
/// let coded = Coded::new(EventCode { select: 0xc5, ..EventCode::default() });
/// let misses = Placed { coded, counter: CounterId::General(0), modes: Modes::USER, period: None };
/// let every = |period_events| [OverflowSource { slot: 0, period_events }];
/// let setup = |sources: &[_]| WindowSetup::new(&chip, &[misses], sources, ProgramOptions::default());
/// assert_eq!(setup(&every(1000))?.program().reads[0].preset, 0xffff_ffff_fc18);
/// let error = setup(&every(0)).unwrap_err();
/// assert_eq!(error.to_string(), "the period of slot 0 (counter 0) is 0 events");
/// # Ok::<(), cyclometer_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowSetup {
    chip: Chip,
    options: ProgramOptions,
    placed: Vec<Placed>,
    sources: Vec<OverflowSource>,
    periods: Vec<Option<Period>>,
    program: RegisterProgram,
    /// The claims on registers that enable the counters, while they count.
    pub(super) enabling: Vec<Claims>,
    /// The claims on all other registers, while the counters are stopped.
    pub(super) resting: Vec<Claims>,
}

impl WindowSetup {
    /// A recording of events on the counters that a plan has assigned to them.
    ///
    /// Counters of 32 bits without a period get one of 2³⁰ events, which ends no window, so that none wraps
    /// unnoticed.
    ///
    /// # Errors
    ///
    /// No source; a source that is not among the events, or listed twice. A share of slots, which cannot be
    /// counted in windows. A period of 0, or longer than the counter can be preset to; an event with a period
    /// of its own. The errors of [`register_program`].
    pub fn new(
        chip: &Chip,
        placed: &[Placed],
        sources: &[OverflowSource],
        options: ProgramOptions,
    ) -> Result<WindowSetup> {
        check_sources(placed, sources)?;
        let mut with_periods = placed.to_vec();
        let mut periods = vec![None; placed.len()];
        for (slot, event) in with_periods.iter_mut().enumerate() {
            let of_source = sources.iter().find(|source| source.slot == slot);
            let period = period_of(chip, event, of_source, options)
                .map_err(|error| named(error, slot, event.counter))?;
            event.period = period.and_then(|period| NonZeroU64::new(period.events()));
            periods[slot] = period;
        }
        let program = register_program(chip, &with_periods, options)?;
        let mut setup = WindowSetup {
            chip: *chip,
            options,
            placed: with_periods,
            sources: sources.to_vec(),
            periods,
            program,
            enabling: Vec::new(),
            resting: Vec::new(),
        };
        setup.claim()?;
        Ok(setup)
    }

    /// Records the claims of each slot: the bits that its event alone would write.
    fn claim(&mut self) -> Result<()> {
        for slot in 0..self.placed.len() {
            let alone = self.program_of(&[slot])?;
            let enables = |bits: &&RegisterBits| starts(&alone, bits.register);
            for bits in alone.holds.iter().filter(enables) {
                join(&mut self.enabling, Claim { slot, bits: *bits });
            }
            for bits in &alone.rests {
                join(&mut self.resting, Claim { slot, bits: *bits });
            }
        }
        Ok(())
    }

    /// The program of all slots, on a CPU from which nothing was taken. Its registers are to be saved before
    /// and restored afterwards.
    pub const fn program(&self) -> &RegisterProgram {
        &self.program
    }

    /// The program of some slots.
    pub(super) fn program_of(&self, slots: &[usize]) -> std::result::Result<RegisterProgram, EncodeError> {
        let placed: Vec<Placed> = slots.iter().filter_map(|slot| self.placed.get(*slot)).copied().collect();
        register_program(&self.chip, &placed, self.options)
    }

    /// The sources.
    pub fn sources(&self) -> &[OverflowSource] {
        &self.sources
    }

    /// The events with the periods after which their counters interrupt, for boundaries or against wraps.
    pub(in crate::registers) fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.placed.len()
    }

    pub(super) fn read_of(&self, slot: usize) -> &CounterRead {
        &self.program.reads[slot]
    }

    pub(super) fn period(&self, slot: usize) -> Option<Period> {
        self.periods[slot]
    }

    /// The first value of a counter that is to overflow after `left` events.
    pub(super) fn first_value(&self, slot: usize, left: u64) -> u64 {
        let read = self.read_of(slot);
        let period = self.period(slot).map_or(0, Period::events);
        // From 0 to the first value of the whole period, and on to that of the remaining events.
        read.between(0, read.preset.wrapping_add(period.wrapping_sub(left)))
    }
}

fn invalid(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::FixInput { hint: hint.to_owned() })
}

fn check_sources(placed: &[Placed], sources: &[OverflowSource]) -> Result<()> {
    if sources.is_empty() {
        return Err(invalid(
            "nothing ends the windows: no event has a period".to_owned(),
            "give at least one event a period",
        ));
    }
    for (n, OverflowSource { slot, period_events }) in sources.iter().enumerate() {
        let Some(event) = placed.get(*slot) else {
            let message = format!("slot {slot} cannot end windows: there are {} slots", placed.len());
            return Err(invalid(message, "name a slot by its index in the list of events, from 0 on"));
        };
        if *period_events == 0 {
            let message = format!("the period of slot {slot} (counter {}) is 0 events", event.counter);
            return Err(invalid(message, "give a period of at least 1 event"));
        }
        if sources[..n].iter().any(|other| other.slot == *slot) {
            return Err(invalid(format!("slot {slot} has two periods"), "give each source once"));
        }
    }
    match placed.iter().position(|event| event.period.is_some()) {
        Some(slot) => Err(invalid(
            format!("slot {slot} has a period that is not given as a source"),
            "leave the event's own period out and name the slot among the sources",
        )),
        None => Ok(()),
    }
}

/// Why a slot interrupts, if it does; an error where its event cannot be programmed.
fn period_of(
    chip: &Chip,
    event: &Placed,
    source: Option<&OverflowSource>,
    options: ProgramOptions,
) -> std::result::Result<Option<Period>, EncodeError> {
    let period = source.map(|source| Period::Source(source.period_events));
    let events = period.and_then(|period| NonZeroU64::new(period.events()));
    let alone = register_program(chip, &[Placed { period: events, ..*event }], options)?;
    let is_narrow = alone.reads.iter().any(|read| read.width_bits <= NARROW_BITS);
    Ok(period.or(is_narrow.then_some(Period::Guard(GUARD_EVENTS))))
}

/// An encoding's error with the slot's name.
fn named(error: EncodeError, slot: usize, counter: CounterId) -> Error {
    match error {
        EncodeError::PeriodTooLong { period, greatest, .. } => invalid(
            format!(
                "the period of slot {slot} (counter {counter}) is {period} events; it takes at most {greatest}"
            ),
            "give a shorter period",
        ),
        // The event alone lacks its slots, and windows do not support shares even with them.
        EncodeError::Share => invalid(
            format!("slot {slot} is a share of slots, which nothing counts in windows"),
            "leave it out; plain counting has it",
        ),
        error => error.into(),
    }
}

/// Whether a program's start writes a register.
fn starts(program: &RegisterProgram, register: PmuReg) -> bool {
    program.start.iter().any(|step| matches!(step, Step::Write(bits) if bits.register == register))
}

fn join(all: &mut Vec<Claims>, claim: Claim) {
    match all.iter_mut().find(|claims| claims.register == claim.bits.register) {
        Some(claims) => claims.claims.push(claim),
        None => all.push(Claims { register: claim.bits.register, claims: vec![claim] }),
    }
}
