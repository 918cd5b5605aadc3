//! Least squares on the slices seen of an event.

use super::{COLUMNS, Sample};

/// How much of a column must be new, as a share of its root mean square: a column that is nearly a combination of those
/// before it is left out.
const LEAST_NEW: f64 = 1e-3;

/// Shortest slice that the weights tell from shorter ones, in mean slices.
const SHORTEST: f64 = 1e-3;

/// A fit of counts by the columns of their slices, each slice with the weight 1 / length: a slice of twice the length
/// has twice the variance, and a fit by the lengths alone is seen × time / time seen.
///
/// The normal equations are solved by Cholesky's method; as the columns are scaled and what is left out has no part in
/// them, their condition number is small enough for that.
pub(super) struct Fit {
    /// Lower triangle of the matrix of sums of products; zero on the diagonal: the column is left out.
    lower: [[f64; COLUMNS]; COLUMNS],
    coefficients: [f64; COLUMNS],
}

impl Fit {
    /// Fits by the first `columns` columns.
    pub(super) fn of(sample: &Sample, columns: usize) -> Fit {
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
        let lower = cholesky(&products);
        let coefficients = backward(&lower, &forward(&lower, &sums));
        Fit { lower, coefficients }
    }

    pub(super) fn predict(&self, row: &[f64; COLUMNS]) -> f64 {
        self.coefficients.iter().zip(row).map(|(coefficient, value)| coefficient * value).sum()
    }

    /// Variance of the prediction for `row` that the coefficients bring about, in variances of a mean slice.
    pub(super) fn uncertainty(&self, row: &[f64; COLUMNS]) -> f64 {
        forward(&self.lower, row).iter().map(|x| x * x).sum()
    }
}

fn weight(row: &[f64; COLUMNS]) -> f64 {
    1.0 / row[0].max(SHORTEST)
}

/// The lower triangle whose product with its transpose is `products`, without the columns that add nothing.
fn cholesky(products: &[[f64; COLUMNS]; COLUMNS]) -> [[f64; COLUMNS]; COLUMNS] {
    let mut lower = [[0.0; COLUMNS]; COLUMNS];
    for i in 0..COLUMNS {
        for j in 0..i {
            let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            lower[i][j] = ratio(products[i][j] - known, lower[j][j]);
        }
        let new = products[i][i] - lower[i][..i].iter().map(|x| x * x).sum::<f64>();
        if new > products[i][i] * LEAST_NEW * LEAST_NEW {
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
    /// Variance of a slice of mean length about the fit, by the differences between residuals that follow each other.
    pub(super) fn spread(&self, sample: &Sample) -> f64 {
        let slices = sample.counts.len() as f64;
        let residuals: Vec<f64> =
            sample.rows.iter().zip(&sample.counts).map(|(row, count)| self.residual(row, *count)).collect();
        let squares: f64 = residuals.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        squares / (2.0 * (slices - 1.0)) * slices / self.freedom(sample)
    }

    /// Slices seen beyond the columns that were fitted.
    pub(super) fn freedom(&self, sample: &Sample) -> f64 {
        let columns = (0..COLUMNS).filter(|&i| self.lower[i][i] > 0.0).count();
        (sample.counts.len() - columns) as f64
    }

    fn residual(&self, row: &[f64; COLUMNS], count: f64) -> f64 {
        (count - self.predict(row)) * weight(row).sqrt()
    }
}
