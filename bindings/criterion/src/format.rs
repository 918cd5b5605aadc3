//! Values as Criterion prints them.

use criterion::Throughput;
use criterion::measurement::ValueFormatter;
use cyclometer::Value;

use crate::per_unit;

/// Prefixes by powers of a thousand.
const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];

/// Names the unit: that of the event, or the event itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formatter {
    /// With each of [`PREFIXES`].
    units: [&'static str; 5],
}

impl Formatter {
    /// Criterion wants texts that live for ever: a few short ones are kept for each event that is measured.
    pub(crate) fn new(value: &Value) -> Formatter {
        let name = match value.unit.symbol() {
            "" => value.name.clone(),
            symbol => symbol.to_owned(),
        };
        // Seconds have no thousands.
        let name_with = |prefix: &str| match value.unit.symbol() {
            "" => format!("{prefix} {name}").trim_start().to_owned(),
            _ => name.clone(),
        };
        Formatter { units: PREFIXES.map(|prefix| &*name_with(prefix).leak()) }
    }

    /// Which prefix fits, by the typical value.
    fn power(&self, typical: f64) -> usize {
        let has_prefixes = self.units[0] != self.units[1];
        (1..PREFIXES.len())
            .rev()
            .find(|power| has_prefixes && typical.abs() >= 1000_f64.powi(*power as i32))
            .unwrap_or(0)
    }
}

impl ValueFormatter for Formatter {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let power = self.power(typical);
        values.iter_mut().for_each(|value| *value /= 1000_f64.powi(power as i32));
        self.units[power]
    }

    /// Events for each byte or element, as a rate per second is none.
    fn scale_throughputs(&self, _: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        let (units, name) = per_unit(throughput);
        values.iter_mut().for_each(|value| *value /= units.max(1.0));
        match name {
            "bit" => "per bit",
            "byte" => "per byte",
            _ => "per element",
        }
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
        let text = clock.format_value(12.0);
        assert!(text.trim_start().starts_with("12.000 ") && text.ends_with('s'), "{text}");
        assert_eq!(clock.units[0], clock.units[2]);
    }

    #[test]
    fn a_throughput_is_events_for_each_unit_of_work() {
        let faults = formatter("page-faults");
        assert_eq!(
            faults.format_throughput(&Throughput::Elements(100), 50.0).trim_start(),
            "0.5000 per element"
        );
        assert_eq!(faults.format_throughput(&Throughput::Bytes(0), 50.0).trim_start(), "50.000 per byte");
    }
}
