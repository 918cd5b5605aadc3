//! Counts of the software PMU equal those of single steps, in every event of every process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::fs;

use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::addend::AddendKind;
use support::compare::{assert_same_counts, assert_same_end, check_exact, check_exact_once};
use support::programs::{BARE, BuildRecipe, build, can_link_statically, folder, self_contained, unique};
use support::run::{TestJob, TestRun, TraceMethod, settings, soft};
use support::{installed, ready, skip};

/// Builds a program and compares its counts.
#[track_caller]
fn check(source: &str, flags: &[&str], args: &[&str]) {
    if !ready() {
        return;
    }
    if let Some(program) = build(&BuildRecipe { source, flags }) {
        check_exact(&TestJob::new(program, args));
    }
}

/// Compares the counts of a program whose path depends on a clock.
#[track_caller]
fn check_once(source: &str, args: &[&str]) {
    if !ready() {
        return;
    }
    if let Some(program) = build(&BuildRecipe { source, flags: self_contained() }) {
        check_exact_once(&TestJob::new(program, args));
    }
}

/// Compares the counts of a program of the system.
#[track_caller]
fn check_installed(name: &str, args: &[&str]) {
    if !ready() {
        return;
    }
    if let Some(program) = installed(name) {
        check_exact(&TestJob::new(program, args));
    }
}

/// A file that some programs read.
fn text() -> String {
    folder().join("exit.c").to_string_lossy().into_owned()
}

#[test]
fn a_program_that_does_nothing_counts_as_stepped() {
    check("exit.c", &["-O2"], &[]);
}

#[test]
fn sorting_text_and_numbers_of_the_c_library_count_as_stepped() {
    check("library.c", &["-O2", "-lm"], &["5"]);
}

#[test]
fn code_that_was_not_optimised_counts_as_stepped() {
    check("library.c", &["-O0", "-lm"], &[]);
    check("language.c", &["-O0"], &[]);
}

#[test]
fn long_jumps_tables_recursion_and_variable_arguments_count_as_stepped() {
    check("language.c", &["-O2"], &[]);
}

#[test]
fn static_programs_count_as_stepped() {
    if !can_link_statically() {
        return skip("the C library is not there to be linked statically");
    }
    check("library.c", &["-O2", "-static", "-lm"], &[]);
    check("language.c", &["-O2", "-static-pie"], &[]);
}

#[test]
fn a_program_at_a_fixed_address_counts_as_stepped() {
    check("language.c", &["-O2", "-no-pie", "-fno-pie"], &[]);
}

#[test]
fn exceptions_virtual_calls_and_streams_of_cpp_count_as_stepped() {
    check("objects.cc", &["-O2", "-static-libstdc++", "-static-libgcc"], &[]);
}

#[test]
#[ignore = "two million steps"]
fn cpp_with_its_library_loaded_counts_as_stepped() {
    check("objects.cc", &["-O2"], &[]);
}

#[test]
fn a_rust_program_with_a_panic_counts_as_stepped() {
    check("rust.rs", &["-O"], &[]);
}

#[test]
fn repeated_string_instructions_count_as_stepped() {
    check("strings.S", BARE, &[]);
}

/// Runs a program with and without everything counted. The events of the program that are not known where
/// only one is wanted; all others are the same.
fn unknown_with_only(wanted: ExecutionEvent, source: &str) -> Option<Vec<ExecutionEvent>> {
    let job = TestJob::new(build(&BuildRecipe { source, flags: BARE })?, &[]);
    let all = job.run(soft());
    let some = job.run(TraceMethod::Soft(settings().counting([wanted])));
    assert_same_end(&some, &all);
    let (all, some) = (&all.counts[0], &some.counts[0]);
    let is_unknown = |event: &ExecutionEvent| {
        let (count, expected) = (some.count(*event), all.count(*event));
        assert!(expected.is_ok(), "{event}: {expected:?}");
        let reason = count.as_ref().err().cloned().unwrap_or_default();
        assert!(
            count == expected || reason.contains("were not counted"),
            "{event}: {count:?}, not {expected:?}"
        );
        count.is_err()
    };
    Some(ExecutionEvent::ALL.iter().copied().filter(is_unknown).collect())
}

#[test]
fn units_that_no_wanted_event_needs_are_not_counted_and_the_others_are_the_same() {
    if !ready() {
        return;
    }
    let Some(unknown) = unknown_with_only(ExecutionEvent::Instructions, "strings.S") else { return };
    let of_iterations: Vec<ExecutionEvent> = ExecutionEvent::ALL
        .iter()
        .copied()
        .filter(|event| AddendKind::Iterations.feeds().contains(event))
        .collect();
    assert_eq!(unknown, of_iterations);
    assert_eq!(unknown_with_only(ExecutionEvent::RepIterations, "strings.S"), Some(vec![]));
    if !is_x86_feature_detected!("avx2") {
        return skip("the processor has no AVX2");
    }
    // In one block some units are counted, others not.
    let bytes = Some(vec![ExecutionEvent::BytesLoaded, ExecutionEvent::BytesStored]);
    assert_eq!(unknown_with_only(ExecutionEvent::Loads, "units.S"), bytes);
    assert_eq!(unknown_with_only(ExecutionEvent::BytesStored, "units.S"), Some(vec![]));
}

#[test]
fn every_way_to_go_somewhere_else_counts_as_stepped() {
    let far = ["-Wl,--section-start=.far=0x60000000", "-Wl,--section-start=.beyond=0x1000000000"];
    check("control.S", &[BARE, &far].concat(), &[]);
}

#[test]
fn a_library_that_is_loaded_and_unloaded_counts_as_stepped() {
    check("loading.c", &["-O2"], &["libm.so.6", "cos"]);
}

#[test]
fn the_vdso_counts_as_stepped() {
    if !ready() {
        return;
    }
    if let Some(program) = build(&BuildRecipe { source: "loading.c", flags: &["-O2"] }) {
        // It reads the time again when that was just updated, which a step makes more likely.
        check_exact_once(&TestJob::new(program, &[]));
    }
}

#[test]
fn vector_code_counts_as_stepped() {
    check("vectors.c", &["-O2", "-lm"], &[]);
}

#[test]
fn processes_that_were_forked_count_as_stepped() {
    check("family.c", self_contained(), &["fork", "3"]);
}

#[test]
fn processes_that_borrow_their_makers_memory_count_as_stepped() {
    check("family.c", self_contained(), &["vfork"]);
    check("family.c", self_contained(), &["spawn"]);
}

#[test]
fn a_program_that_executes_itself_counts_as_stepped() {
    check("family.c", self_contained(), &["exec", "2"]);
}

#[test]
fn threads_count_as_stepped() {
    check("crew.c", BARE, &["work", "4"]);
    check("crew.c", BARE, &["in turns", "3"]);
}

#[test]
fn threads_by_the_newer_system_call_count_as_stepped() {
    check("crew.c", BARE, &["work", "4", "newer"]);
    check("crew.c", BARE, &["execute", "3", "newer"]);
}

#[test]
fn loops_of_one_block_count_as_stepped() {
    check("loops.c", self_contained(), &["kinds", "50"]);
    check("loops.c", self_contained(), &["rounds", "1000"]);
}

#[test]
fn faults_in_the_middle_of_a_loop_count_as_stepped() {
    check("loops.c", self_contained(), &["faults"]);
}

#[test]
fn a_signal_frame_made_by_the_program_counts_as_stepped() {
    check("loops.c", self_contained(), &["made by hand"]);
}

#[test]
fn threads_that_others_end_count_as_stepped() {
    check("crew.c", BARE, &["wait", "3"]);
    check("crew.c", BARE, &["execute", "3"]);
}

#[test]
fn code_that_changes_while_threads_wait_counts_as_stepped() {
    check("crew.c", BARE, &["change", "3"]);
}

#[test]
fn a_thread_that_outlives_the_first_one_counts_as_stepped() {
    check("crew.c", BARE, &["outlive", "1"]);
}

#[test]
fn processes_that_threads_have_made_count_as_stepped() {
    check("crew.c", BARE, &["fork", "2"]);
}

#[test]
fn handlers_of_signals_count_as_stepped() {
    check("signals.c", self_contained(), &["plain"]);
    check("signals.c", self_contained(), &["nested"]);
    check("signals.c", self_contained(), &["stack"]);
    check("signals.c", self_contained(), &["blocked"]);
}

#[test]
fn signals_that_are_read_count_as_stepped_and_say_what_they_do_natively() {
    let Some(program) =
        ready().then(|| build(&BuildRecipe { source: "signals.c", flags: self_contained() })).flatten()
    else {
        return;
    };
    let job = TestJob::new(program, &["waiting"]);
    check_exact(&job);
    assert_eq!(job.run(soft()).stdout, "200 0 1\n");
}

#[test]
fn handlers_that_jump_away_count_as_stepped() {
    check("signals.c", self_contained(), &["jump"]);
    check("signals.c", self_contained(), &["rescued"]);
}

#[test]
fn handlers_see_the_programs_own_addresses_and_skipped_instructions_are_not_counted() {
    check("signals.c", self_contained(), &["faults"]);
}

#[test]
fn handlers_that_return_to_somewhere_else_count_as_stepped() {
    check("signals.c", self_contained(), &["elsewhere"]);
}

#[test]
fn breakpoints_of_the_program_count_as_stepped() {
    check("signals.c", self_contained(), &["breakpoints"]);
}

#[test]
fn system_calls_that_are_made_again_count_as_stepped() {
    // A signal comes before the call where the machine is busy.
    check_once("signals.c", &["restart"]);
    check_once("signals.c", &["ignored"]);
}

#[test]
fn programs_that_a_signal_kills_count_as_stepped() {
    check("signals.c", self_contained(), &["abort"]);
    check("signals.c", self_contained(), &["illegal"]);
    check("signals.c", self_contained(), &["null"]);
    check("signals.c", self_contained(), &["trap"]);
}

#[test]
fn far_transfers_count_as_stepped() {
    check("far.S", BARE, &[]);
}

#[test]
fn coreutils_count_as_stepped() {
    check_installed("true", &[]);
    check_installed("expr", &["12345", "*", "678"]);
    check_installed("echo", &["several", "words"]);
    check_installed("cat", &[&text()]);
}

#[test]
fn shells_count_as_stepped() {
    check_installed(
        "dash",
        &[
            "-c",
            "i=0; while [ $i -lt 20 ]; do i=$((i+1)); done; echo $i; /bin/true && (exit 2) || echo $?; exit 4",
        ],
    );
}

#[test]
fn interpreters_count_as_stepped() {
    check_installed("sed", &["-n", "s/int/long/p", &text()]);
    if !ready() {
        return;
    }
    if let Some(mawk) = installed("mawk") {
        // It asks for the time.
        check_exact_once(&TestJob::new(mawk, &["BEGIN { for (i = 0; i < 50; i++) s += i * i; print s }"]));
    }
}

#[test]
fn expressions_that_are_compiled_at_run_time_count_as_stepped() {
    check_installed("grep", &["-n", "-P", r"\b(\w)\w*\1\b", &text()]);
}

#[test]
#[ignore = "five million steps"]
fn a_compiler_that_executes_its_output_counts_as_stepped() {
    let source = unique("source").with_extension("c");
    fs::write(
        &source,
        "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); } int main(void) { return f(12); }",
    )
    .unwrap();
    check_installed("tcc", &["-nostdlib", "-run", &source.to_string_lossy()]);
    check_installed("tcc", &["-run", &source.to_string_lossy()]);
    check_installed(
        "luajit",
        &["-e", "local t = 0; for i = 1, 2000 do t = (t + i * 3) % 1003 end; print(t)"],
    );
}

#[test]
#[ignore = "a million steps"]
fn perl_counts_as_stepped() {
    check_installed(
        "perl",
        &["-e", "my %h; $h{$_ % 7} += $_ for 1..50; print join ',', map {\"$_=$h{$_}\"} sort keys %h"],
    );
}

/// A small build: `make`, a shell, assembler and linker, each by its path. All built files have one time,
/// that of a file: `make` compares times, and takes other branches where two files are of the same tick of
/// the clock; and `touch` takes other branches by the time of day where it reads a time as text.
const BUILD: &str = "all: program\n\
    program: one.o two.o three.o\n\
    \tld -o program one.o two.o three.o && touch -r Makefile $@\n\
    %.o: %.s\n\
    \tas -o $@ $< && touch -r Makefile $@ && echo $@\n";

#[test]
fn a_build_of_several_processes_counts_the_same_each_time() {
    let tools = ["make", "as", "ld", "sh", "touch"].map(installed);
    if !ready() || tools.iter().any(Option::is_none) {
        return;
    }
    let place = unique("build");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("Makefile"), BUILD).unwrap();
    for (name, code) in
        [("one", ".globl _start\n_start: call two\ncall three\n"), ("two", ""), ("three", "nop\n")]
    {
        fs::write(place.join(format!("{name}.s")), format!(".globl {name}\n{name}: {code} ret\n")).unwrap();
    }
    let folder = place.to_string_lossy();
    let job = TestJob::new(tools[0].as_ref().unwrap(), &["-B", "-C", &folder]);
    let native = job.run(TraceMethod::Nobody);
    let runs = [job.run(soft()), job.run(soft())];
    for run in &runs {
        assert_same_end(run, &native);
        assert!(run.lost().is_empty(), "{:?}", run.lost());
        assert!(run.counts.len() >= 5, "{} processes", run.counts.len());
    }
    assert_same_counts(&runs[0].counts, &runs[1].counts);
    fs::remove_dir_all(place).unwrap();
}

const COMPILE: &str = "all: one.s two.s three.s four.s\n\
    %.s: %.c\n\
    \tMAKEFLAGS= MFLAGS= gcc -O2 -frandom-seed=1 -S -o $@ $<\n";

#[test]
fn compilers_that_run_at_a_time_count_the_same_each_time() {
    let tools = ["make", "gcc"].map(installed);
    if !ready() || tools.iter().any(Option::is_none) {
        return;
    }
    let place = unique("compile");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("Makefile"), COMPILE).unwrap();
    for (times, name) in ["one", "two", "three", "four"].into_iter().enumerate() {
        let loops = "for (int i = 0; i < n; i++) sum += x[i] * x[n - i];".repeat(4 * times + 1);
        let code = format!("long {name}(const long *x, int n)\n{{ long sum = 0; {loops} return sum; }}\n");
        fs::write(place.join(format!("{name}.c")), code).unwrap();
    }
    let folder = place.to_string_lossy();
    let job = TestJob::new(tools[0].as_ref().unwrap(), &["-s", "-B", "-j2", "-C", &folder]);
    let native = job.run(TraceMethod::Nobody);
    // Which of them begins first differs, and what the others do depends on that and on names of temporary
    // files. Without a seed they ask the kernel's vDSO for the time, which counts otherwise around a full
    // second.
    let compilers = |run: &TestRun| {
        let compilers = run.counts.iter().filter(|process| process.name == "cc1");
        let mut counts: Vec<String> = compilers.map(|process| format!("{:?}", process.counts)).collect();
        counts.sort();
        counts
    };
    let runs = [job.run(soft()), job.run(soft())];
    for run in &runs {
        assert_same_end(run, &native);
        assert!(run.lost().is_empty(), "{:?}", run.lost());
        assert_eq!(compilers(run).len(), 4, "{:?}", run.counts);
    }
    assert_eq!(compilers(&runs[0]), compilers(&runs[1]));
    fs::remove_dir_all(place).unwrap();
}
