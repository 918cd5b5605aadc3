//! Nothing is left behind. One test, as it counts descriptors and children of the whole process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::{Duration, Instant};

use common::{children, command, open_files, perf_part, run, slot};
use cyclometer_backend::{Launcher, PerfSource};
use cyclometer_core::event::PerfClass;
use cyclometer_core::{Launch, Source, Target};

#[test]
fn no_process_and_no_descriptor_is_left_behind() {
    let (files, processes) = (open_files(), children());
    let launcher = Launcher::start().unwrap();
    // The null device is opened once, by the first command that uses it.
    drop(launcher.prepare(&command("true", &[])).unwrap());
    let (with_launcher, with_helper) = (open_files(), children());
    assert_eq!(with_helper.len(), processes.len() + 1);
    for round in 0..50 {
        let spec = command("true", &[]);
        match round % 5 {
            0 => drop(launcher.prepare(&spec).unwrap()),
            1 => {
                let mut child = launcher.prepare(&command("no-such-command", &[])).unwrap();
                child.release().unwrap();
                assert!(child.wait(None).is_err());
            }
            2 => {
                let mut child = launcher.prepare(&command("sleep", &["60"])).unwrap();
                child.release().unwrap();
                let soon = Instant::now() + Duration::from_millis(1);
                child.wait(Some(soon)).unwrap();
            }
            3 => partly_refused(launcher.prepare(&spec).unwrap().pid().unwrap()),
            _ => drop(run(&launcher, &spec)),
        }
    }
    assert_eq!((open_files(), children()), (with_launcher, with_helper));
    drop(launcher);
    assert_eq!((open_files(), children()), (files, processes));
}

/// The second event has a type that no PMU has: the first one must be closed again.
fn partly_refused(pid: u32) {
    let clock = slot(0, "task-clock", perf_part("software", 1, 1, PerfClass::Software));
    let nothing = slot(1, "nothing", perf_part("none", 0xffff_fff0, 0, PerfClass::Core));
    assert!(PerfSource::new().open(&[clock, nothing], &Target::Child(pid)).is_err());
}
