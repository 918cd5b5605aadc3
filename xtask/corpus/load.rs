//! A load for a compiler, and compiled: collections, strings, sorting, floating point.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

fn words(turn: u64) -> u64 {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for i in 0..20_000_u64 {
        let word = format!("{:x}", (i.wrapping_mul(2_654_435_761) >> 12) & 0xfff);
        *counts.entry(word).or_default() += i * turn;
    }
    let mut ordered: Vec<(&String, &u64)> = counts.iter().collect();
    ordered.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    ordered.iter().fold(0, |sum, (word, count)| (sum * 31 + word.len() as u64 * (*count % 1009)) % 1_000_003)
}

fn tree(turn: u64) -> u64 {
    let tree: BTreeMap<u64, u64> = (0..5_000).map(|i| (i * 7919 % 10_007, i + turn)).collect();
    tree.range(1_000..9_000).fold(0, |sum, (key, value)| (sum * 31 + key + value) % 1_000_003)
}

fn matrix(size: usize) -> f64 {
    let a: Vec<f64> = (0..size * size).map(|i| 1.0 / (i + 1) as f64).collect();
    (0..size).flat_map(|i| (0..size).map(move |j| (i, j))).map(|(i, j)| a[i * size + j] * a[j * size + i]).sum()
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut text = String::new();
    for turn in 0..rounds {
        let _ = write!(text, "{} {} {:.6};", words(turn), tree(turn), matrix(48));
    }
    println!("{} {}", text.len(), text.bytes().fold(0_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_003));
}
