//! The cost of lookups in the catalogue, compared with libpfm4 in the same run.

mod libpfm;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use cyclometer_arch::{Coded, perf_words};
use cyclometer_catalog::cpus::{cpu, cpus, tables};
use cyclometer_catalog::encode::encode;
use cyclometer_catalog::search::{Pattern, everywhere};
use cyclometer_catalog::select::{chip, select};
use cyclometer_catalog::table::{Cpu, Entry};
use cyclometer_core::EventCode;
use cyclometer_core::syntax::parse_event;

use crate::limits::{BrokenLimits, MS, NS, shown};
use libpfm::Libpfm;

/// Time limits, in seconds.
const NAME_LIMIT: f64 = 300.0 * NS;
const CODE_LIMIT: f64 = 1000.0 * NS;
const SEARCH_LIMIT: f64 = 50.0 * MS;
/// Most bytes of the embedded tables.
const SIZE_LIMIT: usize = 3_000_000;
/// Least ratio of libpfm4's time to ours.
const PEER_LIMIT: f64 = 10.0;

/// Measurements per median: for all lookups of a set together, and for one search.
const ROUNDS: usize = 101;
const SEARCHES: usize = 21;

/// The CPU of the comparison with libpfm4, and libpfm4's name for it.
const COMPARED: (&str, &str) = ("skylake", "skl");

/// Measures everything; fails when a limit does not hold.
pub(crate) fn main() -> Result<()> {
    let mut limits = BrokenLimits::default();
    println!("| what | median of one | limit |\n|---|---|---|");
    lookups(&mut limits)?;
    searches(&mut limits)?;
    limits.at_most("embedded tables, MB", tables().len() as f64 / 1e6, SIZE_LIMIT as f64 / 1e6, "");
    match Libpfm::start() {
        Ok(mut peer) => beside(&mut peer, &mut limits)?,
        Err(reason) => println!("skipped: the comparison with libpfm4: {reason}"),
    }
    limits.judge()?;
    println!("every limit that was measured holds");
    Ok(())
}

/// Looks up every event of every CPU by its name and by its code, and encodes it.
fn lookups(limits: &mut BrokenLimits) -> Result<()> {
    for id in ["skylake", "cascadelakex", "amdzen5", "neoverse-v2", "riscv", "apple-m4"] {
        let cpu = cpu(id)?;
        let entries: Vec<Entry<'_>> = cpu.events().collect();
        lookups_of(&format!("{id} ({} events)", entries.len()), &pairs(cpu), limits);
    }
    let all: Vec<(Cpu<'_>, Entry<'_>)> = cpus().flat_map(pairs).collect();
    lookups_of(&format!("{} CPUs ({} events)", cpus().len(), all.len()), &all, limits);
    Ok(())
}

fn pairs(cpu: Cpu<'static>) -> Vec<(Cpu<'static>, Entry<'static>)> {
    cpu.events().map(|entry| (cpu, entry)).collect()
}

fn lookups_of(of: &str, events: &[(Cpu<'_>, Entry<'_>)], limits: &mut BrokenLimits) {
    let names: Vec<(Cpu<'_>, &str)> = events.iter().map(|(cpu, entry)| (*cpu, entry.name())).collect();
    let by_name = each(&names, |(cpu, name)| cpu.event(black_box(name)).is_some());
    limits.at_most(&format!("by name, {of}"), by_name, NAME_LIMIT, "ns");
    let codes: Vec<_> = events.iter().map(|(cpu, entry)| (*cpu, entry.code(), entry.config())).collect();
    // Exactly this code, as decode wants it: the facts that the index leaves out are compared.
    let exact = |(cpu, code, config): &(Cpu<'_>, EventCode, Option<u64>)| {
        cpu.by_code(black_box(code), *config).any(|entry| entry.code() == *code)
    };
    let by_code = each(&codes, exact);
    limits.at_most(&format!("by code, {of}"), by_code, CODE_LIMIT, "ns");
    let coded: Vec<_> = names.iter().copied().filter(|(cpu, name)| to_words(cpu, name).is_some()).collect();
    let words = each(&coded, |(cpu, name)| to_words(cpu, black_box(name)).is_some());
    println!("| name to perf's words, {of} | {} | |", shown(words, "ns"));
    let typed: Vec<_> = names.into_iter().filter(|(cpu, name)| everything(*cpu, name)).collect();
    let all = each(&typed, |(cpu, name)| everything(*cpu, black_box(name)));
    println!(
        "| text to words, counters, registers and notes, {of}, {} of them | {} | |",
        typed.len(),
        shown(all, "ns")
    );
}

/// The same result as libpfm4's: perf's words of a name.
fn to_words(cpu: &Cpu<'_>, name: &str) -> Option<(u64, u64)> {
    let entry = cpu.event(name)?;
    let coded = Coded { code: entry.code(), config: entry.config(), counters: entry.counters() };
    let words = perf_words(&chip(cpu), &coded).ok()?;
    Some((words.config, words.config1))
}

/// All steps from the text that a user types.
fn everything(cpu: Cpu<'_>, text: &str) -> bool {
    parse_event(text).and_then(|request| encode(cpu, &request, None)).is_ok()
}

fn searches(limits: &mut BrokenLimits) -> Result<()> {
    for pattern in ["*L3*MISS*", "/^mem.*l3_miss$/", "/(load|store).*(miss|hit)/", "br_misp all"] {
        let parsed = Pattern::parse(pattern)?;
        let found = everywhere(&parsed).len();
        let took = one(|| everywhere(black_box(&parsed)).len() == found);
        limits.at_most(
            &format!("search over all CPUs, `{pattern}` ({found} names)"),
            took,
            SEARCH_LIMIT,
            "ms",
        );
    }
    for (id, typo) in [
        ("cascadelakex", "BR_MISP_RETIRD.ALL_BRANCHES"),
        ("broadwell", "OFFCORE_RESPONS.DEMAND_DATA_RD.LLC_HIT"),
    ] {
        let (cpu, request) = (cpu(id)?, parse_event(typo)?);
        let took = one(|| select(cpu, black_box(&request)).is_err());
        limits.at_most(&format!("nearest names of `{typo}` on {id}"), took, SEARCH_LIMIT, "ms");
    }
    Ok(())
}

/// The same names through libpfm4 and through the catalogue, alternating.
fn beside(peer: &mut Libpfm, limits: &mut BrokenLimits) -> Result<()> {
    let (id, pmu) = COMPARED;
    let cpu = cpu(id)?;
    let (mut both, mut differ) = (Vec::new(), Vec::new());
    for name in cpu.events().map(|entry| entry.name()) {
        let theirs = libpfm::spelled(pmu, name);
        if let Some(words) = peer.encode(&theirs)? {
            peer.keep(&theirs)?;
            both.push(name);
            if to_words(&cpu, name) != Some(words) {
                differ.push(name);
            }
        }
    }
    if both.is_empty() {
        println!("skipped: the comparison with libpfm4: it knows no event of {id}");
        return Ok(());
    }
    println!("libpfm4 knows {} of {id}'s {} events", both.len(), cpu.events().count());
    println!(
        "with other words than ours: {}",
        if differ.is_empty() { "none".into() } else { differ.join(", ") }
    );
    let mut ratios = [Vec::new(), Vec::new()];
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let theirs = peer.round()?;
        let ours = [
            round(&both, |name| to_words(&cpu, black_box(name)).is_some()),
            round(&both, |name| everything(cpu, black_box(name))),
        ];
        times[0].push(theirs);
        for (i, ours) in ours.into_iter().enumerate() {
            times[i + 1].push(ours);
            ratios[i].push(theirs / ours);
        }
    }
    let [theirs, words, all] = times.map(|times| crate::median(&times));
    println!("| what, of these {} events | median of one | ratio to us |\n|---|---|---|", both.len());
    println!("| libpfm4, `pfm_get_os_event_encoding` | {} | |", shown(theirs, "ns"));
    let [to_words, to_all] = ratios.map(|ratios| crate::median(&ratios));
    println!("| name to perf's words | {} | {to_words:.1} |", shown(words, "ns"));
    println!("| text to words, counters, registers and notes | {} | {to_all:.1} |", shown(all, "ns"));
    let slow = format!("{to_words:.1} times as fast as libpfm4, at least {PEER_LIMIT}");
    limits.must(to_words >= PEER_LIMIT, &slow);
    Ok(())
}

/// Seconds per item of `items`: the median of many rounds over all of them.
fn each<T>(items: &[T], work: impl Fn(&T) -> bool) -> f64 {
    crate::median(&(0..ROUNDS).map(|_| round(items, &work)).collect::<Vec<_>>())
}

/// Seconds per item of `items` in one round over all of them.
fn round<T>(items: &[T], work: impl Fn(&T) -> bool) -> f64 {
    let started = Instant::now();
    let done = items.iter().filter(|item| work(item)).count();
    let took = started.elapsed();
    assert_eq!(black_box(done), items.len(), "a look-up failed");
    seconds(took) / items.len() as f64
}

/// Seconds of `work`, the median.
fn one(work: impl Fn() -> bool) -> f64 {
    let times: Vec<f64> = (0..SEARCHES)
        .map(|_| {
            let started = Instant::now();
            assert!(black_box(work()), "a search failed");
            seconds(started.elapsed())
        })
        .collect();
    crate::median(&times)
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_for_libpfm4() {
        assert_eq!(libpfm::spelled("skl", "L1D.REPLACEMENT"), "skl::L1D:REPLACEMENT");
    }
}
