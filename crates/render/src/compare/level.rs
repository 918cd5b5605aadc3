//! Values of metrics in their units.

use cyclometer_toolkit::core::Unit;

use crate::units;

/// A value in a unit that people know; any other unit is left out, as the metric's name says it.
pub fn level(value: f64, unit: &Unit) -> String {
    match unit {
        Unit::Other(_) => units::short(value, &Unit::Ratio),
        known => units::short(value, known),
    }
}

/// A unit by its symbol.
pub fn unit_of(symbol: &str) -> Unit {
    let known = [Unit::Count, Unit::Nanoseconds, Unit::Bytes, Unit::Joules];
    known.into_iter().find(|unit| unit.symbol() == symbol).unwrap_or_else(|| Unit::Other(symbol.to_owned()))
}
