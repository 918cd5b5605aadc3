//! Rates of the windows of a recording: which ones its events allow, and their values.
//!
//! | events of the recording | rate |
//! |---|---|
//! | instructions, and cycles | instructions per cycle |
//! | instructions, and another event | the event per 1,000 instructions |
//! | a gauge, as the power of a GPU | its mean in each window |
//! | others, where the length of a window is known | per second |
//! | others, if nothing else is left | the count of each window |
//!
//! An event is divided by one of the same PMU, source and modes. A software event has no modes, and is
//! divided by `instructions:u`.
//!
//! A rate is a ratio of sums. That of several windows is therefore exact, and not a mean of rates.

use cyclometer_core::event::Unit;
use cyclometer_core::gauge::is_gauge;
use cyclometer_core::{Modes, Rung};

/// An event of a recording, as far as rates depend on it.
#[derive(Clone, PartialEq, Debug)]
pub struct RatedEvent {
    /// The name as it is printed, with the PMU before a slash if it names one.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The source; `None` for an event that no source counts.
    pub source: Option<Rung>,
    /// The modes that it counts; `None` where modes do not apply.
    pub modes: Option<Modes>,
}

/// A rate of windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowRate {
    /// Index of the event that is divided.
    pub event: usize,
    /// The divisor.
    pub per: RateDivisor,
}

/// The divisor of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateDivisor {
    /// Cycles: the event of this index.
    Cycle(usize),
    /// 1,000 instructions: the event of this index.
    ThousandInstructions(usize),
    /// One second.
    Second,
    /// One window.
    Window,
    /// Time, by which the means of a gauge are weighted.
    Time,
}

/// The names of instructions without modes, those of the kernel first, then those of vendors.
const INSTRUCTIONS: [&str; 7] = [
    "instructions",
    "inst_retired.any",
    "inst_retired.any_p",
    "ex_ret_instr",
    "inst_retired",
    "inst_all",
    "fixed_instructions",
];

/// The names of cycles without modes.
const CYCLES: [&str; 8] = [
    "cycles",
    "cpu_cycles",
    "cpu-cycles",
    "cpu_clk_unhalted.thread",
    "cpu_clk_unhalted.thread_p",
    "ls_not_halted_cyc",
    "core_active_cycle",
    "fixed_cycles",
];

/// A name without its PMU and modes, in small letters.
fn base(name: &str) -> String {
    let name = name.split('/').nth(1).unwrap_or(name);
    name.split(':').next().unwrap_or(name).to_ascii_lowercase()
}

/// The PMU in a name. Without one an event counts on all core PMUs, and where there is a `cpu` it is the only
/// one.
fn pmu(name: &str) -> Option<&str> {
    name.split_once('/').map(|(pmu, _)| pmu).filter(|pmu| *pmu != "cpu")
}

fn is_any(event: &RatedEvent, names: &[&str]) -> bool {
    names.contains(&base(&event.name).as_str())
}

/// Index of the first event of one of these names and modes by which an event can be divided.
fn divisor(events: &[RatedEvent], rated: &RatedEvent, names: &[&str], modes: Option<Modes>) -> Option<usize> {
    let divides = |event: &RatedEvent| {
        is_any(event, names)
            && event.modes == modes
            && event.source == rated.source
            && pmu(&event.name) == pmu(&rated.name)
    };
    events.iter().position(divides)
}

/// Index of the first event that counts instructions, in user mode if there is one.
pub fn instructions(events: &[RatedEvent]) -> Option<usize> {
    let is_meant = |event: &RatedEvent| is_any(event, &INSTRUCTIONS);
    let of_user = events.iter().position(|event| is_meant(event) && event.modes == Some(Modes::USER));
    of_user.or_else(|| events.iter().position(is_meant))
}

/// The rates that the events allow, in the order of the events. `is_timed` says whether the lengths of
/// windows in time are known.
///
/// Counts of the software PMU are not divided by times: a translated program is slower than it is natively.
pub fn window_rates(events: &[RatedEvent], is_timed: bool) -> Vec<WindowRate> {
    let rate = |event: usize| rate_of(events, event, is_timed);
    let rates: Vec<WindowRate> = (0..events.len()).filter_map(rate).collect();
    if !rates.is_empty() {
        return rates;
    }
    (0..events.len()).map(|event| WindowRate { event, per: RateDivisor::Window }).collect()
}

fn rate_of(events: &[RatedEvent], event: usize, is_timed: bool) -> Option<WindowRate> {
    let rated = &events[event];
    let by_time = is_timed && rated.source != Some(Rung::Soft);
    let second = by_time.then_some(RateDivisor::Second);
    let divisor = |names, modes| divisor(events, rated, names, modes);
    let per = if is_gauge(rated.source, &rated.unit) {
        Some(RateDivisor::Time)
    } else if is_any(rated, &INSTRUCTIONS) {
        divisor(&CYCLES, rated.modes).map(RateDivisor::Cycle).or(second)
    } else if is_any(rated, &CYCLES) {
        let is_divisor = divisor(&INSTRUCTIONS, rated.modes).is_some();
        second.filter(|_| !is_divisor)
    } else if rated.unit == Unit::Count {
        let of_user = || rated.modes.is_none().then(|| divisor(&INSTRUCTIONS, Some(Modes::USER))).flatten();
        let instructions = divisor(&INSTRUCTIONS, rated.modes).or_else(of_user);
        instructions.map(RateDivisor::ThousandInstructions).or(second)
    } else if matches!(rated.unit, Unit::Nanoseconds | Unit::Bytes | Unit::Joules) {
        second
    } else {
        Some(RateDivisor::Window)
    };
    per.map(|per| WindowRate { event, per })
}

impl WindowRate {
    /// Numerator and denominator of a window's rate; `None` if a count or the length is missing.
    ///
    /// `values` are those of the events, in their units, and `length_ns` is the length of the window.
    pub fn parts(&self, values: impl Fn(usize) -> Option<f64>, length_ns: Option<f64>) -> Option<(f64, f64)> {
        if self.per == RateDivisor::Time {
            let length = length_ns.unwrap_or(1.0);
            return Some((values(self.event)? * length, length));
        }
        let divisor = match self.per {
            RateDivisor::Cycle(cycles) => values(cycles)?,
            RateDivisor::ThousandInstructions(instructions) => values(instructions)? / 1000.0,
            RateDivisor::Second => length_ns? / 1e9,
            RateDivisor::Window | RateDivisor::Time => 1.0,
        };
        Some((values(self.event)?, divisor))
    }

    /// The rate of windows whose parts have these sums; `None` if nothing happened that it is divided by.
    pub fn value(&self, (sum, divisor): (f64, f64)) -> Option<f64> {
        (divisor > 0.0).then(|| sum / divisor)
    }

    /// The unit of a value, if the unit of the event is this: of times per second CPUs, of energy watts.
    pub fn unit(&self, of_event: &Unit) -> Unit {
        match (self.per, of_event) {
            (RateDivisor::Window | RateDivisor::Time, unit) => unit.clone(),
            (RateDivisor::Cycle(_) | RateDivisor::ThousandInstructions(_), _) => Unit::Ratio,
            (RateDivisor::Second, Unit::Nanoseconds) => Unit::Other("CPUs".to_owned()),
            (RateDivisor::Second, Unit::Joules) => Unit::Other("W".to_owned()),
            (RateDivisor::Second, unit) => unit.clone(),
        }
    }

    /// The factor from a value to its unit: ns per second are CPUs times 10⁹.
    pub fn factor(&self, of_event: &Unit) -> f64 {
        match (self.per, of_event) {
            (RateDivisor::Second, Unit::Nanoseconds) => 1e-9,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> RatedEvent {
        let modes = match name.rsplit_once(':').map(|(_, modes)| modes) {
            Some("k") => Some(Modes::KERNEL),
            _ if name == "page-faults" => None,
            _ => Some(Modes::USER),
        };
        RatedEvent { name: name.to_owned(), unit: Unit::Count, source: Some(Rung::Perf), modes }
    }

    fn rates(events: &[RatedEvent], is_timed: bool) -> Vec<(usize, RateDivisor)> {
        window_rates(events, is_timed).into_iter().map(|rate| (rate.event, rate.per)).collect()
    }

    #[test]
    fn events_are_divided_by_cycles_instructions_or_time() {
        use RateDivisor::{Cycle, Second, ThousandInstructions, Window};
        let events = ["cycles:u", "instructions:u", "branch-misses:u"].map(event);
        assert_eq!(rates(&events, true), [(1, Cycle(0)), (2, ThousandInstructions(1))]);
        let vendors = ["cpu_core/INST_RETIRED.ANY/u", "cpu_core/CPU_CLK_UNHALTED.THREAD/u"].map(event);
        assert_eq!(rates(&vendors, false), [(0, Cycle(1))]);
        assert_eq!(rates(&[event("cycles:u"), event("page-faults")], true), [(0, Second), (1, Second)]);
        assert_eq!(rates(&[event("instructions:u")], true), [(0, Second)]);
        assert_eq!(rates(&[event("instructions:u")], false), [(0, Window)]);
    }

    #[test]
    fn cycles_of_other_modes_make_no_ipc() {
        let events = ["cycles:k", "instructions:u", "instructions:k"].map(event);
        assert_eq!(rates(&events, false), [(2, RateDivisor::Cycle(0))]);
        let events = ["cycles:k", "instructions:u"].map(event);
        assert_eq!(rates(&events, true), [(0, RateDivisor::Second), (1, RateDivisor::Second)]);
    }

    #[test]
    fn an_event_is_divided_by_one_of_its_own_pmu() {
        use RateDivisor::{Cycle, Second, ThousandInstructions};
        let hybrid =
            ["cpu_core/cycles/", "cpu_core/instructions/", "cpu_atom/cycles/", "cpu_atom/instructions/"];
        assert_eq!(rates(&hybrid.map(event), false), [(1, Cycle(0)), (3, Cycle(2))]);
        let without =
            ["cpu_core/cycles/", "cpu_atom/instructions/", "cpu_core/branch-misses/", "page-faults"];
        assert_eq!(rates(&without.map(event), true), [0, 1, 2, 3].map(|event| (event, Second)));
        // Without a PMU an event counts on both.
        let of_both = ["instructions:u", "cpu_atom/cycles/", "cpu_atom/branch-misses/"];
        assert_eq!(rates(&of_both.map(event), true), [0, 1, 2].map(|event| (event, Second)));
        let only = ["instructions:u", "cpu/cycles/u", "cpu/event=0xc5/u"];
        assert_eq!(rates(&only.map(event), false), [(0, Cycle(1)), (2, ThousandInstructions(0))]);
        assert_eq!(rates(&["instructions:u", "uncore_imc/reads/"].map(event), true)[1], (1, Second));
    }

    #[test]
    fn an_event_is_divided_by_instructions_of_its_own_modes_and_source() {
        use RateDivisor::{Second, ThousandInstructions, Window};
        let events = ["instructions:u", "branch-misses:k", "page-faults"].map(event);
        assert_eq!(rates(&events, true)[1..], [(1, Second), (2, ThousandInstructions(0))]);
        assert_eq!(rates(&events, false), [(2, ThousandInstructions(0))]);
        let events = ["instructions:u", "branch-misses:k"].map(event);
        assert_eq!(rates(&events, false), [(0, Window), (1, Window)]);
        let events = ["instructions:k", "page-faults"].map(event);
        assert_eq!(rates(&events, true), [(0, Second), (1, Second)]);
        let soft = RatedEvent { source: Some(Rung::Soft), ..event("instructions:u") };
        assert_eq!(rates(&[soft, event("page-faults")], true), [(1, Second)]);
    }

    #[test]
    fn counts_of_the_software_pmu_are_not_divided_by_time() {
        let soft = |name: &str| RatedEvent { source: Some(Rung::Soft), ..event(name) };
        let per_thousand = (1, RateDivisor::ThousandInstructions(0));
        assert_eq!(rates(&[soft("instructions:u"), soft("loads:u")], true), [per_thousand]);
        assert_eq!(rates(&[soft("loads:u")], true), [(0, RateDivisor::Window)]);
    }

    #[test]
    fn a_rate_without_a_count_or_a_divisor_has_no_value() {
        let rate = WindowRate { event: 1, per: RateDivisor::ThousandInstructions(0) };
        let of = |values: [Option<f64>; 2]| rate.parts(|i| values[i], None).and_then(|p| rate.value(p));
        assert_eq!(of([Some(4000.0), Some(8.0)]), Some(2.0));
        assert_eq!(of([None, Some(8.0)]), None);
        assert_eq!(of([Some(4000.0), None]), None);
        assert_eq!(of([Some(0.0), Some(8.0)]), None);
        assert_eq!(of([Some(4000.0), Some(0.0)]), Some(0.0));
    }

    #[test]
    fn time_per_second_is_cpus() {
        let rate = WindowRate { event: 0, per: RateDivisor::Second };
        let parts = rate.parts(|_| Some(5e8), Some(1e9)).unwrap();
        assert_eq!(rate.value(parts).unwrap() * rate.factor(&Unit::Nanoseconds), 0.5);
        assert_eq!(rate.unit(&Unit::Nanoseconds), Unit::Other("CPUs".to_owned()));
    }

    #[test]
    fn a_gauge_is_shown_as_it_is_and_never_divided_by_time() {
        let gauge =
            |name: &str, unit| RatedEvent { unit, source: Some(Rung::Gpu), modes: None, ..event(name) };
        let power = gauge("gpu-power", Unit::Other("W".to_owned()));
        let memory = gauge("gpu-memory-used", Unit::Bytes);
        let energy = gauge("gpu-energy", Unit::Joules);
        assert_eq!(
            rates(&[power.clone(), memory, energy], true),
            [(0, RateDivisor::Time), (1, RateDivisor::Time), (2, RateDivisor::Second)]
        );
        let rate = WindowRate { event: 0, per: RateDivisor::Time };
        let parts = |value, length| rate.parts(|_| Some(value), Some(length)).unwrap();
        let (long, short) = (parts(20.0, 3.0), parts(60.0, 1.0));
        assert_eq!(rate.value((long.0 + short.0, long.1 + short.1)), Some(30.0), "weighted by time");
        assert_eq!(rate.unit(&power.unit), power.unit);
    }
}
