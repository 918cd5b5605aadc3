//! `stat --by`: exact counts of functions, lines and files of code.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "by_code/damaged.rs"]
mod damaged;
#[path = "by_code/files.rs"]
mod files;
#[path = "by_code/inlined.rs"]
mod inlined;
#[path = "by_code/interrupted.rs"]
mod interrupted;
#[path = "by_code/modelled.rs"]
mod modelled;
#[path = "by_code/per_task.rs"]
mod per_task;
#[path = "by_code/run_time.rs"]
mod run_time;

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{cyclometer, has, run, schema, skip, software_pmu_works, stderr, stdout};

/// Functions that call themselves and each other, that jump over frames, and that repeat strings.
const PROGRAM: &str = r#"
#include <setjmp.h>
#include <string.h>
static int table[1000]; static char from[5000], to[5000]; static jmp_buf back;
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) int odd(int n);
__attribute__((noinline)) int even(int n) { __asm__ volatile(""); return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline)) int odd(int n) { __asm__ volatile(""); return n == 0 ? 0 : even(n - 1); }
__attribute__((noinline)) void jump(int n) { if (n == 0) longjmp(back, 1); jump(n - 1); table[n]++; }
__attribute__((noinline)) void sum(int n) { for (int i = 0; i < n; i++) table[i % 1000] += i; }
__attribute__((noinline)) void copy(long n) {
    char *d = to, *s = from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}
int main(void) {
    int r = fib(15); sum(1234); copy(4321); r += even(100) + odd(77);
    for (int i = 0; i < 50; i++) if (!setjmp(back)) jump(30);
    return (r + table[3]) & 1 & 0;
}
"#;

/// Builds a program; `None`, and why, where nothing compiles or translates it.
fn built(folder: &Path, options: &[&str]) -> Option<()> {
    built_from(folder, PROGRAM, &[&["-O1", "-fno-optimize-sibling-calls"], options].concat())
}

/// Builds a program from this source; `None`, and why, where nothing compiles or translates it.
fn built_from(folder: &Path, source: &str, options: &[&str]) -> Option<()> {
    if !has("gcc") {
        skip("gcc is not installed");
        return None;
    }
    if !software_pmu_works() {
        return None;
    }
    fs::write(folder.join("program.c"), source).unwrap();
    let names = ["-o", "program", "program.c"];
    let out = Command::new("gcc").args(names).args(options).current_dir(folder).output().unwrap();
    let needs_library = options.contains(&"-static") && !options.contains(&"-nostdlib");
    if !out.status.success() && needs_library {
        skip("the C library is not there for static programs");
        return None;
    }
    assert!(out.status.success(), "{out:?}");
    Some(())
}

fn stat(folder: &Path, options: &[&str], command: &[&str]) -> Output {
    let common = ["stat", "--output", "null", "--top", "0"];
    let arguments = [&common[..], options, &["--"], command].concat();
    cyclometer().args(arguments).current_dir(folder).output().unwrap()
}

/// The report of a run, which obeys the schema, and whose rows add up to its totals.
fn by(folder: &Path, options: &[&str], command: &[&str]) -> Value {
    let out = stat(folder, &[&["--json"], options].concat(), command);
    assert!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let errors: Vec<String> = schema("stat-1.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let by = report["commands"][0]["by"].clone();
    let metrics = report["commands"][0]["metrics"].as_array().unwrap();
    for (index, event) in by["events"].as_array().unwrap().iter().enumerate() {
        let rows = by["rows"].as_array().unwrap().iter();
        let sum: u64 = rows.map(|row| row["counts"][index].as_u64().unwrap()).sum();
        let metric = metrics.iter().find(|metric| metric["name"] == *event).unwrap();
        assert_eq!(metric["mean"].as_f64(), Some(sum as f64), "{event}");
        assert_eq!(by["totals"][index], sum, "{event}");
    }
    by
}

/// The counts of each function of a file whose path ends in this way.
fn functions(by: &Value, file: &str) -> BTreeMap<String, Vec<u64>> {
    let of_file = |row: &&Value| row["object"].as_str().is_some_and(|path| path.ends_with(file));
    let rows = by["rows"].as_array().unwrap().iter().filter(of_file);
    let counts =
        |row: &Value| row["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    rows.filter_map(|row| Some((row["function"].as_str()?.to_owned(), counts(row)))).collect()
}

#[test]
fn functions_have_the_counts_of_their_own_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let events = "instructions,calls,returns,loads,branches_conditional_taken,rep_iterations";
    let by = by(folder.path(), &["--by", "function", "-e", events], &["./program"]);
    let functions = functions(&by, "/program");
    let of = |name: &str| functions.get(name).unwrap_or_else(|| panic!("{name}: {functions:?}"));
    // Known from the source: fib(15) makes 1972 calls of itself, two in each of 986 that go on.
    assert_eq!((of("fib")[1], of("fib")[2]), (1972, 1973));
    assert_eq!(of("even")[1] + of("odd")[1], 177);
    // Each of the 50 rounds calls longjmp once, and jump thirty times from itself; none returns.
    assert_eq!((of("jump")[1], of("jump")[2]), (50 * 31, 0));
    assert_eq!((of("copy")[3], of("copy")[5]), (4321 + 1, 4321), "a load for each iteration, and the return");
    assert!(of("sum")[0] > 5 * 1234 && of("sum")[4] == 1233, "{:?}", of("sum"));
    assert_eq!(by["notes"].as_array().map(Vec::len), Some(0), "{}", by["notes"]);
}

#[test]
fn exclusive_counts_are_those_of_callgrind() {
    let folder = tempfile::tempdir().unwrap();
    if !has("valgrind") {
        return skip("valgrind is not installed");
    }
    let Some(()) = built(folder.path(), &["-static"]) else { return };
    let ours = functions(
        &by(folder.path(), &["--by", "function", "-e", "instructions"], &["env", "-i", "./program"]),
        "/program",
    );
    let options = ["-i", "valgrind", "--tool=callgrind", "--callgrind-out-file=out", "--separate-recs=1"];
    let mut valgrind = Command::new("env");
    let out = valgrind.args(options).arg("./program").current_dir(folder.path()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let theirs = exclusive(&fs::read_to_string(folder.path().join("out")).unwrap());
    for name in ["fib", "even", "odd", "jump", "sum", "main", "longjmp"] {
        let of = |counts: Option<u64>| counts.unwrap_or_else(|| panic!("{name}: {ours:?} {theirs:?}"));
        let (one, other) = (of(ours.get(name).map(|counts| counts[0])), of(theirs.get(name).copied()));
        assert_eq!(one, other, "{name}");
    }
}

/// The exclusive counts of a profile of callgrind, by function. Lines behind `calls=` are inclusive.
///
/// # Source
///
/// Valgrind manual, "Callgrind Format Specification".
fn exclusive(profile: &str) -> BTreeMap<String, u64> {
    let (mut names, mut counts) = (BTreeMap::new(), BTreeMap::new());
    let (mut function, mut is_call) = (String::new(), false);
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            let (id, name) = name.split_once(' ').map_or((name, None), |(id, name)| (id, Some(name)));
            let known = names.entry(id.to_owned()).or_insert_with(|| name.unwrap_or_default().to_owned());
            function = known.split('\'').next().unwrap_or_default().to_owned();
        } else if let Some(called) = line.strip_prefix("cfn=") {
            if let Some((id, name)) = called.split_once(' ') {
                names.insert(id.to_owned(), name.to_owned());
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-' || c == '*') {
            let count: u64 = line.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_call) {
                *counts.entry(function.clone()).or_default() += count;
            }
        }
    }
    counts
}

#[test]
fn files_without_symbols_have_a_row_and_separate_files_give_their_names_back() {
    let folder = tempfile::tempdir().unwrap();
    if !has("objcopy") {
        return skip("objcopy is not installed");
    }
    let Some(()) = built(folder.path(), &["-g", "-Wl,--build-id=none"]) else { return };
    let counted = |what: &str| {
        let by = by(folder.path(), &["--by", "function", "-e", "instructions"], &["./program"]);
        let functions = functions(&by, "/program");
        (functions.get(what).cloned(), by)
    };
    let (whole, _) = counted("fib");
    assert!(whole.is_some());
    let objcopy = |arguments: &[&str]| {
        let out = Command::new("objcopy").args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    objcopy(&["--only-keep-debug", "program", "program.debug"]);
    objcopy(&["--strip-all", "program"]);
    let (stripped, by) = counted("fib");
    assert_eq!(stripped, None);
    let rows = by["rows"].as_array().unwrap().iter();
    let unnamed = |row: &&Value| {
        row["function"].is_null() && row["object"].as_str().is_some_and(|o| o.ends_with("/program"))
    };
    let sum: u64 = rows.filter(unnamed).map(|row| row["counts"][0].as_u64().unwrap()).sum();
    assert!(sum > whole.as_ref().unwrap()[0], "{by}");
    objcopy(&["--add-gnu-debuglink=program.debug", "program"]);
    assert_eq!(counted("fib").0, whole);
    // Another file of that name is not taken.
    fs::write(folder.path().join("program.debug"), "nothing of that").unwrap();
    assert_eq!(counted("fib").0, None);
}

#[test]
fn lines_are_those_of_the_source_and_files_those_that_were_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &["-g", "-gdwarf-5"]) else { return };
    let lines = by(folder.path(), &["--by", "line", "-e", "calls"], &["./program"]);
    let fib = 1 + PROGRAM.lines().position(|line| line.contains("int fib(")).unwrap();
    let row = |row: &&Value| row["line"] == fib && row["file"].as_str().unwrap().ends_with("program.c");
    let row = lines["rows"].as_array().unwrap().iter().find(row).unwrap_or_else(|| panic!("{lines}"));
    assert_eq!((row["counts"][0].as_u64(), row["function"].as_str()), (Some(1972), Some("fib")));
    let objects = by(folder.path(), &["--by", "object"], &["./program"]);
    let paths: Vec<&str> =
        objects["rows"].as_array().unwrap().iter().filter_map(|row| row["object"].as_str()).collect();
    assert!(paths.iter().any(|path| path.ends_with("/program")), "{paths:?}");
    assert!(paths.iter().any(|path| path.contains("libc")), "{paths:?}");
}

#[test]
fn a_program_that_replaces_its_file_has_no_wrong_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let script = "./program; cp program other; printf x >> other; mv other program";
    let by = by(folder.path(), &["--by", "function"], &["sh", "-c", script]);
    assert!(functions(&by, "/program").is_empty(), "{by}");
    let notes = by["notes"].to_string();
    assert!(notes.contains("/program: no names: it was replaced since"), "{notes}");
}

#[test]
fn two_files_of_one_length_and_time_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    for (name, rounds) in [("alpha", 100), ("gamma", 200)] {
        let source = format!(
            "__attribute__((noinline)) void {name}(int n) {{ while (n--) __asm__ volatile(\"\"); }}\n\
             int main(void) {{ {name}({rounds}); return 0; }}\n"
        );
        let place = folder.path().join(name);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("p.c"), source).unwrap();
        let options = ["-O1", "-Wl,--build-id=none", "-o", "p", "p.c"];
        assert!(Command::new("gcc").args(options).current_dir(&place).status().unwrap().success());
        assert!(
            Command::new("touch").args(["-d", "@1", "p"]).current_dir(&place).status().unwrap().success()
        );
    }
    let length = |name: &str| fs::metadata(folder.path().join(name).join("p")).unwrap().len();
    assert_eq!(length("alpha"), length("gamma"), "the case that is tried");
    let by = by(folder.path(), &["--by", "function"], &["sh", "-c", "./alpha/p; ./gamma/p; ./alpha/p"]);
    let of = |name: &str| functions(&by, &format!("{name}/p"))[name][0];
    let (alpha, gamma) = (of("alpha"), of("gamma"));
    assert!(alpha > 2 * 100 && gamma > 200 && alpha != gamma, "{by}");
    assert!(!functions(&by, "alpha/p").contains_key("gamma"), "{by}");
}

#[test]
fn processes_and_threads_are_added_up_and_the_table_fits_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let once = functions(&by(folder.path(), &["--by", "function"], &["./program"]), "/program");
    let script = "./program & ./program & wait; exec ./program";
    let thrice = functions(&by(folder.path(), &["--by", "function"], &["sh", "-c", script]), "/program");
    assert_eq!(thrice["fib"][0], 3 * once["fib"][0]);
    let out = stat(folder.path(), &["--by", "function", "-e", "instructions,calls,loads"], &["./program"]);
    let text = stderr(&out) + &stdout(&out);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("total\n") && text.contains("fib program"), "{text}");
    let csv = ["--by", "function", "--export-csv", "counts.csv"];
    assert!(stat(folder.path(), &csv, &["./program"]).status.success());
    let csv = fs::read_to_string(folder.path().join("counts.csv")).unwrap();
    let mut rows = csv.split("\r\n").map(|row| row.split(',').count()).filter(|fields| *fields > 1);
    let width = rows.next().unwrap();
    assert!(rows.all(|fields| fields >= width), "{csv}");
    assert!(csv.contains(&format!(",{},", once["fib"][0])) && csv.contains(",fib,"), "{csv}");
}

#[test]
fn questions_that_make_no_sense_are_errors() {
    for (options, said) in [
        (&["--by", "colour"][..], "one of function, line, object"),
        (&["--by", "function", "-r", "3"], "leave -r out"),
        (&["--by", "function", "--backend", "os"], "software PMU"),
        (&["--by", "function", "-a"], "cannot be used with"),
        (&["--top", "3"], "--by"),
    ] {
        let out = run(&[&["stat"], options, &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
}

/// Two versions of a program: `a/program`, and `b/renamed` in which `sum` does more and `fresh` is new.
fn two_versions(folder: &Path) -> Option<()> {
    built(folder, &[])?;
    let newer = PROGRAM
        .replace("sum(1234)", "sum(2000); fresh(5)")
        .replace("int main", "__attribute__((noinline)) void fresh(int n) { table[n] = n; }\nint main");
    fs::create_dir(folder.join("a")).unwrap();
    fs::create_dir(folder.join("b")).unwrap();
    fs::rename(folder.join("program"), folder.join("a/program")).unwrap();
    fs::write(folder.join("b/program.c"), newer).unwrap();
    let options = ["-O1", "-fno-optimize-sibling-calls", "-o", "renamed", "program.c"];
    let compiled = Command::new("gcc").args(options).current_dir(folder.join("b")).status().unwrap();
    assert!(compiled.success());
    Some(())
}

fn compare(folder: &Path, options: &[&str]) -> Output {
    let arguments = [&["compare"], options].concat();
    cyclometer().args(arguments).current_dir(folder).output().unwrap()
}

/// The exported results, which obey the schema.
fn compared(folder: &Path, file: &str) -> Value {
    let results: Value = serde_json::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap();
    let validator = schema("compare-1.json");
    let errors: Vec<String> =
        validator.iter_errors(&results).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
    results
}

/// The exact change of each function of the first comparison.
fn changed(results: &Value) -> BTreeMap<String, i64> {
    let by = &results["comparisons"][0]["by"];
    let name = |change: &Value| {
        let side = if change["b"].is_null() { &change["a"] } else { &change["b"] };
        side["function"].as_str().unwrap_or("[unknown]").to_owned()
    };
    let all = by["changes"].as_array().unwrap().iter().map(|change| {
        assert_eq!(change["counts"][0]["is_exact"], true, "{change}");
        (name(change), change["counts"][0]["change"].as_f64().unwrap() as i64)
    });
    all.collect()
}

#[test]
fn the_functions_that_changed_are_named_with_their_exact_change_and_by_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = two_versions(folder.path()) else { return };
    let options = ["--by", "function", "--export-json", "f.json", "--export-markdown", "f.md"];
    let gate = ["--fail-if", "instructions > +0.5%", "a/program", "b/renamed"];
    let out = compare(folder.path(), &[&options[..], &gate].concat());
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let text = stdout(&out);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("most of it: sum renamed +"), "{text}");
    let results = compared(folder.path(), "f.json");
    let changes = changed(&results);
    assert!(changes["sum"] > 766 && changes["fresh"] > 0, "{changes:?}");
    assert!(!changes.contains_key("fib") && !changes.contains_key("copy"), "{changes:?}");
    // The changes add up to the change of the command.
    let metric = &results["comparisons"][0]["metrics"][0];
    let value = |side: &str| metric[side]["median"].as_f64().unwrap() as i64;
    assert_eq!(changes.values().sum::<i64>(), value("b") - value("a"), "{metric}");
    let markdown = fs::read_to_string(folder.path().join("f.md")).unwrap();
    assert!(markdown.contains("| `sum renamed` |") && markdown.contains("most of it"), "{markdown}");
}

#[test]
fn a_baseline_has_counts_by_function_where_they_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = two_versions(folder.path()) else { return };
    let by = ["--by", "function"];
    let saved =
        compare(folder.path(), &[&by[..], &["--save-baseline", "base.json", "--", "a/program"]].concat());
    assert!(saved.status.success(), "{saved:?}");
    compared(folder.path(), "base.json");
    let against = |options: &[&str]| {
        compare(folder.path(), &[&["--baseline", "base.json"], options, &["--", "b/renamed"]].concat())
    };
    let out =
        against(&[&by[..], &["-q", "--fail-if", "instructions > +0.5%", "--export-json", "f.json"]].concat());
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(stderr(&out).contains("; most of it: sum renamed +"), "{}", stderr(&out));
    assert!(changed(&compared(folder.path(), "f.json"))["sum"] > 766);
    let out = against(&["--by", "object"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("base.json has counts by function, not by object"), "{}", stderr(&out));
    // Results of stat are a baseline, too; those without --by are none for it.
    let stat = |options: &[&str]| assert!(stat(folder.path(), options, &["a/program"]).status.success());
    stat(&["--by", "function", "--export-json", "base.json"]);
    let out = against(&by);
    assert!(stdout(&out).contains("A: one run was counted"), "{out:?}");
    assert!(stdout(&out).contains("sum renamed"), "{out:?}");
    let without = ["-e", "instructions", "--backend", "soft", "--save-baseline", "base.json", "--force"];
    assert!(compare(folder.path(), &[&without[..], &["--", "a/program"]].concat()).status.success());
    let out = against(&by);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("base.json has no counts by function"), "{}", stderr(&out));
}

#[test]
fn a_baseline_with_counts_by_function_is_not_replaced_by_one_without() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let save = |options: &[&str]| {
        compare(folder.path(), &[options, &["--save-baseline", "base.json", "--", "./program"]].concat())
    };
    assert!(save(&["--by", "function"]).status.success());
    let out = save(&["-e", "instructions", "--backend", "soft"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("it has counts by function"), "{}", stderr(&out));
    assert!(save(&["-e", "instructions", "--backend", "soft", "--force"]).status.success());
}

/// A program that the software PMU cannot follow when it has an argument, and can when it has none.
const LOSING: &str = r#"
#include <signal.h>
int main(int argc, char **argv) {
    if (argc > 1) signal(SIGTRAP, SIG_IGN);
    return 0;
}
"#;

/// Builds a program of several files of source code.
fn compiled(folder: &Path, program: &str, sources: &[(&str, &str)]) {
    sources.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    let files = sources.iter().map(|(name, _)| name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o", program]).args(files).current_dir(folder);
    assert!(gcc.status().unwrap().success());
}

#[test]
fn a_lost_count_has_the_reason_in_place_of_changes_and_is_in_no_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    compiled(folder.path(), "losing", &[("losing.c", LOSING)]);
    let options = ["--by", "function", "--export-json", "f.json", "./losing", "./losing x"];
    let out = compare(folder.path(), &options);
    let text = stdout(&out);
    assert!(text.contains("by function: not compared"), "{out:?}");
    assert!(
        text.contains("B: instructions:u is not compared by code") && text.contains("detached"),
        "{text}"
    );
    let results = compared(folder.path(), "f.json");
    assert!(!results["comparisons"][0]["by"].to_string().contains("is_exact"), "{results}");
    assert!(results["commands"][0].get("by").is_some() && results["commands"][1].get("by").is_none());
    let save = ["--by", "function", "--save-baseline", "base.json", "--", "./losing", "x"];
    let out = compare(folder.path(), &save);
    assert!(stderr(&out).contains("base.json has no counts by function: instructions:u"), "{out:?}");
    let against = ["--by", "function", "--baseline", "base.json", "--", "./losing"];
    let refused = || {
        let out = compare(folder.path(), &against);
        assert_eq!(out.status.code(), Some(125), "{out:?}");
        assert!(stderr(&out).contains("base.json has no counts by function"), "{out:?}");
    };
    refused();
    // So it is with a file of stat, whose rows are those of the other processes.
    let script = ["sh", "-c", "./losing; ./losing x"];
    let options =
        ["--by", "function", "--export-json", "base.json", "--export-callgrind", "f.cg", "--html", "f.html"];
    stat(folder.path(), &options, &script);
    refused();
    let callgrind = fs::read_to_string(folder.path().join("f.cg")).unwrap();
    assert!(callgrind.contains("desc: Note: instructions:u: the rows are of the processes"), "{callgrind}");
    let page = fs::read_to_string(folder.path().join("f.html")).unwrap();
    assert!(page.contains("of the processes that have a count") && !page.contains("counted exactly"));
}

#[test]
fn functions_of_one_name_in_two_files_of_source_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let source = |name: &str, rounds: u32| {
        format!(
            "static volatile int sum;\n\
             static __attribute__((noinline)) void helper(int n) {{ for (int i = 0; i < n; i++) sum += i; }}\n\
             void {name}(void) {{ helper({rounds}); }}\n"
        )
    };
    let main = ("m.c", "void one(void); void two(void);\nint main(void) { one(); two(); return 0; }\n");
    for (program, [one, two]) in [("old", [1000, 2000]), ("new", [2000, 1000])] {
        let (one, two) = (source("one", one), source("two", two));
        compiled(folder.path(), program, &[main, ("a.c", &one), ("b.c", &two)]);
    }
    let by = by(folder.path(), &["--by", "function"], &["./old"]);
    let of = functions(&by, "/old");
    assert!(of["helper [b.c]"][0] > of["helper [a.c]"][0] + 3000 && !of.contains_key("helper"), "{by}");
    let out = compare(folder.path(), &["--by", "function", "--export-json", "f.json", "./old", "./new"]);
    assert!(out.status.success(), "{out:?}");
    let changes = changed(&compared(folder.path(), "f.json"));
    assert!(changes["helper [a.c]"] > 3000, "{changes:?}");
    assert_eq!(changes["helper [a.c]"], -changes["helper [b.c]"], "{changes:?}");
    assert!(stdout(&out).contains("old of A is compared with new of B"), "{out:?}");
}

#[test]
fn regions_of_events_that_the_software_pmu_does_not_count_are_an_error() {
    if !software_pmu_works() {
        return;
    }
    let out = run(&["run", "-e", "wall_time", "--", "true"]);
    // Where there is a PMU, it counts regions, and the program is run natively.
    if out.status.code() == Some(0) {
        return skip("a PMU counts regions here");
    }
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("the software PMU counts none of the events"), "{out:?}");
    assert!(run(&["run", "-e", "instructions", "--", "true"]).status.success());
}

#[test]
fn a_hook_that_builds_each_command_at_one_path_does_not_mix_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = two_versions(folder.path()) else { return };
    // Before each run the file of its command is put at the path that both run.
    let prepare = "cp {v} ./current";
    let options = ["--by", "function", "--export-json", "f.json", "-L", "v=a/program,b/renamed"];
    let out = compare(folder.path(), &[&options[..], &["--prepare", prepare, "./current {v}"]].concat());
    assert!(out.status.success(), "{out:?}");
    let results = compared(folder.path(), "f.json");
    let changes = changed(&results);
    assert!(changes["sum"] > 766 && changes["fresh"] > 0 && !changes.contains_key("fib"), "{changes:?}");
}

#[test]
fn comparisons_by_code_that_make_no_sense_are_errors() {
    for (options, said) in [
        (&["compare", "--by", "line", "true", "false"][..], "function or object"),
        (&["compare", "--by", "function", "--backend", "os", "true", "true"], "software PMU"),
        (&["compare", "--top", "3", "true", "true"], "--by"),
    ] {
        let out = run(options);
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
    if software_pmu_works() {
        for command in [
            &["stat", "--by", "function", "-e", "page-faults", "--", "true"][..],
            &["compare", "--by", "function", "-e", "page-faults", "true", "true"],
        ] {
            let out = run(command);
            assert_eq!(out.status.code(), Some(125), "{out:?}");
            assert!(stderr(&out).contains("the software PMU counts none of the events"), "{out:?}");
        }
    }
}

/// The sum of the cost lines of a file in Callgrind's format, and what its summary says.
fn costs(text: &str) -> (Vec<u64>, Vec<u64>) {
    let numbers = |text: &str| text.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u64>>();
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).map(numbers).unwrap();
    let mut sums = vec![0; summary.len()];
    for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
        let costs = numbers(line);
        assert_eq!(costs.len(), 1 + sums.len(), "{line}");
        sums.iter_mut().zip(&costs[1..]).for_each(|(sum, cost)| *sum += cost);
    }
    (sums, summary)
}

#[test]
fn counts_in_callgrinds_format_add_up_and_are_read_by_its_tool() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &["-g"]) else { return };
    for grouping in ["function", "line"] {
        let options = ["--by", grouping, "-e", "instructions,calls", "--export-callgrind", "callgrind.out"];
        let by = by(folder.path(), &options, &["./program"]);
        let text = fs::read_to_string(folder.path().join("callgrind.out")).unwrap();
        let (sums, summary) = costs(&text);
        assert_eq!(sums, summary);
        assert_eq!(by["totals"][0].as_u64(), Some(summary[0]), "{grouping}");
        assert!(text.contains("\nevents: Ir calls_u\n"), "{text}");
        assert!(text.lines().any(|line| line.ends_with(") fib")), "{text}");
        if grouping == "line" {
            assert!(text.lines().any(|line| line.ends_with("program.c")), "{text}");
        }
        if !has("callgrind_annotate") {
            skip("callgrind_annotate is not installed");
            continue;
        }
        let file = folder.path().join("callgrind.out");
        let read = Command::new("callgrind_annotate").arg("--threshold=100").arg(file).output().unwrap();
        let read = String::from_utf8_lossy(&read.stdout).into_owned();
        let grouped = |count: u64| {
            let digits: Vec<char> = count.to_string().chars().rev().collect();
            let groups: Vec<String> = digits.chunks(3).map(|group| group.iter().collect()).collect();
            groups.join(",").chars().rev().collect::<String>()
        };
        let total = read.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap_or_default();
        assert!(total.trim_start().starts_with(&grouped(summary[0])), "{grouping}: {read}");
        let fib = read.lines().find(|line| line.contains(":fib ")).unwrap_or_default();
        let rows = by["rows"].as_array().unwrap().iter().filter(|row| row["function"] == "fib");
        let sum: u64 = rows.map(|row| row["counts"][0].as_u64().unwrap()).sum();
        assert!(fib.trim_start().starts_with(&grouped(sum)), "{grouping}: {sum}: {read}");
    }
}

#[test]
fn folded_stacks_and_a_page_have_the_counts_of_the_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let options = ["--by", "function", "--export-folded", "f.folded", "--html", "f.html"];
    let by = by(folder.path(), &options, &["./program"]);
    let folded = fs::read_to_string(folder.path().join("f.folded")).unwrap();
    let counts = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(Some(counts.sum::<u64>()), by["totals"][0].as_u64());
    let fib = functions(&by, "/program")["fib"][0];
    assert!(folded.lines().any(|line| line == format!("program;fib {fib}")), "{folded}");
    let page = fs::read_to_string(folder.path().join("f.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("fib") && page.contains("prefers-color-scheme:dark"));
    assert!(!page.contains("src=") && !page.contains("<script"), "it needs no other file");
    let out = run(&["stat", "--html", "f.html", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("--by"), "{}", stderr(&out));
}

#[test]
fn calls_of_functions_are_exact_and_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    let by = by(folder.path(), &["--by", "function", "-e", "instructions,calls", "--calls"], &["./program"]);
    let calls = by["calls"].as_array().unwrap();
    let of = |caller: &str, callee: &str| {
        let is_it = |call: &&Value| {
            call["caller"]["function"] == caller
                && call["callee"]["function"] == callee
                && call["caller"]["object"].as_str().is_some_and(|path| path.ends_with("/program"))
        };
        calls.iter().filter(is_it).map(|call| call["times"].as_u64().unwrap()).sum::<u64>()
    };
    // fib(15) is executed 1973 times, once for main.
    assert_eq!((of("main", "fib"), of("fib", "fib")), (1, 1972), "{by}");
    assert_eq!((of("main", "jump"), of("jump", "jump"), of("main", "even")), (50, 50 * 30, 1), "{by}");
    assert_eq!((of("even", "odd"), of("odd", "even")), (50 + 38, 50 + 39), "{by}");
    // By the stub of the procedure linkage table.
    let stubs = calls.iter().filter(|call| call["caller"]["function"] == "main");
    let stubs =
        stubs.filter(|call| call["callee"]["function"].as_str().is_some_and(|name| name.ends_with("@plt")));
    assert!(stubs.count() > 0, "{by}");
    let sum: u64 = calls.iter().map(|call| call["times"].as_u64().unwrap()).sum();
    assert_eq!(by["totals"][1], sum, "every call is one of a caller");
    let options =
        ["stat", "--output", "null", "--by", "function", "--calls", "--top", "500", "--", "./program"];
    let out = cyclometer().args(options).current_dir(folder.path()).output().unwrap();
    let text = stderr(&out) + &stdout(&out);
    assert!(text.contains("fib program → fib program\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let out = run(&["stat", "--by", "object", "--calls", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("use --by function"), "{}", stderr(&out));
}

/// Functions whose frames are skipped, suspended, or on stacks of their own.
const STACKS: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define NI __attribute__((noinline))
static volatile long sink; static jmp_buf back; static char stack[65536], other_stack[65536];
static ucontext_t outside, inside;
NI void spin(long n) { for (long i = 0; i < n; i++) sink += i; }
NI void jump(int n) { if (n == 0) longjmp(back, 1); jump(n - 1); sink++; }
NI void jumps(void) { for (volatile int i = 0; i < 50; i++) if (!setjmp(back)) jump(30); }
NI void coroutine(void) { for (int i = 0; i < 20; i++) { spin(100); swapcontext(&inside, &outside); } }
NI void coroutines(void) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack; inside.uc_stack.ss_size = sizeof stack; inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < 20; i++) { swapcontext(&outside, &inside); spin(50); }
}
NI void handler(int n) { (void)n; spin(200); }
NI void signals(void) {
    stack_t s = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
    struct sigaction a = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    sigaltstack(&s, 0); sigaction(SIGUSR1, &a, 0);
    for (int i = 0; i < 10; i++) { raise(SIGUSR1); spin(10); }
}
NI void *worker(void *n) { spin((long)n); return 0; }
NI void threads(void) {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, worker, (void *)1000);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
NI void child(void) { spin(3000); _exit(0); }
NI void forks(void) { int s; if (fork() == 0) child(); wait(&s); }
NI void last(long n) { spin(n); sink++; }
NI void tail(long n) { sink++; last(n); }
int main(void) { jumps(); coroutines(); signals(); threads(); forks(); tail(4000); return 0; }
"#;

/// The inclusive count of each function of a file, and whether it is partial.
fn inclusive(by: &Value, file: &str) -> BTreeMap<String, (u64, bool)> {
    let of_file = |row: &&Value| row["object"].as_str().is_some_and(|path| path.ends_with(file));
    let rows = by["rows"].as_array().unwrap().iter().filter(of_file);
    let of = |row: &Value| {
        let count = (row["inclusive"].as_u64()?, row["partial"].as_bool()?);
        Some((row["function"].as_str()?.to_owned(), count))
    };
    rows.filter_map(of).collect()
}

#[test]
fn inclusive_counts_have_each_instruction_once_and_are_the_sum_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &["-static"]) else { return };
    let files = ["--export-callgrind", "f.out", "--export-folded", "f.folded", "--html", "f.html"];
    let files = [&files[..], &["--export-csv", "f.csv"]].concat();
    let options = [&["--by", "function", "--inclusive", "--calls"][..], &files].concat();
    let by = by(folder.path(), &options, &["env", "-i", "./program"]);
    let all = by["totals"][0].as_u64().unwrap();
    assert_eq!(by["notes"].as_array().map(Vec::len), Some(0), "{}", by["notes"]);
    let (own, inclusive) = (functions(&by, "/program"), inclusive(&by, "/program"));
    let of = |name: &str| *inclusive.get(name).unwrap_or_else(|| panic!("{name}: {inclusive:?}"));
    // Nothing is below these: fib calls itself alone.
    assert_eq!([of("fib"), of("sum")], ["fib", "sum"].map(|name| (own[name][0], false)));
    // main calls even, which with odd has the instructions of both.
    let both = own["even"][0] + own["odd"][0];
    assert!(of("even").0 < both && of("odd").0 < both && !of("even").1, "{inclusive:?}");
    assert!(of("even").0 + of("odd").0 > both, "each has most of the other");
    assert!(of("jump").1 && of("longjmp").1, "frames were skipped: {inclusive:?}");
    assert!(inclusive.values().all(|(count, _)| *count <= all), "{inclusive:?}");
    assert!(inclusive.iter().all(|(name, (count, _))| own[name][0] <= *count), "{inclusive:?}");
    let calls = by["calls"].as_array().unwrap();
    let into = |name: &str| {
        let calls = calls.iter().filter(|call| call["callee"]["function"] == name);
        calls.map(|call| call["inclusive"].as_u64().unwrap()).sum::<u64>()
    };
    for name in ["fib", "even", "odd", "jump", "main"] {
        assert_eq!(into(name), of(name).0, "{name}");
    }
    check_exports(folder.path(), all, &inclusive);
    let csv = fs::read_to_string(folder.path().join("f.csv")).unwrap();
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(head[head.len() - 5..], ["object", "function", "line", "inclusive", "partial"]);
    let ends = |name: &str| {
        let (count, is_partial) = inclusive[name];
        format!(",{name},,{count},{is_partial}\r\n")
    };
    for name in ["fib", "even", "jump", "main"] {
        assert!(csv.contains(&ends(name)), "{name}: {csv}");
    }
}

/// The exports have the same counts, by the tool that reads Callgrind's format too.
fn check_exports(folder: &Path, all: u64, inclusive: &BTreeMap<String, (u64, bool)>) {
    let folded = fs::read_to_string(folder.join("f.folded")).unwrap();
    let counts = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), all);
    assert!(folded.lines().any(|line| line.contains(";main;fib ")), "{folded}");
    let page = fs::read_to_string(folder.join("f.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("<details") && !page.contains("<script"), "{page}");
    if !has("callgrind_annotate") {
        return skip("valgrind is not installed");
    }
    let options = ["--inclusive=yes", "--threshold=100", "f.out"];
    let out = Command::new("callgrind_annotate").args(options).current_dir(folder).output().unwrap();
    let text = stdout(&out);
    for name in ["fib", "even", "odd", "main"] {
        let line = text.lines().find(|line| line.contains(&format!(":{name} "))).unwrap_or_default();
        let number = line.split('(').next().unwrap_or_default().trim().replace(',', "");
        assert_eq!(number, inclusive[name].0.to_string(), "{name}: {text}");
    }
}

#[test]
fn inclusive_counts_survive_skipped_frames_other_stacks_handlers_threads_and_forks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    fs::write(folder.path().join("stacks.c"), STACKS).unwrap();
    let options = ["-O2", "-fno-inline", "-pthread", "-o", "stacks", "stacks.c"];
    let out = Command::new("gcc").args(options).current_dir(folder.path()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let by = by(folder.path(), &["--by", "function", "--inclusive"], &["./stacks"]);
    assert_eq!(by["notes"].as_array().map(Vec::len), Some(0), "the paths have all: {}", by["notes"]);
    let all = by["totals"][0].as_u64().unwrap();
    let (own, inclusive) = (functions(&by, "/stacks"), inclusive(&by, "/stacks"));
    let of = |name: &str| *inclusive.get(name).unwrap_or_else(|| panic!("{name}: {inclusive:?}"));
    assert!(inclusive.values().all(|(count, _)| *count <= all), "{inclusive:?}");
    // A round of spin has the same number of instructions everywhere.
    let rounds = 20 * (100 + 50) + 10 * (200 + 10) + 2 * 1000 + 3000 + 4000;
    let round = own["spin"][0] / rounds;
    assert_eq!(of("spin"), (own["spin"][0], of("spin").1));
    let least = |name: &str, rounds: u64| {
        let (count, _) = of(name);
        assert!(
            count >= rounds * round && count < rounds * round + 40_000,
            "{name} {rounds} {round}: {count}"
        );
    };
    least("coroutine", 20 * 100);
    least("handler", 10 * 200);
    least("signals", 10 * 210);
    least("worker", 2 * 1000);
    least("child", 3000);
    least("forks", 3000);
    // `tail` ends with a jump to `last`.
    least("last", 4000);
    assert!(of("tail").0 > of("last").0 && !of("tail").1, "{inclusive:?}");
    assert!(
        !of("handler").1 && !of("worker").1 && !of("forks").1,
        "all their frames are known: {inclusive:?}"
    );
    assert!(of("coroutine").1, "its stack was switched: {inclusive:?}");
}

/// Threads that call all the time, and that the end of their process ends anywhere.
const ENDED: &str = r#"
#include <pthread.h>
#include <unistd.h>
#define NI __attribute__((noinline))
static volatile long sink, begun;
NI void leaf(void) { sink++; }
NI void caller(void) { leaf(); leaf(); leaf(); }
NI void *worker(void *n) { __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST); for (;;) caller(); return n; }
int main(void) {
    pthread_t t;
    for (int i = 0; i < 4; i++) pthread_create(&t, 0, worker, 0);
    while (begun < 4) usleep(1000);
    _exit(0);
}
"#;

#[test]
fn a_call_that_the_end_of_its_thread_prevents_is_in_no_call_path() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    fs::write(folder.path().join("ended.c"), ENDED).unwrap();
    let options = ["-O2", "-fno-inline", "-pthread", "-o", "ended", "ended.c"];
    let out = Command::new("gcc").args(options).current_dir(folder.path()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    for _ in 0..3 {
        let by = by(folder.path(), &["--by", "function", "--inclusive"], &["./ended"]);
        let inclusive = inclusive(&by, "/ended");
        let all = by["totals"][0].as_u64().unwrap();
        assert!(inclusive.values().all(|(count, _)| *count <= all), "{inclusive:?}");
        for name in ["leaf", "caller", "worker"] {
            assert!(!inclusive[name].1, "no frame of {name} was skipped: {inclusive:?}");
        }
    }
}

#[test]
fn inclusive_counts_of_lines_are_an_error() {
    let out = run(&["stat", "--by", "line", "--inclusive", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("use --by function or --by object"), "{}", stderr(&out));
    let out = run(&["stat", "--inclusive", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("--by"), "{}", stderr(&out));
}
