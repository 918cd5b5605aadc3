//! The counts of events beside the measured one.

use std::fmt;

use cyclometer::{Measured, Value, Verdict};

/// The counts of benchmarks, event by event.
#[derive(Clone, Debug, Default)]
pub struct Report {
    benchmarks: Vec<Benchmark>,
}

#[derive(Clone, Debug)]
struct Benchmark {
    name: String,
    iterations: u64,
    events: Vec<Beside>,
}

/// One event of a benchmark.
#[derive(Clone, PartialEq, Debug)]
pub struct Beside {
    /// The name with the counted modes.
    pub name: String,
    /// The unit; empty for plain counts.
    pub unit: String,
    /// The sum over all iterations; `None` if any of them was not counted.
    pub sum: Option<f64>,
    /// The reason why the sum is missing or not exact; `None` if it is exact.
    pub reason: Option<String>,
}

impl Beside {
    fn nothing(value: &Value) -> Beside {
        let (name, unit) = (value.name.clone(), value.unit.symbol().to_owned());
        Beside { name, unit, sum: Some(0.0), reason: None }
    }

    fn add(&mut self, value: &Value) {
        self.sum = self.sum.zip(value.number()).map(|(sum, number)| sum + number);
        if value.count.verdict() != Verdict::Exact && self.reason.is_none() {
            self.reason = value.reason();
        }
    }
}

impl Report {
    /// Adds the counts of a benchmark's iterations.
    pub(crate) fn add(&mut self, name: &str, iterations: u64, measured: &Measured) {
        let at = self.benchmarks.iter().position(|own| own.name == name).unwrap_or_else(|| {
            let events = measured.values.iter().map(Beside::nothing).collect();
            self.benchmarks.push(Benchmark { name: name.to_owned(), iterations: 0, events });
            self.benchmarks.len() - 1
        });
        let benchmark = &mut self.benchmarks[at];
        benchmark.iterations += iterations;
        benchmark.events.iter_mut().zip(&measured.values).for_each(|(event, value)| event.add(value));
    }

    /// The benchmarks, in the order in which they ran.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.benchmarks.iter().map(|benchmark| benchmark.name.as_str())
    }

    /// The number of counted iterations of a benchmark; `None` if there is no such benchmark.
    pub fn iterations(&self, name: &str) -> Option<u64> {
        Some(self.benchmark(name)?.iterations)
    }

    /// The events of a benchmark, the measured one first.
    pub fn events(&self, name: &str) -> Option<&[Beside]> {
        Some(&self.benchmark(name)?.events)
    }

    /// The average count of an iteration of a benchmark; `None` if it was not counted.
    pub fn per_iteration(&self, name: &str, event: &str) -> Option<f64> {
        let benchmark = self.benchmark(name)?;
        let event = benchmark
            .events
            .iter()
            .find(|own| own.name == event || own.name.split(':').next() == Some(event))?;
        (benchmark.iterations > 0).then_some(event.sum? / benchmark.iterations as f64)
    }

    fn benchmark(&self, name: &str) -> Option<&Benchmark> {
        self.benchmarks.iter().find(|benchmark| benchmark.name == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for benchmark in &self.benchmarks {
            writeln!(f, "{}, for each of {} iterations:", benchmark.name, benchmark.iterations)?;
            for event in &benchmark.events {
                writeln!(f, "  {}", line(event, benchmark.iterations))?;
            }
        }
        Ok(())
    }
}

fn line(event: &Beside, iterations: u64) -> String {
    let Some(sum) = event.sum else {
        let reason = event.reason.as_deref().unwrap_or("nobody can tell why");
        return format!("{:>16}  {} ({reason})", "not counted", event.name);
    };
    let unit = if event.unit.is_empty() { String::new() } else { format!(" in {}", event.unit) };
    let reason = event.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{:>16.3}  {}{unit}{reason}", sum / iterations.max(1) as f64, event.name)
}
