//! CPUs: a program sees and may use the same CPUs as natively.

use std::fs;

use cyclometer_sys::affinity::Affinity;

use crate::support::run::{TestJob, TestRun, soft};
use crate::support::{installed, ready, skip};
use crate::{alike, check_counted, program, until};

#[test]
fn a_program_and_its_children_may_use_the_cpus_that_they_could_use_without_us() {
    let (Some(shell), Some(_), Some(_)) = (installed("sh"), installed("nproc"), installed("grep")) else {
        return;
    };
    let asks = "nproc; grep Cpus_allowed_list /proc/self/status; nproc & nproc; wait; sleep 0.05; nproc";
    if ready() {
        check_counted(&alike(&TestJob::new(shell, &["-c", asks])));
    }
}

/// The CPUs that it and its children may use are the native ones.
#[track_caller]
fn check_cpus(args: &[&str]) -> Option<TestRun> {
    let several = Affinity::of(std::process::id()).unwrap().len() > 1;
    if !several {
        skip("there is one CPU only");
    }
    program("cpus.c").filter(|_| several).map(|program| alike(&TestJob::new(program, args)))
}

#[test]
fn a_program_that_pins_itself_and_its_children_stay_where_it_wants_to_be() {
    for _ in 0..5 {
        check_cpus(&["pinned"]).iter().for_each(check_counted);
    }
}

#[test]
fn children_may_use_all_cpus_whenever_they_are_born() {
    check_cpus(&["born"]).iter().for_each(check_counted);
}

#[test]
fn a_program_that_others_pin_stays_where_they_want_it_to_be() {
    for _ in 0..5 {
        check_cpus(&["pins another"]).iter().for_each(check_counted);
    }
}

#[test]
fn threads_may_use_the_cpus_that_they_could_use_without_us() {
    for way in ["threads", "pinned threads"] {
        check_cpus(&[way]).iter().for_each(check_counted);
    }
}

#[test]
fn a_program_sees_its_cpus_however_it_gets_at_its_status() {
    for how in ["relative", "in its folder", "odd"] {
        check_cpus(&["status", how]).iter().for_each(check_counted);
    }
    check_cpus(&["opens before"]).iter().for_each(check_counted);
}

#[test]
fn a_shell_that_was_pinned_stays_where_it_was_put() {
    let (Some(taskset), Some(_), Some(_)) = (installed("taskset"), installed("sh"), installed("nproc"))
    else {
        return;
    };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpu = list.trim().split([',', '-']).next().unwrap();
    let asks = "nproc & nproc; wait; (nproc); taskset -pc $$ | sed 's/.*list//'; exec nproc";
    if ready() {
        check_counted(&alike(&TestJob::new(taskset, &["-c", cpu, "sh", "-c", asks])));
    }
}

#[test]
fn a_program_that_executes_itself_again_and_again_is_not_bound_for_ever() {
    let all = Affinity::of(std::process::id()).unwrap();
    let Some(program) = program("cpus.c").filter(|_| all.len() > 1) else { return };
    let running = TestJob::new(program, &["again", "1000000"]).start(soft());
    let mut free = 0;
    until("it stays bound", || {
        free = if Affinity::of(running.pid()).unwrap() == all { free + 1 } else { 0 };
        free == 200
    });
}
