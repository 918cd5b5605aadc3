//! The rules of xnu that the library follows, seen through the functions that cyclometer calls.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io;

use cyclometer_sys::macos::{Kpc, KpcClasses, KpcFunctions, Library};
use tempfile::TempDir;

const EL0: u64 = 0x2_0000;
const EL1: u64 = 0x4_0000;
const BOTH: KpcClasses = KpcClasses::from_bits(3);
const CONFIGURABLE: KpcClasses = KpcClasses::CONFIGURABLE;

/// A Mac, with the folder that it lives in.
struct Mac {
    functions: KpcFunctions,
    _folder: TempDir,
}

fn mac(scenario: &str) -> Mac {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::open(&cyclometer_fake_kperf::install(folder.path(), scenario)).unwrap();
    Mac { functions: KpcFunctions::find(&library).unwrap(), _folder: folder }
}

/// A Mac that works, on which time stands still between reads.
fn still(scenario: &str) -> Mac {
    mac(&format!("{scenario}\nworkload 0 loop:10\nclock step 20000000\n"))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: io::Result<T>, errno: i32) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(errno));
}

impl Mac {
    /// The counts of configurable counters of CPU 0 while its work is done, from the lowest PMC on.
    fn count(&self, words: &[u64]) -> Vec<u64> {
        let kpc = &self.functions;
        kpc.force_counters(true).unwrap();
        kpc.set_config(CONFIGURABLE, words).unwrap();
        kpc.set_counting(BOTH).unwrap();
        let counters = kpc.counter_count(BOTH);
        let before = kpc.cpu_counters(BOTH, 1).unwrap();
        let after = kpc.cpu_counters(BOTH, 1).unwrap();
        kpc.set_counting(KpcClasses::NONE).unwrap();
        assert_eq!(before.len(), counters);
        after.iter().zip(&before).map(|(after, before)| after - before).collect()
    }
}

#[test]
fn an_event_counts_on_its_counters_and_is_zero_on_all_others() {
    for (chip, selector, mask) in [
        ("apple-m1", 0x8c, 0x80),
        ("apple-m1", 0xcb, 0xe0),
        ("apple-m2", 0xbf, 0xe0),
        ("apple-m3", 0xcb, 0xe0),
        ("apple-m4", 0x08, 0xfc),
        ("apple-m4", 0x11, 0x3fc),
    ] {
        let counts = still(&format!("chip {chip}")).count(&[selector | EL0; 8]);
        for (pmc, count) in (2..).zip(&counts[2..]) {
            assert_eq!(*count > 0, mask >> pmc & 1 == 1, "{chip} {selector:#x} on PMC{pmc}");
        }
    }
}

#[test]
fn without_root_only_numbers_of_counters_are_told() {
    let mac = mac("user");
    let kpc = &mac.functions;
    assert_eq!((kpc.counter_count(BOTH), kpc.config_count(CONFIGURABLE), kpc.pmu_version()), (7, 5, 0));
    refused(kpc.force_counters(true), libc::EPERM);
    refused(kpc.set_config(CONFIGURABLE, &[]), libc::EPERM);
    refused(kpc.set_counting(BOTH), libc::EPERM);
    refused(kpc.cpu_counters(BOTH, 8), libc::EPERM);
}

#[test]
fn a_selector_that_the_kernel_does_not_list_is_refused_and_configures_nothing() {
    let mac = mac("refuse 0xbf");
    let kpc = &mac.functions;
    kpc.force_counters(true).unwrap();
    kpc.set_config(CONFIGURABLE, &[0x02 | EL0]).unwrap();
    refused(kpc.set_config(CONFIGURABLE, &[0x02 | EL0, 0xbf | EL0]), libc::EPERM);
    refused(kpc.set_config(CONFIGURABLE, &[0x11 | EL0]), libc::EPERM);
    assert_eq!(kpc.config(CONFIGURABLE).unwrap()[..2], [0x02 | EL0, 0]);
    let old = self::mac("macos 14.3\nrefuse 0xbf");
    old.functions.set_config(CONFIGURABLE, &[0xbf | EL0]).unwrap();
}

#[test]
fn the_power_manager_has_three_counters_until_all_are_forced() {
    let plain = mac("");
    let kpc = &plain.functions;
    assert_eq!((kpc.counter_count(CONFIGURABLE), kpc.has_forced_counters().unwrap()), (5, false));
    kpc.force_counters(true).unwrap();
    assert_eq!((kpc.counter_count(CONFIGURABLE), kpc.has_forced_counters().unwrap()), (8, true));
    kpc.force_counters(false).unwrap();
    assert_eq!(kpc.counter_count(CONFIGURABLE), 5);
    let kept = mac("power-manager keeps");
    kept.functions.force_counters(true).unwrap();
    assert_eq!(kept.functions.counter_count(CONFIGURABLE), 5);
}

#[test]
fn words_are_those_of_the_available_counters_in_order() {
    // The fourth available counter is PMC8, which counts no event of PMC5 to PMC7.
    let kept = still("power-manager keeps");
    assert_eq!(kept.count(&[0, 0, 0, 0xcb | EL0])[5], 0);
    assert!(kept.count(&[0, 0, 0, 0x02 | EL0])[5] > 0);
}

#[test]
fn since_macos_15_configurable_counters_leave_the_kernel_out_and_fixed_ones_do_not() {
    let instructions = |macos: &str| {
        let counts = still(&format!("macos {macos}")).count(&[0, 0, 0, 0, 0, 0x8c | EL0 | EL1]);
        (counts[1], counts[7])
    };
    let (fixed, configurable) = instructions("15.0");
    assert!(fixed > configurable && configurable > 0);
    let (fixed, configurable) = instructions("14.6");
    assert_eq!(fixed, configurable);
}

#[test]
fn from_macos_26_on_a_configuration_acts_from_the_next_start_on() {
    let counts = |macos: &str| {
        let mac = mac(&format!("macos {macos}\nworkload 0 loop\nclock step 1000000"));
        let kpc = &mac.functions;
        kpc.force_counters(true).unwrap();
        kpc.set_counting(BOTH).unwrap();
        kpc.set_config(CONFIGURABLE, &[0x02 | EL0]).unwrap();
        let before = kpc.cpu_counters(BOTH, 1).unwrap()[2];
        kpc.cpu_counters(BOTH, 1).unwrap()[2] - before
    };
    assert_eq!(counts("26.0"), 0);
    assert!(counts("15.5") > 0);
}

#[test]
fn a_stale_thread_sample_is_flushed_by_reading_all_cpus() {
    let mac = mac("stale\nworkload 0 loop\nclock step 1000000");
    let kpc = &mac.functions;
    kpc.force_counters(true).unwrap();
    kpc.set_config(CONFIGURABLE, &[0x02 | EL0]).unwrap();
    kpc.set_counting(BOTH).unwrap();
    kpc.set_thread_counting(BOTH).unwrap();
    let first = kpc.thread_counters(BOTH).unwrap();
    assert_eq!(kpc.thread_counters(BOTH).unwrap(), first);
    kpc.cpu_counters(BOTH, 8).unwrap();
    assert!(kpc.thread_counters(BOTH).unwrap()[2] > first[2]);
}

#[test]
fn a_virtual_machine_has_no_configurable_counters() {
    let mac = mac("vm");
    mac.functions.force_counters(true).unwrap();
    assert_eq!(mac.functions.counter_count(CONFIGURABLE), 0);
    assert_eq!(mac.functions.counter_count(KpcClasses::FIXED), 2);
}

#[test]
fn an_injected_fault_hits_the_call_that_it_names() {
    let mac = mac("fail kpc_set_counting 2 EBUSY\nfail kpc_force_all_ctrs_set always EACCES");
    let kpc = &mac.functions;
    kpc.set_counting(BOTH).unwrap();
    refused(kpc.set_counting(BOTH), libc::EBUSY);
    kpc.set_counting(BOTH).unwrap();
    refused(kpc.force_counters(true), libc::EACCES);
    refused(kpc.force_counters(true), libc::EACCES);
}
