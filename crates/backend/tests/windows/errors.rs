//! Invalid input, and its error messages.

use cyclometer_arch::{Coded, Placed, ProgramOptions};
use cyclometer_backend::registers::{OverflowSource, WindowSetup, Windows};
use cyclometer_core::{CounterId, Error, ErrorKind, EventCode, Modes, Recovery};
use cyclometer_sim::{Happening, Model, Settings, SimMachine, ThreadId};
use std::num::NonZeroU64;

use crate::bench::{Events, FOUR, freezing, machine, source};

fn skylake() -> &'static Model {
    Model::find("skylake").unwrap()
}

fn refusal(model: &Model, placed: &[Placed], sources: &[OverflowSource]) -> Error {
    WindowSetup::new(&model.chip, placed, sources, ProgramOptions::default()).unwrap_err()
}

#[test]
fn a_recording_that_makes_no_sense_is_refused_by_name_and_with_a_remedy() {
    let placed = Events::general(skylake(), &FOUR).placed;
    for (sources, expected) in [
        (vec![], "nothing ends the windows: no event has a period"),
        (vec![source(0, 0)], "the period of slot 0 (counter 0) is 0 events"),
        (vec![source(0, 5), source(4, 5)], "slot 4 cannot end windows: there are 4 slots"),
        (vec![source(1, 5), source(0, 7), source(1, 5)], "slot 1 has two periods"),
        (
            vec![source(0, 5), source(2, (1 << 31) + 1)],
            "the period of slot 2 (counter 2) is 2147483649 events; it takes at most 2147483648",
        ),
    ] {
        let error = refusal(skylake(), &placed, &sources);
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, expected));
        assert!(matches!(error.recovery(), Recovery::FixInput { .. }), "{expected}");
    }
}

#[test]
fn the_greatest_period_is_half_of_what_the_counter_can_be_preset_to() {
    for (id, greatest) in
        [("amdzen2", 1 << 47), ("apple-m1", 1 << 46), ("apple-m3", 1 << 62), ("neoverse-n1", 1 << 31)]
    {
        let model = Model::find(id).unwrap();
        let placed = Events::general(model, &FOUR).placed;
        let options = ProgramOptions::default();
        assert!(WindowSetup::new(&model.chip, &placed, &[source(1, greatest)], options).is_ok(), "{id}");
        let error = refusal(model, &placed, &[source(1, greatest + 1)]);
        assert!(error.to_string().ends_with(&format!("it takes at most {greatest}")), "{error}");
    }
    let wide = ProgramOptions { full_width_writes: true, ..ProgramOptions::default() };
    let placed = Events::general(skylake(), &FOUR).placed;
    assert!(WindowSetup::new(&skylake().chip, &placed, &[source(1, 1 << 47)], wide).is_ok());
}

#[test]
fn an_event_with_a_period_of_its_own_is_refused() {
    let mut placed = Events::general(skylake(), &FOUR).placed;
    placed[3].period = NonZeroU64::new(1000);
    let error = refusal(skylake(), &placed, &[source(0, 5)]);
    assert_eq!(error.to_string(), "slot 3 has a period that is not given as a source");
}

#[test]
fn what_the_chip_cannot_do_is_refused_as_before() {
    let model = Model::find("amdzen2").unwrap();
    let placed = Events::general(model, &FOUR).placed;
    let error = WindowSetup::new(&model.chip, &placed, &[source(0, 5)], freezing(true)).unwrap_err();
    assert!(error.to_string().starts_with("this CPU cannot do 'freeze on interrupt'"), "{error}");
    let twice = [placed[0], placed[0]];
    let error = refusal(model, &twice, &[source(0, 5)]);
    assert_eq!(error.kind(), ErrorKind::ConstraintConflict);
}

#[test]
fn a_share_of_slots_is_no_count_of_a_window() {
    let model = Model::find("sapphirerapids").unwrap();
    let code = |umask| EventCode { umask, ..EventCode::default() };
    let on = |umask, counter| Placed {
        coded: Coded::new(code(umask)),
        counter: CounterId::Fixed(counter),
        modes: Modes::USER,
        period: None,
    };
    let placed = [on(4, 3), on(0x80, 16), on(1, 0)];
    let error = refusal(model, &placed, &[source(2, 1000)]);
    assert!(error.to_string().starts_with("slot 1 is a share of slots"), "{error}");
}

fn started(cpus: u32) -> (SimMachine, Windows<ThreadId>, Vec<ThreadId>) {
    let settings = Settings { cpus, ..Settings::default() };
    let (mut machine, threads) = machine(skylake(), settings, &["loop", "loop"]);
    let placed = Events::general(skylake(), &FOUR).placed;
    let setup =
        WindowSetup::new(&skylake().chip, &placed, &[source(0, 9_000)], ProgramOptions::default()).unwrap();
    let mut windows = Windows::of_all(setup);
    for cpu in 0..cpus {
        windows.begin(&mut machine, cpu, None).unwrap();
    }
    (machine, windows, threads)
}

#[test]
fn a_cpu_is_recorded_once_and_only_if_it_is_there() {
    let (mut machine, mut windows, _) = started(1);
    let error = windows.begin(&mut machine, 0, None).unwrap_err();
    assert_eq!(error.to_string(), "CPU 0 is recorded already");
    let error = windows.begin(&mut machine, 7, None).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, "there is no CPU 7"));
    for error in [
        windows.on_interrupt(&mut machine, 3).unwrap_err(),
        windows.look(&mut machine, 3).unwrap_err(),
        windows.retake(&mut machine, 3).unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::NoSuchTarget, "CPU 3 is not recorded")
        );
    }
}

#[test]
fn a_switch_that_does_not_follow_from_those_before_is_refused() {
    let (mut machine, mut windows, threads) = started(2);
    windows.on_switch(&mut machine, 0, None, Some(threads[0])).unwrap();
    let error = windows.on_switch(&mut machine, 0, Some(threads[1]), None).unwrap_err();
    assert!(error.to_string().starts_with("CPU 0 is left by Some(ThreadId(1))"), "{error}");
    let error = windows.on_switch(&mut machine, 1, None, Some(threads[0])).unwrap_err();
    assert_eq!(error.to_string(), "thread ThreadId(0) gets a CPU and is still on CPU 0");
    assert_eq!(windows.on(0).unwrap().thread(), Some(threads[0]));
    assert_eq!(windows.on(1).unwrap().thread(), None);
}

#[test]
fn what_a_thread_does_on_a_cpu_that_is_not_recorded_is_missing_from_its_window_and_that_is_said() {
    let settings =
        Settings { cpus: 2, slice_ns: 20_000, migrations_percent: 50, seed: 3, ..Settings::default() };
    let (mut machine, threads) = machine(skylake(), settings, &["loop", "loop", "loop"]);
    let placed = Events::general(skylake(), &FOUR).placed;
    let setup =
        WindowSetup::new(&skylake().chip, &placed, &[source(0, 9_000)], ProgramOptions::default()).unwrap();
    let mut windows = Windows::of_all(setup);
    windows.begin(&mut machine, 0, None).unwrap();
    let (mut rows, mut refused) = (Vec::new(), 0);
    machine.run(1_000_000, |machine, happening| match happening {
        Happening::Interrupt { cpu, .. } => rows.extend(windows.on_interrupt(machine, cpu).unwrap().rows),
        Happening::Switch { cpu, from, to } => match windows.on_switch(machine, cpu, from, to) {
            Ok(outcome) => rows.extend(outcome.rows),
            Err(error) => {
                assert_eq!(error.to_string(), "CPU 1 is not recorded");
                refused += 1;
            }
        },
        _ => {}
    });
    rows.extend(windows.finish(&mut machine));
    assert!(refused > 10);
    for thread in threads {
        let lost = rows.iter().find(|row| row.thread == thread && row.is_lost()).unwrap();
        let count = cyclometer_core::Count::from(&lost.counts[2]);
        assert_eq!(count.verdict(), cyclometer_core::Verdict::Lost);
        assert_eq!(count.reason().unwrap(), "the thread ran on CPU 1, which is not recorded");
    }
}
