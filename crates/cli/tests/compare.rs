//! `compare` from the outside: the runs, the output, gates, baselines, bad input.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{cyclometer, one_line, run, run_with, schema, software_pmu_works, stderr, stdout};

/// Without the software PMU, so that it goes quickly and everywhere.
const OS: &[&str] = &["compare", "--backend", "os"];

/// Only events of the software PMU.
const SOFT: &[&str] = &["compare", "--backend", "soft", "-e", "instructions,branches"];

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

/// The results, which obey the schema.
fn results(path: &Path) -> Value {
    let value = json(path);
    let schema = schema("compare-1.json");
    let errors: Vec<String> =
        schema.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
    value
}

/// The text on standard error, which fits a terminal, as one line.
fn said_before(out: &Output) -> String {
    let text = stderr(out);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    one_line(&text)
}

fn code(out: &Output) -> i32 {
    out.status.code().unwrap_or_else(|| panic!("{out:?}"))
}

#[test]
fn commands_run_exactly_as_often_as_is_said_before() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (a, b) = (format!("sh -c 'echo a >> {}'", word(&log)), format!("sh -c 'echo b >> {}'", word(&log)));
    for (options, total) in
        [(&["-p", "3"][..], 4), (&["-p", "2", "-w", "3"], 5), (&["-p", "1", "-w", "0"], 1)]
    {
        fs::write(&log, "").unwrap();
        let out = run_with(OS, &[options, &[&a, &b]].concat());
        assert_eq!(code(&out), 0, "{out:?}");
        let said = format!("{} executions of 2 commands", 2 * total);
        assert!(stderr(&out).contains(&said), "{}", stderr(&out));
        let lines = text(&log);
        let count = |name| lines.lines().filter(|line| *line == name).count();
        assert_eq!((count("a"), count("b")), (total, total), "{options:?}");
    }
}

#[test]
fn counted_runs_come_on_top_of_the_pairs_and_are_said() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("sh -c 'echo x >> {}'", word(&log));
    let out = run(&["compare", "-p", "3", "-w", "0", "-e", "instructions,wall_time", &command, &command]);
    assert_eq!(code(&out), 0, "{out:?}");
    assert_eq!(text(&log).lines().count(), 10);
    let said = said_before(&out);
    assert!(said.contains("3 pairs, 2 runs of each counted by the software PMU"), "{said}");
}

#[test]
fn tables_come_for_each_command_and_then_the_differences() {
    let out = run_with(OS, &["-p", "12", "true", "sleep 0.05"]);
    let text = stdout(&out);
    assert!(text.contains("true · 12 runs") && text.contains("sleep 0.05 · 12 runs"), "{text}");
    assert!(text.contains("A true\nB sleep 0.05\n"), "{text}");
    let wall = text.lines().filter(|line| line.trim_start().starts_with("wall_time")).nth(2).unwrap();
    assert!(wall.ends_with("▲ changed"), "{wall}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn fewer_than_six_pairs_say_that_nothing_is_certain() {
    let out = run_with(OS, &["-p", "3", "true", "sleep 0.05"]);
    assert!(stdout(&out).contains("3 pairs: an interval at 95 % needs at least 6"), "{}", stdout(&out));
    assert!(!stdout(&out).contains('▲'), "{}", stdout(&out));
}

#[test]
fn exports_have_everything_and_obey_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (js, csv, md, svg, html) =
        (file("a.json"), file("a.csv"), file("a.md"), file("a.svg"), file("a.html"));
    let exports = ["--export-json", word(&js), "--export-csv", word(&csv), "--export-markdown", word(&md)];
    for plot in [&svg, &html] {
        let options =
            [&exports[..], &["--plot", word(plot), "-p", "6", "-q", "true", "sh -c 'exit 0'"]].concat();
        let out = run_with(OS, &options);
        assert_eq!((code(&out), stdout(&out), stderr(&out)), (0, String::new(), String::new()));
    }
    let value = results(&js);
    assert_eq!(value["commands"][1]["command"], serde_json::json!(["sh", "-c", "exit 0"]));
    assert_eq!(value["design"]["rounds"].as_array().unwrap().len(), 6);
    let paddings: Vec<u64> =
        value["design"]["rounds"].as_array().unwrap().iter().filter_map(|r| r["padding"].as_u64()).collect();
    assert!(paddings.iter().any(|padding| *padding > 0), "{paddings:?}");
    assert!(text(&csv).starts_with("a,b,metric,") && text(&csv).contains("wall_time"));
    assert!(text(&md).contains("| wall_time |") || text(&md).contains(r"| wall\_time |"), "{}", text(&md));
    assert!(text(&svg).starts_with("<svg ") && text(&html).starts_with("<!DOCTYPE html>"));
}

#[test]
fn the_environment_is_padded_alike_for_both_and_can_be_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("sh -c 'echo ${{#CYCLOMETER_PADDING}} >> {}'", word(&log));
    let lengths = || text(&log).lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>();
    assert_eq!(code(&run_with(OS, &["-p", "6", "-w", "0", &command, &command])), 0);
    let padded = lengths();
    assert!(padded.chunks(2).all(|pair| pair[0] == pair[1]), "{padded:?}");
    assert!(padded.iter().any(|length| *length != padded[0]), "{padded:?}");
    fs::write(&log, "").unwrap();
    assert_eq!(code(&run_with(OS, &["-p", "2", "-w", "0", "--no-padding", &command, &command])), 0);
    assert_eq!(lengths(), [0; 4]);
}

#[test]
fn a_seed_repeats_order_and_padding() {
    let folder = tempfile::tempdir().unwrap();
    let rounds = |name: &str, seed: &str| {
        let file = folder.path().join(name);
        run_with(OS, &["--seed", seed, "-p", "8", "-q", "--export-json", word(&file), "true", "true"]);
        json(&file)["design"]["rounds"].clone()
    };
    assert_eq!(rounds("a", "7"), rounds("b", "7"));
    assert_ne!(rounds("c", "7"), rounds("d", "8"));
}

#[test]
fn a_command_that_fails_in_one_arm_is_named_and_what_was_measured_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // The warm-up and the first run succeed.
    let second = format!("sh -c 'echo x >> {0}; [ $(wc -l < {0}) -lt 3 ]'", word(&mark));
    let (file, page) = (folder.path().join("a.json"), folder.path().join("a.md"));
    let exports = ["--export-json", word(&file), "--export-markdown", word(&page)];
    let out = run_with(OS, &[&["-p", "4"], &exports[..], &["true", &second]].concat());
    assert_eq!(code(&out), 125, "{out:?}");
    let said = one_line(&stdout(&out));
    assert!(said.contains("ended early: command 2: the command exited with status 1 in run 2"), "{said}");
    assert_eq!(results(&file)["ended"]["kind"], "failed");
    assert_eq!(text(&mark).lines().count(), 3, "nothing runs behind a failure");
    assert!(text(&page).contains("**ended early: command 2: the command exited"), "{}", text(&page));
    let error = stderr(&out);
    assert!(error.contains("error: command 2: the command exited with status 1 in run 2\nhelp: "), "{error}");
}

#[test]
fn an_arm_that_was_never_measured_has_no_table() {
    let out = run_with(OS, &["-p", "2", "--seed", "1", "false", "false"]);
    assert_eq!(code(&out), 125, "{out:?}");
    assert_eq!(stdout(&out).matches("was not measured: false").count(), 1, "{}", stdout(&out));
}

#[test]
fn a_failure_leaves_the_baseline_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, fresh) = (folder.path().join("kept.json"), folder.path().join("fresh.json"));
    assert_eq!(code(&run_with(OS, &["-p", "1", "-q", "--save-baseline", word(&kept), "true"])), 0);
    let before = text(&kept);
    for file in [&kept, &fresh] {
        let out = run_with(OS, &["-p", "1", "-w", "0", "-q", "--save-baseline", word(file), "false"]);
        assert_eq!(code(&out), 125, "{out:?}");
        assert!(stderr(&out).contains("the baseline is not saved"), "{}", stderr(&out));
    }
    assert_eq!(text(&kept), before);
    assert!(!fresh.exists());
}

#[test]
fn a_baseline_of_failing_runs_replaces_a_good_one_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.json");
    let save = |options: &[&str], script: &str| {
        let all = ["-p", "2", "-w", "0", "-q", "-i", "--save-baseline", word(&base)];
        run_with(OS, &[&all[..], options, &["--", "sh", "-c", script]].concat())
    };
    assert_eq!(code(&save(&[], "exit 0")), 0);
    let before = text(&base);
    let once = format!("mkdir {}/once 2>/dev/null", word(folder.path()));
    for script in ["exit 3", "kill -9 $$", &once] {
        let out = save(&[], script);
        assert_eq!(code(&out), 125, "{script}: {out:?}");
        let said = one_line(&stderr(&out));
        assert!(said.contains("was not replaced: no run of it failed, and now"), "{said}");
        assert!(said.contains("--force"), "{said}");
        assert_eq!(text(&base), before, "{script}");
    }
    assert_eq!(code(&save(&["--force"], "exit 3")), 0);
    assert_eq!(code(&save(&[], "exit 4")), 0, "the former is of failing runs, too");
    assert_ne!(text(&base), before);
}

#[test]
fn different_exit_codes_are_told_where_failures_are_ignored() {
    let out = run_with(OS, &["-i", "-p", "2", "true", "sh -c 'exit 3'"]);
    assert_eq!(code(&out), 0, "{out:?}");
    let said = one_line(&stdout(&out));
    assert!(said.contains("different statuses (command 1: 0; command 2: 3)"), "{said}");
}

#[test]
fn outputs_that_differ_fail_the_check() {
    let out = run_with(OS, &["--check-output", "-p", "2", "echo same", "printf 'same\\n'"]);
    assert_eq!(code(&out), 0, "{out:?}");
    assert!(stdout(&out).contains("wrote the same output"), "{}", stdout(&out));
    let out = run_with(OS, &["--check-output", "-p", "2", "echo same", "echo sane"]);
    assert_eq!(code(&out), 1, "{out:?}");
    assert!(stdout(&out).contains("differ, first at byte 3"), "{}", stdout(&out));
    let out = run_with(OS, &["--check-output", "-p", "6", "-q", "sh -c 'echo $CYCLOMETER_PADDING'", "true"]);
    assert_eq!(code(&out), 1, "{out:?}");
    assert!(stderr(&out).contains("differ"), "{}", stderr(&out));
}

#[test]
fn hooks_run_around_every_execution_also_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let hook = |name: &str| format!("sh -c 'echo {name} >> {}'", word(&log));
    let [setup, prepare, conclude, cleanup] = ["setup", "prepare", "conclude", "cleanup"].map(hook);
    let hooks = ["--setup", &setup, "--prepare", &prepare, "--conclude", &conclude, "--cleanup", &cleanup];
    let out = run_with(OS, &[&hooks[..], &["-p", "2", "-w", "1", "true", "true"]].concat());
    assert_eq!(code(&out), 0, "{out:?}");
    let count = |name: &str| text(&log).lines().filter(|line| *line == name).count();
    assert_eq!(["setup", "prepare", "conclude", "cleanup"].map(count), [2, 6, 6, 2]);
    fs::write(&log, "").unwrap();
    let out = run_with(OS, &["--cleanup", &cleanup, "-p", "2", "false", "true"]);
    assert_eq!((code(&out), count("cleanup")), (125, 2));
    let out = run_with(OS, &["--prepare", "false", "-p", "2", "true", "true"]);
    assert_eq!(code(&out), 125);
    assert!(stderr(&out).contains("--prepare: the command 'false' exited with status 1"), "{}", stderr(&out));
}

#[test]
fn a_cleanup_that_fails_is_reported_and_fails_the_comparison_after_results_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (file, base) = (folder.path().join("x.json"), folder.path().join("base.json"));
    let (file, base) = (file.to_str().unwrap(), base.to_str().unwrap());
    for options in [&["-q"][..], &[], &["--fail-if", "wall_time > +900%"]] {
        let words = [&["--cleanup", "false", "-p", "2", "--export-json", file], options, &["true", "true"]];
        let out = run_with(OS, &words.concat());
        assert_eq!(code(&out), 125, "{options:?}: {out:?}");
        let reported = "cyclometer: error: --cleanup: the command 'false' exited with status 1";
        assert!(stderr(&out).contains(reported), "{options:?}: {}", stderr(&out));
        assert!(text(Path::new(file)).contains("schema_version"));
        fs::remove_file(file).unwrap();
    }
    let out =
        run_with(OS, &["-q", "--cleanup", "no-such-program", "-p", "1", "--save-baseline", base, "true"]);
    assert_eq!(code(&out), 125, "{out:?}");
    assert!(stderr(&out).contains("no-such-program") && Path::new(base).exists(), "{}", stderr(&out));
}

#[test]
fn a_long_command_is_shown_by_its_beginning_and_exported_as_a_whole() {
    let long = format!("true {}", "x".repeat(50_000));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    let out = run_with(OS, &["-p", "2", "--export-json", file.to_str().unwrap(), &long, &long]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).lines().all(|line| line.chars().count() < 400), "{}", stdout(&out));
    assert!(text(&file).contains(&long));
}

#[test]
fn lists_and_shells_make_commands() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("sh -c 'echo {{n}} >> {}'", word(&log));
    let out = run_with(OS, &["-L", "n=1,two words", "-p", "1", "-w", "0", &command]);
    assert_eq!(code(&out), 0, "{out:?}");
    let mut lines: Vec<String> = text(&log).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["1", "two words"]);
    let out = run_with(OS, &["-S", "-p", "1", "-w", "0", "true | cat", "exit 0"]);
    assert_eq!(code(&out), 0, "{out:?}");
}

#[test]
fn the_help_shows_its_examples_whole() {
    let help = one_line(&stdout(&run(&["compare", "--help"])));
    for example in ["-L jobs=1,2,4 'make -j{jobs}'", "`instructions > +0.5%`", "`30s` or `500ms`"] {
        assert!(help.contains(example), "{example} in {help}");
    }
}

#[test]
fn time_that_is_over_leaves_whole_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    let options = ["-d", "400ms", "-w", "0", "--export-json", word(&file), "sleep 0.05", "sleep 0.05"];
    let out = run_with(OS, &options);
    assert_eq!(code(&out), 0, "{out:?}");
    assert!(stderr(&out).contains("at most 2000 executions"), "{}", stderr(&out));
    let value = results(&file);
    let runs = |i: usize| value["commands"][i]["runs"].as_array().unwrap().len();
    assert_eq!(value["ended"]["kind"], "budget");
    assert!(runs(0) == runs(1) && (1..=5).contains(&runs(0)), "{}", runs(0));
}

#[test]
fn commands_can_be_bound_to_a_cpu() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let list = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let cpu: String = list.chars().take_while(char::is_ascii_digit).collect();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("sh -c 'grep Cpus_allowed_list /proc/self/status >> {}'", word(&log));
    let out = run_with(OS, &["-C", &cpu, "-p", "1", "-w", "0", &command, &command]);
    assert_eq!(code(&out), 0, "{out:?}");
    assert!(text(&log).lines().all(|line| line.ends_with(&format!("\t{cpu}"))), "{}", text(&log));
}

#[test]
fn exact_counts_pass_and_fail_a_gate() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.json");
    let loop_of = |n: u32| format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done");
    let (short, long) = (loop_of(1000), loop_of(1100));
    let sh = |script: &str| vec!["--".to_owned(), "sh".to_owned(), "-c".to_owned(), script.to_owned()];
    let go = |options: &[&str], script: &str| {
        let command = sh(script);
        let words: Vec<&str> = options.iter().copied().chain(command.iter().map(String::as_str)).collect();
        run_with(SOFT, &words)
    };
    let out = go(&["--save-baseline", word(&base)], &short);
    assert_eq!(code(&out), 0, "{out:?}");
    assert_eq!(results(&base)["comparisons"], serde_json::json!([]));
    assert!(said_before(&out).contains("2 executions of 1 command: 2 runs counted"), "{}", stderr(&out));
    let gate = ["--baseline", word(&base), "--fail-if", "instructions > +0.5%"];
    let same = go(&gate, &short);
    assert_eq!(code(&same), 0, "{same:?}");
    assert!(stdout(&same).contains("gate instructions > +0.5%: passed"), "{}", stdout(&same));
    let told = folder.path().join("told.json");
    let more = go(&[&gate[..], &["--export-json", word(&told)]].concat(), &long);
    assert_eq!(code(&more), 1, "{more:?}");
    let ruling = results(&told)["comparisons"][0]["gates"][0].clone();
    assert_eq!((&ruling["ruling"], &ruling["metric"]["basis"]), (&"failed".into(), &"deterministic".into()));
    assert!(stdout(&more).contains("gate instructions > +0.5%: FAILED"), "{}", stdout(&more));
    let quiet = go(&[&gate[..], &["-q"]].concat(), &long);
    assert!(stderr(&quiet).contains("gate instructions > +0.5%: failed"), "{}", stderr(&quiet));
    let ratio = go(&["--baseline", word(&base), "--fail-if", "instructions / branches > +50%"], &long);
    assert_eq!(code(&ratio), 0, "{ratio:?}");
}

#[test]
fn counts_of_other_processors_are_not_compared() {
    if !software_pmu_works() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, stat) = (folder.path().join("base.json"), folder.path().join("stat.json"));
    let told = ["--cpu-baseline", "x86-64"];
    let go = |options: &[&str]| run_with(SOFT, &[options, &["-q", "--", "true"]].concat());
    assert_eq!(code(&go(&[&told[..], &["--save-baseline", word(&base)]].concat())), 0);
    let of_stat =
        ["stat", "--backend", "soft", "-e", "instructions,branches", "-q", "--export-json", word(&stat)];
    assert_eq!(code(&run(&[&of_stat[..], &told, &["--", "true"]].concat())), 0);
    for file in [&base, &stat] {
        let baseline = ["--baseline", word(file)];
        let same = go(&[&told[..], &baseline].concat());
        assert_eq!(code(&same), 0, "{same:?}");
        for (options, part) in [
            (&[][..], "counted with --cpu-baseline x86-64, this is without --cpu-baseline"),
            (&["--cpu-baseline", "x86-64-v2"], "this is with --cpu-baseline x86-64-v2"),
        ] {
            let out = go(&[options, &baseline].concat());
            assert_eq!(code(&out), 125, "{out:?}");
            assert!(stderr(&out).contains(part) && stderr(&out).contains("help: "), "{}", stderr(&out));
        }
        let timed = run_with(OS, &["-p", "1", "-q", "--baseline", word(file), "--", "true"]);
        assert_eq!(code(&timed), 0, "nothing is counted: {timed:?}");
    }
}

#[test]
fn a_formula_over_times_and_counts_is_refused_before_anything_runs() {
    if !software_pmu_works() {
        return;
    }
    let gate = ["compare", "-e", "instructions,branches,wall_time", "-p", "1", "--fail-if"];
    let out = run(&[&gate[..], &["wall_time / instructions > +1%", "true", "true"]].concat());
    // With a PMU all of them are of one run.
    if code(&out) != 0 {
        assert_eq!(code(&out), 125, "{out:?}");
        assert!(stderr(&out).contains("no run has values of all its metrics"), "{}", stderr(&out));
        assert!(stdout(&out).is_empty(), "{}", stdout(&out));
    }
    let out = run(&[&gate[..], &["branches / instructions > +99%", "true", "true"]].concat());
    assert_eq!(code(&out), 0, "{out:?}");
}

#[test]
fn a_gate_that_nothing_decides_passes_with_a_warning_unless_told() {
    let gate = ["--fail-if", "wall_time > +1%", "-p", "2"];
    let out = run_with(OS, &[&gate[..], &["true", "true"]].concat());
    assert_eq!(code(&out), 0, "{out:?}");
    assert!(stderr(&out).contains("warning: a gate is inconclusive"), "{}", stderr(&out));
    let out = run_with(OS, &[&gate[..], &["--fail-inconclusive", "true", "true"]].concat());
    assert_eq!(code(&out), 1, "{out:?}");
}

#[test]
fn baselines_of_other_programs_and_of_stat_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.json");
    let times = ["0.05"; 8].join(", ");
    let hyperfine =
        format!(r#"{{"results": [{{"command": "x", "user": 0.01, "system": 0.01, "times": [{times}]}}]}}"#);
    fs::write(&base, hyperfine).unwrap();
    let gate = ["--baseline", word(&base), "-p", "8", "--fail-if"];
    let faster = run_with(OS, &[&gate[..], &["wall_time > +10%", "true"]].concat());
    assert_eq!(code(&faster), 0, "{faster:?}");
    let slower = run_with(OS, &[&gate[..], &["wall_time > +10%", "sleep 0.1"]].concat());
    assert_eq!(code(&slower), 1, "{slower:?}");
    let stat = ["stat", "--backend", "os", "-r", "6", "-q", "--export-json", word(&base), "--", "true"];
    assert_eq!(code(&run(&stat)), 0);
    let slower = run_with(OS, &[&gate[..], &["wall_time > +10%", "sleep 0.1"]].concat());
    assert_eq!(code(&slower), 1, "{slower:?}");
}

#[test]
fn bad_baselines_are_named_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (base, mark) = (folder.path().join("base.json"), folder.path().join("mark"));
    let touch = format!("touch {}", word(&mark));
    let good = folder.path().join("good.json");
    assert_eq!(code(&run_with(OS, &["-p", "1", "-q", "--save-baseline", word(&good), "true"])), 0);
    let mut other = json(&good);
    other["machine"]["cpu_name"] = Value::from("Another CPU");
    let mut nan = json(&good);
    nan["commands"][0]["metrics"][0]["values"][0]["value"] = Value::from("NaN");
    for (content, part) in [
        (other.to_string(), "cpu_name Another CPU there"),
        (nan.to_string(), "is \"NaN\", which is no number"),
        (text(&good).replace("\"schema_version\": 1", "\"schema_version\": 0"), "older version, 0"),
        (r#"{"results": [{"command": "x", "times": [NaN]}]}"#.to_owned(), "NaN is no number"),
        (
            r#"{"results": [{"command": "x", "times": [0.1, -0.2]}]}"#.to_owned(),
            "nothing measured is below zero",
        ),
        (String::new(), "it is not JSON"),
    ] {
        fs::write(&base, content).unwrap();
        let out = run_with(OS, &["--baseline", word(&base), &touch]);
        assert_eq!(code(&out), 125, "{out:?}");
        assert!(stderr(&out).contains(part), "{part} in {}", stderr(&out));
        assert!(stderr(&out).contains("help: "), "{}", stderr(&out));
        assert!(!mark.exists(), "the command was run");
    }
    fs::write(&base, other.to_string()).unwrap();
    let out = run_with(OS, &["--baseline", word(&base), "--any-machine", "-p", "1", "true"]);
    assert_eq!(code(&out), 0, "{out:?}");
    assert!(stdout(&out).contains("the baseline is of another machine"), "{}", stdout(&out));
}

#[test]
fn bad_input_is_named_and_ends_with_125() {
    let cases: &[(&[&str], &str)] = &[
        (&["true"], "one command has nothing to be compared with"),
        (&["--fail-if", "wall_time > +1%", "--save-baseline", "/dev/null", "true"], "--fail-if has nothing"),
        (&["--fail-if", "wall_time", "true", "true"], "there is no > or <"),
        (&["--fail-if", "wall_time > 1%", "true", "true"], "write +1% or -1%"),
        (&["--fail-if", "wal_time > +1%", "true", "true"], "wal_time is not measured"),
        (&["--fail-if", "1 > +1%", "true", "true"], "'1' names no metric"),
        (&["--fail-if", "wall_time > +5KiB", "true", "true"], "number of bytes, and wall_time is in ns"),
        (&["--fail-if", "page-faults > +5ms", "true", "true"], "a time, and page-faults is a number"),
        (
            &["-e", "instructions:u,instructions:k", "--fail-if", "instructions > +1%", "true", "true"],
            "may be any of instructions:k, instructions:u",
        ),
        (
            &["--baseline", "/no/such/file", "true"],
            "--baseline: cannot read /no/such/file: no such file or directory",
        ),
        (&["--baseline", "/dev/null", "true", "true"], "a baseline is compared with one command"),
        (&["-p", "0", "true", "true"], "'0'"),
        (&["-p", "1001", "true", "true"], "1001"),
        (&["-d", "5", "true", "true"], "'5' is no time"),
        (&["--threshold=-1%", "true", "true"], "'-1%' is no share"),
        (&["-C", "8000", "true", "true"], "CPU 8000 is not online"),
        (&["echo 'a", "true"], "cannot be divided into words"),
        (&["-L", "n=1,2", "true", "true"], "no command has {n}"),
        (&["--plot", "x.png", "true", "true"], "neither in .svg nor in .html"),
        (&["--export-json", "/no/such/folder/x", "true", "true"], "/no/such/folder/x"),
        (
            &["--export-json", "x", "--export-csv", "x", "true", "true"],
            "--export-json and --export-csv both go to x",
        ),
        (&["-e", "cylces", "true", "true"], "cylces"),
        (&["--check-output", "--output", "null", "true", "true"], "--check-output"),
        (&[], "required"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (arguments, part) in cases {
        let words: Vec<&str> = OS.iter().chain(*arguments).copied().collect();
        let out = cyclometer().args(&words).current_dir(folder.path()).output().unwrap();
        assert_eq!(code(&out), 125, "{arguments:?}: {out:?}");
        assert!(stderr(&out).contains(part), "{part} in {}", stderr(&out));
        assert!(stdout(&out).is_empty(), "{}", stdout(&out));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "files are left behind");
}

#[test]
fn a_metric_that_is_not_measured_gets_the_nearest_that_are() {
    for (metric, nearest) in [
        ("wal_time", "help: nearest of the measured: wall_time"),
        ("page_fault", "help: nearest of the measured: page-faults"),
        ("zzzzzzzzzz", "help: to measure others, name an event with -e"),
    ] {
        let out = run_with(OS, &["--fail-if", &format!("{metric} > +1%"), "true", "true"]);
        assert_eq!(code(&out), 125, "{out:?}");
        assert!(stderr(&out).contains(nearest), "{nearest} in {}", stderr(&out));
    }
}

#[test]
fn no_executions_of_a_command_that_does_not_exist_are_announced() {
    for arguments in [
        &["true", "no_such_program"][..],
        &["./no_such_program", "true"],
        &["--setup", "no_such_program", "true", "true"],
    ] {
        let out = run_with(OS, arguments);
        assert_eq!(code(&out), 127, "{arguments:?}: {out:?}");
        let error = "cyclometer: error: command '";
        assert!(stderr(&out).starts_with(error), "{arguments:?}: {}", stderr(&out));
    }
}

#[test]
fn a_hook_may_make_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let setup = format!("ln -sf /bin/true {}", word(&made));
    let out = run_with(OS, &["-p", "1", "--setup", &setup, word(&made), "true"]);
    assert_eq!(code(&out), 0, "{out:?}");
}

#[test]
fn every_option_that_the_pages_name_exists() {
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let page = ["compare.md", "ci-gates.md"].map(|name| text(&guides.join(name))).concat();
    let help = stdout(&run(&["compare", "--help"])) + &stdout(&run(&["stat", "--help"]));
    let options = page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| {
        let name = word.strip_prefix("--").unwrap_or_default();
        name.starts_with(|c: char| c.is_ascii_lowercase())
    });
    // Those of other programs.
    let foreign = ["--release", "--security-opt", "--append"];
    let unknown: Vec<&str> =
        options.filter(|option| !help.contains(option) && !foreign.contains(option)).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn commands_that_cannot_run_have_the_codes_of_a_shell() {
    let out = run_with(OS, &["-p", "2", "true", "no_such_command_here"]);
    assert_eq!(code(&out), 127, "{out:?}");
    assert!(stderr(&out).contains("no_such_command_here"), "{}", stderr(&out));
}

#[test]
fn a_signal_ends_it_cleans_up_and_shows_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let (started, cleaned) = (folder.path().join("started"), folder.path().join("cleaned"));
    let slow = format!("sh -c 'touch {}; exec sleep 30'", word(&started));
    let cleanup = format!("touch {}", word(&cleaned));
    let child = cyclometer()
        .args(OS)
        .args(["-w", "0", "-p", "6", "--cleanup", &cleanup, &slow, &slow])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(300);
    while !started.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(code(&out), 128 + 15, "{out:?}");
    assert!(cleaned.exists());
    assert!(stdout(&out).contains("signal 15"), "{}", stdout(&out));
}
