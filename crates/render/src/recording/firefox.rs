//! A profile for the Firefox Profiler: a sample and counters for each window.
//!
//! The profile is made in memory: its format has tables in front of the samples that use them.

use std::collections::HashMap;
use std::io::{BufWriter, Read, Write};
use std::time::Duration;

use cyclometer_toolkit::core::window::{WindowRow, WindowThread};
use cyclometer_toolkit::recording::{RecordedBoundary, RecordedEvent, RecordingHeader};
use cyclometer_toolkit::{Error, ErrorKind, Recovery};
use fxprof_processed_profile::{
    CategoryHandle, CounterHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp, WeightType,
};

use super::{RecordedRows, RecordedValue, column_names, command_name, leader, thread_label, value};
use crate::stream::Streamed;

/// The category of the counters; the profiler has none for events of a CPU.
const CATEGORY: &str = "CPU events";

/// Process and thread of rows that are of a CPU.
const NO_PROCESS: u32 = 0;

/// The interval that is named where windows have no fixed length in time. The profiler derives only the width
/// of lone samples from it.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(1);

/// Writes the profile.
pub fn write<R: Read>(rows: &mut RecordedRows<R>, out: &mut (dyn Write + Send)) -> Streamed<()> {
    let leader = leader(rows.header())?;
    let mut windows = WindowProfile::new(rows.header(), leader);
    let mut timed = 0;
    while let Some(row) = rows.next_row() {
        let place = rows.place(&row);
        let is_sampled = windows.add(&row, &place, &thread_label(rows, &row), &rows.header().events);
        if row.time_ns.is_some() {
            timed += 1;
            rows.bare.add(&row, &row.counts);
        }
        rows.omitted += u64::from(!is_sampled);
    }
    if timed == 0 && rows.omitted > 0 {
        return Err(no_clock().into());
    }
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &windows.finish()).map_err(std::io::Error::from)?;
    Ok(out.flush()?)
}

fn no_clock() -> Error {
    Error::new(ErrorKind::InvalidInput, "no row of the recording has a time, which a Firefox profile needs")
        .with_recovery(Recovery::fix("convert it to csv, jsonl or folded"))
}

/// A profile that is being made of windows.
struct WindowProfile {
    profile: Profile,
    leader: usize,
    command: String,
    names: Vec<String>,
    processes: HashMap<u32, ProfiledProcess>,
    threads: HashMap<WindowThread, ThreadHandle>,
    samples: Vec<WeightedSample>,
}

struct ProfiledProcess {
    handle: ProcessHandle,
    /// For each event; values are added up over the threads of the process.
    counters: Vec<CounterHandle>,
}

/// A sample whose weight may be greater than a profile can have.
struct WeightedSample {
    thread: ThreadHandle,
    time: Timestamp,
    stack: Option<StackHandle>,
    cpu: CpuDelta,
    weight: u64,
}

impl WindowProfile {
    fn new(header: &RecordingHeader, leader: usize) -> WindowProfile {
        let start = Duration::from_nanos(header.start_unix_ns.unwrap_or_default());
        let interval = header.boundaries.iter().find_map(|boundary| match boundary {
            RecordedBoundary::Interval(time) => Some(*time),
            RecordedBoundary::Events { .. } => None,
        });
        let nanos = interval.unwrap_or(UNKNOWN_INTERVAL).as_nanos();
        let mut profile = Profile::new(
            &header.tool,
            ReferenceTimestamp::from_duration_since_unix_epoch(start),
            SamplingInterval::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
        );
        profile.set_os_name(&header.machine.os);
        WindowProfile {
            profile,
            leader,
            command: command_name(header),
            names: column_names(header),
            processes: HashMap::new(),
            threads: HashMap::new(),
            samples: Vec::new(),
        }
    }

    /// Adds the counters of a row, and its sample; says whether it has one.
    fn add(
        &mut self,
        row: &WindowRow,
        place: &[String],
        thread_name: &str,
        events: &[RecordedEvent],
    ) -> bool {
        let Some(time_ns) = row.time_ns else { return false };
        let time = Timestamp::from_nanos_since_reference(time_ns);
        let pid = row.thread.map_or(NO_PROCESS, |thread| thread.pid);
        let thread = self.thread(row, pid, thread_name);
        for ((count, event), counter) in row.counts.iter().zip(events).zip(&self.processes[&pid].counters) {
            let delta = match value(count, event) {
                Some(RecordedValue::Whole(number)) => number as f64,
                Some(RecordedValue::Real(number)) => number,
                None => continue,
            };
            self.profile.add_counter_sample(*counter, time, delta, 1);
        }
        let Some(weight) = row.counts[self.leader].value() else { return false };
        let stack = self.stack(thread, row, place);
        let cpu = row.enabled_ns.map_or(CpuDelta::ZERO, CpuDelta::from_nanos);
        self.samples.push(WeightedSample { thread, time, stack, cpu, weight });
        true
    }

    fn process(&mut self, pid: u32) -> &ProfiledProcess {
        let WindowProfile { profile, command, names, .. } = self;
        self.processes.entry(pid).or_insert_with(|| {
            let name = if pid == NO_PROCESS { "CPUs" } else { command.as_str() };
            let handle = profile.add_process(name, pid, Timestamp::from_nanos_since_reference(0));
            let counter = |name: &String| profile.add_counter(handle, name, CATEGORY, name);
            ProfiledProcess { handle, counters: names.iter().map(counter).collect() }
        })
    }

    fn thread(&mut self, row: &WindowRow, pid: u32, name: &str) -> ThreadHandle {
        let key = row.thread.unwrap_or(WindowThread { pid, tid: row.cpu.unwrap_or_default() });
        let process = self.process(pid).handle;
        let profile = &mut self.profile;
        let thread = *self.threads.entry(key).or_insert_with(|| {
            let start = Timestamp::from_nanos_since_reference(0);
            let thread = profile.add_thread(process, key.tid, start, key.pid == key.tid);
            profile.set_thread_samples_weight_type(thread, WeightType::Samples);
            thread
        });
        profile.set_thread_name(thread, name);
        thread
    }

    fn stack(&mut self, thread: ThreadHandle, row: &WindowRow, place: &[String]) -> Option<StackHandle> {
        row.address?;
        let frames: Vec<FrameInfo> = place
            .iter()
            .map(|name| FrameInfo {
                frame: Frame::Label(self.profile.intern_string(name)),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        self.profile.intern_stack_frames(thread, frames.into_iter())
    }

    /// The profile. Weights have 32 bits there, so that greater ones are all divided.
    fn finish(mut self) -> Profile {
        let greatest = self.samples.iter().map(|sample| sample.weight).max().unwrap_or_default();
        let divisor = greatest / i32::MAX as u64 + 1;
        for sample in self.samples {
            let WeightedSample { thread, time, stack, cpu, weight } = sample;
            let weight = i32::try_from(weight / divisor).unwrap_or(i32::MAX);
            self.profile.add_sample(thread, time, stack, cpu, weight);
        }
        self.profile
    }
}
