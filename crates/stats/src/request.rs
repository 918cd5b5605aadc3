//! A requested metric, with everything needed to compute it from a report.

use cyclometer_core::SlotId;
use cyclometer_core::event::Unit;
use cyclometer_core::machine::CpuId;

use crate::formula::Expression;

/// A requested metric.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricRequest {
    /// Its name, without modes.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The factor from the formula's value to that unit.
    pub scale: f64,
    /// The least and the greatest value that the formula can have; outside of them there is no value.
    pub bounds: Option<(f64, f64)>,
    /// The formula, with those of the metrics in it.
    pub expression: Expression,
    /// For every event of the formula the slot that counts it, or the reason why none does.
    pub inputs: Vec<(String, Result<SlotId, String>)>,
    /// The facts about the machine that the formula may use.
    pub environment: Environment,
}

impl MetricRequest {
    /// The slots of the inputs, by index, ascending, each once.
    pub fn slots(&self) -> Vec<usize> {
        let slots = self.inputs.iter().filter_map(|(_, slot)| slot.as_ref().ok());
        let mut slots: Vec<usize> = slots.map(|slot| slot.0).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

/// The facts about the machine that formulas may use: literals, and the CPU.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Environment {
    /// Values of literals, without the `#`: `slots`, `smt_on`. A missing literal is unknown.
    pub literals: Vec<(&'static str, f64)>,
    /// The CPU.
    pub cpu: Option<CpuId>,
}

impl Environment {
    /// The value of a literal; `None` when it is not known.
    pub fn literal(&self, name: &str) -> Option<f64> {
        self.literals.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Whether this is the CPU of that id; `None` when it is unknown.
    ///
    /// On Arm the id is a MIDR: implementer and part must be equal, and the revision must be the same or
    /// later.
    ///
    /// # Source
    ///
    /// Linux `tools/perf/arch/arm64/util/header.c`, `strcmp_cpuid_str`.
    pub fn is_cpu(&self, id: &str) -> Option<bool> {
        const VARIANT_AND_REVISION: u32 = 0x00f0_000f;
        let Some(CpuId::Arm { midr }) = self.cpu else { return None };
        let wanted = u32::from_str_radix(id.strip_prefix("0x")?, 16).ok()?;
        let part = |midr: u32| midr & !VARIANT_AND_REVISION;
        Some(part(midr) == part(wanted) && midr & VARIANT_AND_REVISION >= wanted & VARIANT_AND_REVISION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derived::DerivedSummary;
    use crate::summary::{Summary, asked_scope, summarise_with};
    use crate::testing::{cell, hardware, os_line, pass, report, run, soft, translated};
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::plan::{Outcome, PlanLine};
    use cyclometer_core::{Count, Modes, Report, Verdict};

    /// The metric `m` over events named `a`, `b`, … in slots 0, 1, ….
    fn request(formula: &str, slots: usize) -> MetricRequest {
        let inputs =
            ["a", "b", "c", "d"].iter().zip(0..slots).map(|(name, i)| ((*name).to_owned(), Ok(SlotId(i))));
        MetricRequest {
            name: "m".into(),
            unit: Unit::Other("%".into()),
            scale: 100.0,
            bounds: None,
            expression: Expression::resolve("m", formula, |_| None).unwrap(),
            inputs: inputs.collect(),
            environment: Environment { literals: vec![("smt_on", 1.0)], cpu: None },
        }
    }

    fn summary(report: &Report, request: MetricRequest) -> Summary {
        summarise_with(report, asked_scope(report), &[request])
    }

    fn metric(report: &Report, request: MetricRequest) -> DerivedSummary {
        summary(report, request).derived.into_iter().find(|metric| metric.asked).unwrap()
    }

    fn three() -> Vec<PlanLine> {
        ["x", "y", "z"].map(|name| hardware(name, 1)).to_vec()
    }

    #[test]
    fn a_metric_is_computed_run_by_run_in_its_unit() {
        let runs = vec![run(0, 0, &[(0, 1), (1, 2), (2, 8)]), run(1, 0, &[(0, 3), (1, 1), (2, 8)])];
        let report = report(three(), vec![pass(&[0, 1, 2])], runs);
        let metric = metric(&report, request("(a + b / #smt_on) / c", 3));
        assert_eq!(
            (metric.name.as_str(), metric.unit.symbol(), metric.verdict),
            ("m:u", "%", Verdict::Exact)
        );
        let values: Vec<_> = metric.values.iter().map(|value| value.value).collect();
        assert_eq!((values, metric.statistics.mean), (vec![Some(37.5), Some(50.0)], Some(43.75)));
        assert_eq!(metric.inputs, ["x:u", "y:u", "z:u"]);
    }

    /// Two counted events and one, `z`, that no machine has.
    fn without_z(lines: Vec<PlanLine>) -> Report {
        let mut lines = lines;
        lines[2].outcome = Outcome::NotCounted(Count::NotSupported { reason: "no such event".into() });
        report(lines, vec![pass(&[0, 1])], vec![run(0, 0, &[(0, 1), (1, 2)])])
    }

    #[test]
    fn a_metric_without_an_input_says_which() {
        let uncounted = metric(&without_z(three()), request("a / c", 3));
        assert_eq!((uncounted.verdict, uncounted.statistics.mean), (Verdict::NotCounted, None));
        assert_eq!(uncounted.reason.as_deref(), Some("z:u is missing: no such event"));
        let mut unknown = request("a / c", 2);
        unknown.inputs.push(("c".into(), Err("no event is named 'c'".into())));
        let unknown = metric(&without_z(three()), unknown);
        assert_eq!(unknown.reason.as_deref(), Some("c is missing: no event is named 'c'"));
        assert!(!summary(&without_z(three()), request("a / c", 3)).is_strict());
    }

    #[test]
    fn an_input_that_has_no_modes_because_it_is_missing_is_missing_and_not_apart() {
        let mut lines = three();
        lines[2].event.candidates.clear();
        let metric = metric(&without_z(lines), request("a / c", 3));
        assert_eq!(
            (metric.name.as_str(), metric.reason.as_deref()),
            ("m:u", Some("z is missing: no such event"))
        );
    }

    #[test]
    fn what_is_not_chosen_may_be_missing() {
        let metric = metric(&without_z(three()), request("a / b if #smt_on else c", 3));
        assert_eq!(metric.statistics.mean, Some(50.0));
    }

    #[test]
    fn a_literal_that_is_not_known_and_a_zero_are_reasons() {
        let report = report(three(), vec![pass(&[0, 1, 2])], vec![run(0, 0, &[(0, 1), (1, 0), (2, 8)])]);
        for (formula, reason) in [
            ("a / b", "y:u was 0"),
            ("a / #slots", "#slots is not known on this machine"),
            ("a / (b * c)", "(b * c) was 0"),
        ] {
            let metric = metric(&report, request(formula, 3));
            assert_eq!((metric.statistics.mean, metric.reason.as_deref()), (None, Some(reason)), "{formula}");
            assert!(!summary(&report, request(formula, 3)).is_strict());
        }
        assert!(summary(&report, request("a / c", 3)).is_strict());
    }

    #[test]
    fn a_value_outside_of_its_bounds_is_a_reason() {
        let report = report(three(), vec![pass(&[0, 1, 2])], vec![run(0, 0, &[(0, 3), (1, 2), (2, 8)])]);
        let of = |formula| metric(&report, MetricRequest { bounds: Some((0.0, 1.0)), ..request(formula, 3) });
        for formula in ["a / b", "1 - a / b"] {
            let outside = of(formula);
            assert_eq!((outside.verdict, outside.statistics.mean), (Verdict::NotCounted, None), "{formula}");
            let reason = outside.reason.unwrap();
            assert!(
                reason.ends_with("outside of 0 to 1: its counts are of different kinds or estimates"),
                "{reason}"
            );
        }
        assert_eq!(of("b / c").statistics.mean, Some(25.0), "the limits are of the formula's value");
        assert_eq!(of("c / c").statistics.mean, Some(100.0));
    }

    #[test]
    fn the_worst_input_is_the_verdict_of_the_metric() {
        let mut one = run(0, 0, &[(0, 30), (1, 10)]);
        one.reading.cells.push(cell(SlotId(2), 5, 10_000_000, 5_000_000));
        let report = report(three(), vec![pass(&[0, 1, 2])], vec![one]);
        let metric = metric(&report, request("(a + b) / c", 3));
        assert_eq!((metric.verdict, metric.statistics.mean), (Verdict::Scaled, Some(400.0)));
        assert_eq!(metric.reason.as_deref(), Some("observed 50 % of the time"));
    }

    #[test]
    fn counts_of_all_modes_and_times_divide_and_those_of_one_mode_do_not() {
        let with = |modes| {
            let mut cycles = hardware("cycles", 1);
            cycles.outcome = Outcome::Counted { candidate: 0, filter: Some(modes), exclude_guest: false };
            let lines = vec![cycles, os_line("cpu_time", OsMetric::CpuTime)];
            metric(
                &report(lines, vec![pass(&[0, 1])], vec![run(0, 0, &[(0, 30), (1, 10)])]),
                request("a / b", 2),
            )
        };
        assert_eq!(with(Modes::USER_KERNEL).statistics.mean, Some(300.0));
        assert_eq!(with(Modes::USER_KERNEL).name, "m");
        assert_eq!(
            with(Modes::USER).reason.as_deref(),
            Some("cycles:u and cpu_time cover different modes or scopes")
        );
    }

    #[test]
    fn native_and_translated_counts_never_divide() {
        let lines = vec![hardware("x", 1), soft("y")];
        let passes = vec![pass(&[0]), pass(&[1])];
        let runs = vec![run(0, 0, &[(0, 30)]), translated(run(1, 1, &[(1, 10)]))];
        let metric = metric(&report(lines, passes, runs), request("a / b", 2));
        assert_eq!((metric.statistics.mean, metric.verdict), (None, Verdict::NotCounted));
        assert!(metric.reason.unwrap().contains("never counted in the same pass"));
    }

    #[test]
    fn a_metric_that_is_asked_for_is_not_given_twice() {
        let lines = vec![hardware("instructions", 1), hardware("cycles", 1)];
        let report = report(lines, vec![pass(&[0, 1])], vec![run(0, 0, &[(0, 30), (1, 10)])]);
        let ipc = MetricRequest { name: "ipc".into(), ..request("a / b", 2) };
        let summary = summary(&report, ipc);
        let names: Vec<_> =
            summary.derived.iter().map(|metric| (metric.name.as_str(), metric.asked)).collect();
        assert_eq!(names, [("ipc:u", true)]);
    }

    #[test]
    fn a_cpu_is_told_by_its_part_and_the_least_revision() {
        let on = |midr| Environment { cpu: Some(CpuId::Arm { midr }), ..Environment::default() };
        assert_eq!(on(0x410f_d493).is_cpu("0x410fd493"), Some(true));
        assert_eq!(on(0x411f_d490).is_cpu("0x410fd493"), Some(true), "a later variant");
        assert_eq!(on(0x410f_d490).is_cpu("0x410fd493"), Some(false), "an earlier revision");
        assert_eq!(on(0x6d0f_d490).is_cpu("0x410fd490"), Some(false), "another implementer");
        assert_eq!(on(0x410f_d490).is_cpu("GenuineIntel-6-55"), None);
        assert_eq!(Environment::default().is_cpu("0x410fd493"), None);
    }

    #[test]
    fn a_literal_that_is_not_there_is_not_known() {
        let environment = Environment { literals: vec![("slots", 5.0)], ..Environment::default() };
        assert_eq!((environment.literal("slots"), environment.literal("smt_on")), (Some(5.0), None));
    }
}
