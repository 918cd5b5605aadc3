//! Formulas of metrics: a finite number or a reason.
#![no_main]

use cyclometer_stats::formula::{Formula, Inputs};
use libfuzzer_sys::fuzz_target;

/// One value for every name; a name of odd length has none.
struct Anything(f64);

impl Inputs for Anything {
    fn value(&self, name: &str) -> Result<f64, String> {
        if name.len().is_multiple_of(2) { Ok(self.0) } else { Err("not counted".to_owned()) }
    }

    fn literal(&self, _: &str) -> Option<f64> {
        Some(self.0)
    }

    fn is_cpu(&self, id: &str) -> Option<bool> {
        id.len().is_multiple_of(2).then_some(true)
    }
}

fuzz_target!(|input: (f64, &str)| {
    let (value, text) = input;
    let Ok(formula) = Formula::parse(text) else { return };
    if let Ok(result) = formula.evaluate(&Anything(value)) {
        assert!(result.is_finite());
    }
});
