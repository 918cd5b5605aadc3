//! Untrusted texts and codes: the result is always a value or a printable error, never a panic, within a
//! short time.
//!
//! The cases are the same in every run. `fuzz/` has longer runs with other cases.
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::path::Path;
use std::time::{Duration, Instant};

use cyclometer_arch::Register;
use cyclometer_catalog::cpus::{cpu, cpus};
use cyclometer_catalog::decode::{decode, decode_perf, register};
use cyclometer_catalog::encode::encode;
use cyclometer_catalog::metric;
use cyclometer_catalog::search::{Filter, Pattern, events, everywhere};
use cyclometer_catalog::select::chip;
use cyclometer_catalog::table::{Cpu, text};
use cyclometer_core::pmu::ConfigWords;
use cyclometer_core::syntax::{parse_event, parse_events};
use cyclometer_core::{CounterId, Error};
use cyclometer_stats::formula::{Formula, Inputs};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// One CPU of each layout, and those with second unit masks and holes.
const CPUS: [&str; 8] = [
    "skylake",
    "pantherlake/core",
    "arrowlake/atom",
    "novalake/core",
    "amdzen5",
    "neoverse-n1",
    "sifive-bullet",
    "apple-m4",
];

fn settings() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn cpu_of(index: usize) -> Cpu<'static> {
    cpu(CPUS[index % CPUS.len()]).unwrap()
}

fn can_be_shown(text: &str) {
    assert!(!text.is_empty() && text.len() < 4000, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fn error_can_be_shown(error: &Error) {
    can_be_shown(&error.to_string());
    can_be_shown(&error.recovery().to_string());
}

/// One change of a text.
#[derive(Clone, Debug)]
enum Change {
    Insert(usize, &'static str),
    Replace(usize, char),
    Remove(usize, usize),
    Repeat(usize, usize, usize),
    Truncate(usize),
}

/// Parts of tables, event lists and formulas.
const PIECES: [&str; 32] = [
    " ",
    "\n",
    ",",
    ":",
    "=",
    "/",
    "{",
    "}",
    "(",
    ")",
    "@",
    "\\",
    "\0",
    "#",
    "é",
    "0x",
    "-1",
    "event=",
    "umask=0x1ff",
    "counters=",
    "config=0xffffffffffffffff",
    "also=",
    "alias=",
    "extra=0x1a6:",
    "[events]\n",
    " if ",
    " else ",
    "min(",
    "99999999999999999999999",
    ":c=",
    "r",
    "*",
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Change::Insert(at, PIECES[piece])),
        (any::<usize>(), any::<char>()).prop_map(|(at, with)| Change::Replace(at, with)),
        (any::<usize>(), 1..40usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<usize>(), 1..60usize, 2..40usize).prop_map(|(at, length, n)| Change::Repeat(at, length, n)),
        any::<usize>().prop_map(Change::Truncate),
    ]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(change(), 1..6)
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for change in changes {
        let place = |at: usize| at % (chars.len() + 1);
        match change {
            Change::Insert(at, piece) => drop(chars.splice(place(*at)..place(*at), piece.chars())),
            Change::Replace(at, with) => {
                let at = place(*at);
                chars.splice(at..(at + 1).min(chars.len()), [*with]);
            }
            Change::Remove(at, length) => {
                let at = place(*at);
                chars.drain(at..(at + length).min(chars.len()));
            }
            Change::Repeat(at, length, times) => {
                let at = place(*at);
                let part = chars[at..(at + length).min(chars.len())].repeat(*times);
                chars.splice(at..at, part);
            }
            Change::Truncate(at) => chars.truncate(place(*at)),
        }
    }
    chars.into_iter().collect()
}

/// The committed text of one of the shorter tables.
fn table(index: usize) -> String {
    const TABLES: [&str; 5] =
        ["intel/novalake/atom", "amd/amdzen1", "arm/cortex-a53", "riscv/sifive-bullet", "apple/apple-m1"];
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(TABLES[index % TABLES.len()]);
    std::fs::read_to_string(data).unwrap()
}

/// Reads a table and writes it; the text reads back as the same table.
fn read_table(table: &str) {
    match text::read(table) {
        Ok(read) => assert_eq!(text::read(&text::write(&read)).unwrap(), read),
        // The caller that prints the message escapes control characters.
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!((1..=table.lines().count().max(1)).contains(&error.line), "{error}");
        }
    }
}

/// Event lists to start from: every part of the grammar.
const LISTS: [&str; 10] = [
    "INST_RETIRED.ANY:u",
    "{cycles,instructions}:k,BR_MISP_RETIRED.ALL_BRANCHES@3",
    "skl::UOPS_ISSUED:ANY:c=1:i:u",
    "cpu/event=0xb7,umask=0x1,offcore_rsp=0x3fbfc00001,name=x/",
    "cpu_core/UOPS_ISSUED.ANY,cmask=2,eq,inv/ku",
    "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4:ldlat=50",
    "r1c5",
    "L1-dcache-load-misses",
    "l1d_cache_misses,llc_misses:h",
    "ls_dispatch.ld_dispatch:cmask=0x2",
];

fn encode_list(list: &str, cpu: Cpu<'_>) {
    let requests = match parse_events(list) {
        Ok(requests) => requests,
        Err(error) => return error_can_be_shown(&error),
    };
    for request in requests {
        for counter in [None, Some(CounterId::General(63)), Some(CounterId::Fixed(255))] {
            match encode(cpu, &request, counter) {
                Ok(encodings) => assert!(!encodings.is_empty()),
                Err(error) => error_can_be_shown(&error),
            }
        }
    }
}

/// Gives any event a value; a name of odd length has none.
struct Anything(f64);

impl Inputs for Anything {
    fn value(&self, name: &str) -> Result<f64, String> {
        if name.len().is_multiple_of(2) { Ok(self.0) } else { Err(format!("{name} was not counted")) }
    }

    fn literal(&self, name: &str) -> Option<f64> {
        (name.len() > 5).then_some(self.0)
    }

    fn is_cpu(&self, id: &str) -> Option<bool> {
        id.len().is_multiple_of(2).then_some(true)
    }
}

/// Reads a formula and evaluates it: the result is a finite number or a reason.
fn evaluate(formula: &str, value: f64) {
    match Formula::parse(formula) {
        Ok(formula) => match formula.evaluate(&Anything(value)) {
            Ok(result) => assert!(result.is_finite(), "{}", formula.text()),
            Err(reason) => assert!(!reason.is_empty()),
        },
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(error.at.is_none_or(|at| at <= formula.len()), "{error} at {:?}", error.at);
        }
    }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn any_text_is_a_table_or_an_error(rest in "\\PC{0,200}", start in any::<bool>()) {
        let start = if start { "cyclometer-events 1\ncpu x\nlayout intel\n[events]\n" } else { "" };
        read_table(&format!("{start}{rest}"));
    }

    #[test]
    fn changed_tables_are_tables_or_errors(which in any::<usize>(), changes in changes()) {
        read_table(&changed(&table(which), &changes));
    }

    #[test]
    fn any_text_is_an_event_of_a_cpu_or_an_error(list in "\\PC{0,60}", which in any::<usize>()) {
        encode_list(&list, cpu_of(which));
    }

    #[test]
    fn changed_event_lists_are_events_of_a_cpu_or_errors(
        list in 0..LISTS.len(), which in any::<usize>(), changes in changes(),
    ) {
        encode_list(&changed(LISTS[list], &changes), cpu_of(which));
    }

    #[test]
    fn any_word_decodes_on_any_cpu(which in 0..cpus().len(), words in any::<[u64; 3]>(), label in "\\PC{0,20}") {
        let cpu = cpus().nth(which).unwrap();
        let [config, config1, config2] = words;
        decode_perf(&cpu, ConfigWords { config, config1, config2 }, Some(&label));
        for register in Register::all(&chip(&cpu)) {
            let explained = decode(&cpu, register, config, None);
            prop_assert_eq!(explained.names.len(), explained.decoded.events.len());
        }
        if let Err(error) = register(&cpu, &label) {
            error_can_be_shown(&error);
        }
    }

    #[test]
    fn any_text_is_a_pattern_or_an_error(text in "\\PC{0,40}", slashes in any::<bool>(), which in any::<usize>()) {
        let text = if slashes { format!("/{text}/") } else { text };
        match Pattern::parse(&text) {
            Ok(pattern) => drop(events(cpu_of(which), &Filter::by(pattern)).count()),
            Err(error) => error_can_be_shown(&error),
        }
    }

    #[test]
    fn any_text_is_a_formula_or_an_error(text in "\\PC{0,80}", value in any::<f64>()) {
        evaluate(&text, value);
    }

    #[test]
    fn changed_formulas_of_our_tables_have_a_value_or_a_reason(
        which in any::<usize>(), changes in changes(), value in any::<f64>(),
    ) {
        let formulas: Vec<&str> =
            metric::tables().flat_map(|table| table.metrics()).map(|metric| metric.formula).collect();
        evaluate(&changed(formulas[which % formulas.len()], &changes), value);
    }
}

#[test]
fn formulas_of_our_tables_are_formulas() {
    let mut seen = 0;
    for metric in metric::tables().flat_map(|table| table.metrics()) {
        assert!(Formula::parse(metric.formula).is_ok(), "{}", metric.name);
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn large_inputs_are_answered_soon() {
    let started = Instant::now();
    let long = "A".repeat(1 << 20);
    assert!(text::read(&format!("cyclometer-events 1\n{}", "x ".repeat(9 << 20))).is_err());
    assert!(text::read(&format!("cyclometer-events 1\ncpu x\n[events]\n{long}\n")).is_err());
    assert!(parse_events(&long).is_err());
    for id in CPUS {
        if let Ok(request) = parse_event(&"A".repeat(60_000)) {
            error_can_be_shown(&encode(cpu(id).unwrap(), &request, None).unwrap_err());
        }
    }
    error_can_be_shown(&cpu(&long).unwrap_err());
    assert!(Formula::parse(&"(".repeat(1 << 20)).is_err());
    assert!(Formula::parse(&"1+".repeat(1 << 20)).is_err());
    for pattern in ["/((((a{1000}){1000}){1000}){1000})/", "/(a*)*(b*)*((c|d)*)*$/", &"*a".repeat(499)] {
        if let Ok(pattern) = Pattern::parse(pattern) {
            everywhere(&pattern);
        }
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}
