//! Where rows end, and the events that are counted, as asked for or by what this machine can count.

use std::num::NonZeroU64;
use std::time::Duration;

use cyclometer_toolkit::core::ladder::Works;
use cyclometer_toolkit::core::window::WindowBoundary;
use cyclometer_toolkit::{Leader, Machine, Recorded, RecordedColumn, Result, Rung, Unit};

use super::args::{Every, RecordArgs};
use crate::failure;
use crate::measurement_args::Backend;
use crate::render::units;

/// The ends of rows, and the events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowEnds {
    /// The events at which rows end; empty where they end by time.
    pub leaders: Vec<Leader>,
    /// The time after which rows end, where they do so.
    pub interval: Option<Duration>,
    /// The period of kperf's timer, where rows end at it.
    pub kperf_timer: Option<Duration>,
    /// The source that is needed for that, unless the user chose one.
    pub backend: Option<Rung>,
    /// The list of events.
    pub events: String,
}

/// The default leader.
const INSTRUCTIONS: &str = "instructions";

/// The leader where nothing but the kernel's clock ends windows.
const CLOCK: &str = "task-clock";

/// Events of a default row: 1 to 5 ms of a CPU. For the clock: 10 ms.
const USUAL_PERIOD: NonZeroU64 = NonZeroU64::new(10_000_000).expect("is not zero");

/// The least period of the kernel's clocks as events, in ns: Linux raises shorter ones.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_swevent_start_hrtimer`.
const LEAST_CLOCK_PERIOD: NonZeroU64 = NonZeroU64::new(10_000).expect("is not zero");

/// Length of a default row by time.
const USUAL_INTERVAL: Duration = Duration::from_millis(10);

/// The default events, by what counts them.
const OF_HARDWARE: &str = "instructions,cycles,branches,branch-misses,cache-misses";
const OF_KPERF: &str = "instructions,cycles,branches,branch-misses";
const OF_SOFTWARE_PMU: &str = "instructions,branches,loads,stores";
const OF_KERNEL: &str = "task-clock,page-faults,context-switches";
const OF_ACCOUNTING: &str = "user_time,system_time,page-faults";

/// The best means of a machine for windows of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WindowMeans {
    /// Overflows of hardware events.
    Hardware,
    /// Overflows and the timer of macOS's kperf, for one process.
    Kperf,
    /// The software PMU.
    SoftwarePmu,
    /// Overflows of the kernel's clock.
    KernelClock,
    /// Readings in intervals.
    Intervals,
}

impl WindowMeans {
    fn of(args: &RecordArgs, machine: &Machine) -> WindowMeans {
        let ladder = &machine.ladder;
        let works =
            |rung| ladder.state(rung).is_some_and(|state| matches!(state.works, Works::Yes | Works::Partly));
        let allowed = |rung| args.backend.rung().is_none_or(|only| only == rung);
        if args.machine.is_some() {
            return WindowMeans::Hardware;
        }
        let hardware = allowed(Rung::Perf) && ladder.perf_hardware.is_ok();
        let translates = allowed(Rung::Soft) && works(Rung::Soft) && !args.is_attached();
        let kperf = allowed(Rung::Kperf) && works(Rung::Kperf) && !args.is_no_process();
        let clock = allowed(Rung::Perf) && ladder.perf_software.is_ok();
        match args.backend {
            Backend::Soft => WindowMeans::SoftwarePmu,
            _ if kperf => WindowMeans::Kperf,
            _ if hardware => WindowMeans::Hardware,
            _ if translates => WindowMeans::SoftwarePmu,
            _ if clock => WindowMeans::KernelClock,
            _ => WindowMeans::Intervals,
        }
    }

    fn events(self) -> &'static str {
        match self {
            WindowMeans::Hardware => OF_HARDWARE,
            WindowMeans::Kperf => OF_KPERF,
            WindowMeans::SoftwarePmu => OF_SOFTWARE_PMU,
            WindowMeans::KernelClock => OF_KERNEL,
            WindowMeans::Intervals => OF_ACCOUNTING,
        }
    }

    fn leader(self) -> Option<&'static str> {
        match self {
            WindowMeans::Hardware | WindowMeans::Kperf | WindowMeans::SoftwarePmu => Some(INSTRUCTIONS),
            WindowMeans::KernelClock => Some(CLOCK),
            WindowMeans::Intervals => None,
        }
    }
}

impl RowEnds {
    /// The ends of rows by the arguments; what they leave open, by the machine.
    ///
    /// # Errors
    ///
    /// Usage: `--also` without a leader.
    pub fn choose(args: &RecordArgs, machine: &Machine) -> Result<RowEnds> {
        let means = WindowMeans::of(args, machine);
        let named = args.events.join(",");
        let events = if named.is_empty() { means.events().to_owned() } else { named };
        if let Some(ms) = args.interval {
            let interval = Some(Duration::from_millis(ms));
            return Ok(RowEnds { interval, ..RowEnds::of(events) });
        }
        let backend = (means == WindowMeans::Kperf).then_some(Rung::Kperf);
        if let Some(period) = args.timer {
            return Ok(RowEnds { backend, ..RowEnds::at_timer(period, (args, machine), events)? });
        }
        let leader = |every: &Every, usual: &str| Leader {
            event: every.event.clone().unwrap_or_else(|| usual.to_owned()),
            period: every.period,
        };
        let first = match &args.every {
            Some(every) => Some(leader(every, INSTRUCTIONS)),
            None => means.leader().map(|event| Leader { event: event.to_owned(), period: USUAL_PERIOD }),
        };
        let Some(first) = first else {
            if !args.also.is_empty() {
                let hint = "name events that can be counted here with --every; `cyclometer doctor` shows the sources";
                return Err(failure::usage("no event can end rows on this machine", hint));
            }
            return Ok(RowEnds { interval: Some(USUAL_INTERVAL), ..RowEnds::of(events) });
        };
        let mut leaders = vec![first];
        leaders.extend(args.also.iter().map(|every| leader(every, INSTRUCTIONS)));
        let leaders = leaders.into_iter().map(as_counted).collect();
        Ok(RowEnds { leaders, backend, ..RowEnds::of(events) })
    }
}

impl RowEnds {
    /// Rows by time, with events that every machine has.
    pub fn by_time(args: &RecordArgs) -> RowEnds {
        let named = args.events.join(",");
        let events = if named.is_empty() { OF_ACCOUNTING.to_owned() } else { named };
        RowEnds { interval: Some(USUAL_INTERVAL), ..RowEnds::of(events) }
    }

    /// These events; no row ends yet.
    fn of(events: String) -> RowEnds {
        RowEnds { leaders: Vec::new(), interval: None, kperf_timer: None, backend: None, events }
    }

    /// Rows that end at kperf's timer; on a system without kperf, after so much CPU time of a thread.
    fn at_timer(
        period: Duration,
        (args, machine): (&RecordArgs, &Machine),
        events: String,
    ) -> Result<RowEnds> {
        let is_mac = machine.ladder.state(Rung::Kperf).is_some_and(|state| state.works != Works::NotHere);
        if is_mac {
            return match args.backend.rung() {
                None | Some(Rung::Kperf) => Ok(RowEnds { kperf_timer: Some(period), ..RowEnds::of(events) }),
                Some(other) => {
                    let message = format!("the timer that ends rows is kperf's, and --backend is {other}");
                    Err(failure::usage(message, "leave --backend out, or record by time: --interval 10"))
                }
            };
        }
        let ns = u64::try_from(period.as_nanos()).ok().and_then(NonZeroU64::new);
        let clock = Leader { event: CLOCK.to_owned(), period: ns.unwrap_or(USUAL_PERIOD) };
        Ok(RowEnds { leaders: vec![as_counted(clock)], ..RowEnds::of(events) })
    }
}

/// The leader with the period that the kernel uses.
fn as_counted(leader: Leader) -> Leader {
    let name = leader.event.split(':').next().unwrap_or_default();
    let is_clock = [CLOCK, "task_clock", "cpu-clock", "cpu_clock"].contains(&name);
    let period = if is_clock { leader.period.max(LEAST_CLOCK_PERIOD) } else { leader.period };
    Leader { period, ..leader }
}

/// The ends of rows in words, with units where events have one: `every 10.00 ms of task-clock`.
pub fn describe(recorded: &Recorded) -> String {
    let ends = recorded.spec.boundaries.iter().map(|boundary| match *boundary {
        WindowBoundary::Interval(time) => format!("every {} ms", time.as_millis()),
        WindowBoundary::Timer { source, period } => {
            format!("every {} µs of {source}'s timer", period.as_micros())
        }
        WindowBoundary::Events { slot, period } => {
            let period = period.get() as f64;
            match recorded.columns.iter().find(|column| column.slot == slot) {
                Some(RecordedColumn { name, unit, scale, .. }) if *unit != Unit::Count => {
                    format!("every {} of {name}", units::precise(period * scale, unit))
                }
                Some(RecordedColumn { name, .. }) => format!("every {} {name}", units::grouped(period)),
                None => format!("every {} events", units::grouped(period)),
            }
        }
    });
    ends.collect::<Vec<_>>().join(", and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::Provenance;
    use cyclometer_toolkit::core::SlotId;
    use cyclometer_toolkit::core::window::WindowSpec;

    fn column(slot: usize, name: &str, unit: Unit) -> RecordedColumn {
        RecordedColumn {
            slot: SlotId(slot),
            name: name.to_owned(),
            unit,
            scale: 1.0,
            source: Rung::Perf,
            provenance: Provenance::Kernel,
            modes: None,
            notes: Vec::new(),
        }
    }

    fn recorded(boundaries: Vec<WindowBoundary>) -> Recorded {
        Recorded {
            report: crate::render::testing::one_run().report,
            spec: WindowSpec { boundaries, most_rows: 1 },
            columns: vec![
                column(3, "instructions:u", Unit::Count),
                column(1, "task-clock", Unit::Nanoseconds),
            ],
            totals: Vec::new(),
            unassigned: Vec::new(),
            rows: 0,
            lost_rows: 0,
            without_column: Vec::new(),
            notes: Vec::new(),
            sink_error: None,
        }
    }

    #[test]
    fn periods_of_the_kernels_clocks_are_at_least_ten_microseconds() {
        let period = |event: &str, period: u64| {
            let leader = Leader { event: event.to_owned(), period: NonZeroU64::new(period).unwrap() };
            as_counted(leader).period.get()
        };
        for clock in ["task-clock", "cpu-clock", "task-clock:u"] {
            assert_eq!((period(clock, 1), period(clock, 10_001)), (10_000, 10_001), "{clock}");
        }
        assert_eq!(period("page-faults", 1), 1);
    }

    #[test]
    fn ends_are_described_with_the_names_and_units_of_their_columns() {
        let events = |slot| WindowBoundary::Events { slot: SlotId(slot), period: USUAL_PERIOD };
        let described = |boundaries| describe(&recorded(boundaries));
        assert_eq!(described(vec![events(3)]), "every 10,000,000 instructions:u");
        assert_eq!(described(vec![events(1)]), "every 10.00 ms of task-clock");
        assert_eq!(
            described(vec![events(3), events(1)]),
            "every 10,000,000 instructions:u, and every 10.00 ms of task-clock"
        );
        assert_eq!(described(vec![WindowBoundary::Interval(Duration::from_millis(20))]), "every 20 ms");
    }
}
