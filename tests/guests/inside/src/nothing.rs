//! Machines without a PMU, or with a PMU that lacks common features.

use anyhow::ensure;

use crate::cases::Cases;
use crate::programs::{FORK, LOOP, TOOL};
use crate::stat::{counted, stat};
use crate::system::{Who, run};

/// No PMU, and no software PMU for this instruction set.
pub(crate) fn no_pmu(cases: &mut Cases) {
    no_hardware(cases);
    cases.case("an event that is asked for is no number", || {
        stat(Who::Root, &["-e", "instructions:u", "--", LOOP.path])?.no_number(0, "")
    });
    cases.case("with --strict that is an error", || {
        let stat = stat(Who::Root, &["--strict", "-e", "instructions:u", "--", LOOP.path])?;
        ensure!(stat.finished.status == 124, "exit {}", stat.finished.status);
        stat.no_number(0, "")
    });
}

/// No PMU: the software PMU counts instead.
pub(crate) fn counted_by_software(cases: &mut Cases) {
    no_hardware(cases);
    for program in [&LOOP, &FORK] {
        cases.case(&format!("the software PMU counts {} to the instruction", program.path), || {
            let stat = counted(&["-e", "instructions:u", "--", program.path])?;
            let values = stat.values(0, "exact", "counted")?;
            ensure!(values == [program.instructions], "{values:?} instead of {}", program.instructions);
            Ok(())
        });
    }
}

fn no_hardware(cases: &mut Cases) {
    cases.case("doctor says that no hardware counts", || {
        run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["hardware events? no"])
    });
    cases.case("perf alone has no number", || {
        stat(Who::Root, &["--backend", "perf", "-e", "instructions:u", "--", LOOP.path])?.no_number(0, "")
    });
    cases.case("without an event asked for, clocks and accounting are counted", || {
        let stat = counted(&["--", LOOP.path])?;
        stat.finished.says(&["wall_time", "page-faults"])
    });
}

/// A PMU that cannot filter modes: counts cover both, and the report says so.
pub(crate) fn no_filter(cases: &mut Cases) {
    cases.case("doctor says that perf works", || {
        run(Who::Root, TOOL, &["doctor"])?.expect(0)?.says(&["perf partly", "counts include the kernel"])
    });
    cases.case("a count that includes the kernel says so in its name", || {
        let stat = counted(&["-e", "instructions:u", "--", LOOP.path])?;
        let metric = stat.metric(0)?;
        let value = metric["mean"].as_f64().unwrap_or_default();
        ensure!(value > LOOP.instructions as f64, "{value}: the kernel is not in it");
        ensure!(metric["name"] != "instructions:u", "{}: it covers more", metric["name"]);
        Ok(())
    });
}
