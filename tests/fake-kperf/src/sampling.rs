//! Sampling: actions, timers and interrupts of counters, and the trace buffer that their records go to.
//!
//! The chip's time passes when the buffer is read, in slices of 20 µs (of 200 µs where simulated time passes
//! as real time does). At the end of a slice in which a counter passed a multiple of its period, or the
//! timer expired, each CPU with work writes a sample, as the kernel does: the start of the interrupt, the
//! thread's counters in fours, the end. Each CPU's work is one thread.

use std::ffi::{c_int, c_uint, c_void};

use crate::fake_kernel::Errno;
use crate::kpc::{answered, kernel};

/// The slice in which overflows are noticed.
pub(crate) const SLICE_NS: u64 = 20_000;

/// The thread of CPU 0; the others follow.
pub const FIRST_THREAD: u64 = 0x1000;

const HANDLER: u32 = 0x2506_0000;
const THREAD_DATA: u32 = 0x2506_0020;
const LOST: u32 = 0x0702_0008;

/// The shortest periods of timers, in ns: of CPUs, and of every thread.
const LEAST_TIMER_NS: u64 = 50_000;
const LEAST_TIMER_OF_EVERY_THREAD_NS: u64 = 1_000_000;

/// `KPC_MAX_COUNTERS`: so many zeros are a sample of a thread for which the kernel has no sums.
const MOST_COUNTERS: usize = 32;

/// A clock of Macs: 24 MHz.
const fn to_ticks(ns: u64) -> u64 {
    ns * 3 / 125
}

/// The settings of sampling, and the buffer.
#[derive(Debug, Default)]
pub struct Sampling {
    /// The period and the action of each counter: the fixed ones, then in the order of configuration words.
    pub(crate) counters: [CounterSampling; 10],
    actions: u32,
    samplers: u32,
    /// The process that the action is limited to.
    process: Option<i32>,
    timer_ns: u64,
    timer_action: u32,
    every_thread: bool,
    is_on: bool,
    buffer: Option<TraceBuffer>,
    capacity: usize,
    /// Records are kept whose number is one of these; empty: all.
    kept: Vec<u32>,
    is_tracing: bool,
    timer_done: u64,
    /// How many samples of each CPU's thread are zeros yet.
    not_ready: Vec<u32>,
}

/// When a counter interrupts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CounterSampling {
    pub(crate) period: u64,
    pub(crate) action: u32,
}

#[derive(Debug, Default)]
struct TraceBuffer {
    records: Vec<Vec<u8>>,
    has_lost: bool,
}

/// The state of one CPU at the end of a slice.
pub(crate) struct CpuAtSlice {
    pub(crate) cpu: u32,
    /// The counters of the thread, fixed ones first.
    pub(crate) values: Vec<u64>,
    /// The counters that have passed a multiple of their periods, fixed ones first.
    pub(crate) overflowed: Vec<usize>,
}

impl Sampling {
    /// Nothing is set up; so many samples of each CPU's thread will be zeros.
    pub(crate) fn new(cpus: u32, not_ready: u32) -> Sampling {
        Sampling { not_ready: vec![not_ready; cpus as usize], ..Sampling::default() }
    }

    /// Whether samples are noted now.
    pub(crate) fn is_active(&self) -> bool {
        self.is_on && self.is_tracing && self.samplers & 0x10 != 0 && self.buffer.is_some()
    }

    /// Whether nothing is set up any more.
    pub(crate) fn is_at_rest(&self) -> bool {
        let interrupts = self.counters.iter().any(|counter| counter.period != 0 || counter.action != 0);
        !self.is_on && !self.is_tracing && self.buffer.is_none() && self.actions == 0 && !interrupts
    }

    /// Writes what happened in a slice that ends at this time.
    pub(crate) fn at_slice(&mut self, now_ns: u64, cpus: &[CpuAtSlice]) {
        let expired = self.timer_ns > 0 && now_ns / self.timer_ns > self.timer_done;
        if expired {
            self.timer_done = now_ns / self.timer_ns;
        }
        for at in cpus {
            for counter in &at.overflowed {
                let what = (*counter as u64) << 32 | 4 << 48;
                let address = 0x1_0000_0000 + now_ns / SLICE_NS * 4;
                self.write(now_ns, at, HANDLER | 1, [what, 0, address, 0]);
                if self.counters[*counter].action > 0 {
                    self.sample(now_ns, at);
                }
                self.write(now_ns, at, HANDLER | 2, [0; 4]);
            }
            if expired && self.timer_action > 0 {
                self.sample(now_ns, at);
            }
        }
    }

    fn sample(&mut self, now_ns: u64, at: &CpuAtSlice) {
        let zeros = self.not_ready.get_mut(at.cpu as usize).filter(|left| **left > 0);
        let values = match zeros {
            Some(left) => {
                *left -= 1;
                vec![0; MOST_COUNTERS]
            }
            None => at.values.clone(),
        };
        let last = values.len().div_ceil(4) - 1;
        for (n, values) in values.chunks(4).enumerate() {
            let mut arguments = [0; 4];
            arguments[..values.len()].copy_from_slice(values);
            let flags = if n == 0 { 1 } else { u32::from(n == last) * 2 };
            self.write(now_ns, at, THREAD_DATA | flags, arguments);
        }
    }

    fn write(&mut self, now_ns: u64, at: &CpuAtSlice, number: u32, arguments: [u64; 4]) {
        let is_kept = self.kept.is_empty() || self.kept.contains(&(number & !3));
        let Some(buffer) = self.buffer.as_mut().filter(|_| is_kept) else { return };
        if buffer.records.len() >= self.capacity {
            buffer.has_lost = true;
            return;
        }
        buffer.records.push(record(
            to_ticks(now_ns),
            arguments,
            FIRST_THREAD + u64::from(at.cpu),
            number,
            at.cpu,
        ));
    }

    fn read(&mut self, most: usize) -> Vec<Vec<u8>> {
        let Some(buffer) = &mut self.buffer else { return Vec::new() };
        let mut found = Vec::new();
        if std::mem::take(&mut buffer.has_lost) {
            found.push(record(0, [0; 4], 0, LOST, 0));
        }
        let count = buffer.records.len().min(most.saturating_sub(found.len()));
        found.extend(buffer.records.drain(..count));
        found
    }

    /// An operation of `kern.kdebug` but reading.
    fn operate(&mut self, operation: &[c_int], filter: Option<[u32; 5]>) -> Result<(), Errno> {
        match (operation, filter) {
            ([7], _) => (self.buffer, self.is_tracing) = (None, false),
            ([4, records], _) => self.capacity = usize::try_from(*records).map_err(|_| Errno::EINVAL)?,
            ([6], _) => self.buffer = Some(TraceBuffer::default()),
            ([8], Some([0x20_0000, kept @ ..])) => self.kept = kept.to_vec(),
            ([3, on], _) if self.buffer.is_some() => self.is_tracing = *on != 0,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

fn record(ticks: u64, arguments: [u64; 4], thread: u64, number: u32, cpu: u32) -> Vec<u8> {
    let [a, b, c, d] = arguments;
    let mut bytes: Vec<u8> = [ticks, a, b, c, d, thread].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(number.to_le_bytes());
    bytes.extend(cpu.to_le_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Changes what is sampled, as root.
fn changed(call: &'static str, change: impl FnOnce(&mut Sampling) -> Result<(), Errno>) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root(call);
    answered(entered.and_then(|()| change(kernel.sampling())))
}

/// The index of the first counter of classes.
const fn first(classes: u32) -> usize {
    if classes & 1 != 0 { 0 } else { 2 }
}

/// Sets the periods of counters.
///
/// # Safety
///
/// There is a period for each counter of the classes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_set_period(classes: u32, periods: *mut u64) -> c_int {
    let count = kernel().counter_count(classes) as usize;
    // SAFETY: the caller promises so many periods.
    let periods = unsafe { std::slice::from_raw_parts(periods, count) };
    changed("kpc_set_period", |sampling| {
        sampling
            .counters
            .iter_mut()
            .skip(first(classes))
            .zip(periods)
            .for_each(|(counter, period)| counter.period = *period);
        Ok(())
    })
}

/// Sets the actions of counters' interrupts.
///
/// # Safety
///
/// There is an action for each counter of the classes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_set_actionid(classes: u32, actions: *mut u32) -> c_int {
    let count = kernel().counter_count(classes) as usize;
    // SAFETY: the caller promises so many actions.
    let actions = unsafe { std::slice::from_raw_parts(actions, count) };
    changed("kpc_set_actionid", |sampling| {
        sampling
            .counters
            .iter_mut()
            .skip(first(classes))
            .zip(actions)
            .for_each(|(counter, action)| counter.action = *action);
        Ok(())
    })
}

/// Sets the number of actions.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_action_count_set(count: u32) -> c_int {
    changed("kperf_action_count_set", |sampling| {
        sampling.actions = if count <= 32 { count } else { return Err(Errno::EINVAL) };
        Ok(())
    })
}

/// Sets what an action notes.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_action_samplers_set(action: u32, samplers: u32) -> c_int {
    changed("kperf_action_samplers_set", |sampling| {
        let exists = (1..=sampling.actions).contains(&action);
        sampling.samplers = if exists { samplers } else { return Err(Errno::EINVAL) };
        Ok(())
    })
}

/// Limits an action to a process.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_action_filter_set_by_pid(action: u32, pid: i32) -> c_int {
    changed("kperf_action_filter_set_by_pid", |sampling| {
        let exists = (1..=sampling.actions).contains(&action);
        sampling.process = if exists { Some(pid) } else { return Err(Errno::EINVAL) };
        Ok(())
    })
}

/// Sets the number of timers.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_timer_count_set(count: u32) -> c_int {
    changed("kperf_timer_count_set", |_| if count <= 8 { Ok(()) } else { Err(Errno::EINVAL) })
}

/// Sets the period of the timer; one that is too short is raised.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_timer_period_set(_timer: u32, ticks: u64) -> c_int {
    changed("kperf_timer_period_set", |sampling| {
        sampling.timer_ns = kperf_ticks_to_ns(ticks).max(LEAST_TIMER_NS);
        Ok(())
    })
}

/// Sets the action of the timer.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_timer_action_set(_timer: u32, action: u32) -> c_int {
    changed("kperf_timer_action_set", |sampling| {
        sampling.timer_action = action;
        Ok(())
    })
}

/// Lets the timer sample every thread.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_timer_pet_set(_timer: u32) -> c_int {
    changed("kperf_timer_pet_set", |sampling| {
        sampling.every_thread = true;
        sampling.timer_ns = sampling.timer_ns.max(LEAST_TIMER_OF_EVERY_THREAD_NS);
        Ok(())
    })
}

/// Starts or stops sampling.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_sample_set(on: u32) -> c_int {
    changed("kperf_sample_set", |sampling| {
        sampling.is_on = on != 0;
        Ok(())
    })
}

/// Forgets actions and timers. Periods and actions of counters stay, as they are kpc's.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_reset() -> c_int {
    changed("kperf_reset", |sampling| {
        let (buffer, capacity, kept) = (sampling.buffer.take(), sampling.capacity, sampling.kept.clone());
        let is_tracing = sampling.is_tracing;
        let (counters, not_ready) = (sampling.counters, sampling.not_ready.clone());
        *sampling =
            Sampling { buffer, capacity, kept, is_tracing, counters, not_ready, ..Sampling::default() };
        Ok(())
    })
}

/// A time in ticks.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_ns_to_ticks(ns: u64) -> u64 {
    to_ticks(ns)
}

/// A time in ns.
#[unsafe(no_mangle)]
pub extern "C" fn kperf_ticks_to_ns(ticks: u64) -> u64 {
    ticks * 125 / 3
}

/// The present time of the chip, in ticks.
#[cfg_attr(not(target_os = "macos"), unsafe(no_mangle))]
pub extern "C" fn mach_absolute_time() -> u64 {
    to_ticks(kernel().now_ns())
}

/// The operations of `kern.kdebug`.
///
/// # Safety
///
/// The name has so many parts, and there is room for `length` bytes.
#[cfg_attr(not(target_os = "macos"), unsafe(no_mangle))]
pub unsafe extern "C" fn sysctl(
    name: *mut c_int,
    parts: c_uint,
    out: *mut c_void,
    length: *mut usize,
    _new: *mut c_void,
    _new_length: usize,
) -> c_int {
    // SAFETY: the caller promises so many parts.
    let name = unsafe { std::slice::from_raw_parts(name, parts as usize) };
    let [1, 24, operation @ ..] = name else { return answered(Err(Errno::EINVAL)) };
    let mut kernel = kernel();
    if let Err(error) = kernel.enter_as_root("sysctl") {
        return answered(Err(error));
    }
    if let [10] = operation {
        kernel.sample_until_now();
        // SAFETY: the caller gives the length of its room.
        let room = unsafe { *length };
        let records = kernel.sampling().read(room / 64);
        // SAFETY: the caller promises so much room, and the records are not more.
        let bytes = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), records.len() * 64) };
        bytes.copy_from_slice(&records.concat());
        // SAFETY: as above.
        unsafe { *length = records.len() };
        return 0;
    }
    let filter = if let [8] = operation {
        // SAFETY: the caller gives a filter for this operation.
        Some(unsafe { out.cast::<[u32; 5]>().read_unaligned() })
    } else {
        None
    };
    answered(kernel.sampling().operate(operation, filter))
}
