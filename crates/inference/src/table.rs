//! Kernels and the concepts that each of their iterations carries out.

use std::collections::HashMap;
use std::fmt;

use cyclometer_core::concept::Concept;

/// The number of a kernel in its [`KernelTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelIndex(pub usize);

/// The use of a kernel: hypotheses are made from fitting kernels and tested on held-out ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelRole {
    /// Hypotheses are fitted to its slopes.
    Fitting,
    /// A mixture that no fit sees. An identified event predicts its slope.
    HeldOut,
}

/// One kernel of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableKernel {
    /// Its name, unique in the table.
    pub name: String,
    /// The family that it belongs to, for leaving out one family at a time.
    pub family: String,
    /// Whether hypotheses are fitted to it.
    pub role: KernelRole,
    /// The number of times that each concept happens in one iteration, on average: finite, 0 or more, each
    /// concept at most once. Concepts that are not listed do not happen.
    ///
    /// A concept with the nature `Duration` has a measured number: cycles per iteration on this machine.
    pub per_iteration: Vec<(Concept, f64)>,
    /// Concepts whose number in this kernel, 0 too, is an estimate: nothing follows from it.
    pub estimates: Vec<Concept>,
}

/// The kernels of a sweep, and the matrix of concepts per iteration.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelTable {
    kernels: Vec<TableKernel>,
    /// For each concept of `Concept::ALL` its number in each kernel.
    columns: Vec<Vec<f64>>,
    /// For each concept whether its number is an estimate in each kernel.
    estimates: Vec<Vec<bool>>,
    by_name: HashMap<String, KernelIndex>,
}

impl KernelTable {
    /// A table of `kernels`, at most [`KernelTable::MOST_KERNELS`].
    ///
    /// # Errors
    ///
    /// [`KernelTableError`] for a name or a concept that is listed twice, for a number that is negative or
    /// not finite, for a table without fitting kernels and for one that is too long.
    pub fn new(kernels: Vec<TableKernel>) -> Result<KernelTable, KernelTableError> {
        if kernels.len() > Self::MOST_KERNELS {
            return Err(KernelTableError::TooManyKernels(kernels.len()));
        }
        if !kernels.iter().any(|kernel| kernel.role == KernelRole::Fitting) {
            return Err(KernelTableError::NoFittingKernel);
        }
        let mut by_name = HashMap::new();
        let mut columns = vec![vec![0.0; kernels.len()]; Concept::ALL.len()];
        let mut estimates = vec![vec![false; kernels.len()]; Concept::ALL.len()];
        for (index, kernel) in kernels.iter().enumerate() {
            if by_name.insert(kernel.name.clone(), KernelIndex(index)).is_some() {
                return Err(KernelTableError::SameName(kernel.name.clone()));
            }
            fill(&mut columns, index, kernel)?;
            for concept in &kernel.estimates {
                estimates[*concept as usize][index] = true;
            }
        }
        Ok(KernelTable { kernels, columns, estimates, by_name })
    }

    /// The most kernels that a table has.
    pub const MOST_KERNELS: usize = 1024;

    /// The kernels, in the order in which they were given.
    pub fn kernels(&self) -> &[TableKernel] {
        &self.kernels
    }

    /// The kernel with a number. Panics for a number of a longer table.
    pub fn kernel(&self, index: KernelIndex) -> &TableKernel {
        &self.kernels[index.0]
    }

    /// The number of the kernel with a name.
    pub fn index_of(&self, name: &str) -> Option<KernelIndex> {
        self.by_name.get(name).copied()
    }

    /// The numbers of the kernels with a role.
    pub fn with_role(&self, role: KernelRole) -> impl Iterator<Item = KernelIndex> + '_ {
        self.kernels
            .iter()
            .enumerate()
            .filter(move |(_, kernel)| kernel.role == role)
            .map(|(index, _)| KernelIndex(index))
    }

    /// How often `concept` happens in an iteration of each kernel.
    pub fn column(&self, concept: Concept) -> &[f64] {
        // `Concept::ALL` is in the order of declaration.
        &self.columns[concept as usize]
    }

    /// Whether the number of `concept` is an estimate in a kernel.
    pub fn is_estimate(&self, concept: Concept, kernel: KernelIndex) -> bool {
        self.estimates[concept as usize][kernel.0]
    }

    /// How often `concept` happens in an iteration of those kernels that move it and foretell it.
    pub(crate) fn foretold(&self, concept: Concept) -> impl Iterator<Item = (KernelIndex, f64)> + '_ {
        let numbers = self.column(concept).iter().enumerate();
        let numbers = numbers.map(|(kernel, &number)| (KernelIndex(kernel), number));
        numbers.filter(move |&(kernel, number)| number > 0.0 && !self.is_estimate(concept, kernel))
    }

    /// The concepts that some kernel moves.
    pub fn moved_concepts(&self) -> impl Iterator<Item = Concept> + '_ {
        let moves = |concept: &Concept| self.column(*concept).iter().any(|&number| number > 0.0);
        Concept::ALL.iter().copied().filter(moves)
    }

    /// The families in the order in which they first appear.
    pub fn families(&self) -> Vec<&str> {
        let mut families: Vec<&str> = Vec::new();
        for kernel in &self.kernels {
            if !families.contains(&kernel.family.as_str()) {
                families.push(&kernel.family);
            }
        }
        families
    }

    /// The same kernels with other roles.
    pub(crate) fn with_roles(&self, role: impl Fn(&TableKernel) -> KernelRole) -> Option<KernelTable> {
        let mut table = self.clone();
        for kernel in &mut table.kernels {
            kernel.role = role(kernel);
        }
        let fitting = table.kernels.iter().any(|kernel| kernel.role == KernelRole::Fitting);
        fitting.then_some(table)
    }

    /// The table in which each kernel `i` carries out the work of kernel `order[i]`.
    pub(crate) fn relabelled(&self, order: &[usize]) -> KernelTable {
        let mut table = self.clone();
        for (column, original) in table.columns.iter_mut().zip(&self.columns) {
            *column = order.iter().map(|&from| original[from]).collect();
        }
        for (column, original) in table.estimates.iter_mut().zip(&self.estimates) {
            *column = order.iter().map(|&from| original[from]).collect();
        }
        for (kernel, &from) in table.kernels.iter_mut().zip(order) {
            kernel.per_iteration.clone_from(&self.kernels[from].per_iteration);
            kernel.estimates.clone_from(&self.kernels[from].estimates);
        }
        table
    }
}

fn fill(columns: &mut [Vec<f64>], index: usize, kernel: &TableKernel) -> Result<(), KernelTableError> {
    let mut seen = Vec::new();
    for &(concept, number) in &kernel.per_iteration {
        if !number.is_finite() || number < 0.0 {
            return Err(KernelTableError::BadNumber { kernel: kernel.name.clone(), concept, number });
        }
        if seen.contains(&concept) {
            return Err(KernelTableError::SameConcept { kernel: kernel.name.clone(), concept });
        }
        seen.push(concept);
        columns[concept as usize][index] = number;
    }
    Ok(())
}

/// The reason why kernels make no table.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum KernelTableError {
    /// Two kernels have this name.
    SameName(String),
    /// A kernel lists a concept twice.
    SameConcept {
        /// The kernel's name.
        kernel: String,
        /// The concept.
        concept: Concept,
    },
    /// A number of events that cannot be.
    BadNumber {
        /// The kernel's name.
        kernel: String,
        /// The concept.
        concept: Concept,
        /// The number, negative or not finite.
        number: f64,
    },
    /// Every kernel is held out, so that no hypothesis can be fitted.
    NoFittingKernel,
    /// The table has this many kernels, more than [`KernelTable::MOST_KERNELS`].
    TooManyKernels(usize),
}

impl fmt::Display for KernelTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameName(name) => write!(f, "two kernels are called {name:?}; give each its own name"),
            Self::SameConcept { kernel, concept } => {
                write!(f, "kernel {kernel:?} lists {concept} twice; list it once, with the sum")
            }
            Self::BadNumber { kernel, concept, number } => {
                write!(f, "kernel {kernel:?}: {number} is no number of {concept}; give a number of 0 or more")
            }
            Self::NoFittingKernel => f.write_str("every kernel is held out; mark some as fitting"),
            Self::TooManyKernels(number) => {
                write!(f, "{number} kernels are too many; give at most {}", KernelTable::MOST_KERNELS)
            }
        }
    }
}

impl std::error::Error for KernelTableError {}

#[cfg(test)]
mod tests {
    use super::*;
    use KernelRole::{Fitting, HeldOut};

    fn kernel(name: &str, role: KernelRole, per_iteration: &[(Concept, f64)]) -> TableKernel {
        TableKernel {
            name: name.into(),
            family: "f".into(),
            role,
            per_iteration: per_iteration.to_vec(),
            estimates: vec![],
        }
    }

    fn refusal(kernels: &[TableKernel]) -> String {
        KernelTable::new(kernels.to_vec()).unwrap_err().to_string()
    }

    #[test]
    fn concepts_are_numbered_in_the_order_of_all() {
        assert!(Concept::ALL.iter().enumerate().all(|(index, concept)| *concept as usize == index));
    }

    #[test]
    fn columns_have_zero_where_a_kernel_lists_nothing() {
        let table = KernelTable::new(vec![
            kernel("a", Fitting, &[(Concept::Loads, 2.0)]),
            kernel("b", HeldOut, &[(Concept::Stores, 1.0)]),
        ])
        .unwrap();
        assert_eq!(table.column(Concept::Loads), [2.0, 0.0]);
        assert_eq!(table.moved_concepts().collect::<Vec<_>>(), [Concept::Loads, Concept::Stores]);
        assert_eq!(table.index_of("b"), Some(KernelIndex(1)));
        assert_eq!(table.with_role(HeldOut).collect::<Vec<_>>(), [KernelIndex(1)]);
    }

    #[test]
    fn impossible_tables_are_refused_with_a_remedy() {
        let a = kernel("a", Fitting, &[]);
        assert_eq!(refusal(&[a.clone(), a.clone()]), "two kernels are called \"a\"; give each its own name");
        assert_eq!(refusal(&[]), "every kernel is held out; mark some as fitting");
        assert_eq!(refusal(&[kernel("a", HeldOut, &[])]), "every kernel is held out; mark some as fitting");
        for number in [-1.0, f64::NAN, f64::INFINITY] {
            let bad = kernel("a", Fitting, &[(Concept::Loads, number)]);
            assert!(refusal(&[bad]).ends_with("is no number of loads; give a number of 0 or more"));
        }
        let twice = kernel("a", Fitting, &[(Concept::Loads, 1.0), (Concept::Loads, 1.0)]);
        assert!(refusal(&[twice]).contains("lists loads twice"));
    }
}
