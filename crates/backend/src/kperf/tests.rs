//! The source over a library that behaves as kperf does.

use std::path::PathBuf;

use cyclometer_core::event::{Part, RegisterAssignment, RegisterEvent};
use cyclometer_core::exec::Reading;
use cyclometer_core::{CounterId, EventCode, Modes, SlotId};
use cyclometer_sim::Model;
use cyclometer_sys::macos::{KpcClasses, Library};
use tempfile::TempDir;

use super::*;

/// A Mac, and a source over its library.
struct Mac {
    folder: TempDir,
    library: PathBuf,
}

fn mac(scenario: &str) -> Mac {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("cpus 2\nworkload 0 loop:10\nclock step 20000000\n{scenario}\n");
    let library = cyclometer_fake_kperf::install(folder.path(), &text);
    Mac { folder, library }
}

impl Mac {
    fn source(&self) -> KperfSource {
        let chip = Model::find("apple-m1").unwrap().chip;
        let online: CpuSet = (0..2).collect();
        let core = CorePmu { name: "apple-m1".to_owned(), cpus: online.clone(), chip, cycles: None };
        KperfSource::open_library(&self.library, vec![core], online).unwrap()
    }

    fn functions(&self) -> KpcFunctions {
        KpcFunctions::open(&self.library).unwrap()
    }

    /// Whether nothing is requested, configured to count or counting.
    fn is_at_rest(&self) -> bool {
        let library = Library::open(&self.library).unwrap();
        assert!(self.folder.path().exists());
        cyclometer_fake_kperf::is_at_rest_in(&library)
    }
}

/// An event on counters, one for each rotation group.
fn slot(id: usize, select: u16, counters: &[CounterId], rotation_group: Option<u32>) -> Slot {
    let code = EventCode { select, ..EventCode::default() };
    let assignment = |(i, counter): (usize, &CounterId)| RegisterAssignment {
        rotation_group: rotation_group.or((counters.len() > 1).then_some(i as u32)),
        counter: *counter,
        code,
    };
    let part = Part::Registers(RegisterEvent {
        pmu: "apple-m1".to_owned(),
        cpus: CpuSet::default(),
        codes: Vec::new(),
        wide: false,
        assignments: counters.iter().enumerate().map(assignment).collect(),
    });
    let mut slot = Slot::new(SlotId(id), format!("event{id}"), Rung::Kperf, vec![part]);
    slot.filter = Some(Modes::USER);
    slot.rotation_group = rotation_group;
    slot
}

fn on(pmc: u8) -> [CounterId; 1] {
    [CounterId::General(pmc)]
}

fn read(counting: &mut dyn Counting) -> Vec<(usize, Option<u32>, u64)> {
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    reading.cells.iter().map(|cell| (cell.slot.0, cell.at.cpu, cell.raw)).collect()
}

fn all_cpus() -> Target {
    Target::Cpus((0..2).collect())
}

const CYCLES: u16 = 0x02;
const INSTRUCTIONS: u16 = 0x8c;
const MISPREDICTS: u16 = 0xcb;

#[test]
fn each_cpu_has_its_own_counts_and_counters_are_released_afterwards() {
    let mac = mac("");
    let slots = [slot(0, CYCLES, &on(2), None), slot(1, INSTRUCTIONS, &on(7), None)];
    let mut counting = mac.source().open(&slots, &all_cpus()).unwrap();
    counting.start().unwrap();
    let found = read(counting.as_mut());
    let of = |slot, cpu| found.iter().find(|cell| (cell.0, cell.1) == (slot, Some(cpu))).unwrap().2;
    assert!(of(0, 0) > 0 && of(0, 1) == 0, "{found:?}");
    assert_eq!(of(1, 0), 3 * of(0, 0), "the loop has three instructions a cycle");
    assert!(!mac.is_at_rest());
    counting.stop().unwrap();
    drop(counting);
    assert!(mac.is_at_rest());
}

#[test]
fn the_word_of_a_counter_stands_at_its_number_less_two() {
    let mac = mac("");
    let slots = [slot(0, INSTRUCTIONS, &on(7), None), slot(1, CYCLES, &on(9), None)];
    let counting = mac.source().open(&slots, &all_cpus()).unwrap();
    let words = mac.functions().config(KpcClasses::CONFIGURABLE).unwrap();
    assert_eq!(words, [0, 0, 0, 0, 0, 0x2_008c, 0, 0x2_0002]);
    drop(counting);
    assert_eq!(mac.functions().config(KpcClasses::CONFIGURABLE).unwrap(), [0; 5]);
}

#[test]
fn where_the_power_manager_keeps_counters_words_are_those_of_the_others() {
    let mac = mac("power-manager keeps");
    let slots = [slot(0, CYCLES, &on(8), None)];
    let mut counting = mac.source().open(&slots, &all_cpus()).unwrap();
    counting.start().unwrap();
    assert_eq!(mac.functions().config(KpcClasses::CONFIGURABLE).unwrap(), [0, 0, 0, 0x2_0002, 0]);
    assert!(read(counting.as_mut())[0].2 > 0);
    let refusal = mac.source().open(&[slot(3, INSTRUCTIONS, &on(7), None)], &all_cpus()).err().unwrap();
    assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(3)), RefusalKind::NotSupported));
    assert!(refusal.reason.to_string().contains("PMC7 stays with the power manager"), "{}", refusal.reason);
}

#[test]
fn every_way_out_releases_the_counters() {
    let mac = mac("");
    let panics = std::panic::catch_unwind(|| {
        let mut counting = mac.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).unwrap();
        counting.start().unwrap();
        panic!("on purpose");
    });
    assert!(panics.is_err() && mac.is_at_rest());
    let refused = self::mac("refuse 0x02");
    assert!(refused.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).is_err());
    assert!(refused.is_at_rest());
    for call in ["kpc_set_counting 2 EBUSY", "kpc_get_cpu_counters 2 EPERM", "kpc_set_config 2 EBUSY"] {
        let mac = self::mac(&format!("fail {call}"));
        let mut counting = mac.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).unwrap();
        let started = counting.start().and_then(|()| counting.read(&mut Reading::default()));
        drop(counting);
        assert!(mac.is_at_rest(), "{call} {started:?}");
    }
}

#[test]
fn the_configuration_of_before_is_restored() {
    let mac = mac("");
    let functions = mac.functions();
    functions.force_counters(true).unwrap();
    functions.set_config(KpcClasses::CONFIGURABLE, &[0x2_00cb]).unwrap();
    functions.set_counting(KpcClasses::FIXED).unwrap();
    drop(mac.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).unwrap());
    assert_eq!(functions.config(KpcClasses::CONFIGURABLE).unwrap()[0], 0x2_00cb);
    assert!(functions.has_forced_counters().unwrap(), "they were requested before");
    assert_eq!(functions.counting(), KpcClasses::FIXED);
}

#[test]
fn counters_of_before_count_again_afterwards() {
    let mac = mac("");
    let functions = mac.functions();
    let both = KpcClasses::from_bits(3);
    functions.force_counters(true).unwrap();
    functions.set_config(KpcClasses::CONFIGURABLE, &[0x2_0002]).unwrap();
    functions.set_counting(both).unwrap();
    functions.set_thread_counting(KpcClasses::FIXED).unwrap();
    let mut counting = mac.source().open(&[slot(0, MISPREDICTS, &on(5), None)], &all_cpus()).unwrap();
    counting.start().unwrap();
    drop(counting);
    let pmc2 = || functions.cpu_counters(both, 1).unwrap()[2];
    let before = pmc2();
    assert!(pmc2() > before, "PMC2 counts cycles again");
    assert_eq!((functions.counting(), functions.thread_counting()), (both, KpcClasses::FIXED));
}

#[test]
fn rotation_groups_count_in_turn_and_fixed_counters_all_the_time() {
    for macos in ["26.0", "15.0"] {
        let mac = mac(&format!("macos {macos}"));
        let slots = [
            slot(0, CYCLES, &on(2), Some(0)),
            slot(1, MISPREDICTS, &on(5), Some(1)),
            slot(2, 0, &[CounterId::Fixed(1)], None),
        ];
        let mut counting = mac.source().open(&slots, &all_cpus()).unwrap();
        counting.start().unwrap();
        let value = |found: &[(usize, Option<u32>, u64)], slot| {
            found.iter().find(|cell| (cell.0, cell.1) == (slot, Some(0))).unwrap().2
        };
        let first = read(counting.as_mut());
        assert!(value(&first, 0) > 0 && value(&first, 1) == 0, "{macos} {first:?}");
        counting.select(1).unwrap();
        let second = read(counting.as_mut());
        assert!(value(&second, 1) > 0, "{macos} {second:?}");
        assert!(value(&second, 2) > value(&first, 2));
        let before = value(&second, 0);
        assert_eq!(value(&read(counting.as_mut()), 0), before, "the other group does not count now");
        let mut reading = Reading::default();
        counting.read(&mut reading).unwrap();
        let fixed = reading.cells.iter().find(|cell| cell.slot == SlotId(2)).unwrap();
        assert_eq!(fixed.time_enabled_ns, fixed.time_running_ns, "{macos}");
    }
}

#[test]
fn the_calling_threads_first_sample_is_no_stale_one() {
    let mac = mac("stale");
    let mut counting = mac.source().open(&[slot(0, CYCLES, &on(2), None)], &Target::ThisThread).unwrap();
    counting.start().unwrap();
    let found = read(counting.as_mut());
    assert_eq!((found.len(), found[0].1), (1, None));
    let busy = 10_000 * Model::find("apple-m1").unwrap().mhz;
    assert!((busy..busy + (1 << 20)).contains(&found[0].2), "the work of one step: {found:?}");
}

#[test]
fn threads_share_one_configuration_and_the_last_releases_it() {
    let mac = mac("");
    let sharing = KperfSharing::default();
    let open = |slots: &[Slot]| mac.source().sharing(sharing.clone()).open(slots, &Target::ThisThread);
    let cycles = [slot(0, CYCLES, &on(2), None)];
    let mut first = open(&cycles).unwrap();
    first.start().unwrap();
    let mut second = open(&cycles).unwrap();
    second.start().unwrap();
    drop(second);
    assert!(read(first.as_mut())[0].2 > 0);
    let other = open(&[slot(0, MISPREDICTS, &on(5), None)]).err().unwrap();
    assert!(other.reason.to_string().contains("other events"), "{}", other.reason);
    assert!(!mac.is_at_rest());
    drop(first);
    assert!(mac.is_at_rest());
}

#[test]
fn counts_are_lost_when_another_program_sets_its_own_configuration() {
    let mac = mac("");
    let mut counting = mac.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).unwrap();
    counting.start().unwrap();
    mac.functions().set_config(KpcClasses::CONFIGURABLE, &[0x2_00cb]).unwrap();
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    let lost = reading.cells[0].lost.as_ref().unwrap().to_string();
    assert!(lost.contains("another program"), "{lost}");
}

#[test]
fn errors_of_the_kernel_are_refusals_of_their_kind() {
    for (fault, kind, words) in [
        ("fail kpc_force_all_ctrs_set 1 EBUSY", RefusalKind::Busy, "Instruments"),
        ("fail kpc_force_all_ctrs_get 1 EBUSY", RefusalKind::Busy, "Instruments"),
        ("fail kpc_force_all_ctrs_set 1 EPERM", RefusalKind::NoPermission, "sudo"),
        ("fail kpc_set_config 1 EBUSY", RefusalKind::Busy, "Instruments"),
        ("user", RefusalKind::NoPermission, "root"),
    ] {
        let mac = mac(fault);
        let refusal = mac.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).err().unwrap();
        assert_eq!((refusal.kind, refusal.slot), (kind, None), "{fault}: {}", refusal.reason);
        assert!(refusal.reason.to_string().contains(words), "{fault}: {}", refusal.reason);
        assert!(mac.is_at_rest(), "{fault}");
    }
    // Another task has requested all counters, and does not count: five are left.
    let shared = mac("fail kpc_force_all_ctrs_set always EACCES");
    let mut counting = shared.source().open(&[slot(0, CYCLES, &on(2), None)], &all_cpus()).unwrap();
    counting.start().unwrap();
    assert!(read(counting.as_mut())[0].2 > 0);
}

#[test]
fn processes_that_run_already_are_refused() {
    let target = Target::Process { pid: 1, inherit: true };
    let refusal = mac("").source().open(&[slot(0, CYCLES, &on(2), None)], &target).err().unwrap();
    assert_eq!(refusal.kind, RefusalKind::TargetNotSupported);
    assert!(refusal.reason.to_string().contains("-a"), "{}", refusal.reason);
}

#[test]
fn a_library_without_the_functions_is_an_error_that_names_it() {
    let missing = KperfSource::open_library(Path::new("/nonexistent/kperf"), Vec::new(), CpuSet::default());
    let error = missing.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ArchUnsupported);
    assert!(error.to_string().contains("/nonexistent/kperf"), "{error}");
}
