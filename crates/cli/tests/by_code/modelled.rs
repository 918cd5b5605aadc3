//! `stat --model`: misses of modelled caches.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{cyclometer, has, schema, skip, software_pmu_works, stderr, stdout};

/// A program without a C library, some 100,000 instructions: whatever the CPU, it executes the same ones.
const PROGRAM: &str = r#"
static unsigned a[1024]; static unsigned char b[60000]; static unsigned x = 1;
static unsigned rnd(void) { x = x * 1664525u + 1013904223u; return x >> 8; }
__attribute__((noinline)) void fill(void) { for (int i = 0; i < 1024; i++) a[i] = rnd(); }
__attribute__((noinline)) int walk(void) {
    int s = 0;
    for (int i = 0; i < 60000; i += 16) s += b[i];
    for (int i = 0; i < 1000; i++) { s += b[rnd() % 60000]; b[rnd() % 60000]++; }
    return s;
}
__attribute__((noinline)) void sort(void) {
    for (int i = 1; i < 150; i++) {
        unsigned v = a[i]; int j;
        for (j = i; j > 0 && a[j - 1] > v; j--) a[j] = a[j - 1];
        a[j] = v;
    }
}
int f0(int v) { return v + 1; } int f1(int v) { return v * 3; }
int (*volatile functions[2])(int) = {f0, f1};
void _start(void) {
    __asm__ volatile("and $-16, %rsp");
#ifdef PROCESSES
    long child = 0;
    if (PROCESSES > 1) __asm__ volatile("syscall" : "=a"(child) : "0"(57L) : "rcx", "r11", "memory");
    fill();
    register long options __asm__("r10") = 0;
    long ended = 61;
    if (child) __asm__ volatile("syscall" : "+a"(ended)
                                : "D"(-1L), "S"(0L), "d"(0L), "r"(options) : "rcx", "r11", "memory");
    __asm__ volatile("syscall" : : "a"(231), "D"(3));
#endif
    fill(); int s = walk(); sort();
    for (int i = 0; i < 500; i++) s = functions[rnd() % 2](s);
    __asm__ volatile("syscall" : : "a"(231), "D"(s & 0));
    __builtin_unreachable();
}
"#;

const CACHES: &str = "I1=4096,2,64:D1=4096,4,64:LL=16384,8,64";

fn built(folder: &Path, further: &[&str]) -> Option<()> {
    let options = ["-O1", "-static", "-nostdlib", "-fno-stack-protector"];
    super::built_from(folder, PROGRAM, &[&options, further].concat())
}

fn stat(folder: &Path, options: &[&str], command: &[&str]) -> Output {
    let arguments = [&["stat"], options, &["--"], command].concat();
    cyclometer().args(arguments).current_dir(folder).output().unwrap()
}

/// The values of a report that obeys the schema, by name.
fn values(report: &str) -> BTreeMap<String, f64> {
    let report: Value = serde_json::from_str(report).unwrap();
    let errors: Vec<String> = schema("stat-1.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let metrics = report["commands"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().all(|metric| metric["provenance"] == "modelled"), "{metrics:?}");
    let one =
        |metric: &Value| (metric["name"].as_str().unwrap().to_owned(), metric["mean"].as_f64().unwrap());
    metrics.iter().map(one).collect()
}

/// The numbers of cachegrind's report behind a label.
fn cachegrind(report: &str, label: &str) -> f64 {
    let line =
        report.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("{label}: {report}"));
    let number = line.split(label).nth(1).unwrap().trim().split(' ').next().unwrap();
    number.replace(',', "").parse().unwrap()
}

#[test]
fn each_instruction_is_modelled_and_misses_are_those_of_cachegrind() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let exports = ["--json", "--output", "null", "--export-csv", "f.csv", "--by", "function"];
    let model = format!("full:{CACHES}");
    let options = [&["--model", &model][..], &exports].concat();
    let out = stat(folder.path(), &options, &["./program"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let ours = values(&stdout(&out));
    let of =
        |name: &str| *ours.get(&format!("modelled_{name}")).unwrap_or_else(|| panic!("{name}: {ours:?}"));
    let misses = of("l1i_misses") + of("l1d_misses");
    let cycles = of("instructions") + 10.0 * misses + 100.0 * of("ll_misses");
    assert_eq!(ours["estimated_cycles"], cycles);
    check_exports(folder.path(), &stdout(&out));
    if !has("valgrind") {
        return skip("valgrind is not installed");
    }
    let caches = CACHES.split(':').map(|cache| format!("--{cache}"));
    let options = ["--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--cachegrind-out-file=out"];
    let mut valgrind = Command::new("valgrind");
    let out =
        valgrind.args(options).args(caches).arg("./program").current_dir(folder.path()).output().unwrap();
    let theirs = stderr(&out);
    assert_eq!(of("instructions"), cachegrind(&theirs, "I   refs:"));
    assert_eq!(of("data_references"), cachegrind(&theirs, "D   refs:"));
    assert_eq!(of("branches"), cachegrind(&theirs, "Branches:"));
    for (name, label) in
        [("l1i_misses", "I1  misses:"), ("l1d_misses", "D1  misses:"), ("ll_misses", "LL misses:")]
    {
        let theirs = cachegrind(&theirs, label);
        // The stack of a program begins elsewhere under valgrind: a few lines of it differ.
        assert!((of(name) - theirs).abs() <= (0.01 * theirs).max(4.0), "{name}: {} {theirs}", of(name));
    }
}

/// Misses of a fully associative TLB with the least recently used page replaced, as simply as that can be
/// said.
struct PlainTlb {
    entries: usize,
    pages: Vec<u64>,
}

impl PlainTlb {
    /// Whether the page was missing.
    fn misses(&mut self, page: u64) -> bool {
        let known = self.pages.iter().position(|held| *held == page);
        known.map(|at| self.pages.remove(at));
        self.pages.insert(0, page);
        self.pages.truncate(self.entries);
        known.is_none()
    }
}

/// Misses of three TLBs over the accesses that valgrind's lackey lists: of instructions, of data and of the
/// second level.
fn misses_of_lackey(listing: &str, entries: [usize; 3]) -> [u64; 3] {
    let [mut code, mut data, mut second] = entries.map(|entries| PlainTlb { entries, pages: Vec::new() });
    let mut misses = [0; 3];
    for line in listing.lines() {
        let mut words = line.split_whitespace();
        let (Some(kind @ ("I" | "L" | "S" | "M")), Some(place)) = (words.next(), words.next()) else {
            continue;
        };
        let (address, bytes) = place.split_once(',').unwrap();
        let first = u64::from_str_radix(address, 16).unwrap();
        let last = first + bytes.parse::<u64>().unwrap() - 1;
        let number = usize::from(kind != "I");
        let (mut is_miss, mut is_walk) = (false, false);
        for page in first / 4096..=last / 4096 {
            let level = if kind == "I" { &mut code } else { &mut data };
            if level.misses(page) {
                is_miss = true;
                is_walk |= second.misses(page);
            }
        }
        misses[number] += u64::from(is_miss);
        misses[2] += u64::from(is_walk);
    }
    misses
}

#[test]
fn misses_of_tlbs_are_those_of_a_list_of_pages_over_the_accesses_that_valgrind_lists() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    // Fully associative, because the stack begins elsewhere under valgrind.
    let options = ["--model", "full", "--model", "ITLB=1,1:DTLB=8,8", "--model", "STLB=12,12"];
    let out = stat(folder.path(), &[&options[..], &["--json", "--output", "null"]].concat(), &["./program"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let ours = values(&stdout(&out));
    let of = |name: &str| *ours.get(&format!("modelled_{name}_misses")).unwrap_or_else(|| panic!("{ours:?}"));
    let [itlb, dtlb, stlb] = ["itlb", "dtlb", "stlb"].map(of);
    assert!(itlb >= 1.0 && dtlb > 500.0 && stlb > 100.0 && stlb <= itlb + dtlb, "{ours:?}");
    if !has("valgrind") {
        return skip("valgrind is not installed");
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes", "--log-file=listing", "./program"]);
    assert!(valgrind.current_dir(folder.path()).output().unwrap().status.success());
    let listing = fs::read_to_string(folder.path().join("listing")).unwrap();
    let theirs = misses_of_lackey(&listing, [1, 8, 12]);
    for ((name, ours), theirs) in [("itlb", itlb), ("dtlb", dtlb), ("stlb", stlb)].into_iter().zip(theirs) {
        let theirs = theirs as f64;
        assert!((ours - theirs).abs() <= (0.01 * theirs).max(4.0), "{name}: {ours} {theirs}");
    }
}

#[test]
fn tlbs_have_rows_by_function_once_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    if super::built_from(folder.path(), THREADS, &["-O1", "-pthread"]).is_none() {
        return;
    }
    let by = |model: &[&str]| {
        let options = ["--by", "function", "--json", "--output", "null"];
        let out = stat(folder.path(), &[model, &options[..]].concat(), &["./program"]);
        assert!(out.status.success(), "{}", stderr(&out));
        values(&stdout(&out));
        let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
        report["commands"][0]["by"].clone()
    };
    let without = by(&["--model", "full"]);
    let names = |by: &Value| by["events"].as_array().unwrap().clone();
    assert!(names(&without).iter().all(|name| !name.as_str().unwrap().contains("tlb")), "{without}");
    let with = by(&["--model", "full:DTLB=64,4"]);
    assert_eq!(names(&with).len(), names(&without).len() + 3);
    let touch = with["rows"].as_array().unwrap().iter().find(|row| row["function"] == "touch").unwrap();
    let of = |name: &str| {
        let event = names(&with).iter().position(|one| one == name).unwrap_or_else(|| panic!("{with}"));
        touch["counts"][event].as_u64().unwrap()
    };
    // The 256 pages of a thread do not fit: each has left the TLB when its turn comes again. Another thread
    // may take an entry in between.
    assert!((4 * 3 * 256..4 * 3 * 256 + 600).contains(&of("modelled_dtlb_misses")), "{touch}");
    assert!(of("modelled_stlb_misses") <= of("modelled_dtlb_misses"), "{touch}");
    assert!(of("modelled_itlb_misses") < 600, "{touch}");
}

/// The rows of functions add up, and say in each format that a model made them.
fn check_exports(folder: &Path, report: &str) {
    let report: Value = serde_json::from_str(report).unwrap();
    let by = &report["commands"][0]["by"];
    assert_eq!(by["events"].as_array().unwrap().len(), 8);
    let rows = by["rows"].as_array().unwrap();
    let l1d = by["events"].as_array().unwrap().iter().position(|name| name == "modelled_l1d_misses").unwrap();
    let sum: u64 = rows.iter().map(|row| row["counts"][l1d].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), by["totals"][l1d].as_u64());
    let walk = rows.iter().find(|row| row["function"] == "walk").unwrap();
    assert!(walk["counts"][l1d].as_u64().unwrap() > sum / 2, "{by}");
    let csv = fs::read_to_string(folder.join("f.csv")).unwrap();
    assert!(csv.lines().skip(1).all(|row| row.contains(",modelled,")), "{csv}");
}

#[test]
fn a_forked_process_is_modelled_to_the_last_instruction_and_a_failure_is_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let of_fill = |processes: &str| {
        built(folder.path(), &[processes])?;
        let options = ["--model", "full", "--by", "function", "--json", "--output", "null"];
        let out = stat(folder.path(), &options, &["./program"]);
        assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
        let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
        let mut rows = report["commands"][0]["by"]["rows"].as_array().unwrap().iter();
        rows.find(|row| row["function"] == "fill").and_then(|row| row["counts"][0].as_u64())
    };
    let Some(one) = of_fill("-DPROCESSES=1") else { return };
    assert!(one > 1024, "{one}");
    assert_eq!(of_fill("-DPROCESSES=2"), Some(2 * one));
}

/// Four threads, each of which touches all lines of a megabyte of its own three times.
const THREADS: &str = r#"
#include <pthread.h>
static char memory[4][1 << 20];
void *touch(void *own) { char *at = own; for (int r = 0; r < 3; r++) for (int i = 0; i < 1 << 20; i += 64) at[i]++; return 0; }
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, touch, memory[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn all_threads_of_a_program_that_replaced_another_are_modelled() {
    let folder = tempfile::tempdir().unwrap();
    if super::built_from(folder.path(), THREADS, &["-O1", "-pthread"]).is_none() {
        return;
    }
    let options = ["--model", "full", "--by", "function", "--json", "--output", "null"];
    for command in [&["./program"][..], &["sh", "-c", "exec ./program"]] {
        let out = stat(folder.path(), &options, command);
        assert!(out.status.success(), "{}", stderr(&out));
        let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
        let by = &report["commands"][0]["by"];
        let row = by["rows"].as_array().unwrap().iter().find(|row| row["function"] == "touch").unwrap();
        let event = by["events"].as_array().unwrap().iter().position(|one| one == "modelled_l1d_misses");
        let misses = row["counts"][event.unwrap_or_else(|| panic!("{}", by["events"]))].as_u64().unwrap();
        // Each line of the megabyte has left the cache when its turn comes again.
        assert!((196_608..=198_600).contains(&misses), "{misses} for {command:?}");
    }
}

#[test]
fn a_command_that_ends_itself_at_an_interrupt_is_modelled_to_its_end() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'exit 4' INT; ls / > started; while :; do :; done";
    let tool = cyclometer()
        .args(["stat", "--model", "full", "--json", "--output", "null", "--", "sh", "-c", script])
        .current_dir(folder.path())
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while fs::read(folder.path().join("started")).unwrap_or_default().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(300), "the command does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", tool.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let out = tool.wait_with_output().unwrap();
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|_| panic!("{}", stderr(&out)));
    assert_eq!(report["interrupted"], 2, "{}", report["interrupted"]);
    assert_eq!(report["commands"][0]["runs"][0]["exit"], 4);
    let first = &report["commands"][0]["metrics"][0];
    assert!(first["mean"].as_f64().unwrap() > 100_000.0, "{first}");
}

#[test]
fn windows_have_an_interval_and_a_short_command_has_no_value() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let out = stat(folder.path(), &["--model", CACHES], &["sh", "-c", script]);
    assert!(out.status.success(), "{}", stderr(&out));
    let table = stderr(&out);
    let line = table.lines().find(|line| line.contains("modelled_l1d_mpki")).unwrap_or_default();
    let is_estimate = line.contains('±') && line.contains('~') && table.contains("windows with");
    assert!(is_estimate || table.contains("too short"), "{table}");
    assert!(!is_estimate || table.contains(CACHES), "{table}");
    let with_tlbs = stat(folder.path(), &["--model", "TLB"], &["sh", "-c", script]);
    let table = stderr(&with_tlbs);
    assert!(with_tlbs.status.success(), "{table}");
    for name in ["modelled_itlb_mpki", "modelled_dtlb_mpki", "modelled_stlb_mpki"] {
        assert!(table.contains(name), "{table}");
    }
    // The note with the sizes of the TLBs stands by the first row with a value.
    let has_value = table.lines().any(|line| line.contains("modelled_l1i_mpki") && line.contains('±'));
    assert_eq!(has_value, table.contains(" ITLB="), "{table}");
    assert!(has_value || table.contains("too short"), "{table}");
    let short = stat(folder.path(), &["--model", "--json", "--output", "null"], &["true"]);
    let report: Value = serde_json::from_str(&stdout(&short)).unwrap();
    for metric in report["commands"][0]["metrics"].as_array().unwrap() {
        assert_eq!(
            (&metric["mean"], metric["count"].as_str()),
            (&Value::Null, Some("not_counted")),
            "{metric}"
        );
        assert!(metric["reason"].as_str().unwrap().contains("use --model full"), "{metric}");
    }
}

#[test]
fn models_that_make_no_sense_are_errors_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (options, text) in [
        (&["--model", "D1=1,2,3"][..], "no power of two"),
        (&["--model", "full:"], "NAME=SIZE"),
        (&["--model", "L2=32768,8,64"], "I1, D1 or LL"),
        (&["--model", "DTLB=64,5"], "DTLB: 64 entries are no multiple of 5 ways"),
        (&["--model", "full", "--model", "ITLB=64,4,5000"], "a page of 5000 bytes"),
        (&["--model", "full:STLB=1536,12,4096"], "leave the third number out"),
        (&["--model", "TLB=64,4"], "ITLB, DTLB or STLB"),
        (&["--model", "ls"], "a command stands behind --"),
        (&["--model", "--by", "function"], "use --model full"),
        (&["--model", "-e", "instructions"], "cannot be used with"),
        (&["--model", "full", "-r", "3"], "cannot be used with"),
        (&["--model", "--backend", "perf"], "leave --backend out"),
    ] {
        let out = stat(folder.path(), options, &["true"]);
        assert_eq!(out.status.code(), Some(125), "{options:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(text), "{options:?}: {}", stderr(&out));
    }
}
