//! Reversing: a sweep and inference find out which concepts unknown events count.
//!
//! A sweep counts codes on every counter of a simulated chip while kernels of known work run; inference says
//! what each code counts, as far as that is certain. No PMU of silicon is swept yet.

use std::sync::Arc;

use cyclometer_catalog::table::model::{CpuTable, Header, TableEvent};
use cyclometer_catalog::table::text::write;
use cyclometer_core::concept::Concept;
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, Error, ErrorKind, EventCode, Recovery, Result};
use cyclometer_inference::{
    Identifiability, Inference, Judgement, KernelTable, Relation, ShuffledLabels, relations, shuffled_labels,
};
use cyclometer_kernels::{Geometry, InstructionSet};
use cyclometer_sim::Model;
use cyclometer_sweep::{
    SimulatedTarget, SweepError, SweepProgress, SweepSettings, kernel_table, kernels_for, sweep,
};

use crate::simulated::Simulated;

/// The most codes of a sweep.
pub const MOST_CODES: usize = 1 << 16;

/// How often the names of the kernels are shuffled for the control.
const SHUFFLES: usize = 3;

/// The result of a sweep.
#[derive(Debug)]
pub struct Reversed {
    /// The kernels that ran, with what each does.
    pub kernels: KernelTable,
    /// The verdict on each code, in the order of the codes.
    pub events: Vec<ReversedEvent>,
    /// Relations between the events; their numbers are indices of `events`.
    pub relations: Vec<Relation>,
    /// The concepts that these kernels tell apart.
    pub identifiability: Identifiability,
    /// The judgements of the same counts with the names of the kernels shuffled: no event should be
    /// identified.
    pub control: ShuffledLabels,
}

/// The verdict on a code.
#[derive(Clone, Debug)]
pub struct ReversedEvent {
    /// The code: select, on x86-64 with the unit mask from bit 8 on.
    pub code: u32,
    /// The judgement.
    pub judgement: Judgement,
    /// The events of the chip's table that have this code.
    pub documented: Vec<DocumentedEvent>,
}

/// An event of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentedEvent {
    /// Its name.
    pub name: String,
    /// The counters that it is allowed on, by the table.
    pub counters: CounterMask,
}

impl Simulated {
    /// The codes that are swept if none are named: of a chip with selects of 8 bits all of them, of one with
    /// 16 bits those below 0x800, and on x86-64 each select without unit mask and with each bit of it.
    pub fn usual_codes(&self) -> Vec<u32> {
        let model = self.model();
        match model.chip.family {
            Family::Intel | Family::Amd => {
                let masks = [0].into_iter().chain((0..8).map(|bit| 1 << bit));
                masks.flat_map(|mask| (0..256).map(move |select| mask << 8 | select)).collect()
            }
            Family::Apple if model.chip.selector_bits == 8 => (0..256).collect(),
            _ => (0..0x800).collect(),
        }
    }

    /// Finds out what codes count.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for no codes, more than [`MOST_CODES`], or one that the chip cannot have;
    /// `ErrorKind::EventUnsupported` for a code that its registers refuse.
    pub fn reverse(
        &self,
        codes: &[u32],
        settings: &SweepSettings,
        progress: impl FnMut(SweepProgress),
    ) -> Result<Reversed> {
        let (table, judgements) = self.judged(codes, settings, progress)?;
        let related = relations(&judgements);
        let control = shuffled_labels(&table, &judgements, settings.seed, SHUFFLES);
        let events = self.reversed_events(codes, judgements);
        let identifiability = Identifiability::of(&table);
        Ok(Reversed { kernels: table, events, relations: related, identifiability, control })
    }

    /// Sweeps codes; the kernels that ran, and the judgement on each code.
    pub(crate) fn judged(
        &self,
        codes: &[u32],
        settings: &SweepSettings,
        progress: impl FnMut(SweepProgress),
    ) -> Result<(KernelTable, Vec<Judgement>)> {
        let model = self.model();
        check(codes, model)?;
        let set = match model.chip.family {
            Family::Intel | Family::Amd => InstructionSet::X86_64,
            Family::Apple | Family::Arm => InstructionSet::Aarch64,
            Family::RiscV => InstructionSet::Riscv64,
        };
        let mut kernels = kernels_for(set, &Geometry::default());
        let semantics = self.semantics().map_or_else(|| Arc::new(model.semantics()), Arc::clone);
        let mut target = SimulatedTarget::new(model, self.settings(), semantics, &mut kernels);
        let table = kernel_table(&kernels).map_err(|error| internal(&error))?;
        let observed = sweep(&mut target, codes, kernels.len(), settings, progress).map_err(refused)?;
        let inference = Inference::new(&table);
        let judged = observed.iter().map(|event| inference.judge(event));
        let judgements = judged.collect::<std::result::Result<Vec<_>, _>>();
        let judgements = judgements.map_err(|error| internal(&error))?;
        Ok((table, judgements))
    }

    /// The judgements on codes, with the events of the chip's table.
    pub(crate) fn reversed_events(&self, codes: &[u32], judgements: Vec<Judgement>) -> Vec<ReversedEvent> {
        let event = |(code, judgement): (&u32, Judgement)| ReversedEvent {
            code: *code,
            judgement,
            documented: self.documented(*code),
        };
        codes.iter().zip(judgements).map(event).collect()
    }

    /// The identified events as a table of events, which [`EventTables::with_file`](crate::EventTables)
    /// reads: each is called by its sum and its code, as `loads_0x95`.
    pub fn event_table(&self, found: &Reversed) -> String {
        let model = self.model();
        let header = Header {
            cpu: model.id.to_owned(),
            title: format!("events of {} that were found out", model.id),
            family: model.chip.family,
            pmu_version: model.chip.pmu_version,
            selector_bits: model.chip.selector_bits,
            counter_width_bits: model.chip.counter_width_bits,
            overflow_bit: model.chip.overflow_bit,
            counters: model.chip.counters,
            sources: vec![format!("a sweep of sim:{} by cyclometer", model.id)],
            ..Header::default()
        };
        let events = found.events.iter().filter_map(|event| {
            let sum = &event.judgement.verdict.identified()?.sum;
            let (select, umask) = model.select(event.code);
            Some(TableEvent {
                name: name_of(&sum.to_string(), event.code),
                code: EventCode { select, umask, ..EventCode::default() },
                counters: event.judgement.mask.belongs,
                ..TableEvent::default()
            })
        });
        let mut events: Vec<TableEvent> = events.collect();
        events.sort_by(|one, other| one.name.cmp(&other.name));
        write(&CpuTable { header, events, generic: Vec::new() })
    }

    /// The events of its chip's table with a code. Where other meanings are given, names say nothing.
    fn documented(&self, code: u32) -> Vec<DocumentedEvent> {
        if self.semantics().is_some() {
            return Vec::new();
        }
        let model = self.model();
        let code = model.select(code);
        let tables = cyclometer_catalog::cpus::cpu(model.id).into_iter();
        let events = tables.flat_map(|table| table.events());
        let same = events.filter(|event| (event.code().select, event.code().umask) == code);
        same.map(|event| DocumentedEvent { name: event.name().to_owned(), counters: event.counters() })
            .collect()
    }
}

impl Reversed {
    /// The events with a verdict, by its letter.
    pub fn with_verdict(&self, letter: char) -> impl Iterator<Item = &ReversedEvent> {
        self.events.iter().filter(move |event| event.judgement.verdict.letter() == letter)
    }

    /// Concepts that kernels move, and that some other concept or sum looks like.
    pub fn not_told_apart(&self) -> Vec<Concept> {
        let moved = self.kernels.moved_concepts();
        moved.filter(|concept| !self.identifiability.is_identifiable(*concept)).collect()
    }
}

/// The name of an event: the words of its sum, and its code.
fn name_of(sum: &str, code: u32) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let words = sum.replace(" + ", "_plus_").replace(" × ", "_times_").chars().map(word).collect::<String>();
    format!("{words}_{code:#04x}")
}

fn check(codes: &[u32], model: &Model) -> Result<()> {
    let has_other_bits = |code: &&u32| {
        let (select, umask) = model.select(**code);
        model.code(select, umask) != **code
    };
    if let Some(code) = codes.iter().find(has_other_bits) {
        let text = format!("event {code:#x} has bits that no select or unit mask of {} has", model.id);
        let hint =
            Recovery::fix("codes have the select in the lowest bits, on x86-64 the unit mask from bit 8 on");
        return Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(hint));
    }
    let count = codes.len();
    if (1..=MOST_CODES).contains(&count) {
        return Ok(());
    }
    let text = format!("{count} codes cannot be swept: 1 to {MOST_CODES} can");
    let hint = Recovery::fix("name fewer: --ids 0x00-0xff");
    Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(hint))
}

fn refused(error: SweepError) -> Error {
    let kind = match &error {
        SweepError::Target { error, .. } => error.kind(),
        _ => ErrorKind::EventUnsupported,
    };
    Error::new(kind, error.to_string())
}

fn internal(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("the kernels of the sweep do not fit together: {error}"))
}
