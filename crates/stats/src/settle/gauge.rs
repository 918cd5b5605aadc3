//! The mean of a gauge: a quantity that goes up and down, and is sampled.
//!
//! A cell of a gauge holds the integral of its value over time, in raw units times milliseconds, and the time
//! that its samples cover. Integral and time only grow, so the difference of two readings is the integral of
//! the interval, and the quotient is the mean, weighted by time.

use cyclometer_core::exec::Cell;
use cyclometer_core::gpu::DeviceTotal;
use cyclometer_core::reason::DeviceLoss;
use cyclometer_core::{Count, MissingReason, PartReason};

use super::instance::{clamp, not_counted};

/// Nanoseconds in the unit of time of an integral.
const NS_PER_MS: u128 = 1_000_000;

/// The mean of each device, combined into one count. Devices whose value is lost are left out and named.
pub(super) fn mean(cells: &[&Cell], total: DeviceTotal) -> Count {
    let (lost, kept): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|cell| cell.lost.is_some());
    let means: Vec<u64> = kept.iter().filter_map(|cell| mean_of(cell)).collect();
    let Some(value) = combined(&means, total) else { return without_value(&lost, cells) };
    let several = (means.len() > 1).then_some(PartReason::OfDevices { total, devices: means.len() });
    let without = (!lost.is_empty()).then(|| PartReason::WithoutDevices(reasons(&lost)));
    match PartReason::all(several.into_iter().chain(without)) {
        None => Count::Exact(value),
        Some(part) => Count::Partial { raw: value, part },
    }
}

/// The mean of one device, if its samples cover any time.
fn mean_of(cell: &Cell) -> Option<u64> {
    let time = u128::from(cell.time_enabled_ns);
    (time > 0).then(|| clamp((u128::from(cell.raw) * NS_PER_MS + time / 2) / time))
}

fn combined(means: &[u64], total: DeviceTotal) -> Option<u64> {
    let sum = || means.iter().map(|mean| u128::from(*mean)).sum::<u128>();
    let count = u128::try_from(means.len()).ok().filter(|count| *count > 0)?;
    Some(match total {
        DeviceTotal::Sum => clamp(sum()),
        DeviceTotal::Mean => clamp(sum() / count),
        DeviceTotal::Greatest => means.iter().copied().max()?,
    })
}

fn without_value(lost: &[&Cell], cells: &[&Cell]) -> Count {
    match (lost.is_empty(), cells.is_empty()) {
        (false, _) => Count::Lost { reason: reasons(lost) },
        (true, true) => not_counted(MissingReason::NoValue),
        (true, false) => not_counted(MissingReason::NotSampledTwice),
    }
}

/// The devices without a value, each with the reason.
fn reasons(lost: &[&Cell]) -> MissingReason {
    let loss = |cell: &&Cell| {
        let reason = cell.lost.clone()?;
        Some(DeviceLoss { device: cell.at.counted_by().to_owned(), reason })
    };
    MissingReason::Devices(lost.iter().filter_map(loss).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::exec::At;
    use cyclometer_core::{SlotId, Verdict};

    const SECOND: u64 = 1_000_000_000;

    fn cell(device: &str, integral: u64, time_ns: u64) -> Cell {
        let at = At { pmu: Some(device.to_owned()), ..At::default() };
        Cell { at, ..Cell::new(SlotId(0), integral, time_ns, time_ns) }
    }

    fn lost(device: &str, reason: &str) -> Cell {
        Cell { lost: Some(reason.into()), ..cell(device, 0, 0) }
    }

    fn of(cells: &[Cell], total: DeviceTotal) -> Count {
        mean(&cells.iter().collect::<Vec<_>>(), total)
    }

    #[test]
    fn the_mean_is_weighted_by_time() {
        // 100 W for 0.25 s, then 20 W for 0.75 s, in mW times ms.
        let integral = 100_000 * 250 + 20_000 * 750;
        assert_eq!(of(&[cell("nvidia0", integral, SECOND)], DeviceTotal::Sum), Count::Exact(40_000));
        assert_eq!(of(&[cell("nvidia0", 5, 10_000)], DeviceTotal::Sum), Count::Exact(500));
    }

    #[test]
    fn devices_add_up_or_are_averaged_or_the_greatest_counts() {
        let cells = [cell("nvidia0", 30_000, SECOND), cell("nvidia1", 90_000, SECOND)];
        for (total, value, word) in [
            (DeviceTotal::Sum, 120, "sum"),
            (DeviceTotal::Mean, 60, "mean"),
            (DeviceTotal::Greatest, 90, "greatest"),
        ] {
            let count = of(&cells, total);
            assert_eq!(
                count,
                Count::Partial { raw: value, part: PartReason::OfDevices { total, devices: 2 } }
            );
            assert_eq!(count.reason().unwrap(), format!("{word} of 2 devices"));
        }
    }

    #[test]
    fn a_device_without_a_value_is_named_and_is_no_zero() {
        let cells = [cell("nvidia0", 30_000, SECOND), lost("nvidia1", "it is lost")];
        let some = of(&cells, DeviceTotal::Mean);
        assert_eq!((some.verdict(), some.value()), (Verdict::Partial, Some(30)));
        assert_eq!(some.reason().unwrap(), "without nvidia1: it is lost");
        let all = of(&[lost("nvidia0", "no answer"), lost("nvidia1", "no answer")], DeviceTotal::Sum);
        assert_eq!(all.verdict(), Verdict::Lost);
        assert_eq!(all.reason().unwrap(), "nvidia0, nvidia1: no answer");
        let differ = [lost("nvidia0", "a"), lost("nvidia1", "b")];
        assert_eq!(of(&differ, DeviceTotal::Sum).reason().unwrap(), "nvidia0: a; nvidia1: b");
    }

    #[test]
    fn what_was_not_sampled_is_not_counted() {
        assert_eq!(of(&[], DeviceTotal::Sum).value(), None);
        assert_eq!(of(&[cell("nvidia0", 0, 0)], DeviceTotal::Sum).value(), None);
    }
}
