//! Programs that a translator would rather not meet: what they do and say is as without it, and their counts
//! are exact or lost for the right reason. Nothing hangs: each run has a deadline.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod cpus;
mod outside;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cyclometer_soft::ExecutionEvent;
use cyclometer_sys::process::Status;
use cyclometer_test_support::executable;
use support::compare::{assert_lost, assert_same_end, check_exact};
use support::programs::{BARE, BuildRecipe, FOLDER, build, folder, unique};
use support::run::{DEADLINE, TestJob, TestRun, TraceMethod, soft};
use support::{installed, ready, skip};

fn program(source: &str) -> Option<PathBuf> {
    let threads = matches!(source, "hostile.c" | "cpus.c");
    let flags: &[&str] = if threads { &["-O2", "-pthread"] } else { &["-O2"] };
    ready().then(|| build(&BuildRecipe { source, flags })).flatten()
}

/// Runs a program natively and translated, which must end alike; the translated run.
#[track_caller]
fn alike(job: &TestJob) -> TestRun {
    let native = job.run(TraceMethod::Nobody);
    let translated = job.run(soft());
    assert_same_end(&translated, &native);
    assert_eq!(translated.refused, native.refused);
    translated
}

#[track_caller]
fn hostile(args: &[&str]) -> Option<TestRun> {
    program("hostile.c").map(|program| alike(&TestJob::new(program, args)))
}

/// The program is detached with this reason, and comes to no harm.
#[track_caller]
fn check_detached(args: &[&str], words: &str) {
    if let Some(run) = hostile(args) {
        assert_lost(&run.counts[0], words);
    }
}

/// The program is counted.
#[track_caller]
fn check_counted(run: &TestRun) {
    for process in &run.counts {
        let count = process.count(ExecutionEvent::Instructions);
        assert!(count.as_ref().is_ok_and(|count| *count > 0), "{}: {count:?}", process.name);
    }
}

/// Waits for something.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_program_that_traces_is_counted_and_one_that_is_traced_up_to_then() {
    for (way, traced) in [("traceme", 1), ("attach", 1), ("traced by child", 0)] {
        let Some(run) = hostile(&[way]) else { return };
        check_counted(&run);
        assert_eq!(run.counts.len(), 2, "{way}");
        let reason = "after another process traced it (ptrace)";
        assert_eq!(run.counts[traced].uncounted.as_deref(), Some(reason), "{way}");
        assert_eq!(run.counts[1 - traced].uncounted, None, "{way}");
    }
}

#[test]
fn processes_that_trace_one_another_go_on() {
    let Some(run) = hostile(&["each other"]) else { return };
    check_counted(&run);
    assert!(run.counts.iter().any(|process| process.uncounted.is_some()));
}

#[test]
fn a_program_that_is_traced_by_a_task_that_cannot_be_traced_is_counted_up_to_then() {
    let Some(run) = hostile(&["untraced"]) else { return };
    check_counted(&run);
    let reason = run.counts[0].uncounted.as_deref();
    assert_eq!(reason, Some("after it started a process that cannot be traced"));
    assert_eq!(run.stdout, "700\n");
}

#[test]
fn commands_under_a_debugger_are_counted_but_for_what_it_traces() {
    let traced = |name: &str, args: &[&str]| {
        let (Some(program), true) = (installed(name), ready()) else { return };
        let run = TestJob::new(program, args).run(soft());
        assert_eq!(run.lost(), [""; 0], "{name}");
        assert!(run.stdout.contains("traced too"), "{name}: {:?}", run.stdout);
        assert_eq!(run.counts[0].uncounted, None, "{name} itself");
        assert!(run.counts.iter().any(|process| process.uncounted.is_some()), "{name}");
    };
    let script = "echo traced too; /bin/true";
    traced("strace", &["-f", "-o", "/dev/null", "/bin/sh", "-c", script]);
    let quiet =
        ["-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "run", "--args", "/bin/sh", "-c"];
    traced("gdb", &[&quiet[..], &[script]].concat());
}

#[test]
fn a_program_with_threads_is_counted() {
    hostile(&["threads"]).iter().for_each(check_counted);
}

#[test]
fn a_program_that_shares_its_memory_with_a_process_is_left() {
    check_detached(&["sharing"], "shares its memory");
}

#[test]
fn a_program_that_writes_what_it_executes_is_counted() {
    [["jit"], ["twice"]].iter().for_each(|way| hostile(way).iter().for_each(check_counted));
}

#[test]
fn a_program_that_changes_its_code_between_calls_is_exact() {
    if let Some(program) = program("hostile.c") {
        check_exact(&TestJob::new(program, &["toggle", "100"]));
    }
}

#[test]
fn a_program_that_changes_its_code_many_times_is_counted() {
    hostile(&["toggle", "3000"]).iter().for_each(check_counted);
}

#[test]
fn a_program_that_replaces_the_code_of_a_file_all_the_time_is_left_or_counted() {
    let Some(run) = hostile(&["replace", "150"]) else { return };
    // On a busy machine the changes are a small part of the program's time.
    match &run.counts[0].counts {
        Err(_) => assert_lost(&run.counts[0], "keeps changing its code"),
        Ok(_) => check_counted(&run),
    }
}

#[test]
fn a_program_that_locks_its_memory_locks_none_of_ours() {
    check_detached(&["locks"], "locks all of its memory (mlockall)");
    check_detached(&["locks beside"], "locks all of its memory (mlockall)");
}

#[test]
fn a_process_that_is_killed_when_it_is_detached_ends() {
    let recipe = BuildRecipe { source: "parting.c", flags: &["-O2", "-pthread"] };
    let Some(program) = ready().then(|| build(&recipe)).flatten() else { return };
    for (way, signal, threads) in [
        ("personality", "9", "3"),
        ("personality", "9", "0"),
        ("personality", "15", "2"),
        ("locks", "9", "3"),
    ] {
        let run = alike(&TestJob::new(program.clone(), &["killed", way, signal, threads, "100"]));
        assert_eq!(run.stdout, "0 of 100 ended otherwise\n", "{way} {signal} {threads}");
    }
}

#[test]
fn a_program_that_locks_its_memory_while_another_thread_executes_a_program_does_no_harm() {
    if !support::programs::can_link_statically() {
        return skip("the C library is not there to be linked statically");
    }
    let build = |flags: &'static [&str]| build(&BuildRecipe { source: "parting.c", flags });
    let dynamic = ready().then(|| build(&["-O2", "-pthread"])).flatten();
    let (Some(program), Some(other)) = (dynamic, build(&["-O2", "-static"])) else { return };
    let run = alike(&TestJob::new(program, &["executes", &other.to_string_lossy(), "60"]));
    assert_eq!(run.stdout, "0 of 60 wrong\n");
}

#[test]
fn a_core_file_has_none_of_our_memory() {
    hostile(&["dumped"]).iter().for_each(check_counted);
}

#[test]
fn a_program_that_maps_over_all_that_seems_free_is_left() {
    check_detached(&["everywhere"], "maps memory where the translated code is");
}

#[test]
fn a_program_that_maps_over_the_translation_is_left() {
    check_detached(&["over us"], "maps memory where the translated code is");
}

#[test]
fn code_that_is_unmapped_and_replaced_is_exact() {
    if let Some(program) = program("hostile.c") {
        check_exact(&TestJob::new(program, &["unmap"]));
    }
}

#[test]
fn a_program_that_closes_everything_is_counted() {
    if let Some(run) = hostile(&["close all"]) {
        check_counted(&run);
        assert_eq!(run.counts.len(), 2);
    }
}

#[test]
fn a_program_without_descriptors_is_left() {
    check_detached(&["no files"], "could not be translated");
}

#[test]
fn a_program_that_leaves_itself_no_memory_to_spare_is_counted() {
    hostile(&["no memory"]).iter().for_each(check_counted);
}

#[test]
fn a_program_in_its_own_root_and_process_ids_goes_on() {
    let empty = unique("empty");
    fs::create_dir(&empty).unwrap();
    if let Some(run) = hostile(&["apart", &empty.to_string_lossy()]) {
        check_counted(&run);
    }
    fs::remove_dir(empty).unwrap();
}

#[test]
fn a_program_that_filters_its_system_calls_goes_on() {
    for way in ["strict", "filter", "filter and call"] {
        let Some(run) = hostile(&[way]) else { return };
        match &run.counts[0].counts {
            Ok(_) => check_counted(&run),
            Err(_) => assert_lost(&run.counts[0], "filters its system calls"),
        }
    }
}

#[test]
fn a_program_that_uses_gs_is_left() {
    check_detached(&["base"], "sets the base of %gs");
    // A processor or a kernel without the instruction raises a fault; the program is detached then, too.
    check_detached(&["write base"], "an instruction on segment bases");
}

#[test]
fn a_filter_that_refuses_memory_does_what_it_does_without_us() {
    let Some(run) = hostile(&["filter errno"]) else { return };
    match &run.counts[0].counts {
        Ok(_) => check_counted(&run),
        Err(_) => assert_lost(&run.counts[0], "filters its system calls"),
    }
}

#[test]
fn a_call_that_a_filter_traps_is_seen_where_the_program_made_it() {
    let Some(run) = hostile(&["filter trap"]) else { return };
    assert_eq!(run.stdout, "4242 1110 1\n");
}

#[test]
fn a_filter_that_looks_at_places_is_left() {
    check_detached(&["filter place"], "filters its system calls by instruction pointer");
    check_detached(&["dispatch"], "handles its own system calls");
}

#[test]
fn calls_of_the_kernels_own_page_are_left() {
    check_detached(&["vsyscall"], "calls the kernel's vsyscall page");
}

#[test]
fn restartable_sequences_with_a_mark_of_their_own_are_left() {
    check_detached(&["sequences"], "has restartable sequences with a signature of its own");
}

#[test]
fn a_handler_that_goes_back_to_32_bit_code_is_left() {
    // The kernel executes that code; it may not know 32-bit system calls.
    check_detached(&["narrow"], "continues in 32-bit code");
}

#[test]
fn a_program_that_answers_its_own_faults_is_left() {
    check_detached(&["own faults"], "handles its own page faults");
}

#[test]
fn shadow_stacks_are_left_where_there_are_any() {
    let Some(run) = hostile(&["shadow stack"]) else { return };
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap();
    if flags.split_ascii_whitespace().any(|flag| flag == "user_shstk") {
        assert_lost(&run.counts[0], "switches its shadow stack");
    } else {
        check_counted(&run);
        skip("the processor or the kernel has no shadow stacks for programs: none was switched on");
    }
}

#[test]
fn a_program_whose_code_no_mapping_tells_is_left() {
    check_detached(&["readable code"], "READ_IMPLIES_EXEC");
}

#[test]
fn a_program_that_hides_its_memory_is_left() {
    check_detached(&["hidden"], "hides its memory");
}

#[test]
fn a_file_that_cannot_be_executed_fails_as_natively() {
    if program("hostile.c").is_none() {
        return;
    }
    let text = unique("text");
    fs::write(&text, "no program\n").unwrap();
    let script = unique("script");
    executable(&script, b"#!/nowhere/interpreter -x\n");
    for file in [&text, &script, &PathBuf::from("/nowhere/program"), &folder()] {
        // By itself, and by a program that tells the error.
        let run = alike(&TestJob::new(file, &[]).direct());
        assert!(run.refused.is_some(), "{}", file.display());
        let run = hostile(&["execute", &file.to_string_lossy()]).unwrap();
        assert_eq!(run.status, Status::Code(11));
        check_counted(&run);
    }
    [text, script].iter().for_each(|file| fs::remove_file(file).unwrap());
}

#[test]
fn scripts_are_counted_with_their_interpreters() {
    let (Some(_), Some(_)) = (program("exit.c"), installed("dash")) else { return };
    let script = unique("script");
    executable(&script, b"#!/usr/bin/env -S dash -e\necho $((6 * 7)); exit 3\n");
    let run = alike(&TestJob::new(&script, &[]));
    assert_eq!((run.status, run.stdout.as_str()), (Status::Code(3), "42\n"));
    check_counted(&run);
    fs::remove_file(script).unwrap();
}

#[test]
fn a_program_of_32_bits_is_left() {
    if program("exit.c").is_none() {
        return;
    }
    let file = unique("32");
    executable(&file, &elf_of_32_bits());
    let native = TestJob::new(&file, &[]).run(TraceMethod::Nobody);
    let run = alike(&TestJob::new(&file, &[]));
    if native.status == Status::Code(5) {
        assert_lost(&run.counts[0], "32-bit program");
    } else {
        skip("this kernel executes no 32-bit programs");
    }
    fs::remove_file(file).unwrap();
}

/// A program that exits with 5.
///
/// # Source
///
/// `elf(5)`; the machine is 3 (`EM_386`), the only segment is the whole file at 0x10000.
fn elf_of_32_bits() -> Vec<u8> {
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 5, 0, 0, 0, 0xcd, 0x80];
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2u16, 3].into_iter().flat_map(u16::to_le_bytes));
    file.extend([1u32, 0x1_0000 + 84, 52, 0, 0].into_iter().flat_map(u32::to_le_bytes));
    file.extend([52u16, 32, 1, 0, 0, 0].into_iter().flat_map(u16::to_le_bytes));
    let size = 84 + code.len() as u32;
    file.extend([1u32, 0, 0x1_0000, 0x1_0000, size, size, 5, 0x1000].into_iter().flat_map(u32::to_le_bytes));
    file.extend(code);
    file
}

#[test]
fn a_program_that_executes_itself_fifty_times_is_counted() {
    if let Some(program) = program("family.c") {
        let run = alike(&TestJob::new(program, &["exec", "50"]));
        check_counted(&run);
        assert_eq!(run.counts.len(), 1);
    }
}

#[test]
fn two_hundred_children_at_once_are_counted() {
    let Some(program) = program("family.c") else { return };
    let run = alike(&TestJob::new(program, &["many", "200"]));
    assert_eq!((run.stdout.as_str(), run.counts.len()), ("200\n", 201));
    check_counted(&run);
}

#[test]
fn children_that_there_is_no_room_for_are_left_and_the_others_counted() {
    let Some(program) = program("family.c") else { return };
    let run = alike(&TestJob::new(program, &["many", "400"]));
    assert_eq!((run.stdout.as_str(), run.counts.len()), ("400\n", 401));
    let (counted, lost): (Vec<_>, Vec<_>) = run.counts.iter().partition(|process| process.counts.is_ok());
    assert!(counted.len() >= 250, "{} counted", counted.len());
    lost.into_iter().for_each(|process| assert_lost(process, "too many processes at a time"));
}

#[test]
fn a_child_that_uses_far_code_first_does_its_maker_no_harm() {
    if !support::programs::can_link_statically() {
        return skip("the C library is not there to be linked statically");
    }
    let recipe = BuildRecipe { source: "family.c", flags: &["-O2", "-static"] };
    let Some(program) = ready().then(|| build(&recipe)).flatten() else { return };
    let run = alike(&TestJob::new(program, &["clocks"]));
    assert_eq!(run.stdout, "3\n");
    check_counted(&run);
}

#[test]
fn a_daemon_goes_on_when_its_maker_has_ended() {
    let Some(program) = program("family.c") else { return };
    let mut running = TestJob::new(program, &["daemon"]).start(soft());
    assert_eq!(running.wait(), Status::Code(3));
    let counts = running.report();
    assert_eq!(counts.len(), 3);
    assert!(counts.iter().all(|process| process.counts.is_ok()), "{counts:?}");
    running.until_it_says("daemon 165834");
}

#[test]
fn ends_by_a_signal_are_as_without_us() {
    for (way, signal) in [("overflow", 11), ("abort", 6), ("illegal", 4), ("null", 11), ("trap", 5)] {
        let Some(program) = program("signals.c") else { return };
        let run = alike(&TestJob::new(program, &[way]));
        assert_eq!(run.status, Status::Signal(signal), "{way}");
        check_counted(&run);
    }
}

#[test]
fn timers_interrupt_translated_code_anywhere() {
    if let Some(program) = program("signals.c") {
        check_counted(&alike(&TestJob::new(program, &["timers"])));
    }
}

#[test]
fn a_timer_that_is_faster_than_its_handler_leaves_time_for_the_program() {
    if let Some(program) = program("signals.c") {
        check_counted(&alike(&TestJob::new(program, &["often"])));
    }
}

#[test]
fn handlers_of_every_kind_a_thousand_times_a_second_do_what_they_do_without_us() {
    let Some(program) = program("signals.c") else { return };
    for _ in 0..3 {
        check_counted(&alike(&TestJob::new(&program, &["mixture"])));
    }
}

#[test]
fn a_handler_of_breakpoints_that_blocks_them_is_not_harmed() {
    if let Some(program) = program("signals.c") {
        check_counted(&alike(&TestJob::new(program, &["blocked breakpoints"])));
    }
}

#[test]
fn a_program_with_the_rights_of_its_file_gets_them() {
    let Some(setpriv) = installed("setpriv") else { return };
    let Some(helper) = program("hostile.c") else { return };
    if std::env::var_os(FOLDER).is_none() {
        return as_nobody(&setpriv, &helper);
    }
    let native = TestJob::new(&helper, &["rights"]).run(TraceMethod::Nobody);
    if native.stdout != "0\n" {
        return skip("files give no rights here");
    }
    let run = alike(&TestJob::new(&helper, &["rights"]));
    assert_lost(&run.counts[0], "set-user-id");
}

/// Runs that test as a user who is nobody, with a set-user-id file.
fn as_nobody(setpriv: &Path, helper: &Path) {
    if fs::metadata("/proc/self").map(|own| own.uid()).unwrap() != 0 {
        return skip("only root can make a set-user-id file of root");
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    fs::set_permissions(place, fs::Permissions::from_mode(0o777)).unwrap();
    let [own, starter] = [std::env::current_exe().unwrap(), support::programs::starter().unwrap()];
    let [test, _, helper] = [&own, &starter, helper].map(|file: &Path| {
        let copy = place.join(file.file_name().unwrap());
        executable(&copy, &fs::read(file).unwrap());
        copy
    });
    fs::set_permissions(helper, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut command = Command::new(setpriv);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(test);
    command.args(["--exact", "a_program_with_the_rights_of_its_file_gets_them"]).env(FOLDER, place);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_program_that_needs_no_descriptors_goes_on_without_any() {
    if !ready() {
        return;
    }
    let (Some(prlimit), Some(bare)) =
        (installed("prlimit"), build(&BuildRecipe { source: "strings.S", flags: BARE }))
    else {
        return;
    };
    let run = alike(&TestJob::new(prlimit, &["--nofile=0", &bare.to_string_lossy()]));
    assert!(matches!(run.status, Status::Code(_)), "{run:?}");
    assert_lost(&run.counts[0], "could not be translated");
}

#[test]
fn the_list_of_mappings_is_the_programs_own_whatever_reads_it() {
    let Some(program) = program("rare.c") else { return };
    check_counted(&alike(&TestJob::new(&program, &["lists"])));
    check_counted(&alike(&TestJob::new(&program, &["renewed list"])));
}

#[test]
fn a_program_that_is_executed_under_a_filter_is_left() {
    let Some(program) = program("rare.c") else { return };
    let run = alike(&TestJob::new(&program, &["filter and execute", &program.to_string_lossy()]));
    assert!(run.stdout.starts_with("executed "), "{run:?}");
    assert_lost(&run.counts[0], "filters its system calls");
}

#[test]
fn a_program_that_could_not_install_a_filter_executes_and_is_counted() {
    let Some(program) = program("rare.c") else { return };
    let run = alike(&TestJob::new(&program, &["fail to filter and execute", &program.to_string_lossy()]));
    if in_a_filter() {
        return skip("everything is filtered here");
    }
    check_counted(&run);
}

/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `Seccomp`.
fn in_a_filter() -> bool {
    !fs::read_to_string("/proc/self/status").unwrap().contains("Seccomp:\t0")
}

/// Like [`check_detached`] of what few programs do.
#[track_caller]
fn check_rare_left(args: &[&str], words: &str) {
    let Some(program) = program("rare.c") else { return };
    assert_lost(&alike(&TestJob::new(program, args)).counts[0], words);
}

#[test]
fn rare_ways_to_change_memory_are_left_or_counted() {
    check_rare_left(&["remaps", "shared code"], "executes memory that it shares");
    check_rare_left(&["remaps", "over"], "maps shared memory over other memory");
    check_rare_left(&["remaps", "process"], "discards the memory of a process (process_madvise)");
    check_rare_left(&["segments"], "changes its segments");
    if let Some(program) = program("rare.c") {
        check_counted(&alike(&TestJob::new(program, &["remaps", "pages"])));
    }
}

#[test]
fn children_that_could_not_be_followed_are_left() {
    check_rare_left(&["child", "shares"], "started a process that shares its memory");
    let Some(program) = program("rare.c") else { return };
    let run = alike(&TestJob::new(program, &["child", "untraced"]));
    check_counted(&run);
    let reason = run.counts[0].uncounted.as_deref();
    assert_eq!(reason, Some("after it started a process that cannot be traced"));
}

#[test]
fn programs_that_the_tracer_would_not_see_are_detached() {
    check_rare_left(&["steps itself"], "steps itself");
    check_rare_left(&["narrow addresses", "marked"], "system calls of another kind (x32)");
    check_rare_left(&["narrow addresses", "only"], "system calls of another kind (x32)");
}

#[test]
fn a_program_that_shortens_all_files_of_memory_does_no_harm() {
    if let Some(program) = program("rare.c") {
        check_counted(&alike(&TestJob::new(program, &["cut"])));
    }
}

/// Set where a test runs itself again, in other circumstances.
const AGAIN: &str = "CYCLOMETER_TEST_AGAIN";

/// Runs a test by a shell command that has the test and its arguments as `"$@"`. The program is detached with
/// this reason.
#[track_caller]
fn check_left_where(test: &str, command: &str, words: &str) {
    let Some(program) = program("rare.c") else { return };
    let job = TestJob::new(program, &["executed"]);
    if std::env::var_os(AGAIN).is_some() {
        return assert_lost(&alike(&job).counts[0], words);
    }
    // Builds all that the other one needs.
    check_counted(&alike(&job));
    let mut shell = Command::new("sh");
    shell.args(["-c", command, "sh"]).arg(std::env::current_exe().unwrap()).args(["--exact", test]);
    let output = shell.env(AGAIN, "1").env("CYCLOMETER_TEST_KEEP_SIGNALS", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_program_is_left_where_no_file_may_be_as_long_as_the_translation() {
    let test = "a_program_is_left_where_no_file_may_be_as_long_as_the_translation";
    check_left_where(test, "ulimit -f 200; \"$@\"", "could not be translated");
}

#[test]
fn a_program_with_few_addresses_keeps_all_of_them() {
    let test = "a_program_with_few_addresses_keeps_all_of_them";
    check_left_where(test, "ulimit -v 3000000; \"$@\"", "its address space is limited");
}

#[test]
fn limits_that_a_program_sets_on_its_addresses_are_its_own() {
    let Some(program) = program("limits.c") else { return };
    for megabytes in ["100", "1600", "1640", "3000", "7000", "100000"] {
        let run = alike(&TestJob::new(&program, &["own", megabytes]));
        assert!(run.stdout.contains("allocated"), "{run:?}");
        check_counted(&run);
    }
    for what in ["lowered", "refused", "changed", "other"] {
        check_counted(&alike(&TestJob::new(&program, &[what])));
    }
    // Each child is forked, limited by its parent, and stops for the first time, in this order or the other.
    let hasty = alike(&TestJob::new(&program, &["hasty"]));
    assert!(hasty.stdout.contains("limits: 100\n"), "{hasty:?}");
    check_counted(&hasty);
    let inherited = alike(&TestJob::new(&program, &["inherited", &program.to_string_lossy()]));
    assert!(inherited.stdout.contains("child: 2000 2500"), "{inherited:?}");
    check_counted(&inherited);
}

#[test]
fn shells_that_limit_their_addresses_work_on() {
    let script = "ulimit -v 2000000; ulimit -v; s=$(seq 1 50000); echo ${#s}; sh -c 'ulimit -v'; ulimit -Sv 1000000; \
        ulimit -v; ulimit -Hv; grep VmPeak /proc/self/status > /dev/null && echo $?";
    if !ready() {
        return;
    }
    for shell in ["dash", "bash"].into_iter().filter_map(installed) {
        let run = alike(&TestJob::new(shell, &["-c", script]));
        assert!(run.stdout.starts_with("2000000\n"), "{run:?}");
        check_counted(&run);
    }
}

#[test]
fn a_program_that_begins_with_traps_ignored_is_left() {
    let test = "a_program_that_begins_with_traps_ignored_is_left";
    check_left_where(test, "trap '' TRAP; \"$@\"", "ignores SIGTRAP");
}
