//! Scales: values on a line of a picture, and the values that are written beside it.

/// From a range of values to a range of the picture; a range without width is its middle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlotScale {
    /// The range of values.
    pub from: (f64, f64),
    /// The range of the picture.
    pub to: (f64, f64),
}

impl PlotScale {
    /// The position of a value.
    pub fn place(&self, value: f64) -> f64 {
        let width = self.from.1 - self.from.0;
        let share = if width > 0.0 { (value - self.from.0) / width } else { 0.5 };
        self.to.0 + share * (self.to.1 - self.to.0)
    }
}

/// The part of the greatest value below which the least one lies where a scale begins at zero.
const FROM_ZERO: f64 = 0.75;

/// The range of a scale for values from the least to the greatest.
///
/// It begins at zero, unless all values are so close together that no change would be seen.
pub fn value_range(low: f64, high: f64) -> (f64, f64) {
    let room = 0.08 * (high - low);
    match (low >= 0.0, low <= FROM_ZERO * high) {
        _ if high <= low && high == 0.0 => (0.0, 1.0),
        _ if high <= low => (low.min(0.0), if high > 0.0 { 1.25 * high } else { 0.0 }),
        (true, true) => (0.0, high),
        _ => (low - room, high + room),
    }
}

/// Round values within a range, about as many as wanted: multiples of 1, 2 or 5 times a power of ten.
pub fn ticks(range: (f64, f64), wanted: usize) -> Vec<f64> {
    let width = range.1 - range.0;
    if width.is_nan() || width <= 0.0 || !width.is_finite() {
        return vec![range.0];
    }
    let rough = width / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    let step = factor * power;
    let (first, last) = ((range.0 / step).ceil(), (range.1 / step + 1e-9).floor());
    let most = (last - first).clamp(0.0, 100.0) as usize;
    (0..=most).map(|n| (first + n as f64) * step).collect()
}

/// A number without zeros at its end: `2.00G` is `2G`.
pub fn trimmed(text: &str) -> String {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    match number.contains('.') && !rest.starts_with('e') {
        true => format!("{}{rest}", number.trim_end_matches('0').trim_end_matches('.')),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_zero_unless_all_values_are_close_together() {
        assert_eq!(value_range(0.2, 2.0), (0.0, 2.0));
        let (low, high) = value_range(1.9, 2.0);
        assert!((1.8..1.9).contains(&low) && (2.0..2.1).contains(&high), "{low} {high}");
        assert_eq!(value_range(0.0, 0.0), (0.0, 1.0));
        assert_eq!(value_range(4.0, 4.0), (0.0, 5.0));
        assert_eq!(value_range(-1.0, 1.0).0, -1.16);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks((0.0, 10.0), 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks((0.0, 81.2e9), 4), [0.0, 5e10]);
        assert_eq!(ticks((3.0, 3.0), 4), [3.0]);
        assert_eq!(ticks((f64::NAN, 3.0), 4).len(), 1);
        assert!(ticks((0.0, f64::MIN_POSITIVE), 4).len() <= 101);
    }

    #[test]
    fn zeros_at_the_end_are_left_out() {
        let texts = ["2.00G", "2.50 ms", "100", "0", "1.0e-9", "2.00"].map(trimmed);
        assert_eq!(texts, ["2G", "2.5 ms", "100", "0", "1.0e-9", "2"]);
    }
}
