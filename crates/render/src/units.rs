//! Values in units for people.

use cyclometer_toolkit::core::Unit;

/// A value of one run: counts to the last digit, everything else with four significant digits.
pub fn precise(value: f64, unit: &Unit) -> String {
    match unit {
        Unit::Count if value.fract() == 0.0 => grouped(value),
        _ => humane(value, unit, 4),
    }
}

/// A value of several runs, with three significant digits.
pub fn short(value: f64, unit: &Unit) -> String {
    humane(value, unit, 3)
}

/// Mean, sign and deviation; a unit that both have stands behind the second, which then has as many decimals.
///
/// Without a deviation there is no sign.
pub fn spread(mean: f64, deviation: Option<f64>, unit: &Unit) -> [String; 3] {
    let Some(deviation) = deviation else {
        return [short(mean, unit), String::new(), String::new()];
    };
    let sign = "±".to_owned();
    if is_stepped(unit) {
        return [short(mean, unit), sign, short(deviation, unit)];
    }
    let decimals = if mean == 0.0 { decimals(deviation.max(1e-6), 3) } else { decimals(mean, 3) };
    let deviation = if deviation == 0.0 { "0".to_owned() } else { format!("{deviation:.decimals$}") };
    [significant(mean, 3), sign, with_symbol(deviation, unit)]
}

/// Least and greatest value; a unit that both have stands behind the second.
pub fn range(min: f64, max: f64, unit: &Unit) -> [String; 2] {
    let min = if is_stepped(unit) { short(min, unit) } else { significant(min, 3) };
    [min, short(max, unit)]
}

/// Whether the unit has greater ones, so that two values can differ in theirs.
fn is_stepped(unit: &Unit) -> bool {
    matches!(unit, Unit::Nanoseconds | Unit::Bytes | Unit::Count)
}

const TIMES: [(f64, &str); 4] = [(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")];
const SIZES: [(f64, &str); 5] = [
    (1.0, " B"),
    (1024.0, " KiB"),
    (1024.0 * 1024.0, " MiB"),
    (1024.0 * 1024.0 * 1024.0, " GiB"),
    (1024.0 * 1024.0 * 1024.0 * 1024.0, " TiB"),
];
const COUNTS: [(f64, &str); 5] = [(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G"), (1e12, "T")];

fn humane(value: f64, unit: &Unit, digits: usize) -> String {
    match unit {
        Unit::Nanoseconds => stepped(value, &TIMES, digits),
        Unit::Bytes => stepped(value, &SIZES, digits),
        Unit::Count => stepped(value, &COUNTS, digits),
        other => with_symbol(significant(value, digits), other),
    }
}

fn with_symbol(number: String, unit: &Unit) -> String {
    let symbol = crate::text::clean(unit.symbol());
    if symbol.is_empty() { number } else { format!("{number} {symbol}") }
}

/// In the greatest step that leaves at least 1 before the point, after rounding.
fn stepped(value: f64, steps: &[(f64, &str)], digits: usize) -> String {
    let rounds_up_to_1 = 1.0 - 0.5 * 10f64.powi(-(digits as i32));
    let step = steps.iter().rev().find(|(factor, _)| value.abs() / factor >= rounds_up_to_1);
    let (factor, name) = step.unwrap_or(&steps[0]);
    if *factor == 1.0 && value.fract() == 0.0 {
        return format!("{value}{name}");
    }
    significant(value / factor, digits) + name
}

/// A number with this many significant digits, and always all digits before the point; an exact zero is `0`.
fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 1e-6 {
        return format!("{value:.1e}");
    }
    let decimals = decimals(value, digits);
    let text = format!("{value:.decimals$}");
    // Rounding may have added a digit before the point, as in 9.996.
    match text.parse::<f64>() {
        Ok(rounded) if self::decimals(rounded, digits) < decimals => format!("{value:.0$}", decimals - 1),
        _ => text,
    }
}

/// Digits behind the point that make up `digits` significant ones.
fn decimals(value: f64, digits: usize) -> usize {
    let exponent = value.abs().log10().floor() as i32;
    usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0)
}

/// A whole number with its digits in groups of three.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A share, 0 to 1, in percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_take_the_unit_that_fits() {
        let (ns, bytes) = (Unit::Nanoseconds, Unit::Bytes);
        for (value, unit, precise_text, short_text) in [
            (0.0, &ns, "0 ns", "0 ns"),
            (850.0, &ns, "850 ns", "850 ns"),
            (1234.0, &ns, "1.234 µs", "1.23 µs"),
            (12_345_678.0, &ns, "12.35 ms", "12.3 ms"),
            (999_960.0, &ns, "1.000 ms", "1.00 ms"),
            (999_940.0, &ns, "999.9 µs", "1.00 ms"),
            (61.5e9, &ns, "61.50 s", "61.5 s"),
            (1234.5e9, &ns, "1234 s", "1234 s"),
            (1023.0, &bytes, "1023 B", "1023 B"),
            (2_043_904.0, &bytes, "1.949 MiB", "1.95 MiB"),
        ] {
            assert_eq!(precise(value, unit), precise_text);
            assert_eq!(short(value, unit), short_text);
        }
    }

    #[test]
    fn counts_are_exact_for_one_run_and_short_for_several() {
        for (value, precise_text, short_text) in [
            (0.0, "0", "0"),
            (7.0, "7", "7"),
            (999.0, "999", "999"),
            (1_234_567.0, "1,234,567", "1.23M"),
            (12_345.0, "12,345", "12.3K"),
            (7.333, "7.333", "7.33"),
            (999_999.0, "999,999", "1.00M"),
            (18_446_744_073_709_551_615.0, "18,446,744,073,709,551,616", "18446744T"),
        ] {
            assert_eq!(precise(value, &Unit::Count), precise_text);
            assert_eq!(short(value, &Unit::Count), short_text);
        }
    }

    #[test]
    fn ratios_and_other_units_keep_their_digits() {
        assert_eq!(short(0.98765, &Unit::Other("CPUs".into())), "0.988 CPUs");
        assert_eq!(short(2.0, &Unit::Ratio), "2.00");
        assert_eq!(short(0.000_123_4, &Unit::Ratio), "0.000123");
        assert_eq!(short(9.996, &Unit::Ratio), "10.0");
        assert_eq!(short(0.000_000_001_88, &Unit::Ratio), "1.9e-9");
        assert_eq!(precise(1.5, &Unit::Joules), "1.500 J");
    }

    #[test]
    fn a_unit_in_common_is_said_once() {
        let cpus = Unit::Other("CPUs".into());
        for (mean, deviation, unit, expected) in [
            (0.953, Some(0.0743), &cpus, ["0.953", "±", "0.074 CPUs"]),
            (0.953, Some(0.0), &cpus, ["0.953", "±", "0 CPUs"]),
            (0.953, None, &cpus, ["0.953 CPUs", "", ""]),
            (2.08, Some(0.499), &Unit::Ratio, ["2.08", "±", "0.50"]),
            (2.34e6, Some(875e3), &Unit::Nanoseconds, ["2.34 ms", "±", "875 µs"]),
        ] {
            assert_eq!(spread(mean, deviation, unit), expected);
        }
        assert_eq!(range(0.286, 0.982, &cpus), ["0.286", "0.982 CPUs"]);
        assert_eq!(range(1.0, 2000.0, &Unit::Count), ["1", "2.00K"]);
    }
}
