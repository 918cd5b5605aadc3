//! Limits of the software PMU's cost.

use anyhow::{Result, ensure};

use super::workload::BenchProgram;
use super::{MB, ToolRuns, median};

/// Greatest median and greatest single ratio to the native run.
const MEDIAN_LIMIT: f64 = 1.5;
const WORST_LIMIT: f64 = 2.5;
/// Greatest wall time of `true`, in ms.
const TRUE_LIMIT_MS: f64 = 15.0;
/// Least median ratio of cachegrind without simulation to us.
const PEER_LIMIT: f64 = 6.0;
/// Greatest memory of a run beyond the program's own, including the tracer's, in MB.
const MEMORY_LIMIT_MB: f64 = 200.0;
/// Shortest useful native run, in s: a shorter one measures the start more than the program.
const SHORTEST_S: f64 = 1.0;

/// The measurements that limits apply to.
#[derive(Default)]
pub(super) struct SoftLimits {
    /// The runs of the measurements.
    what: &'static str,
    wall: Vec<f64>,
    cpu: Vec<f64>,
    peer_wall: Vec<f64>,
    peer_cpu: Vec<f64>,
    too_short: Vec<&'static str>,
    /// Programs with a limit of their own: name, limit, ratio by wall time.
    own: Vec<(&'static str, f64, f64)>,
    memory_mb: Vec<f64>,
    /// Wall time of `true`, in ms.
    took_for_true: Option<f64>,
}

/// A limit and whether it holds; `None` if it was not measured.
struct LimitVerdict {
    text: String,
    holds: Option<bool>,
}

/// Prints each limit.
///
/// # Errors
///
/// A limit that does not hold.
pub(super) fn judge(all: &[SoftLimits]) -> Result<()> {
    let mut broken = 0;
    let mut count = 0;
    for limits in all {
        println!("{}:", limits.what);
        if !limits.too_short.is_empty() {
            println!("note: {} took less than {SHORTEST_S} s natively", limits.too_short.join(", "));
        }
        let verdicts = limits.verdicts();
        verdicts.iter().for_each(|verdict| println!("{:<13} {}", word(verdict.holds), verdict.text));
        broken += verdicts.iter().filter(|verdict| verdict.holds == Some(false)).count();
        count += verdicts.len();
    }
    ensure!(broken == 0, "{broken} of {count} limits do not hold");
    Ok(())
}

impl SoftLimits {
    /// No measurement yet.
    pub(super) fn of(what: &'static str) -> SoftLimits {
        SoftLimits { what, ..SoftLimits::default() }
    }

    /// Adds the wall time of `true`.
    pub(super) fn add_true(&mut self, row: &ToolRuns) {
        self.took_for_true = Some(median(&row.wall()) * 1e3);
    }

    /// Adds a program: native first; `ours` is the index of the software PMU.
    pub(super) fn add(&mut self, program: &BenchProgram, rows: &[ToolRuns], ours: usize) {
        let (wall, cpu) = rows[ours].over(&rows[0]);
        self.memory_mb.push(rows[ours].memory_beyond(&rows[0]) / MB);
        if let Some(limit) = program.limit {
            return self.own.push((program.name, limit, wall));
        }
        self.wall.push(wall);
        self.cpu.push(cpu);
        if let Some(peer) = rows.iter().find(|row| row.tool == "cachegrind") {
            let (wall, cpu) = peer.over(&rows[ours]);
            self.peer_wall.push(wall);
            self.peer_cpu.push(cpu);
        }
        if median(&rows[0].wall()) < SHORTEST_S {
            self.too_short.push(program.name);
        }
    }

    fn verdicts(&self) -> Vec<LimitVerdict> {
        let mut verdicts = vec![
            at_most("median ratio to native, wall", middle(&self.wall), MEDIAN_LIMIT),
            at_most("median ratio to native, CPU", middle(&self.cpu), MEDIAN_LIMIT),
            at_most("worst ratio to native, wall", worst(&self.wall), WORST_LIMIT),
            at_most("worst ratio to native, CPU", worst(&self.cpu), WORST_LIMIT),
            at_most("`/bin/true`, wall, in ms", self.took_for_true, TRUE_LIMIT_MS),
        ];
        for (clock, ratios) in [("wall", &self.peer_wall), ("CPU", &self.peer_cpu)] {
            let found = (!ratios.is_empty()).then(|| median(ratios));
            verdicts.push(verdict(
                format!("median ratio of cachegrind without simulation to us, {clock}"),
                found,
                "at least",
                PEER_LIMIT,
                |found| found >= PEER_LIMIT,
            ));
        }
        let own = self.own.iter();
        verdicts.extend(own.map(|(name, limit, wall)| {
            at_most(&format!("ratio to native of {name}, wall"), Some(*wall), *limit)
        }));
        let most = worst(&self.memory_mb);
        verdicts.push(at_most("most memory beyond the program's own, in MB", most, MEMORY_LIMIT_MB));
        verdicts
    }
}

fn at_most(what: &str, found: Option<f64>, limit: f64) -> LimitVerdict {
    verdict(what.to_owned(), found, "at most", limit, |found| found <= limit)
}

fn verdict(
    what: String,
    found: Option<f64>,
    how: &str,
    limit: f64,
    holds: impl FnOnce(f64) -> bool,
) -> LimitVerdict {
    let number = found.map_or_else(|| "-".to_owned(), |found| format!("{found:.2}"));
    LimitVerdict { text: format!("{what}: {number} ({how} {limit})"), holds: found.map(holds) }
}

fn word(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "not measured",
    }
}

/// `None` if only programs with their own limits were measured.
fn middle(ratios: &[f64]) -> Option<f64> {
    (!ratios.is_empty()).then(|| median(ratios))
}

fn worst(ratios: &[f64]) -> Option<f64> {
    ratios.iter().copied().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> SoftLimits {
        SoftLimits {
            what: "here",
            wall: vec![1.2, 1.4, 2.4],
            cpu: vec![1.2, 1.4, 2.4],
            peer_wall: vec![4.0, 6.1, 9.0],
            peer_cpu: vec![4.0, 6.1, 9.0],
            too_short: Vec::new(),
            own: vec![("gcc", 4.0, 3.9)],
            memory_mb: vec![10.0, 199.0],
            took_for_true: Some(14.9),
        }
    }

    #[test]
    fn what_is_within_every_limit_passes() {
        judge(&[good(), good()]).unwrap();
    }

    #[test]
    fn each_limit_alone_fails() {
        let broken = [
            SoftLimits { wall: vec![1.0, 1.51, 1.9], ..good() },
            SoftLimits { cpu: vec![1.0, 1.51, 1.9], ..good() },
            SoftLimits { wall: vec![1.0, 1.0, 2.6], ..good() },
            SoftLimits { cpu: vec![1.0, 1.0, 2.6], ..good() },
            SoftLimits { took_for_true: Some(15.1), ..good() },
            SoftLimits { peer_wall: vec![5.9], ..good() },
            SoftLimits { peer_cpu: vec![5.9], ..good() },
            SoftLimits { own: vec![("gcc", 4.0, 4.1)], ..good() },
            SoftLimits { memory_mb: vec![1.0, 201.0], ..good() },
        ];
        for limits in broken {
            let error = judge(&[limits]).unwrap_err().to_string();
            assert_eq!(error, "1 of 9 limits do not hold");
        }
    }

    #[test]
    fn a_peer_that_is_not_there_is_not_measured() {
        let limits = SoftLimits { peer_wall: Vec::new(), peer_cpu: Vec::new(), ..good() };
        judge(std::slice::from_ref(&limits)).unwrap();
        let without = limits.verdicts().iter().filter(|verdict| verdict.holds.is_none()).count();
        assert_eq!(without, 2);
    }

    #[test]
    fn a_ratio_that_is_no_number_does_not_hold() {
        let limits = SoftLimits { wall: vec![f64::NAN], ..good() };
        judge(&[limits]).unwrap_err();
    }
}
