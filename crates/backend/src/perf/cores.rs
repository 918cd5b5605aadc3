//! The CPUs on which a probe has to run: one for each core type whose PMU it uses.

use cyclometer_core::event::{Part, PerfClass};
use cyclometer_core::{CpuSet, Slot};
use cyclometer_sys::affinity::Affinity;

/// An allowed CPU for each core PMU of these slots that counts on only some of our CPUs. `None`: any CPU, as
/// it makes no difference.
pub(super) fn places(
    slots: &[Slot],
    own: &Affinity,
    cpus_of: impl Fn(&str) -> Option<CpuSet>,
) -> Vec<Option<u32>> {
    let mut found = Vec::new();
    for cpus in pmus(slots).into_iter().filter_map(cpus_of) {
        let ours: Vec<u32> = cpus.iter().filter(|cpu| own.contains(*cpu)).collect();
        if ours.len() < own.len() as usize {
            found.extend(ours.first().map(|cpu| Some(*cpu)));
        }
    }
    if found.is_empty() { vec![None] } else { found }
}

fn pmus(slots: &[Slot]) -> Vec<&str> {
    let core = slots.iter().flat_map(|slot| &slot.parts).filter_map(|part| match part {
        Part::Perf(event) if event.class == PerfClass::Core => Some(event.pmu.as_str()),
        _ => None,
    });
    let mut pmus: Vec<&str> = core.collect();
    pmus.sort_unstable();
    pmus.dedup();
    pmus
}

/// The CPUs of a core type, where the kernel reports them.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-bus-event_source-devices`, and `cpus` of hybrid and Arm PMUs.
pub(super) fn cpus_of(pmu: &str) -> Option<CpuSet> {
    let text = std::fs::read_to_string(format!("/sys/bus/event_source/devices/{pmu}/cpus")).ok()?;
    CpuSet::parse(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::AffinityGuard;
    use cyclometer_core::event::PerfEvent;
    use cyclometer_core::{Rung, SlotId};

    fn slot(pmus: &[&str]) -> Slot {
        let part = |pmu: &&str| Part::Perf(PerfEvent::new(*pmu, 4, 0, PerfClass::Core));
        Slot::new(SlotId(0), "e", Rung::Perf, pmus.iter().map(part).collect())
    }

    fn found(pmus: &[&str], own: &Affinity, core: &str) -> Vec<Option<u32>> {
        let cpus_of = |pmu: &str| match pmu {
            "cpu_core" => Some(CpuSet::parse(core).unwrap()),
            "cpu_atom" => Some(CpuSet::parse("8100-8101").unwrap()),
            _ => None,
        };
        places(&[slot(pmus), slot(pmus)], own, cpus_of)
    }

    #[test]
    fn a_probe_runs_on_a_cpu_of_each_core_type_that_we_may_use() {
        let own = Affinity::only(3).with(8101);
        assert_eq!(found(&["cpu_core", "cpu_atom"], &own, "0-7"), [Some(8101), Some(3)]);
        assert_eq!(found(&["cpu_core"], &own, "0-7"), [Some(3)]);
        assert_eq!(found(&["cpu_atom"], &Affinity::only(3), "0-7"), [None], "we may not run there");
    }

    #[test]
    fn where_all_cpus_are_alike_a_probe_stays_where_it_is() {
        let own = Affinity::only(3).with(5);
        assert_eq!(found(&["cpu_core"], &own, "0-7"), [None]);
        assert_eq!(found(&["cpu"], &own, "0-7"), [None]);
        assert_eq!(found(&[], &own, "0-7"), [None]);
    }

    #[test]
    fn a_bound_thread_is_let_free_again() {
        std::thread::spawn(|| {
            let before = Affinity::of(0).unwrap();
            let cpu = (0..8192).find(|cpu| before.contains(*cpu)).unwrap();
            let bound = AffinityGuard::new(cpu, &before).unwrap();
            assert_eq!(Affinity::of(0).unwrap(), Affinity::only(cpu));
            drop(bound);
            assert_eq!(Affinity::of(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
