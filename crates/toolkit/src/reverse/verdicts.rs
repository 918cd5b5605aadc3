//! The verdicts of a sweep.

use cyclometer_core::concept::Concept;
use cyclometer_core::{CounterMask, Error, ErrorKind, Result};
use cyclometer_inference::{
    Identifiability, Inference, Judgement, KernelTable, Relation, ShuffledLabels, relations, shuffled_labels,
};
use cyclometer_sweep::{Exclusion, SweepKernel, SweptCode, kernel_table};

/// How often the names of the kernels are shuffled for the control.
const SHUFFLES: usize = 3;

/// The result of a sweep.
#[derive(Debug)]
pub struct Reversed {
    /// The kernels that ran, with what each does.
    pub kernels: KernelTable,
    /// The verdict on each code, in the order of the codes.
    pub events: Vec<ReversedEvent>,
    /// Codes without a verdict, with the reason.
    pub excluded: Vec<(u32, Exclusion)>,
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
    /// The counters that it is allowed on, by the table; `None` if the table names none.
    pub counters: Option<CounterMask>,
}

impl Reversed {
    /// The verdicts on what was swept; `documented` has the events of a table with a code.
    pub(super) fn of(
        swept: &[SweptCode],
        kernels: &[SweepKernel],
        seed: u64,
        documented: impl Fn(u32) -> Vec<DocumentedEvent>,
    ) -> Result<Reversed> {
        let table = kernel_table(kernels).map_err(|error| internal(&error))?;
        let inference = Inference::new(&table);
        let (mut codes, mut judgements, mut excluded) = (Vec::new(), Vec::new(), Vec::new());
        for one in swept {
            match one.observations() {
                Some(observed) => {
                    judgements.push(inference.judge(observed).map_err(|error| internal(&error))?);
                    codes.push(one.code);
                }
                None => excluded.extend(one.exclusion().map(|why| (one.code, why.clone()))),
            }
        }
        let related = relations(&judgements);
        let control = shuffled_labels(&table, &judgements, seed, SHUFFLES);
        let event = |(code, judgement): (u32, Judgement)| ReversedEvent {
            code,
            judgement,
            documented: documented(code),
        };
        let events = codes.into_iter().zip(judgements).map(event).collect();
        let identifiability = Identifiability::of(&table);
        Ok(Reversed { kernels: table, events, excluded, relations: related, identifiability, control })
    }

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

fn internal(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("the kernels of the sweep do not fit together: {error}"))
}
