//! Where rows end, and the events that are counted, as asked for or by what this machine can count.

use std::num::NonZeroU64;
use std::time::Duration;

use cyclometer::core::ladder::Works;
use cyclometer::{Leader, Machine, RecordedColumn, Result, Rung, Unit};

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
    /// The list of events.
    pub events: String,
}

/// The default leader.
const INSTRUCTIONS: &str = "instructions";

/// The leader where nothing but the kernel's clock ends windows.
const CLOCK: &str = "task-clock";

/// Events of a default row: 1 to 5 ms of a CPU. For the clock: 10 ms.
const USUAL_PERIOD: NonZeroU64 = NonZeroU64::new(10_000_000).expect("is not zero");

/// Length of a default row by time.
const USUAL_INTERVAL: Duration = Duration::from_millis(10);

/// The default events, by what counts them.
const OF_HARDWARE: &str = "instructions,cycles,branches,branch-misses,cache-misses";
const OF_SOFTWARE_PMU: &str = "instructions,branches,loads,stores";
const OF_KERNEL: &str = "task-clock,page-faults,context-switches";
const OF_ACCOUNTING: &str = "user_time,system_time,page-faults";

/// The best means of a machine for windows of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WindowMeans {
    /// Overflows of hardware events.
    Hardware,
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
        let clock = allowed(Rung::Perf) && ladder.perf_software.is_ok();
        match args.backend {
            Backend::Soft => WindowMeans::SoftwarePmu,
            _ if hardware => WindowMeans::Hardware,
            _ if translates => WindowMeans::SoftwarePmu,
            _ if clock => WindowMeans::KernelClock,
            _ => WindowMeans::Intervals,
        }
    }

    fn events(self) -> &'static str {
        match self {
            WindowMeans::Hardware => OF_HARDWARE,
            WindowMeans::SoftwarePmu => OF_SOFTWARE_PMU,
            WindowMeans::KernelClock => OF_KERNEL,
            WindowMeans::Intervals => OF_ACCOUNTING,
        }
    }

    fn leader(self) -> Option<&'static str> {
        match self {
            WindowMeans::Hardware | WindowMeans::SoftwarePmu => Some(INSTRUCTIONS),
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
            return Ok(RowEnds { leaders: Vec::new(), interval, events });
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
            return Ok(RowEnds { leaders: Vec::new(), interval: Some(USUAL_INTERVAL), events });
        };
        let mut leaders = vec![first];
        leaders.extend(args.also.iter().map(|every| leader(every, INSTRUCTIONS)));
        let events = with_leaders(events, &leaders);
        Ok(RowEnds { leaders, interval: None, events })
    }
}

/// The list with each leader, the missing ones in front.
fn with_leaders(events: String, leaders: &[Leader]) -> String {
    let is_named = |name: &str| {
        let words = events.split([',', '{', '}']);
        words.into_iter().any(|word| word == name || word.split(':').next() == Some(name))
    };
    let missing = leaders.iter().map(|leader| leader.event.as_str()).filter(|name| !is_named(name));
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() { events } else { format!("{},{events}", missing.join(",")) }
}

impl RowEnds {
    /// The ends in words, with units where events have one: `every 10.00 ms of task-clock`.
    pub fn describe(&self, columns: &[RecordedColumn]) -> String {
        let Some((first, others)) = self.leaders.split_first() else {
            return format!("every {} ms", self.interval.unwrap_or_default().as_millis());
        };
        let of = |leader: &Leader| {
            let is_own =
                |column: &&RecordedColumn| column.name.split(':').next() == Some(leader.event.as_str());
            let (period, event) = (leader.period.get() as f64, &leader.event);
            match columns.iter().find(is_own).filter(|column| column.unit != Unit::Count) {
                Some(column) => format!("{} of {event}", units::precise(period * column.scale, &column.unit)),
                None => format!("{} {event}", units::grouped(period)),
            }
        };
        let first = format!("every {}", of(first));
        others.iter().fold(first, |text, leader| format!("{text}, and every {}", of(leader)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer::{Provenance, core::SlotId};

    fn leader(event: &str) -> Leader {
        Leader { event: event.to_owned(), period: USUAL_PERIOD }
    }

    #[test]
    fn a_leader_that_is_not_in_the_list_is_put_in_front() {
        let with = |events: &str, leaders: &[&str]| {
            let leaders: Vec<Leader> = leaders.iter().map(|name| leader(name)).collect();
            with_leaders(events.to_owned(), &leaders)
        };
        assert_eq!(with("loads,stores", &["instructions"]), "instructions,loads,stores");
        assert_eq!(with("loads,instructions:u", &["instructions"]), "loads,instructions:u");
        assert_eq!(with("{cycles,instructions}", &["instructions", "cycles"]), "{cycles,instructions}");
        assert_eq!(with("cycles", &["branches", "misses"]), "branches,misses,cycles");
    }

    #[test]
    fn ends_are_told_in_words() {
        let ends = |leaders: Vec<Leader>, interval| RowEnds { leaders, interval, events: String::new() };
        assert_eq!(ends(vec![leader("instructions")], None).describe(&[]), "every 10,000,000 instructions");
        let two = ends(vec![leader("instructions"), leader("branches")], None);
        assert_eq!(two.describe(&[]), "every 10,000,000 instructions, and every 10,000,000 branches");
        let clock = RecordedColumn {
            slot: SlotId(0),
            name: "task-clock".to_owned(),
            unit: Unit::Nanoseconds,
            scale: 1.0,
            source: Rung::Perf,
            provenance: Provenance::Kernel,
            modes: None,
            notes: Vec::new(),
        };
        let by_clock = ends(vec![leader("task-clock")], None).describe(&[clock]);
        assert_eq!(by_clock, "every 10.00 ms of task-clock");
        assert_eq!(ends(Vec::new(), Some(Duration::from_millis(20))).describe(&[]), "every 20 ms");
    }
}
