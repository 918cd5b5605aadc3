//! `stat --by … --per process|thread`: counts of each process or thread.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::support::{run, stderr, stdout};
use super::{built_from, by, stat};

/// Repeats strings of a length that is given, in each of so many threads one more, which run one after the
/// other; the last one goes on while the process ends.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char from[100000], to[100000];
__attribute__((noinline)) void copy(long n) {
    char *d = to, *s = from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}
static void *work(void *n) {
    char name[16];
    snprintf(name, sizeof name, "worker %ld", (long)n);
    pthread_setname_np(pthread_self(), name);
    copy((long)n);
    return 0;
}
static volatile int is_at_end;
static void *wait_for_end(void *n) { copy(77777); is_at_end = 1; for (;;) pause(); }
int main(int count, char **words) {
    long first = atol(words[1]), threads = atol(words[2]);
    pthread_t thread;
    copy(first);
    for (long i = 1; i <= threads; i++) {
        pthread_create(&thread, 0, work, (void *)(first + i));
        pthread_join(thread, 0);
    }
    if (count > 3) {
        pthread_create(&thread, 0, wait_for_end, 0);
        while (!is_at_end) usleep(1000);
    }
    return 0;
}
"#;

const OPTIONS: [&str; 3] = ["-g", "-O1", "-pthread"];

/// The name, process and thread of each row of a function, and its first count, by the count.
fn owners(by: &Value, function: &str) -> Vec<(String, u64, Option<u64>, u64)> {
    let rows = by["rows"].as_array().unwrap().iter().filter(|row| row["function"] == function);
    let owner = |row: &Value| {
        let (process, count) = (&row["process"], row["counts"][0].as_u64().unwrap());
        let name = process["name"].as_str().unwrap().to_owned();
        (name, process["pid"].as_u64().unwrap(), process["tid"].as_u64(), count)
    };
    let mut owners: Vec<_> = rows.map(owner).collect();
    owners.sort_by_key(|(.., count)| *count);
    owners
}

#[test]
fn threads_have_the_counts_of_their_own_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let events = ["--by", "function", "-e", "rep_iterations,instructions"];
    let files = ["--export-csv", "f.csv", "--export-folded", "f.folded", "--export-callgrind", "f.out"];
    let options = [&events[..], &["--per", "thread", "--calls", "--html", "f.html"], &files].concat();
    let command = ["./program", "1000", "3", "waits"];
    let apart = by(folder.path(), &options, &command);
    let found = owners(&apart, "copy");
    let pid = found[0].1;
    let names: Vec<(&str, u64)> = found.iter().map(|(name, .., count)| (name.as_str(), *count)).collect();
    let expected = [
        ("program", 1000),
        ("worker 1001", 1001),
        ("worker 1002", 1002),
        ("worker 1003", 1003),
        ("program", 77777),
    ];
    assert_eq!(names, expected, "{apart}");
    assert!(found.iter().all(|(_, process, ..)| *process == pid), "{found:?}");
    assert_eq!(found[0].2, Some(pid), "the first thread has the id of the process");
    let threads: BTreeSet<Option<u64>> = found.iter().map(|(_, _, tid, _)| *tid).collect();
    assert_eq!(threads.len(), 5, "{found:?}");
    assert!(apart["calls"].as_array().unwrap().iter().all(|call| call["caller"]["process"]["pid"] == pid));

    // Added up, threads have what they have apart.
    let whole = by(folder.path(), &events, &command);
    let all = |by: &Value| -> u64 {
        let rows = by["rows"].as_array().unwrap().iter().filter(|row| row["function"] == "copy");
        rows.map(|row| row["counts"][1].as_u64().unwrap()).sum()
    };
    assert_eq!(all(&whole), all(&apart));
    assert!(whole["rows"].as_array().unwrap().iter().all(|row| row.get("process").is_none()));

    let csv = fs::read_to_string(folder.path().join("f.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",object,function,line,process,pid,tid"), "{csv}");
    let field = format!(",copy,,worker 1002,{pid},{}\r\n", found[2].2.unwrap());
    assert!(csv.contains(&field), "{field}: {csv}");
    let folded = fs::read_to_string(folder.path().join("f.folded")).unwrap();
    let line = format!("worker 1002 {};program;copy 1002", found[2].2.unwrap());
    assert!(folded.lines().any(|found| found == line), "{line}: {folded}");
    let callgrind = fs::read_to_string(folder.path().join("f.out")).unwrap();
    assert_eq!(super::costs(&callgrind).0, super::costs(&callgrind).1);
    assert!(fs::read_to_string(folder.path().join("f.html")).unwrap().contains("worker 1003"));

    let out = stat(folder.path(), &["--by", "function", "--per", "thread"], &command);
    let text = stderr(&out) + &stdout(&out);
    let is_heading = |line: &str| line.contains(" share  thread ") && line.ends_with("  function");
    assert!(text.lines().any(is_heading), "{text}");
    assert!(
        text.lines().any(|line| line.contains("  worker 1003 ") && line.ends_with("  copy program")),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn more_threads_than_there_are_slots_have_their_own_counts() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let options = ["--by", "function", "--per", "thread", "-e", "rep_iterations"];
    let by = by(folder.path(), &options, &["./program", "1", "300"]);
    let counts: Vec<u64> = owners(&by, "copy").into_iter().map(|(.., count)| count).collect();
    assert_eq!(counts, (1..=301).collect::<Vec<u64>>());
}

#[test]
fn processes_have_the_counts_of_all_of_their_threads() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let options = ["--by", "function", "--per", "process", "-e", "rep_iterations"];
    let script = "./program 100 0; ./program 1000 2; exec ./program 7 0";
    let by = by(folder.path(), &options, &["/bin/sh", "-c", script]);
    let found = owners(&by, "copy");
    let counts: Vec<(&str, u64)> = found.iter().map(|(name, .., count)| (name.as_str(), *count)).collect();
    assert_eq!(counts, [("program", 7), ("program", 100), ("program", 1000 + 1001 + 1002)], "{by}");
    assert!(found.iter().all(|(_, _, tid, _)| tid.is_none()), "{found:?}");
    let pids: BTreeSet<u64> = found.iter().map(|(_, pid, ..)| *pid).collect();
    assert_eq!(pids.len(), 3, "{found:?}");
}

#[test]
fn tasks_apart_need_counts_by_code_and_have_no_inclusive_ones() {
    for (options, said) in [
        (&["--per", "thread"][..], "--by"),
        (&["--by", "function", "--per", "thread", "--inclusive"], "--inclusive"),
        (&["--by", "function", "--per", "core"], "process, thread"),
    ] {
        let out = run(&[&["stat"][..], options, &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
}
