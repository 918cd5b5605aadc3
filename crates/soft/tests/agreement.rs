//! Longer programs: however the counters are placed, the totals are the same, and so is the program's own
//! result.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use cyclometer_soft::flow::Redundancy;
use cyclometer_soft::host::TracerSettings;
use support::compare::{assert_same_counts, assert_same_end};
use support::programs::{BuildRecipe, build, folder};
use support::run::{TestJob, TraceMethod, settings};
use support::{installed, ready};

/// One counter a block and edge, the fewest there can be, and those in between.
const PLACEMENTS: [Redundancy; 3] = [Redundancy::Full, Redundancy::None, Redundancy::PerEpoch(1)];

#[track_caller]
fn check(job: &TestJob) {
    let native = job.run(TraceMethod::Nobody);
    let runs = PLACEMENTS.map(|redundancy| {
        let mut settings: TracerSettings = settings();
        settings.translation.redundancy = redundancy;
        job.run(TraceMethod::Soft(settings))
    });
    for run in &runs {
        assert_same_end(run, &native);
        assert_same_counts(&run.counts, &runs[0].counts);
    }
}

#[track_caller]
fn check_installed(name: &str, args: &[&str]) {
    if !ready() {
        return;
    }
    if let Some(program) = installed(name) {
        check(&TestJob::new(program, args));
    }
}

fn source(name: &str) -> String {
    folder().join(name).to_string_lossy().into_owned()
}

#[test]
fn counters_of_a_perl_program_agree() {
    let program = "my %h; for my $i (1..20000) { $h{$i % 97} .= chr(65 + $i % 26); } \
        print join(',', map { length $h{$_} } sort keys %h), (\"a1b22c333\" =~ /(\\d+)$/)[0]";
    check_installed("perl", &["-e", program]);
}

#[test]
fn counters_of_an_awk_program_agree() {
    check_installed(
        "mawk",
        &["{ n[$1] += NF } END { for (w in n) s += n[w] * length(w); print s }", &source("hostile.c")],
    );
}

#[test]
fn counters_of_a_shell_with_children_agree() {
    // One after the other, as a shell's way depends on which of several ends first.
    let script =
        format!("sort -k2 {0}; gzip -tv {0}; od -x {0} ; wc {0}; (exit 3); echo $?", source("signals.c"));
    check_installed("dash", &["-c", &script]);
}

#[test]
fn counters_of_cpp_agree() {
    if !ready() {
        return;
    }
    if let Some(program) = build(&BuildRecipe { source: "objects.cc", flags: &["-O2"] }) {
        check(&TestJob::new(program, &[]));
    }
}

#[test]
fn counters_of_signals_and_long_jumps_agree() {
    for args in [["faults"], ["jump"], ["nested"]] {
        if !ready() {
            return;
        }
        if let Some(program) = build(&BuildRecipe { source: "signals.c", flags: &["-O2"] }) {
            check(&TestJob::new(program, &args));
        }
    }
}
