//! The cost of plans, and the number of passes that simpler algorithms need for the same events.

mod hard;
mod simple;

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use cyclometer_catalog::cpus::cpu;
use cyclometer_catalog::table::{Cpu, Entry};
use cyclometer_core::{CounterMask, Random};
use cyclometer_plan::passes::{CounterEncoding, Demand, Packing, PackingProblem, PmuNeed, pack};

use crate::limits::{BrokenLimits, MS, US, shown};

/// Time limits, in seconds.
const TEN_LIMIT: f64 = 5.0 * US;
const WHOLE_LIMIT: f64 = 1.0 * MS;
const HARD_LIMIT: f64 = 500.0 * MS;

/// The CPU whose events are all planned within [`WHOLE_LIMIT`].
const WHOLE: &str = "sapphirerapids";

/// Measurements per median, and plans in each.
const ROUNDS: usize = 51;
const TIMES: u32 = 100;

/// Orders of events for the simple algorithms.
const ORDERS: u64 = 50;

/// Measures everything; fails when a limit does not hold.
pub(crate) fn main() -> Result<()> {
    let mut limits = BrokenLimits::default();
    println!("| ten events in one pass | median | limit |\n|---|---|---|");
    for id in ["apple-m1", "skylake", WHOLE, "amdzen4", "neoverse-v2"] {
        ten(id, &mut limits)?;
    }
    println!(
        "\n| all events of a CPU | events | passes | first fit | by weight | median |\n|---|---|---|---|---|---|"
    );
    for id in [
        "apple-m1",
        "apple-m4",
        "icelakex",
        WHOLE,
        "graniterapids",
        "lunarlake/core",
        "amdzen5",
        "neoverse-v2",
    ] {
        whole(id, &mut limits)?;
    }
    println!("\n| made to be hard | median | limit |\n|---|---|---|");
    for (what, problem) in hard::problems() {
        let packing = pack(&problem);
        let proof = if packing.is_optimal() {
            "proved".to_owned()
        } else {
            format!("at least {}", packing.lower_bound)
        };
        let what = format!("{what}: {} passes, {proof}", packing.passes.len());
        limits.at_most(&what, median(|| pack(&problem), 1, 5), HARD_LIMIT, "ms");
    }
    limits.judge()?;
    println!("\nevery limit holds");
    Ok(())
}

/// As many events as fit, at most ten.
fn ten(id: &str, limits: &mut BrokenLimits) -> Result<()> {
    let all = demands(cpu(id)?);
    let mut chosen = PackingProblem { pmus: vec![cpu(id)?.counters()], ..PackingProblem::default() };
    for demand in all {
        chosen.demands.push(demand);
        if pack(&chosen).passes.len() > 1 {
            chosen.demands.pop();
        }
        if chosen.demands.len() == 10 {
            break;
        }
    }
    let what = format!("{id}, {} events", chosen.demands.len());
    limits.at_most(&what, median(|| pack(&chosen), TIMES, ROUNDS), TEN_LIMIT, "µs");
    Ok(())
}

fn whole(id: &str, limits: &mut BrokenLimits) -> Result<()> {
    let counters = cpu(id)?.counters();
    let problem =
        PackingProblem { pmus: vec![counters], demands: demands(cpu(id)?), ..PackingProblem::default() };
    let packing = pack(&problem);
    limits.must(packing.is_optimal(), &format!("{id}: {} passes are not proved", packing.passes.len()));
    let took = median(|| pack(&problem), 1, ROUNDS);
    limits.must(id != WHOLE || took <= WHOLE_LIMIT, &format!("{id}: {}, at most 1 ms", shown(took, "ms")));
    let mean = |by_weight| {
        let shuffled = (0..ORDERS).map(|seed| Random::seeded(seed).permutation(problem.demands.len()));
        let passes: usize = shuffled.map(|order| simple::first_fit(&problem, &order, by_weight)).sum();
        passes as f64 / ORDERS as f64
    };
    println!(
        "| {id} | {} | {} | {:.1} | {:.1} | {} |",
        problem.demands.len(),
        packing.passes.len(),
        mean(false),
        mean(true),
        shown(took, "ms"),
    );
    Ok(())
}

/// The demand of every event of a CPU for one counter.
fn demands(cpu: Cpu<'static>) -> Vec<Demand> {
    let general = CounterMask::from_bits(cpu.counters().general_bits(), 0);
    let way = |extra, counters: Option<CounterMask>| CounterEncoding {
        counters: counters.unwrap_or(general),
        extra,
    };
    let demand = |entry: Entry<'static>| {
        let own = way(entry.code().extra, entry.counters());
        let also = entry.also().map(|also| way(also.code.extra, also.counters));
        let need = PmuNeed { pmu: 0, ways: std::iter::once(own).chain(also).collect(), wide: false };
        Demand { needs: vec![need], alone: false }
    };
    cpu.events().map(demand).collect()
}

/// Seconds of one plan: the median of `rounds`, each over `times` plans.
fn median(plan: impl Fn() -> Packing, times: u32, rounds: usize) -> f64 {
    let round = |_| {
        let started = Instant::now();
        for _ in 0..times {
            black_box(plan());
        }
        started.elapsed().as_secs_f64() / f64::from(times)
    };
    crate::median(&(0..rounds).map(round).collect::<Vec<f64>>())
}
