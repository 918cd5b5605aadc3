//! Enough for a compiler to do: generics, traits, closures, formatting.

use std::collections::BTreeMap;
use std::fmt;

/// Something with an area.
pub trait Shape: fmt::Debug {
    fn area(&self) -> f64;
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rectangle {
    pub width: f64,
    pub height: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Circle {
    pub radius: f64,
}

impl Shape for Rectangle {
    fn area(&self) -> f64 {
        self.width * self.height
    }
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        self.radius * self.radius * std::f64::consts::PI
    }
}

/// By the digits of their areas.
pub fn grouped(shapes: &[Box<dyn Shape>]) -> BTreeMap<usize, Vec<String>> {
    let mut groups: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for shape in shapes {
        let area = format!("{:.0}", shape.area());
        groups.entry(area.len()).or_default().push(format!("{shape:?} of {area}"));
    }
    groups
}

pub fn answer(seed: u64) -> String {
    let shapes: Vec<Box<dyn Shape>> = (seed..seed + 20)
        .map(|i| match i % 2 {
            0 => Box::new(Rectangle { width: i as f64, height: 2.0 }) as Box<dyn Shape>,
            _ => Box::new(Circle { radius: i as f64 }),
        })
        .collect();
    grouped(&shapes).iter().map(|(digits, names)| format!("{digits}: {}", names.join(", "))).collect::<Vec<_>>().join("; ")
}
