//! Values as Criterion prints them.

use criterion::Throughput;
use criterion::measurement::ValueFormatter;
use cyclometer::Value;

/// Prefixes by powers of a thousand.
const PREFIXES: [&str; 5] = ["", "k ", "M ", "G ", "T "];

/// Units of time by powers of a thousand ns.
const TIMES: [&str; 5] = ["ns", "µs", "ms", "s", "ks"];

/// Formats values with the unit of the event, or with the event's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formatter {
    /// Prefixed units by powers of a thousand.
    units: [&'static str; 5],
    /// The units for each bit, byte, element.
    rates: [&'static str; 3],
}

impl Formatter {
    /// Criterion requires static strings: a few short ones are leaked for each measured event.
    pub(crate) fn new(value: &Value) -> Formatter {
        let units = match value.unit.symbol() {
            "ns" => TIMES,
            "" => PREFIXES.map(|prefix| for_ever(format!("{prefix}{}", value.name))),
            symbol => [for_ever(symbol.to_owned()); 5],
        };
        Formatter { units, rates: UNITS_OF_WORK.map(|work| for_ever(format!("{} per {work}", units[0]))) }
    }

    /// The fitting prefix for the typical value.
    fn power(&self, typical: f64) -> usize {
        let has_prefixes = self.units[0] != self.units[1];
        (1..PREFIXES.len())
            .rev()
            .find(|power| has_prefixes && typical.abs() >= 1000_f64.powi(*power as i32))
            .unwrap_or(0)
    }
}

fn for_ever(text: String) -> &'static str {
    text.leak()
}

/// The units of work of an iteration.
const UNITS_OF_WORK: [&str; 3] = ["bit", "byte", "element"];

/// The number of units of work in an iteration, and their index in [`UNITS_OF_WORK`].
fn units_of_work(throughput: &Throughput) -> (f64, usize) {
    match *throughput {
        Throughput::Bits(bits) => (bits as f64, 0),
        Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (bytes as f64, 1),
        Throughput::Elements(elements) | Throughput::ElementsAndBytes { elements, .. } => {
            (elements as f64, 2)
        }
    }
}

impl ValueFormatter for Formatter {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let power = self.power(typical);
        values.iter_mut().for_each(|value| *value /= 1000_f64.powi(power as i32));
        self.units[power]
    }

    /// Events for each byte or element; a rate per second would mean nothing.
    fn scale_throughputs(&self, _: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        let (units, work) = units_of_work(throughput);
        values.iter_mut().for_each(|value| *value /= units.max(1.0));
        self.rates[work]
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        self.units[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer::Monitor;

    fn formatter(event: &str) -> Formatter {
        Formatter::new(&Monitor::builder().event(event).calibrate(false).build().unwrap().read().values[0])
    }

    #[test]
    fn counts_have_prefixes_and_the_name_of_the_event() {
        let faults = formatter("page-faults");
        for (value, expected) in [
            (12.0, "12.000 page-faults"),
            (12_345.0, "12.345 k page-faults"),
            (12_345_678.0, "12.346 M page-faults"),
        ] {
            assert_eq!(faults.format_value(value).trim_start(), expected);
        }
    }

    #[test]
    fn times_have_their_unit() {
        let clock = formatter("task-clock");
        for (ns, expected) in [(12.0, "12.000 ns"), (12_500.0, "12.500 µs"), (3e9, "3.0000 s")] {
            assert_eq!(clock.format_value(ns).trim_start(), expected);
        }
        assert_eq!(clock.scale_for_machines(&mut []), "ns");
    }

    #[test]
    fn a_throughput_is_events_for_each_unit_of_work() {
        let faults = formatter("page-faults");
        assert_eq!(
            faults.format_throughput(&Throughput::Elements(100), 50.0).trim_start(),
            "0.5000 page-faults per element"
        );
        assert_eq!(
            faults.format_throughput(&Throughput::Bytes(0), 50.0).trim_start(),
            "50.000 page-faults per byte"
        );
    }
}
