//! Raw counts of one event, as a sweep hands them over.

use std::fmt;

use cyclometer_core::CounterId;

use crate::table::{KernelIndex, KernelTable};

/// Repeated counts of one kernel at one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The kernel that ran.
    pub kernel: KernelIndex,
    /// Its iterations: at least 1. A slope needs two sizes of a kernel, a test of linearity three;
    /// n, 2n, 4n and 8n are recommended.
    pub iterations: u64,
    /// Raw counts, one for each repeat, in the order of time: differences of the counter around the run.
    pub counts: Vec<u64>,
    /// Interrupts during each repeat, or nothing where no counter of them exists.
    pub interrupts: Vec<u64>,
}

/// All counts of an event on one counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterObservations {
    /// The counter; `None` where the kernel's driver chose it, so that no mask can be observed.
    pub counter: Option<CounterId>,
    /// The counts, in any order, each size of a kernel once.
    pub observations: Vec<Observation>,
}

/// All counts of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventObservations {
    /// The event as reports name it, such as `0x8d`.
    pub event: String,
    /// Its counts on each counter that was tried: one counter is enough.
    pub counters: Vec<CounterObservations>,
}

/// The reason why observations cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ObservationError {
    /// There are counts on no counter.
    NoCounter {
        /// The event.
        event: String,
    },
    /// A counter is listed twice, or one without a number beside others.
    SameCounter {
        /// The event.
        event: String,
    },
    /// An observation names a kernel that the table lacks.
    UnknownKernel {
        /// The event.
        event: String,
        /// The number of the kernel.
        kernel: usize,
    },
    /// A size of a kernel has no iterations, no counts, another number of interrupts than of counts, or is
    /// listed twice.
    BadSize {
        /// The event.
        event: String,
        /// The kernel's name.
        kernel: String,
        /// The size.
        iterations: u64,
    },
}

impl fmt::Display for ObservationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter { event } => write!(f, "event {event} has no counts; observe it on a counter"),
            Self::SameCounter { event } => {
                write!(f, "event {event} has counts of one counter twice; give each counter once")
            }
            Self::UnknownKernel { event, kernel } => {
                write!(f, "event {event} has counts of kernel {kernel}, which the table lacks")
            }
            Self::BadSize { event, kernel, iterations } => write!(
                f,
                "event {event}, kernel {kernel:?}, {iterations} iterations: give each size once, with one or \
                 more iterations, with counts, and with interrupts for all of them or for none"
            ),
        }
    }
}

impl std::error::Error for ObservationError {}

/// The observations of one counter by kernel, each kernel's by size.
pub(crate) struct BySize<'a> {
    kernels: Vec<Vec<&'a Observation>>,
}

impl<'a> BySize<'a> {
    /// The sizes of a kernel, in ascending order.
    pub(crate) fn of_kernel(&self, kernel: KernelIndex) -> &[&'a Observation] {
        &self.kernels[kernel.0]
    }

    /// All sizes of all kernels.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a Observation> {
        self.kernels.iter().flatten().copied()
    }
}

impl EventObservations {
    /// The observations in order, or the reason why they cannot be judged.
    pub(crate) fn by_size(&self, table: &KernelTable) -> Result<Vec<BySize<'_>>, ObservationError> {
        if self.counters.is_empty() {
            return Err(ObservationError::NoCounter { event: self.event.clone() });
        }
        let several = self.counters.len() > 1;
        for (index, counter) in self.counters.iter().enumerate() {
            let same = self.counters[..index].iter().any(|before| before.counter == counter.counter);
            if same || several && counter.counter.is_none() {
                return Err(ObservationError::SameCounter { event: self.event.clone() });
            }
        }
        self.counters.iter().map(|counter| self.sorted(table, counter)).collect()
    }

    fn sorted<'a>(
        &self,
        table: &KernelTable,
        counter: &'a CounterObservations,
    ) -> Result<BySize<'a>, ObservationError> {
        let mut kernels = vec![Vec::new(); table.kernels().len()];
        for observation in &counter.observations {
            let kernel = observation.kernel.0;
            let Some(sizes) = kernels.get_mut(kernel) else {
                return Err(ObservationError::UnknownKernel { event: self.event.clone(), kernel });
            };
            if !is_complete(observation) {
                return Err(self.bad_size(table, observation));
            }
            sizes.push(observation);
        }
        for sizes in &mut kernels {
            sizes.sort_by_key(|observation| observation.iterations);
            if let Some(pair) = sizes.windows(2).find(|pair| pair[0].iterations == pair[1].iterations) {
                return Err(self.bad_size(table, pair[0]));
            }
        }
        Ok(BySize { kernels })
    }

    fn bad_size(&self, table: &KernelTable, observation: &Observation) -> ObservationError {
        ObservationError::BadSize {
            event: self.event.clone(),
            kernel: table.kernel(observation.kernel).name.clone(),
            iterations: observation.iterations,
        }
    }
}

fn is_complete(observation: &Observation) -> bool {
    let interrupts = observation.interrupts.len();
    observation.iterations > 0
        && !observation.counts.is_empty()
        && (interrupts == 0 || interrupts == observation.counts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{KernelRole, TableKernel};

    /// Kernel, iterations, number of counts and of interrupts.
    type Size = (usize, u64, usize, usize);

    fn refusal(counters: &[(Option<u8>, &[Size])]) -> Option<String> {
        let kernel = TableKernel {
            name: "k".into(),
            family: "f".into(),
            role: KernelRole::Fitting,
            per_iteration: vec![],
            estimates: vec![],
        };
        let table = KernelTable::new(vec![kernel]).unwrap();
        let counters = counters
            .iter()
            .map(|(counter, sizes)| CounterObservations {
                counter: counter.map(CounterId::General),
                observations: sizes
                    .iter()
                    .map(|&(kernel, iterations, counts, interrupts)| Observation {
                        kernel: KernelIndex(kernel),
                        iterations,
                        counts: vec![1; counts],
                        interrupts: vec![0; interrupts],
                    })
                    .collect(),
            })
            .collect();
        let event = EventObservations { event: "0x01".into(), counters };
        event.by_size(&table).err().map(|error| error.to_string())
    }

    #[test]
    fn incomplete_observations_are_refused_by_name() {
        assert_eq!(refusal(&[]).unwrap(), "event 0x01 has no counts; observe it on a counter");
        assert!(refusal(&[(Some(1), &[]), (Some(1), &[])]).unwrap().contains("one counter twice"));
        assert!(refusal(&[(Some(1), &[]), (None, &[])]).unwrap().contains("one counter twice"));
        assert!(refusal(&[(None, &[(1, 1, 1, 0)])]).unwrap().contains("kernel 1, which the table lacks"));
        for sizes in [[(0, 0, 1, 0)], [(0, 1, 0, 0)], [(0, 1, 3, 2)]] {
            assert!(refusal(&[(None, &sizes)]).unwrap().starts_with("event 0x01, kernel \"k\", "));
        }
        assert!(refusal(&[(None, &[(0, 5, 1, 0), (0, 5, 1, 0)])]).unwrap().contains(", 5 iterations"));
        assert_eq!(refusal(&[(None, &[(0, 2, 1, 0), (0, 1, 1, 1)])]), None);
    }
}
