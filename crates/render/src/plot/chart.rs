//! A recording as it is drawn: panels of rates, phases and marks for each thread or CPU.

use std::time::Duration;

use cyclometer_toolkit::core::{Rung, Unit};
use cyclometer_toolkit::recording::{RecordedBoundary, RecordingEnd, RecordingHeader};
use cyclometer_toolkit::stats::phases::{MOST_STEPS, Phases, WindowRates, phases};
use cyclometer_toolkit::stats::window_rates::{
    RateDivisor, RatedEvent, WindowRate, instructions, window_rates,
};

use crate::lanes::{LaneAxis, LaneMark, LaneOwner, RecordingLane, RecordingLanes};
use crate::text::{clean, shown_command};
use crate::units;

/// Threads or CPUs that are drawn; the others are named.
const MOST_LANES: usize = 4;

/// Others that are named, before only their number is given.
const MOST_OTHERS: usize = 8;

/// Colours of phases that colour-blind people can distinguish (Okabe and Ito).
pub const PHASE_COLOURS: [&str; 7] =
    ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#f0e442"];

/// A recording as it is drawn.
#[derive(Debug)]
pub struct RecordingChart {
    /// The command, or the target.
    pub title: String,
    /// The windows in words.
    pub subtitle: String,
    /// The quantity on the horizontal axis.
    pub axis: LaneAxis,
    /// The threads or CPUs, the busiest first.
    pub lanes: Vec<LaneChart>,
    /// The names of those that are not among them.
    pub others: Vec<String>,
    /// Remarks for the reader.
    pub remarks: Vec<String>,
}

/// A thread or CPU.
#[derive(Debug)]
pub struct LaneChart {
    /// The owner.
    pub owner: LaneOwner,
    /// The name of the thread.
    pub name: Option<String>,
    /// The windows' ends on the axis, after the beginning of the first.
    pub edges: Vec<f64>,
    /// The range of the axis: that of the windows, or of all lanes over time.
    pub range: (f64, f64),
    /// The rates.
    pub panels: Vec<ChartPanel>,
    /// The phases.
    pub phases: Phases,
    /// The marks that any window has, with the windows that have them.
    pub marks: Vec<(LaneMark, Vec<bool>)>,
    /// Rows that were lost.
    pub lost_rows: u64,
    /// The instructions of all windows, if they are counted.
    pub instructions: Option<f64>,
}

/// A rate.
#[derive(Debug)]
pub struct ChartPanel {
    /// The event, or the name of the rate.
    pub name: String,
    /// The divisor in words.
    pub per: &'static str,
    /// The word of the divisor in JSON.
    pub per_word: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// The value of each window.
    pub values: Vec<Option<f64>>,
    /// The rate over all windows.
    pub overall: Option<f64>,
}

impl ChartPanel {
    /// A value with its unit.
    pub fn text(&self, value: f64) -> String {
        let text = units::short(value, &self.unit);
        let is_per_second = self.per_word == "second" && matches!(self.unit, Unit::Count | Unit::Bytes);
        if is_per_second { format!("{text}/s") } else { text }
    }

    /// The least and the greatest value; `None` if there is none.
    pub fn range(&self) -> Option<(f64, f64)> {
        let present = || self.values.iter().copied().flatten();
        present().next()?;
        Some((present().fold(f64::INFINITY, f64::min), present().fold(f64::NEG_INFINITY, f64::max)))
    }
}

impl LaneChart {
    /// The thread or CPU in words.
    pub fn title(&self) -> String {
        titled(self.owner, self.name.as_deref())
    }

    /// Its windows in words.
    pub fn summary(&self) -> String {
        let windows = self.windows();
        let mut parts = vec![counted(windows, "window")];
        parts.extend(self.instructions.map(|sum| {
            let sum = units::short(sum, &Unit::Count);
            format!("{sum} instructions")
        }));
        if self.lost_rows > 0 {
            parts.push(format!("{} lost", counted(self.lost_rows as usize, "row")));
        }
        parts.push(counted(self.phases.phases.len(), "phase"));
        parts.join(" · ")
    }

    /// The rates that change faster than phases can be found, with the remedy.
    fn fast_changes(&self) -> Option<String> {
        let fast = self.phases.fast_columns.iter().map(|column| self.panels[*column].name.as_str());
        let names = fast.collect::<Vec<&str>>().join(", ");
        let remedy = match self.windows() {
            ..=MOST_STEPS => "choose a smaller N",
            _ => "choose a smaller N, and record a shorter part of the run",
        };
        let whose = self.owner.words();
        let text = || format!("rates change from window to window: {remedy} ({whose}: {names})");
        (!names.is_empty()).then(text)
    }

    /// Number of windows.
    pub fn windows(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// Whether any window is in a part of the axis.
    pub fn meets(&self, part: (f64, f64)) -> bool {
        let (first, last) = super::envelope::range_of(&self.edges);
        part.0 < last.max(first + f64::MIN_POSITIVE) && part.1 >= first
    }

    /// The phase of a window.
    pub fn phase_of(&self, window: usize) -> Option<usize> {
        let segments = &self.phases.segments;
        let found = segments.partition_point(|segment| segment.windows.end <= window);
        segments.get(found).map(|segment| segment.phase)
    }
}

/// A number with its noun.
pub fn counted(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", units::grouped(number as f64))
}

fn titled(owner: LaneOwner, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} ({})", owner.words(), clean(name)),
        None => owner.words(),
    }
}

/// The letter of a phase: A to Z, then AA.
pub fn phase_letter(phase: usize) -> String {
    let letter = char::from(b'A' + (phase % 26) as u8);
    match phase / 26 {
        0 => letter.to_string(),
        before => phase_letter(before - 1) + &letter.to_string(),
    }
}

impl RecordingChart {
    /// The chart of a recording, over an axis of the user's choice or the usual one.
    pub fn new(
        recording: &RecordingLanes,
        axis: Option<LaneAxis>,
        most_lanes: Option<usize>,
    ) -> RecordingChart {
        let events = rated_events(&recording.header);
        let rates = window_rates(&events, recording.is_timed());
        let usual = usual_axis(recording);
        let mut order: Vec<&RecordingLane> = recording.lanes.iter().collect();
        let busy = |lane: &RecordingLane| lane.edges(usual).last().copied().unwrap_or(0.0);
        if matches!(usual, LaneAxis::Instructions(_)) {
            order.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        } else {
            order.sort_by_key(|lane| std::cmp::Reverse(lane.windows.len()));
        }
        let drawn = order.len().min(most_lanes.unwrap_or(MOST_LANES));
        let lane = |lane: &&RecordingLane| lane_chart(lane, &events, &rates, usual, axis.unwrap_or(usual));
        let mut lanes: Vec<LaneChart> = order[..drawn].iter().map(lane).collect();
        if axis.unwrap_or(usual) == LaneAxis::Time {
            let first = lanes.iter().map(|lane| lane.range.0).fold(f64::INFINITY, f64::min);
            let last = lanes.iter().map(|lane| lane.range.1).fold(f64::NEG_INFINITY, f64::max);
            lanes.iter_mut().for_each(|lane| lane.range = (first, last));
        }
        let fast: Vec<String> = lanes.iter().filter_map(LaneChart::fast_changes).collect();
        RecordingChart {
            title: title(&recording.header),
            subtitle: windows_in_words(&recording.header),
            axis: axis.unwrap_or(usual),
            lanes,
            others: others(&order[drawn..]),
            remarks: remarks(recording).into_iter().chain(fast).collect(),
        }
    }

    /// The name of the axis.
    pub fn axis_words(&self) -> &'static str {
        match self.axis {
            LaneAxis::Instructions(_) => "instructions",
            LaneAxis::Time => "time since the start",
            LaneAxis::Windows => "windows",
        }
    }

    /// The unit of the axis.
    pub fn axis_unit(&self) -> Unit {
        if self.axis == LaneAxis::Time { Unit::Nanoseconds } else { Unit::Count }
    }
}

/// The events of a recording, as far as rates depend on them.
pub fn rated_events(header: &RecordingHeader) -> Vec<RatedEvent> {
    let rated = |event: &cyclometer_toolkit::recording::RecordedEvent| RatedEvent {
        name: event.name.clone(),
        unit: event.unit.clone(),
        source: event.source,
        modes: event.modes,
    };
    header.events.iter().map(rated).collect()
}

/// Instructions, if windows end after so many events and instructions are counted; else time, if known.
pub fn usual_axis(recording: &RecordingLanes) -> LaneAxis {
    let has_values = |event: &usize| recording.lanes.iter().any(|lane| lane.total(*event).is_some());
    let instructions = instructions(&rated_events(&recording.header)).filter(has_values);
    let instructions = instructions.map(LaneAxis::Instructions);
    let by_events = recording.header.leader().and(instructions);
    let time = recording.has_times().then_some(LaneAxis::Time);
    by_events.or(time).or(instructions).unwrap_or(LaneAxis::Windows)
}

fn lane_chart(
    lane: &RecordingLane,
    events: &[RatedEvent],
    rates: &[WindowRate],
    usual: LaneAxis,
    axis: LaneAxis,
) -> LaneChart {
    let windows = lane.windows.len();
    let parts = |rate: &WindowRate, window: usize| {
        rate.parts(|event| lane.value(event, window), lane.windows[window].length_ns)
    };
    let has_one_ipc = rates.iter().filter(|rate| matches!(rate.per, RateDivisor::Cycle(_))).count() == 1;
    let panel = |rate: &WindowRate| {
        let panel = panel(rate, &events[rate.event], windows, |window| parts(rate, window));
        match rate.per {
            RateDivisor::Cycle(_) if !has_one_ipc => {
                ChartPanel { name: format!("IPC of {}", panel.name), ..panel }
            }
            RateDivisor::Cycle(_) => ChartPanel { name: "IPC".to_owned(), ..panel },
            _ => panel,
        }
    };
    let panels: Vec<ChartPanel> = rates.iter().map(panel).collect();
    let edges = lane.edges(usual);
    let divisor = |rate: &WindowRate, window| parts(rate, window).map_or(0.0, |(_, divisor)| divisor);
    let weights = WindowRates {
        weights: edges.windows(2).map(|edge| (edge[1] - edge[0]).max(f64::MIN_POSITIVE)).collect(),
        columns: panels.iter().map(|panel| panel.values.clone()).collect(),
        divisors: rates
            .iter()
            .map(|rate| (0..windows).map(|window| divisor(rate, window)).collect())
            .collect(),
    };
    let marks = LaneMark::ALL.into_iter().map(|mark| {
        let of_window: Vec<bool> = lane.windows.iter().map(|window| window.has(mark)).collect();
        (mark, of_window)
    });
    let shown = lane.edges(axis);
    LaneChart {
        owner: lane.owner,
        name: lane.name.clone(),
        phases: phases(&weights),
        range: super::envelope::range_of(&shown),
        edges: shown,
        panels,
        marks: marks.filter(|(_, of_window)| of_window.contains(&true)).collect(),
        lost_rows: lane.lost_rows,
        instructions: instructions(events).and_then(|event| lane.total(event)),
    }
}

fn panel(
    rate: &WindowRate,
    event: &RatedEvent,
    windows: usize,
    parts: impl Fn(usize) -> Option<(f64, f64)>,
) -> ChartPanel {
    let factor = rate.factor(&event.unit);
    let value = |parts| rate.value(parts).map(|value| value * factor);
    let sums = (0..windows).filter_map(&parts).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let (per, per_word) = match rate.per {
        RateDivisor::Cycle(_) => ("instructions per cycle", "cycle"),
        RateDivisor::ThousandInstructions(_) => ("per 1,000 instructions", "1000 instructions"),
        RateDivisor::Second if event.unit == Unit::Nanoseconds => ("time per second", "second"),
        RateDivisor::Second => ("per second", "second"),
        RateDivisor::Window => ("in each window", "window"),
        RateDivisor::Time => ("mean of each window", "window"),
    };
    ChartPanel {
        name: clean(&event.name),
        per,
        per_word,
        unit: rate.unit(&event.unit),
        values: (0..windows).map(|window| parts(window).and_then(value)).collect(),
        overall: value(sums),
    }
}

fn title(header: &RecordingHeader) -> String {
    let words = header.command.iter().map(std::ffi::OsStr::new);
    let command = (!header.command.is_empty()).then(|| shown_command(words));
    command.or_else(|| header.target.as_deref().map(clean)).unwrap_or_else(|| "a recording".to_owned())
}

fn windows_in_words(header: &RecordingHeader) -> String {
    let boundary = |boundary: &RecordedBoundary| match boundary {
        RecordedBoundary::Events { event, period } => {
            let name = header.events.get(*event).map_or("events", |event| event.name.as_str());
            format!("every {} {}", units::grouped(period.get() as f64), clean(name))
        }
        RecordedBoundary::Interval(length) => format!("every {}", interval(*length)),
    };
    let ends: Vec<String> = header.boundaries.iter().map(boundary).collect();
    if ends.is_empty() { String::new() } else { format!("a window {}", ends.join(", and ")) }
}

fn interval(length: Duration) -> String {
    super::scale::trimmed(&units::short(length.as_nanos() as f64, &Unit::Nanoseconds))
}

fn others(lanes: &[&RecordingLane]) -> Vec<String> {
    let name = |lane: &&RecordingLane| titled(lane.owner, lane.name.as_deref());
    let mut names: Vec<String> = lanes.iter().take(MOST_OTHERS).map(name).collect();
    if lanes.len() > MOST_OTHERS {
        names.push(format!("{} more", units::grouped((lanes.len() - MOST_OTHERS) as f64)));
    }
    names
}

fn remarks(recording: &RecordingLanes) -> Vec<String> {
    let mut remarks = Vec::new();
    if recording.windows() == 0 {
        remarks.push("the recording has no windows".to_owned());
    }
    match &recording.end {
        Some(RecordingEnd::Incomplete { .. }) => {
            remarks.push("the recording is incomplete: it ends without its totals".to_owned());
        }
        Some(RecordingEnd::Complete(footer)) if footer.lost_rows > 0 => {
            remarks.push(format!("{} lost when it was recorded", counted(footer.lost_rows as usize, "row")));
        }
        _ => {}
    }
    if recording.has_unassigned {
        remarks.push("some events are in no window, and not shown".to_owned());
    }
    if recording.estimated > 0 {
        let windows = counted(recording.estimated as usize, "window");
        remarks.push(format!("counts are estimates in {windows}: their events shared counters"));
    }
    if recording.has_times() && recording.header.events.iter().any(|event| event.source == Some(Rung::Soft)) {
        remarks.push("times are those of the translated run".to_owned());
    }
    remarks
}
