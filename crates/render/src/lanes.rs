//! Recordings as lanes, for pictures and phases: the windows of each thread or CPU, in their order.

use std::collections::HashMap;
use std::io::Read;

use cyclometer_toolkit::core::Count;
use cyclometer_toolkit::core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_toolkit::recording::{Recording, RecordingEnd, RecordingError, RecordingHeader};

/// A recording that was read as far as it goes.
#[derive(Debug)]
pub struct RecordingLanes {
    /// Its header.
    pub header: RecordingHeader,
    /// The threads and CPUs, in the order of their first rows.
    pub lanes: Vec<RecordingLane>,
    /// Whether it has events that no window has.
    pub has_unassigned: bool,
    /// Windows with counts that are estimates, because events shared counters.
    pub estimated: u64,
    /// Its end; `None` if an error ended the reading.
    pub end: Option<RecordingEnd>,
    /// The error that ended the reading.
    pub failure: Option<RecordingError>,
}

/// The windows of a thread, or of a CPU.
#[derive(Debug)]
pub struct RecordingLane {
    /// The thread or CPU.
    pub owner: LaneOwner,
    /// The name that the thread has in its last row.
    pub name: Option<String>,
    /// The windows, in order.
    pub windows: Vec<LaneWindow>,
    /// Rows that were lost between them.
    pub lost_rows: u64,
    /// For each event its value in each window, in its unit; NaN where it is missing.
    values: Vec<Vec<f64>>,
    last_end_ns: Option<u64>,
}

/// The owner of windows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneOwner {
    /// A thread.
    Thread(WindowThread),
    /// A CPU.
    Cpu(u32),
    /// The whole target.
    Whole,
}

impl LaneOwner {
    /// The owner in words.
    pub fn words(self) -> String {
        match self {
            LaneOwner::Thread(thread) => format!("thread {}", thread.tid),
            LaneOwner::Cpu(cpu) => format!("CPU {cpu}"),
            LaneOwner::Whole => "all threads".to_owned(),
        }
    }
}

/// A window without its counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LaneWindow {
    /// Its end, in ns since the recording began, if known.
    pub end_ns: Option<u64>,
    /// The time for which its events were to count, in ns; where the source does not report it, the time
    /// since the end of the window before.
    pub length_ns: Option<f64>,
    marks: u8,
}

/// A mark at a window whose counts may be disturbed or missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneMark {
    /// The thread lost its CPU.
    Switched,
    /// It continued on another CPU.
    Migrated,
    /// The kernel stopped the counters for a while.
    Throttled,
    /// Rows immediately before were lost.
    LostBefore,
    /// A count has no value.
    Unavailable,
}

impl LaneMark {
    /// Every mark.
    pub const ALL: [LaneMark; 5] = [
        LaneMark::Switched,
        LaneMark::Migrated,
        LaneMark::Throttled,
        LaneMark::LostBefore,
        LaneMark::Unavailable,
    ];

    /// The word in pictures.
    pub fn word(self) -> &'static str {
        match self {
            LaneMark::Switched => "switched",
            LaneMark::Migrated => "migrated",
            LaneMark::Throttled => "throttled",
            LaneMark::LostBefore => "lost before",
            LaneMark::Unavailable => "unavailable",
        }
    }
}

impl LaneWindow {
    /// Whether the window has a mark.
    pub fn has(&self, mark: LaneMark) -> bool {
        self.marks & bit(mark) != 0
    }
}

fn bit(mark: LaneMark) -> u8 {
    1 << mark as u8
}

fn marks(flags: &WindowFlags, counts: &[Count]) -> u8 {
    let happened = |times: Option<u32>| times.is_some_and(|times| times > 0);
    let is_set = |mark: &LaneMark| match mark {
        LaneMark::Switched => happened(flags.switches),
        LaneMark::Migrated => happened(flags.migrations),
        LaneMark::Throttled => flags.throttled,
        LaneMark::LostBefore => flags.lost_before > 0,
        LaneMark::Unavailable => counts.iter().any(|count| count.value().is_none()),
    };
    LaneMark::ALL.into_iter().filter(is_set).map(bit).fold(0, |all, bit| all | bit)
}

/// The quantity on the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneAxis {
    /// Instructions: the event of this index.
    Instructions(usize),
    /// Time since the recording began.
    Time,
    /// The number of windows, where neither is known.
    Windows,
}

impl RecordingLanes {
    /// Reads a recording up to its end, or to the first error.
    pub fn read(mut recording: Recording<Box<dyn Read>>) -> RecordingLanes {
        let mut read = RecordingLanes {
            header: recording.header().clone(),
            lanes: Vec::new(),
            has_unassigned: false,
            estimated: 0,
            end: None,
            failure: None,
        };
        let mut lane_of = HashMap::new();
        for row in recording.by_ref() {
            match row {
                Ok(row) => read.add(&row, &mut lane_of),
                Err(error) => read.failure = Some(error),
            }
        }
        for lane in &mut read.lanes {
            if let LaneOwner::Thread(thread) = lane.owner {
                lane.name = recording.thread_name(thread).map(str::to_owned);
            }
        }
        read.end = recording.end().cloned();
        read
    }

    fn add(&mut self, row: &WindowRow, lane_of: &mut HashMap<LaneOwner, usize>) {
        if row.cause == WindowCause::Unassigned {
            self.has_unassigned = true;
            return;
        }
        self.estimated += u64::from(row.counts.iter().any(|count| matches!(count, Count::Scaled { .. })));
        let owner = match (row.thread, row.cpu) {
            (Some(thread), _) => LaneOwner::Thread(thread),
            (None, Some(cpu)) => LaneOwner::Cpu(cpu),
            (None, None) => LaneOwner::Whole,
        };
        let index = *lane_of.entry(owner).or_insert_with(|| {
            // The first window of the recording begins with it; when those of later threads begin is unknown.
            let last_end_ns = self.lanes.is_empty().then_some(0);
            self.lanes.push(RecordingLane::new(owner, self.header.events.len(), last_end_ns));
            self.lanes.len() - 1
        });
        let scales = self.header.events.iter().map(|event| event.scale);
        self.lanes[index].add(row, scales);
    }

    /// Whether the length of any window is known.
    pub fn is_timed(&self) -> bool {
        self.lanes.iter().flat_map(|lane| &lane.windows).any(|window| window.length_ns.is_some())
    }

    /// Whether the time of any window's end is known.
    pub fn has_times(&self) -> bool {
        self.lanes.iter().flat_map(|lane| &lane.windows).any(|window| window.end_ns.is_some())
    }

    /// Rows of all lanes.
    pub fn windows(&self) -> usize {
        self.lanes.iter().map(|lane| lane.windows.len()).sum()
    }
}

impl RecordingLane {
    fn new(owner: LaneOwner, events: usize, last_end_ns: Option<u64>) -> RecordingLane {
        let values = vec![Vec::new(); events];
        RecordingLane { owner, name: None, windows: Vec::new(), lost_rows: 0, values, last_end_ns }
    }

    fn add(&mut self, row: &WindowRow, scales: impl Iterator<Item = f64>) {
        let since = row.time_ns.zip(self.last_end_ns).filter(|_| row.flags.lost_before == 0);
        let since = since.and_then(|(end, before)| end.checked_sub(before));
        let length = row.enabled_ns.or(since).filter(|length| *length > 0);
        self.windows.push(LaneWindow {
            end_ns: row.time_ns,
            length_ns: length.map(|length| length as f64),
            marks: marks(&row.flags, &row.counts),
        });
        for ((values, count), scale) in self.values.iter_mut().zip(&row.counts).zip(scales) {
            values.push(count.value().map_or(f64::NAN, |value| value as f64 * scale));
        }
        self.lost_rows += row.flags.lost_before;
        self.last_end_ns = row.time_ns.or(self.last_end_ns);
    }

    /// The value of an event in a window, in its unit.
    pub fn value(&self, event: usize, window: usize) -> Option<f64> {
        Some(self.values[event][window]).filter(|value| value.is_finite())
    }

    /// The sum of the values of an event; `None` if no window has one.
    pub fn total(&self, event: usize) -> Option<f64> {
        let present = self.values[event].iter().copied().filter(|value| value.is_finite());
        present.reduce(|sum, value| sum + value)
    }

    /// The ends of the windows on an axis, after the beginning of the first; they never decrease.
    ///
    /// A window without a count of instructions is as wide as the mean of the others, so that it shows.
    pub fn edges(&self, axis: LaneAxis) -> Vec<f64> {
        match axis {
            LaneAxis::Windows => (0..=self.windows.len()).map(|window| window as f64).collect(),
            LaneAxis::Instructions(event) => {
                let widths = self.values[event].iter().copied();
                let mean = mean(widths.clone().filter(|width| width.is_finite())).unwrap_or(1.0);
                sums(0.0, widths.map(|width| if width.is_finite() { width } else { mean }))
            }
            LaneAxis::Time => {
                let mut edges = vec![self.begin_ns()];
                for window in &self.windows {
                    let last = edges[edges.len() - 1];
                    edges.push(window.end_ns.map_or(last, |end| last.max(end as f64)));
                }
                edges
            }
        }
    }

    /// The beginning of the first window. If its length is unknown it is that of the mean window.
    fn begin_ns(&self) -> f64 {
        let Some((first, end)) = self.windows.first().and_then(|first| Some((first, first.end_ns?))) else {
            return 0.0;
        };
        let lengths = self.windows.iter().filter_map(|window| window.length_ns);
        let length = first.length_ns.or_else(|| mean(lengths)).unwrap_or(end as f64);
        (end as f64 - length).max(0.0)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u64), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / n as f64)
}

fn sums(from: f64, widths: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut edges = vec![from];
    for width in widths {
        edges.push(edges[edges.len() - 1] + width.max(0.0));
    }
    edges
}
