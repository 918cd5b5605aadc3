//! Least squares on the slices in which an event was seen.

use super::{COLUMNS, SliceSample};

/// Least new part of a column, as a share of its root mean square in the slices seen and of its mean in all
/// slices. A column below it is left out: it is nearly a combination of earlier columns, or hardly varies in
/// the slices seen.
const LEAST_NEW: f64 = 1e-3;

/// Shortest length that the weights distinguish, in mean slices.
const SHORTEST: f64 = 0.05;

/// Root mean square of the lengths seen, in mean slices, below which the slices count as having no length.
const LEAST_LENGTH: f64 = f64::EPSILON;

/// Least share of a slice's own residual that is assumed to remain where the slice alone determines the fit.
const LEAST_FREE: f64 = 1e-6;

/// Degrees of freedom of a variance by second differences, for each of the usual one: 18 / 35.
///
/// # Source
///
/// P. Hall, J. Kay, D. Titterington: "Asymptotically Optimal Difference-Based Estimation of Variance in
/// Nonparametric Regression", Biometrika 77, 1990: the variance of such an estimate, 1 + 2 Σ of the squared
/// autocorrelations of the differences' weights.
const EFFICIENCY: f64 = 18.0 / 35.0;

/// A fit of counts by the columns of their slices. Each slice has the weight 1 / length, because a slice of
/// twice the length has twice the variance. A fit by the lengths alone is seen × time / time seen.
///
/// The normal equations are solved by Cholesky's method. Their condition number is small enough for it,
/// because the columns are scaled and dependent columns are left out.
pub(super) struct Fit {
    /// Lower triangle of the matrix of sums of products. A zero on the diagonal marks a column that is left
    /// out.
    lower: [[f64; COLUMNS]; COLUMNS],
    coefficients: [f64; COLUMNS],
}

impl Fit {
    /// Fits by the first `columns` columns.
    pub(super) fn of(sample: &SliceSample, columns: usize) -> Fit {
        let mut products = [[0.0; COLUMNS]; COLUMNS];
        let mut sums = [0.0; COLUMNS];
        for (row, count) in sample.rows.iter().zip(&sample.counts) {
            let weight = weight(row);
            for i in 0..columns {
                sums[i] += weight * row[i] * count;
                for j in 0..=i {
                    products[i][j] += weight * row[i] * row[j];
                }
            }
        }
        let lower = cholesky(&products, sample.counts.len() as f64);
        let coefficients = backward(&lower, &forward(&lower, &sums));
        Fit { lower, coefficients }
    }

    pub(super) fn predict(&self, row: &[f64; COLUMNS]) -> f64 {
        self.coefficients.iter().zip(row).map(|(coefficient, value)| coefficient * value).sum()
    }

    /// Variance of the prediction for `row` that the coefficients contribute, in variances of a mean slice.
    pub(super) fn uncertainty(&self, row: &[f64; COLUMNS]) -> f64 {
        forward(&self.lower, row).iter().map(|x| x * x).sum()
    }
}

fn weight(row: &[f64; COLUMNS]) -> f64 {
    1.0 / row[0].max(SHORTEST)
}

/// The lower triangle whose product with its transpose is `products`, without the columns that add nothing.
fn cholesky(products: &[[f64; COLUMNS]; COLUMNS], slices: f64) -> [[f64; COLUMNS]; COLUMNS] {
    let mut lower = [[0.0; COLUMNS]; COLUMNS];
    for i in 0..COLUMNS {
        for j in 0..i {
            let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            lower[i][j] = ratio(products[i][j] - known, lower[j][j]);
        }
        let new = products[i][i] - lower[i][..i].iter().map(|x| x * x).sum::<f64>();
        let least = if i == 0 { LEAST_LENGTH } else { LEAST_NEW };
        if new > products[i][i].max(slices) * least * least {
            lower[i][i] = new.sqrt();
        }
    }
    lower
}

fn ratio(value: f64, diagonal: f64) -> f64 {
    if diagonal == 0.0 { 0.0 } else { value / diagonal }
}

/// Solves `lower` x = `right`, with 0 for columns left out.
fn forward(lower: &[[f64; COLUMNS]; COLUMNS], right: &[f64; COLUMNS]) -> [f64; COLUMNS] {
    let mut x = [0.0; COLUMNS];
    for i in 0..COLUMNS {
        let known: f64 = (0..i).map(|k| lower[i][k] * x[k]).sum();
        x[i] = ratio(right[i] - known, lower[i][i]);
    }
    x
}

/// Solves the transpose of `lower` times x = `right`, with 0 for columns left out.
fn backward(lower: &[[f64; COLUMNS]; COLUMNS], right: &[f64; COLUMNS]) -> [f64; COLUMNS] {
    let mut x = [0.0; COLUMNS];
    for i in (0..COLUMNS).rev() {
        let known: f64 = (i + 1..COLUMNS).map(|k| lower[k][i] * x[k]).sum();
        x[i] = ratio(right[i] - known, lower[i][i]);
    }
    x
}

impl Fit {
    /// Variance of a slice of mean length about the fit, by second differences of the residuals in the order
    /// of time. Each residual is compared with the mean of its neighbours, in which slow changes cancel.
    ///
    /// Each residual is that of a fit without its slice; otherwise an outlier hides by drawing the fit
    /// towards itself. At least three slices are required, some of them with a length.
    pub(super) fn spread(&self, sample: &SliceSample) -> f64 {
        let slices: Vec<(f64, f64)> = sample
            .rows
            .iter()
            .zip(&sample.counts)
            .map(|(row, count)| (row[0], self.deleted(row, *count)))
            .collect();
        let (mut squares, mut lengths) = (0.0, 0.0);
        for around in slices.windows(3) {
            let [(before, r0), (middle, r1), (after, r2)] = [around[0], around[1], around[2]];
            squares += (r1 - (r0 + r2) / 2.0).powi(2);
            lengths += middle + (before + after) / 4.0;
        }
        ratio(squares, lengths)
    }

    /// Degrees of freedom of [`spread`](Self::spread).
    pub(super) fn freedom(&self, sample: &SliceSample) -> f64 {
        let columns = (0..COLUMNS).filter(|&i| self.lower[i][i] > 0.0).count();
        (sample.counts.len() - columns) as f64 * EFFICIENCY
    }

    /// The residual of a slice from a fit to the other slices.
    fn deleted(&self, row: &[f64; COLUMNS], count: f64) -> f64 {
        let leverage = self.uncertainty(row) * weight(row);
        (count - self.predict(row)) / (1.0 - leverage).max(LEAST_FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: &[[f64; COLUMNS]], counts: &[f64]) -> SliceSample {
        SliceSample { rows: rows.to_vec(), counts: counts.to_vec(), unseen: [0.0; COLUMNS] }
    }

    fn line(slices: usize) -> (Vec<[f64; COLUMNS]>, Vec<f64>) {
        let rows: Vec<_> = (0..slices).map(|i| [1.0, (i * i % 7) as f64, 0.0, 0.0]).collect();
        let counts = rows.iter().map(|row| 3.0 + 2.0 * row[1]).collect();
        (rows, counts)
    }

    #[test]
    fn a_line_is_found() {
        let (rows, counts) = line(30);
        let fit = Fit::of(&sample(&rows, &counts), 2);
        assert!((fit.predict(&[10.0, 100.0, 0.0, 0.0]) - 230.0).abs() < 1e-9);
        assert!(fit.spread(&sample(&rows, &counts)) < 1e-18);
    }

    #[test]
    fn a_column_that_adds_nothing_is_left_out() {
        let (mut rows, counts) = line(30);
        let two = Fit::of(&sample(&rows, &counts), 2);
        rows.iter_mut().for_each(|row| row[2] = 5.0 * row[0] - row[1]);
        let three = Fit::of(&sample(&rows, &counts), 3);
        assert_eq!(three.lower[2][2], 0.0);
        assert_eq!(three.predict(&[1.0, 4.0, 1.0, 0.0]), two.predict(&[1.0, 4.0, 1.0, 0.0]));
        assert_eq!(three.uncertainty(&[1.0, 4.0, 1.0, 0.0]), two.uncertainty(&[1.0, 4.0, 1.0, 0.0]));
    }

    #[test]
    fn a_residual_is_that_of_a_fit_without_its_slice() {
        let (rows, mut counts) = line(12);
        counts[7] += 10.0;
        let fit = Fit::of(&sample(&rows, &counts), 2);
        assert!((fit.deleted(&rows[7], counts[7]) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_spread_of_lone_counts_is_their_variance_and_a_slow_change_adds_none() {
        let mut random = cyclometer_core::Random::seeded(5);
        let lone: Vec<f64> = (0..4000).map(|_| f64::from(u8::from(random.below(4) == 0))).collect();
        let rows = vec![[1.0, 0.0, 0.0, 0.0]; 4000];
        let spread = |counts: &[f64]| Fit::of(&sample(&rows, counts), 1).spread(&sample(&rows, counts));
        assert!((spread(&lone) - 0.1875).abs() < 0.02, "{}", spread(&lone));
        let long = vec![[4.0, 0.0, 0.0, 0.0]; 4000];
        let of_long = Fit::of(&sample(&long, &lone), 1).spread(&sample(&long, &lone));
        assert!((4.0 * of_long - spread(&lone)).abs() < 1e-9, "{of_long}");
        let slow: Vec<f64> = (0..4000).map(f64::from).collect();
        assert!(spread(&slow) < 1.0, "{}", spread(&slow));
    }
}
