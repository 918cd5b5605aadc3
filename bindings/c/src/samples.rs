//! Samples: all configured counters, read many times a second by a thread of the library.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cyclometer_toolkit::core::SlotId;
use cyclometer_toolkit::{Config, Estimate, Monitor, Result, Sample, Samples};

use crate::counts::c_text;
use crate::monitor::{Messages, MonitorState, cyclometer_t, with_monitor};
use crate::pointers::{borrow, give, invalid, put, put_sized, take, writable};
use crate::status::{cyclometer_status_t, guarded, guarded_or};

/// One read of all counters. Later versions may append fields.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cyclometer_sample_t {
    /// Its number, from 0. The numbers of lost samples are missing.
    pub number: u64,
    /// Start of the read, in ns since sampling began.
    pub at_ns: u64,
    /// Duration of the read, in ns: the values of two counters are at most so far apart.
    pub skew_ns: u64,
    /// Delay of the read after its due time, in ns.
    pub late_ns: u64,
    /// Bit `n` is set where counter number `n` shared the hardware's counter, and counted for a part of the
    /// time only. Its value is scaled up to the whole time.
    pub scaled: u64,
}

/// A sampling thread, and its samples.
pub struct cyclometer_samples_t {
    monitor: Monitor,
    counters: Vec<SampledCounter>,
    taken: Mutex<FetchedSamples>,
    messages: Arc<Messages>,
}

/// A counter that is sampled.
struct SampledCounter {
    number: u32,
    /// The value of one raw count, in the event's unit.
    scale: f64,
    /// The reason why there are no values; empty as long as there may be some.
    reason: OnceLock<CString>,
}

/// The samples that were fetched and not handed out, and the number of those that do not exist.
#[derive(Default)]
struct FetchedSamples {
    rows: VecDeque<(cyclometer_sample_t, Vec<f64>)>,
    lost: u64,
    missed: u64,
}

impl MonitorState {
    /// A separate monitor that samples the configured events.
    fn sampling(&self, hertz: u32, buffer_size: usize) -> Result<Monitor> {
        if self.slots.is_empty() {
            return Err(invalid("no counter is configured", "call cyclometer_configure first"));
        }
        let config = Config::clone(&self.config);
        if hertz == 0 && config.sampling_interval_ms.is_none() {
            let message = "the sampling rate is 0 Hz, and the configuration has no sampling_interval_ms";
            return Err(invalid(message, "choose a rate from 1 to 10000 Hz"));
        }
        let events = self.slots.values().map(|slot| slot.event.as_str());
        let builder = Monitor::builder().config(config).scope(self.scope.clone()).events(events);
        let builder = if hertz == 0 { builder } else { builder.sampling_rate(hertz) };
        let builder = if buffer_size == 0 { builder } else { builder.buffer_size(buffer_size) };
        builder.calibrate(false).build()
    }

    /// The configured counters as they are in that monitor, with the reasons of those that it cannot count.
    fn sampled(&self, monitor: &Monitor) -> Vec<SampledCounter> {
        let numbers = self.slots.keys().zip(monitor.read().values);
        let sampled = |(number, value): (&u32, cyclometer_toolkit::Value)| {
            let reason = value.reason().filter(|_| value.count.value().is_none());
            let reason = reason.map_or_else(OnceLock::new, |reason| OnceLock::from(c_text(&reason)));
            SampledCounter { number: *number, scale: value.scale, reason }
        };
        numbers.map(sampled).collect()
    }
}

impl cyclometer_samples_t {
    /// The oldest sample that was not handed out; fetches more where there is none.
    fn next(&self) -> Option<(cyclometer_sample_t, Vec<f64>)> {
        let mut taken = self.taken();
        if taken.rows.is_empty() {
            self.fetch(&mut taken);
        }
        taken.rows.pop_front()
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, FetchedSamples> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch(&self, taken: &mut FetchedSamples) {
        let samples = self.monitor.samples();
        taken.lost = taken.lost.saturating_add(samples.lost);
        taken.missed = taken.missed.saturating_add(samples.missed);
        for (slot, reason) in &samples.refused {
            if let Some(counter) = self.counters.get(slot.0) {
                let _ = counter.reason.set(c_text(&reason.to_string()));
            }
        }
        taken.rows.extend(rows(&self.counters, &samples));
    }
}

/// Samples as they are handed out: each with its counters' values.
fn rows(counters: &[SampledCounter], samples: &Samples) -> Vec<(cyclometer_sample_t, Vec<f64>)> {
    let series: Vec<_> = (0..counters.len()).map(|i| samples.estimates(SlotId(i))).collect();
    let row = |(i, row): (usize, &Sample)| {
        let own = || series.iter().map(|of_event| of_event[i]).zip(counters);
        let scaled = own().filter(|(estimate, _)| estimate.is_some_and(|one| one.is_scaled));
        let sample = cyclometer_sample_t {
            number: row.number,
            at_ns: row.at_ns,
            skew_ns: row.skew_ns,
            late_ns: row.late_ns,
            scaled: scaled.fold(0, |bits, (_, counter)| bits | 1 << counter.number),
        };
        let value = |(estimate, counter): (Option<Estimate>, &SampledCounter)| {
            estimate.map_or(f64::NAN, |estimate| estimate.value * counter.scale)
        };
        (sample, own().map(value).collect())
    };
    samples.rows.iter().enumerate().map(row).collect()
}

/// Starts a thread of the library that reads all configured counters `hertz` times a second, 1 to 10000,
/// until `cyclometer_samples_close`. A rate of 0 takes the configuration's `sampling_interval_ms`. The buffer
/// keeps `buffer_size` samples until they are fetched, 1 to 1048576; 0 takes the configuration's size, or
/// 1024. When it is full, the oldest samples are lost, and their number is counted.
///
/// With the scope of a thread the whole process is sampled, including the sampling thread. Samples have
/// counters of their own: other functions of the monitor, and its end, do not change them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_samples_open(
    monitor: *mut cyclometer_t,
    hertz: c_uint,
    buffer_size: usize,
    samples: *mut *mut cyclometer_samples_t,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        writable(samples, "the place for the samples")?;
        let state = monitor.state();
        let sampling = state.sampling(hertz, buffer_size)?;
        let opened = cyclometer_samples_t {
            counters: state.sampled(&sampling),
            monitor: sampling,
            taken: Mutex::default(),
            messages: Arc::clone(&monitor.messages),
        };
        // SAFETY: the caller promises that a pointer can be written there.
        unsafe { give(samples, opened, "the place for the samples") }?;
        Ok(0)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

/// Takes the oldest sample that was not taken yet: `size` is `sizeof(cyclometer_sample_t)`. `values[n]`
/// becomes the count of counter number `n` since sampling began, in its event's unit, for `n` from 0 to
/// `length - 1`. It is NaN, never zero, where the event was not counted or the counter is not configured. The
/// value of an event that shared its counter is scaled up to the whole time, and a bit of `scaled` is set.
/// `values` may be null where `length` is 0.
///
/// The function does not wait. Without a sample it returns `CYCLOMETER_NO_SAMPLE` and writes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_samples_next(
    samples: *mut cyclometer_samples_t,
    sample: *mut cyclometer_sample_t,
    size: usize,
    values: *mut f64,
    length: c_uint,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise is that of `borrow`.
        let samples = unsafe { borrow(samples.cast_const(), "the samples") }?;
        Ok(samples.messages.watch(|| {
            check_room(sample, size, values, length)?;
            let Some((taken, counted)) = samples.next() else {
                return Ok(cyclometer_status_t::CYCLOMETER_NO_SAMPLE as c_int);
            };
            // SAFETY: the caller promises room for `size` bytes.
            unsafe { put_sized(sample, size, taken, "the sample") }?;
            for number in 0..length {
                let at = samples.counters.iter().position(|counter| counter.number == number);
                let value = at.and_then(|at| counted.get(at)).copied().unwrap_or(f64::NAN);
                // SAFETY: `number` is less than `length`, and the caller promises that many elements.
                let place = unsafe { values.add(number as usize) };
                // SAFETY: see above.
                unsafe { put(place, value, "an element of the values") }?;
            }
            Ok(0)
        }))
    })
}

/// Checks that a sample can be written, before one is taken that would be gone.
fn check_room(sample: *mut cyclometer_sample_t, size: usize, values: *mut f64, length: c_uint) -> Result<()> {
    writable(sample, "the sample")?;
    if length > 0 {
        writable(values, "the array of values")?;
    }
    match size < size_of::<cyclometer_sample_t>() {
        true => Err(invalid(format!("the sample has {size} bytes"), "pass sizeof of the structure")),
        false => Ok(()),
    }
}

/// Numbers of missing samples since sampling began: `lost` because the buffer was full, `missed` because the
/// thread was not on a CPU when they were due. Either pointer may be null. The numbers are those of the last
/// time that `cyclometer_samples_next` looked for new samples, which it does when it has handed out the
/// others. They are complete once it has returned `CYCLOMETER_NO_SAMPLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_samples_lost(
    samples: *mut cyclometer_samples_t,
    lost: *mut u64,
    missed: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise is that of `borrow`.
        let samples = unsafe { borrow(samples.cast_const(), "the samples") }?;
        let taken = samples.taken();
        for (place, number) in [(lost, taken.lost), (missed, taken.missed)] {
            if !place.is_null() {
                // SAFETY: it is not null, and the caller promises that a number can be written there.
                unsafe { put(place, number, "the place for the number") }?;
            }
        }
        Ok(0)
    })
}

/// The reason why a counter has no values in samples; valid as long as the samples. Null where it has values,
/// and where it is not configured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_samples_reason(
    samples: *const cyclometer_samples_t,
    counter: c_uint,
) -> *const c_char {
    guarded_or(std::ptr::null(), || {
        // SAFETY: the caller's promise is that of `borrow`.
        let samples = unsafe { borrow(samples, "the samples") }?;
        let own = samples.counters.iter().find(|own| own.number == counter);
        let reason = own.and_then(|own| own.reason.get());
        Ok(reason.map_or(std::ptr::null(), |reason| reason.as_ptr()))
    })
}

/// Ends sampling, frees the samples and sets the pointer to null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_samples_close(samples: *mut *mut cyclometer_samples_t) -> c_int {
    guarded(|| {
        // SAFETY: the caller promises that the pointer is one of ours and used by nobody else.
        drop(unsafe { take(samples, "the samples") }?);
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::core::exec::{At, CounterAt, Raw, ReadWay};

    #[test]
    fn a_counter_that_was_shared_is_scaled_and_says_so() {
        let counter = |number| SampledCounter { number, scale: 2.0, reason: OnceLock::new() };
        let counters = [counter(3), counter(63)];
        let raw = |running| Raw { value: 10, time_enabled_ns: 100, time_running_ns: running, is_lost: false };
        let at = |slot| CounterAt {
            slot: SlotId(slot),
            at: At::default(),
            way: ReadWay::UserSpace,
            partial: None,
        };
        let row = |number, values| Sample { number, at_ns: 1, skew_ns: 2, late_ns: 3, values };
        let mut samples = Samples { counters: vec![at(0), at(1)], ..Default::default() };
        samples.rows = vec![row(0, vec![raw(100), raw(50)]), row(1, vec![Raw::LOST, raw(0)])];
        let rows = rows(&counters, &samples);
        let values: Vec<_> = rows.iter().map(|(sample, values)| (sample.scaled, values.clone())).collect();
        assert_eq!(values[0], (1 << 63, vec![20.0, 40.0]));
        assert!(values[1].0 == 0 && values[1].1.iter().all(|value| value.is_nan()), "{values:?}");
    }
}
