//! Judging facts by rules.

use cyclometer_stats::formula::Inputs;

use crate::confidence::Confidence;
use crate::facts::Facts;
use crate::rules::{Rule, RuleNeed, RuleTest, Rules};

/// A number that supports a finding.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// The quantity in words.
    pub label: String,
    /// The number.
    pub value: f64,
    /// The threshold, as `> 5`.
    pub threshold: String,
    /// The source of the threshold.
    pub source: String,
}

/// A fault that the numbers indicate.
#[derive(Clone, PartialEq, Debug)]
pub struct AdviceFinding {
    /// The name of the rule.
    pub rule: String,
    /// The finding in a few words.
    pub title: String,
    /// The usual remedy.
    pub advice: String,
    /// An estimate of the part of the time that the fault costs, 0 to 1.
    pub share: f64,
    /// The confidence in it.
    pub confidence: Confidence,
    /// The kind of evidence: top-down, hardware, counted, model, kernel.
    pub evidence: String,
    /// The numbers.
    pub numbers: Vec<Evidence>,
    /// The fact whose counts by function show the place of the fault.
    pub functions_by: Option<String>,
    /// Rules whose numbers are beyond their thresholds as an effect of this one.
    pub explains: Vec<String>,
    /// The next measurements, with `{command}` for the command.
    pub next: Vec<String>,
}

/// A rule that could not be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotMeasured {
    /// Its name.
    pub rule: String,
    /// The numbers that it needs, with the reason for each.
    pub needs: Vec<String>,
}

/// The judgement of the rules.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Advice {
    /// The findings, the most costly first.
    pub findings: Vec<AdviceFinding>,
    /// The rules that were judged, and whose numbers are inconspicuous.
    pub inconspicuous: Vec<String>,
    /// The rules that could not be judged.
    pub not_measured: Vec<NotMeasured>,
}

/// Judges facts.
pub fn judge(rules: &Rules, facts: &Facts) -> Advice {
    let inputs = RuleInputs { rules, facts, depth: 0 };
    let mut advice = Advice::default();
    for rule in rules.all() {
        match judge_rule(rule, &inputs) {
            Ok(Some(finding)) => advice.findings.push(finding),
            Ok(None) => advice.inconspicuous.push(rule.name.clone()),
            Err(needs) => advice.not_measured.push(NotMeasured { rule: rule.name.clone(), needs }),
        }
    }
    advice.findings.sort_by(|one, other| other.share.total_cmp(&one.share));
    explain(advice)
}

/// Moves findings that are effects to their causes.
fn explain(mut advice: Advice) -> Advice {
    let all = std::mem::take(&mut advice.findings);
    let found: Vec<String> = all.iter().map(|finding| finding.rule.clone()).collect();
    let is_effect =
        |rule: &String| all.iter().any(|cause| cause.rule != *rule && cause.explains.contains(rule));
    let effects: Vec<String> = found.iter().filter(|rule| is_effect(rule)).cloned().collect();
    for mut finding in all {
        if !effects.contains(&finding.rule) {
            finding.explains.retain(|rule| effects.contains(rule));
            advice.findings.push(finding);
        }
    }
    advice
}

/// The finding of a rule, if its numbers indicate one.
///
/// # Errors
///
/// The finding of a rule; the error has the numbers that each of its tests lacks.
fn judge_rule(rule: &Rule, inputs: &RuleInputs<'_>) -> Result<Option<AdviceFinding>, Vec<String>> {
    let mut lacks = Vec::new();
    let mut judged_by: Option<&str> = None;
    for test in &rule.tests {
        // Weaker evidence does not overrule a measurement.
        if judged_by.is_some_and(|evidence| evidence != test.evidence) {
            break;
        }
        match judge_test(test, inputs) {
            Ok(None) => judged_by = Some(&test.evidence),
            Ok(found) => {
                return Ok(
                    found.map(|(share, numbers)| limited(finding(rule, test, share, numbers), test, inputs))
                );
            }
            Err(reason) if !lacks.contains(&reason) => lacks.push(reason),
            Err(_) => {}
        }
    }
    if judged_by.is_some() { Ok(None) } else { Err(lacks) }
}

fn judge_test(test: &RuleTest, inputs: &RuleInputs<'_>) -> Result<Option<(f64, Vec<Evidence>)>, String> {
    let mut numbers = Vec::new();
    let mut holds = true;
    // Every number is looked up, so that a missing one is noticed whatever the others are.
    for need in &test.needs {
        let value = need.formula.evaluate(inputs)?;
        holds &= need.bound.holds(value);
        numbers.push(evidence(need, value));
    }
    let share = test.share.evaluate(inputs)?;
    Ok(holds.then_some((share.clamp(0.0, 1.0), numbers)))
}

/// A finding with the confidence that the amount of its evidence allows.
fn limited(mut finding: AdviceFinding, test: &RuleTest, inputs: &RuleInputs<'_>) -> AdviceFinding {
    for limit in inputs.rules.limits(&test.evidence) {
        let need = &limit.need;
        let value = need.formula.evaluate(inputs).ok().filter(|value| need.bound.holds(*value));
        if let (Some(value), true) = (value, limit.most < finding.confidence) {
            finding.confidence = limit.most;
            finding.numbers.push(evidence(need, value));
        }
    }
    finding
}

fn evidence(need: &RuleNeed, value: f64) -> Evidence {
    Evidence {
        label: need.label.clone(),
        value,
        threshold: need.bound.to_string(),
        source: need.source.clone(),
    }
}

fn finding(rule: &Rule, test: &RuleTest, share: f64, numbers: Vec<Evidence>) -> AdviceFinding {
    AdviceFinding {
        rule: rule.name.clone(),
        title: rule.title.clone(),
        advice: rule.advice.clone(),
        share,
        confidence: test.confidence,
        evidence: test.evidence.clone(),
        numbers,
        functions_by: rule.functions.clone(),
        explains: rule.explains.clone(),
        next: rule.next.clone(),
    }
}

/// The deepest nesting of named values.
const MAX_DEPTH: u32 = 16;

struct RuleInputs<'a> {
    rules: &'a Rules,
    facts: &'a Facts,
    depth: u32,
}

impl Inputs for RuleInputs<'_> {
    fn value(&self, name: &str) -> Result<f64, String> {
        match self.rules.named(name) {
            Some(_) if self.depth >= MAX_DEPTH => Err(format!("the value '{name}' is defined by itself")),
            Some(formula) => formula.evaluate(&RuleInputs { depth: self.depth + 1, ..*self }),
            None => self.facts.value(name),
        }
    }

    fn literal(&self, _name: &str) -> Option<f64> {
        None
    }

    fn is_cpu(&self, _id: &str) -> Option<bool> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FactOrigin;

    const RULES: &str = "cyclometer-rules 1
value share_of_a = a / all

rule first
title A is large
test hardware certain
need h | h_a | > 10 | a source
share h_a / 100
test model likely
need a of all | share_of_a | > 0.25 | a source
need b | b | < 3 | another source
share share_of_a
next look at {command}

rule second
title B is large
explains first
test kernel certain
need c | c | > 1 | a source
share 0.1
";

    fn advice(facts: &[(&str, f64)]) -> Advice {
        let mut all = Facts::default();
        facts.iter().for_each(|(name, value)| all.put(name, *value, FactOrigin::Kernel));
        judge(&Rules::parse(RULES).unwrap(), &all)
    }

    #[test]
    fn the_first_test_that_was_measured_decides() {
        let by_model = advice(&[("a", 30.0), ("all", 100.0), ("b", 1.0)]);
        assert_eq!(by_model.findings[0].evidence, "model");
        assert_eq!(by_model.findings[0].share, 0.3);
        assert_eq!(by_model.findings[0].confidence, Confidence::Likely);
        let by_hardware = advice(&[("h_a", 1.0), ("a", 30.0), ("all", 100.0), ("b", 1.0)]);
        assert!(by_hardware.findings.is_empty());
        assert_eq!(by_hardware.inconspicuous, ["first"]);
    }

    #[test]
    fn tests_of_one_evidence_are_alternatives() {
        let rules = "cyclometer-rules 1\nrule r\ntitle t\ntest model likely\nneed a | a | > 1 | a source\n\
                     test model possible\nneed b | b | > 1 | a source\ntest kernel likely\nneed c | c | > 1 | a source";
        let judged = |facts: &[(&str, f64)]| {
            let mut all = Facts::default();
            facts.iter().for_each(|(name, value)| all.put(name, *value, FactOrigin::Kernel));
            judge(&Rules::parse(rules).unwrap(), &all)
        };
        let advice = judged(&[("a", 0.0), ("b", 2.0), ("c", 2.0)]);
        assert_eq!(advice.findings[0].confidence, Confidence::Possible);
        assert_eq!(judged(&[("a", 0.0), ("b", 0.0), ("c", 2.0)]).inconspicuous, ["r"]);
        assert_eq!(judged(&[("a", 0.0), ("c", 2.0)]).inconspicuous, ["r"]);
    }

    #[test]
    fn a_number_that_is_missing_is_named_and_never_guessed() {
        let advice = advice(&[("a", 30.0), ("all", 100.0)]);
        let first = advice.not_measured.iter().find(|rule| rule.rule == "first").unwrap();
        assert_eq!(first.needs, ["h_a", "b"]);
        assert!(advice.findings.is_empty() && advice.inconspicuous.is_empty());
    }

    #[test]
    fn a_division_by_zero_is_not_measured() {
        let advice = advice(&[("a", 0.0), ("all", 0.0), ("b", 1.0)]);
        assert_eq!(advice.not_measured[0].rule, "first");
    }

    #[test]
    fn every_condition_must_hold() {
        assert!(advice(&[("a", 30.0), ("all", 100.0), ("b", 3.0)]).findings.is_empty());
    }

    #[test]
    fn an_effect_is_named_by_its_cause_only() {
        let advice = advice(&[("a", 30.0), ("all", 100.0), ("b", 1.0), ("c", 2.0)]);
        assert_eq!(advice.findings.len(), 1);
        assert_eq!(advice.findings[0].rule, "second");
        assert_eq!(advice.findings[0].explains, ["first"]);
    }

    #[test]
    fn a_value_that_is_defined_by_itself_has_no_number() {
        let rules = "cyclometer-rules 1\nvalue x = y\nvalue y = x\nrule r\ntitle t\ntest model likely\nneed n | x | > 1 | s";
        let advice = judge(&Rules::parse(rules).unwrap(), &Facts::default());
        assert!(advice.not_measured[0].needs[0].contains("by itself"));
    }

    #[test]
    fn the_kernels_part_of_a_start_is_no_finding_and_that_of_a_program_that_works_is_one() {
        let found = |scale: f64, calls: Option<f64>| {
            let mut facts = Facts::default();
            let mut put = |name, value| facts.put(name, value, FactOrigin::Kernel);
            put("user_time", 30_000.0 * scale);
            put("system_time", 1_200_000.0 * scale);
            put("page_faults", 70.0);
            put("instructions", 110_000.0 * scale);
            calls.into_iter().for_each(|calls| put("system_calls", calls * scale));
            let findings = judge(Rules::embedded(), &facts).findings;
            findings.iter().map(|finding| finding.rule.clone()).collect::<Vec<_>>()
        };
        for calls in [None, Some(40.0)] {
            assert_eq!(found(1.0, calls), [] as [&str; 0], "`sleep` on a busy machine");
            assert_eq!(found(400.0, calls), ["system-calls"], "half a second of the same");
        }
    }

    #[test]
    fn the_confidence_of_a_wait_for_a_device_follows_the_number_of_looks() {
        let wait = |looks: f64, share: f64| {
            let mut facts = Facts::default();
            let put = |(name, value): (&str, f64)| facts.put(name, value, FactOrigin::Sampled);
            [("sampled_looks", looks), ("sampled_device_waits", (looks * share).round())]
                .into_iter()
                .for_each(put);
            let advice = judge(Rules::embedded(), &facts);
            let found = advice.findings.into_iter().find(|finding| finding.rule == "io-wait");
            found.map(|finding| (finding.confidence, finding.numbers.len()))
        };
        assert_eq!(wait(8.0, 0.9), Some((Confidence::Possible, 2)));
        assert_eq!(wait(40.0, 0.9), Some((Confidence::Likely, 2)));
        assert_eq!(wait(200.0, 0.9), Some((Confidence::Certain, 1)));
        assert_eq!(wait(200.0, 0.25), Some((Confidence::Likely, 1)));
        assert_eq!(wait(200.0, 0.1), None);
    }

    /// The findings of the project's rules, with their confidence.
    fn found(facts: &[(&str, f64)]) -> Vec<(String, Confidence)> {
        let mut all = Facts::default();
        facts.iter().for_each(|(name, value)| all.put(name, *value, FactOrigin::Kernel));
        let findings = judge(Rules::embedded(), &all).findings;
        findings.into_iter().map(|finding| (finding.rule, finding.confidence)).collect()
    }

    /// A program of two threads: their CPU time in ms, the threads that run at a look, the time in queues.
    fn two_threads([one, other]: [f64; 2], running: f64, queued: f64) -> Vec<(String, Confidence)> {
        found(&[
            ("cpus", 2.0),
            ("working_threads", 1.0 + f64::from(other > one / 50.0)),
            ("busiest_process_time", (one + other) * 1e6),
            ("busiest_thread_time", one * 1e6),
            ("sampled_looks", 200.0),
            ("sampled_running", 200.0 * running),
            ("sampled_cpu_time", (one + other) * 1e6),
            ("sampled_queue_time", queued * 1e6),
        ])
    }

    #[test]
    fn work_that_is_divided_unevenly_is_found_by_cpu_time_and_a_helper_of_an_interpreter_is_no_worker() {
        let idle = |confidence| vec![("idle-cpus".to_owned(), confidence)];
        assert_eq!(two_threads([900.0, 60.0], 1.05, 0.0), idle(Confidence::Likely));
        assert_eq!(two_threads([900.0, 850.0], 1.9, 0.0), []);
        assert_eq!(two_threads([900.0, 1.2], 1.0, 0.0), []);
    }

    #[test]
    fn threads_that_starve_on_a_busy_machine_are_no_idle_cpus() {
        assert_eq!(two_threads([900.0, 850.0], 1.2, 0.0).len(), 1);
        assert_eq!(two_threads([900.0, 850.0], 1.2, 3_000.0), []);
        // CPU times do not depend on the queue; the certainty does.
        assert_eq!(two_threads([900.0, 60.0], 1.2, 3_000.0)[0].1, Confidence::Possible);
    }

    #[test]
    fn memory_that_is_used_once_is_no_storm_of_page_faults() {
        let faults = |faults: f64, peak_bytes: f64, system_ns: f64| {
            found(&[
                ("user_time", 8e8),
                ("system_time", system_ns),
                ("minor_faults", faults),
                ("peak_rss", peak_bytes),
                ("page_bytes", 4096.0),
            ])
        };
        assert_eq!(faults(2.5e5, 1.05e9, 2e8), []);
        assert_eq!(faults(2.5e5, 4e6, 2e8), [("page-faults".to_owned(), Confidence::Likely)]);
        // New memory that costs most of the time is worth huge pages.
        assert_eq!(faults(2.5e6, 1.05e10, 2e9).len(), 1);
    }

    /// The facts that `cargo xtask advise-score --record` has written, each with the fault of its program.
    fn recorded() -> Vec<(String, String, Facts)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/advise");
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let fault = text.lines().next().and_then(|line| line.strip_prefix("fault ")).unwrap().to_owned();
            let mut facts = Facts::default();
            for line in text.lines().skip(1) {
                let [name, value, origin] = line.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("{path:?}: {line}")
                };
                let origin = FactOrigin::ALL.into_iter().find(|known| known.word() == origin).unwrap();
                facts.put(name, value.parse().unwrap(), origin);
            }
            all.push((path.file_stem().unwrap().to_string_lossy().into_owned(), fault, facts));
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    #[test]
    fn recorded_programs_with_a_fault_are_told_apart_and_healthy_ones_get_no_finding() {
        let (mut right, mut faulty, mut found, mut wrong) = (0, 0, 0, Vec::new());
        let all = recorded();
        assert!(all.len() >= 30, "{} programs", all.len());
        for (name, fault, facts) in &all {
            let advice = judge(Rules::embedded(), facts);
            let first = advice.findings.first().map_or("none", |finding| finding.rule.as_str());
            let is_faulty = fault != "none";
            (faulty, found) = (faulty + usize::from(is_faulty), found + usize::from(first != "none"));
            right += usize::from(is_faulty && first == fault);
            if first != fault {
                wrong.push(format!("{name}: {first} instead of {fault}"));
            }
        }
        let (precision, recall) = (right as f64 / found as f64, right as f64 / faulty as f64);
        assert!(
            precision >= 0.9 && recall >= 0.9,
            "precision {precision:.2}, recall {recall:.2}: {wrong:#?}"
        );
    }
}
