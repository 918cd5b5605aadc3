//! Hidden tables: no event may be identified as something that it does not count.

mod world;

use std::collections::BTreeMap;

use cyclometer_inference::Inference;
use world::{HiddenKind, Machine};

#[test]
#[ignore = "scratch"]
fn report() {
    let table = world::table();
    let inference = Inference::new(&table);
    let mut tally: BTreeMap<(HiddenKind, char), usize> = BTreeMap::new();
    let seeds: u64 = std::env::var("SEEDS").map_or(3, |s| s.parse().unwrap());
    let mut spent = std::time::Duration::ZERO;
    let mut worst = std::time::Duration::ZERO;
    let mut n = 0;
    let mut times = BTreeMap::new();
    let mut why: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..seeds {
        let mut machine = Machine::new(&table, seed);
        for hidden in machine.hidden_table() {
            let observed = machine.observe(&hidden, &[0, 1, 2, 3, 4, 5, 6, 7]);
            let start = std::time::Instant::now();
            let judgement = inference.judge(&observed).unwrap();
            let took = start.elapsed();
            spent += took;
            worst = worst.max(took);
            n += 1;
            let e = times.entry((hidden.kind, judgement.verdict.letter())).or_insert((0u32, std::time::Duration::ZERO, std::time::Duration::ZERO));
            e.0 += 1; e.1 += took; e.2 = e.2.max(took);
            let letter = judgement.verdict.letter();
            *tally.entry((hidden.kind, letter)).or_default() += 1;
            if let Some(h) = judgement.verdict.identified() {
                if h.sum != hidden.sum || !machine.looks_like_its_sum(&hidden) {
                    println!("WRONG {:?} {} num {} as {}", hidden.kind, hidden.sum, hidden.number, h.sum);
                }
            }
            if hidden.kind != HiddenKind::Dead && judgement.mask.belongs.general_bits() != hidden.mask && true {
                println!("MASK {:?} {} {:x} {:?}", hidden.kind, hidden.sum, hidden.mask, judgement.mask);
            }
            if hidden.kind <= HiddenKind::Duplicate && letter != 'A' {
                let text = match &judgement.verdict {
                    cyclometer_inference::Identification::Ambiguous(a) => format!("B {} hyps{} {:?}", a.doubts.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("; "), a.hypotheses.iter().take(3).map(|h| format!(" [{}]", h.sum)).collect::<String>(), a.split),
                    other => format!("{other:?}").chars().take(300).collect(),
                };
                println!("MISS {:?} {} : {}", hidden.kind, hidden.sum, text);
                *why.entry(text.chars().take(60).collect()).or_default() += 1;
            }
        }
    }
    println!("{tally:#?}");
    for (w, n) in why { println!("{n:4} {w}"); }
    for (k, (n, t, w)) in times { println!("{k:?} {n} mean {:?} worst {w:?}", t / n); }
    println!("mean {:?} worst {worst:?}", spent / n);
}
