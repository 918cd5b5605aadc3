//! A metric with the metrics that its formula refers to.

use std::collections::{BTreeMap, HashMap};

use super::{Formula, FormulaError, Inputs};

/// The most formulas that one metric may need, including its own.
pub const MAX_FORMULAS: usize = 256;

/// A formula and those of the metrics in it, each before the first one that needs it.
///
/// Each formula is evaluated once, however often it is referenced.
#[derive(Clone, PartialEq, Debug)]
pub struct Expression {
    formulas: Vec<(String, Formula)>,
}

impl Expression {
    /// Reads the formula of the metric `name`; `find` gives the formula of another metric, and `None` for an
    /// event.
    ///
    /// The metric's own name inside its formula means an event.
    ///
    /// # Errors
    ///
    /// An invalid formula, with the name of its metric; a cycle of metrics, with their names; more than
    /// [`MAX_FORMULAS`].
    pub fn resolve<'t>(
        name: &str,
        formula: &str,
        find: impl Fn(&str) -> Option<&'t str>,
    ) -> Result<Expression, FormulaError> {
        let mut resolver = Resolver { find, done: Vec::new(), path: Vec::new(), known: HashMap::new() };
        resolver.begin(name, formula)?;
        resolver.run()?;
        Ok(Expression { formulas: resolver.done })
    }

    /// The metric's own formula, as it was written.
    pub fn text(&self) -> &str {
        self.formulas.last().map_or("", |(_, formula)| formula.text())
    }

    /// The names of the events in it, each once, in the order of their first use.
    pub fn events(&self) -> Vec<&str> {
        let mut events: Vec<&str> = Vec::new();
        for (i, (_, formula)) in self.formulas.iter().enumerate() {
            for name in formula.names() {
                let earlier = self.formulas[..i].iter().any(|(metric, _)| metric == name);
                if !earlier && !events.contains(&name.as_str()) {
                    events.push(name);
                }
            }
        }
        events
    }

    /// Its value.
    ///
    /// # Errors
    ///
    /// As [`Formula::evaluate`].
    pub fn evaluate(&self, inputs: &dyn Inputs) -> Result<f64, String> {
        let mut values: BTreeMap<&str, Result<f64, String>> = BTreeMap::new();
        let mut last = Err("there is no formula".to_owned());
        for (name, formula) in &self.formulas {
            last = formula.evaluate(&KnownMetrics { values: &values, inputs });
            values.insert(name, last.clone());
        }
        last
    }
}

/// The metrics that are already evaluated; other names come from the inputs.
struct KnownMetrics<'a> {
    values: &'a BTreeMap<&'a str, Result<f64, String>>,
    inputs: &'a dyn Inputs,
}

impl Inputs for KnownMetrics<'_> {
    fn value(&self, name: &str) -> Result<f64, String> {
        self.values.get(name).cloned().unwrap_or_else(|| self.inputs.value(name))
    }

    fn literal(&self, name: &str) -> Option<f64> {
        self.inputs.literal(name)
    }

    fn is_cpu(&self, id: &str) -> Option<bool> {
        self.inputs.is_cpu(id)
    }

    fn shown(&self, name: &str) -> String {
        if self.values.contains_key(name) { name.to_owned() } else { self.inputs.shown(name) }
    }
}

/// Walks from metric to metric on an explicit stack, so that depth costs only memory.
struct Resolver<F> {
    find: F,
    done: Vec<(String, Formula)>,
    /// The metrics on the current path, each in the formula of the one before, with the index of the next
    /// name.
    path: Vec<(String, Formula, usize)>,
    /// Whether a metric that was visited is complete.
    known: HashMap<String, bool>,
}

impl<'t, F: Fn(&str) -> Option<&'t str>> Resolver<F> {
    fn begin(&mut self, name: &str, formula: &str) -> Result<(), FormulaError> {
        if self.known.len() == MAX_FORMULAS {
            return Err(FormulaError::whole(format!(
                "{name}: more than {MAX_FORMULAS} metrics refer to each other"
            )));
        }
        let read = Formula::parse(formula);
        let read =
            read.map_err(|error| FormulaError { message: format!("{name}: {}", error.message), ..error })?;
        self.known.insert(name.to_owned(), false);
        self.path.push((name.to_owned(), read, 0));
        Ok(())
    }

    fn run(&mut self) -> Result<(), FormulaError> {
        while let Some((metric, formula, at)) = self.path.last_mut() {
            let Some(name) = formula.names().get(*at).cloned() else {
                self.known.insert(metric.clone(), true);
                self.done.extend(self.path.pop().map(|(metric, formula, _)| (metric, formula)));
                continue;
            };
            *at += 1;
            let own = name == *metric;
            match self.known.get(&name) {
                Some(false) if !own => return Err(self.circle(&name)),
                Some(_) => {}
                None => {
                    if let Some(formula) = (self.find)(&name) {
                        self.begin(&name, formula)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn circle(&self, name: &str) -> FormulaError {
        let from = self.path.iter().position(|(metric, ..)| metric == name).unwrap_or(0);
        let mut circle: Vec<&str> = self.path[from..].iter().map(|(metric, ..)| metric.as_str()).collect();
        circle.push(name);
        FormulaError::whole(format!("metrics refer to each other in a circle: {}", circle.join(" -> ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Events(Vec<(&'static str, f64)>);

    impl Inputs for Events {
        fn value(&self, name: &str) -> Result<f64, String> {
            let found = self.0.iter().find(|(event, _)| *event == name);
            found.map(|(_, value)| *value).ok_or_else(|| format!("{name} is missing"))
        }

        fn literal(&self, _: &str) -> Option<f64> {
            None
        }

        fn is_cpu(&self, _: &str) -> Option<bool> {
            None
        }
    }

    fn resolve(metrics: &[(&str, &'static str)], name: &str) -> Result<Expression, FormulaError> {
        let find =
            |wanted: &str| metrics.iter().find(|(name, _)| *name == wanted).map(|(_, formula)| *formula);
        Expression::resolve(name, find(name).unwrap(), find)
    }

    #[test]
    fn metrics_are_evaluated_once_and_in_order() {
        let metrics = [
            ("bound", "1 - lost - kept"),
            ("lost", "l / slots"),
            ("kept", "k / slots"),
            ("slots", "4 * clocks"),
        ];
        let expression = resolve(&metrics, "bound").unwrap();
        assert_eq!(expression.events(), ["clocks", "l", "k"]);
        let events = Events(vec![("clocks", 100.0), ("l", 100.0), ("k", 200.0)]);
        assert_eq!(expression.evaluate(&events), Ok(0.25));
    }

    #[test]
    fn a_division_by_a_metric_names_the_metric() {
        let expression = resolve(&[("share", "l / slots"), ("slots", "4 * clocks")], "share").unwrap();
        let events = Events(vec![("clocks", 0.0), ("l", 1.0)]);
        assert_eq!(expression.evaluate(&events), Err("slots was 0".to_owned()));
        assert_eq!(expression.evaluate(&Events(vec![("l", 1.0)])), Err("clocks is missing".to_owned()));
    }

    #[test]
    fn many_references_are_no_many_evaluations() {
        let names: Vec<String> = (0..200).map(|i| format!("m{i}")).collect();
        let formulas: Vec<&'static str> = (0..200)
            .map(|i| -> &'static str {
                if i == 0 { "e" } else { format!("m{} / 2 + m{} / 2", i - 1, i - 1).leak() }
            })
            .collect();
        let metrics: Vec<(&str, &'static str)> = names.iter().map(String::as_str).zip(formulas).collect();
        assert_eq!(resolve(&metrics, "m199").unwrap().evaluate(&Events(vec![("e", 3.0)])), Ok(3.0));
    }

    #[test]
    fn a_circle_is_named() {
        let metrics = [("top", "a + 1"), ("a", "e / b"), ("b", "c"), ("c", "a - e")];
        let error = resolve(&metrics, "top").unwrap_err().to_string();
        assert_eq!(error, "metrics refer to each other in a circle: a -> b -> c -> a");
    }

    #[test]
    fn a_metric_of_an_events_name_is_the_event() {
        let expression = resolve(&[("cycles", "cycles")], "cycles").unwrap();
        assert_eq!(expression.events(), ["cycles"]);
        assert_eq!(expression.evaluate(&Events(vec![("cycles", 5.0)])), Ok(5.0));
    }

    #[test]
    fn a_long_chain_is_an_error_and_no_overflow() {
        let find = |name: &str| -> Option<&'static str> {
            let number: usize = name.strip_prefix('m')?.parse().ok()?;
            Some(format!("m{} + 1", number + 1).leak())
        };
        let error = Expression::resolve("m0", "m1", find).unwrap_err().to_string();
        assert_eq!(error, "m256: more than 256 metrics refer to each other");
    }

    #[test]
    fn what_is_no_formula_names_its_metric() {
        let error = resolve(&[("top", "a"), ("a", "1 +")], "top").unwrap_err();
        assert_eq!(error.to_string(), "a: a value is missing (at byte 3)");
    }
}
