//! The counters of one thread: those of the kernel, and those of the software PMU that runs the program.

use cyclometer_sys::fork::Birth;
use cyclometer_sys::marks;
use cyclometer_sys::perf::{self, Attr, OpenEvent, Reach, Whom};
use cyclometer_sys::user_read::Mapping;

use crate::board::{Counts, Loss, Sum};

pub(crate) use cyclometer_sys::marks::has_more_rights_than_its_user;

/// The ids of the current process and thread.
pub(crate) fn here() -> (u32, u32) {
    (std::process::id(), marks::thread_id())
}

/// Identifies this process, as opposed to its forked children.
#[derive(Debug)]
pub(crate) struct ProcessBirth(Birth);

impl ProcessBirth {
    pub(crate) fn now() -> ProcessBirth {
        ProcessBirth(Birth::now())
    }

    /// Whether the current process is that process, and not a forked child.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }
}

/// The requested counters, open in this thread.
#[derive(Debug)]
pub(crate) struct Meter {
    native: Vec<(usize, KernelEvent)>,
    /// For each event of the software PMU, the index of its counter and its number.
    software: Vec<(usize, u64)>,
    /// The reason why the software PMU's counters have no values, if so.
    untold: Option<Loss>,
    /// The buffer for requests to the software PMU and its answers.
    words: Vec<u64>,
    counters: usize,
}

/// An event of the kernel, or the error number of opening it.
type KernelEvent = Result<Open, u64>;

#[derive(Debug)]
struct Open {
    // The first field, so that the page is unmapped before the event is closed.
    page: Option<Mapping>,
    event: OpenEvent,
}

/// The error number for errors without one: `EIO`.
const EIO: i32 = 5;

impl Meter {
    /// Opens the counters.
    pub(crate) fn open(counters: &[Counts]) -> Meter {
        let mut meter = Meter {
            native: Vec::new(),
            software: Vec::new(),
            untold: None,
            words: Vec::new(),
            counters: counters.len(),
        };
        for (i, counter) in counters.iter().enumerate() {
            match counter {
                Counts::Perf { .. } => meter.native.push((i, open(counter))),
                Counts::Software(event) => meter.software.push((i, *event)),
            }
        }
        if !meter.software.is_empty() && marks::ask_counts(&mut []).is_err() {
            meter.untold = Some(Loss::NotTranslated);
        }
        meter.words = vec![0; meter.software.len()];
        meter
    }

    /// Whether the cost of a read is counted exactly, so that it can be subtracted.
    pub(crate) fn is_exact(&self) -> bool {
        !self.software.is_empty() && self.untold.is_none()
    }

    /// Reads all counters into `out`. Those of the software PMU come last, so that reading the others is not
    /// counted.
    #[inline(never)]
    pub(crate) fn read_for_begin(&mut self, out: &mut [Sum]) {
        self.read_native(out);
        self.read_software(out);
    }

    /// Reads all counters in the reverse order.
    #[inline(never)]
    pub(crate) fn read_for_end(&mut self, out: &mut [Sum]) {
        self.read_software(out);
        self.read_native(out);
    }

    fn read_native(&self, out: &mut [Sum]) {
        for (counter, native) in &self.native {
            let value = native.as_ref().map_or_else(|errno| Sum::lost(*errno), Open::read);
            if let Some(place) = out.get_mut(*counter) {
                *place = value;
            }
        }
    }

    #[inline(always)]
    fn read_software(&mut self, out: &mut [Sum]) {
        if self.software.is_empty() {
            return;
        }
        self.words.iter_mut().zip(&self.software).for_each(|(word, (_, event))| *word = *event);
        let answer = marks::ask_counts(&mut self.words);
        self.take_answer(answer.is_ok(), out);
    }

    #[inline(never)]
    fn take_answer(&self, is_told: bool, out: &mut [Sum]) {
        for ((counter, _), value) in self.software.iter().zip(&self.words) {
            let sum = match *value {
                _ if !is_told => Sum::lost(self.untold.unwrap_or(Loss::NotTranslated).code()),
                u64::MAX => Sum::lost(Loss::NotOfThreads.code()),
                value => Sum { value, ..Sum::default() },
            };
            if let Some(place) = out.get_mut(*counter) {
                *place = sum;
            }
        }
    }

    /// Number of counters.
    pub(crate) fn len(&self) -> usize {
        self.counters
    }

    /// The indices of the software PMU's counters.
    pub(crate) fn software(&self) -> impl Iterator<Item = usize> {
        self.software.iter().map(|(counter, _)| *counter)
    }
}

fn open(counter: &Counts) -> KernelEvent {
    let Counts::Perf { pmu_type, config, flags, user_reads } = *counter else { return Err(EIO as u64) };
    let number = |error: std::io::Error| error.raw_os_error().unwrap_or(EIO).unsigned_abs() as u64;
    let mut attr = Attr::new(pmu_type, config[0]);
    (attr.config1, attr.config2) = (config[1], config[2]);
    attr.flags |= flags;
    let event = perf::open(&attr, Whom::ThisThread, None, None).map_err(number)?;
    event.enable(Reach::Event).map_err(number)?;
    let page = user_reads.then(|| Mapping::of(&event).ok()).flatten();
    Ok(Open { page, event })
}

impl Open {
    fn read(&self) -> Sum {
        if let Some(values) = self.page.as_ref().and_then(Mapping::read) {
            let (time_enabled_ns, time_running_ns) = (values.time_enabled_ns, values.time_running_ns);
            return Sum { value: values.value, time_enabled_ns, time_running_ns, ..Sum::default() };
        }
        match self.event.read() {
            Ok(Some(values)) => Sum {
                value: values.value,
                time_enabled_ns: values.time_enabled_ns,
                time_running_ns: values.time_running_ns,
                ..Sum::default()
            },
            _ => Sum::lost(Loss::Unread.code()),
        }
    }
}
