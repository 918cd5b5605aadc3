//! Facts of a program: numbers, or the reasons why there are none.

use std::collections::BTreeMap;

/// Where a fact comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FactOrigin {
    /// Hardware counters.
    Hardware,
    /// Accounting of the kernel.
    Kernel,
    /// The software PMU counted it exactly.
    Counted,
    /// Models of caches and predictors, in windows of the run.
    Modelled,
    /// Looks at the states of threads, in the course of the run.
    Sampled,
}

impl FactOrigin {
    /// Every origin.
    pub const ALL: [FactOrigin; 5] = [
        FactOrigin::Hardware,
        FactOrigin::Kernel,
        FactOrigin::Counted,
        FactOrigin::Modelled,
        FactOrigin::Sampled,
    ];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            FactOrigin::Hardware => "hardware",
            FactOrigin::Kernel => "kernel",
            FactOrigin::Counted => "counted",
            FactOrigin::Modelled => "modelled",
            FactOrigin::Sampled => "sampled",
        }
    }
}

/// A number, or the reason why there is none.
#[derive(Clone, PartialEq, Debug)]
pub struct Fact {
    /// The number.
    pub value: Result<f64, String>,
    /// Its origin; `None` without a number.
    pub origin: Option<FactOrigin>,
}

/// The facts about a program, by name. Names have letters, digits and `_`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts(BTreeMap<String, Fact>);

impl Facts {
    /// Adds a number. One that is not finite is none.
    pub fn put(&mut self, name: &str, value: f64, origin: FactOrigin) {
        let fact = match value.is_finite() {
            true => Fact { value: Ok(value), origin: Some(origin) },
            false => Fact { value: Err("not a number".to_owned()), origin: None },
        };
        self.0.insert(name.to_owned(), fact);
    }

    /// Notes why there is no number. A number that is there already stays.
    pub fn lack(&mut self, name: &str, reason: impl Into<String>) {
        let fact = Fact { value: Err(reason.into()), origin: None };
        self.0.entry(name.to_owned()).or_insert(fact);
    }

    /// The number of a name.
    ///
    /// # Errors
    ///
    /// The reason why it has none.
    pub fn value(&self, name: &str) -> Result<f64, String> {
        match self.0.get(name) {
            Some(Fact { value: Ok(value), .. }) => Ok(*value),
            Some(Fact { value: Err(reason), .. }) => Err(format!("{name}: {reason}")),
            None => Err(name.to_owned()),
        }
    }

    /// Whether a name has a number.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_ok()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Fact)> {
        self.0.iter().map(|(name, fact)| (name.as_str(), fact))
    }
}
