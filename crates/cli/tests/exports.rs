//! Files that results are written to: their contents before, and after a failed write.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{run, stderr, stdout};

/// Runs words by a shell, in which `$0` is the program.
fn by_shell(shell: &str, script: &str, folder: &Path) -> Output {
    let mut command = Command::new(shell);
    command.args(["-c", script, env!("CARGO_BIN_EXE_cyclometer")]);
    command.current_dir(folder).env("NO_COLOR", "1").output().unwrap()
}

fn is_results(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value["schema_version"].is_u64())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

const STAT: &str = "stat -q --backend os --export-json";

#[test]
fn a_file_for_which_there_is_no_room_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for (file, result) in [
        ("old.json", "stat -q --backend os --export-json old.json -- true"),
        ("base.json", "compare -q --backend os -p 1 -w 0 --save-baseline base.json 'true'"),
        ("facts", "doctor --record facts"),
    ] {
        fs::write(folder.path().join(file), "as it was").unwrap();
        // One block, of 512 or 1024 bytes: no result is that short.
        let out = by_shell("sh", &format!("ulimit -f 1; exec \"$0\" {result}"), folder.path());
        assert_eq!(out.status.code(), Some(125), "{result}: {}", stderr(&out));
        let said = stderr(&out);
        assert!(said.contains(&format!("cannot write {file}: ")), "{said}");
        assert!(said.contains(&format!("help: {file} is unchanged; raise the limit")), "{said}");
        assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), "as it was");
    }
    assert_eq!(names(folder.path()), ["base.json", "facts", "old.json"], "a temporary file is left");
}

#[test]
fn a_new_file_for_which_there_is_no_room_is_not_said_to_be_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = by_shell("sh", &format!("ulimit -f 1; exec \"$0\" {STAT} new.json -- true"), folder.path());
    assert_eq!(out.status.code(), Some(125), "{}", stderr(&out));
    assert!(stderr(&out).contains("help: new.json was not created; raise the limit"), "{}", stderr(&out));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_path_with_a_slash_at_its_end_is_not_said_to_be_a_folder_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--export-json", "--output"] {
        let words = format!("exec \"$0\" stat --backend os {option} none/ -- true");
        let out = by_shell("sh", &words, folder.path());
        assert_eq!(out.status.code(), Some(125), "{option}: {}", stderr(&out));
        assert!(stderr(&out).contains("no such folder exists"), "{option}: {}", stderr(&out));
    }
}

#[test]
fn a_file_that_has_two_names_and_no_room_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let old = "as it was, ".repeat(500);
    fs::write(folder.path().join("old.json"), &old).unwrap();
    fs::hard_link(folder.path().join("old.json"), folder.path().join("other")).unwrap();
    let out = by_shell("sh", &format!("ulimit -f 1; exec \"$0\" {STAT} old.json -- true"), folder.path());
    assert_eq!(out.status.code(), Some(125), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(folder.path().join("other")).unwrap(), old);
}

#[test]
fn a_device_without_room_is_named() {
    if !Path::new("/dev/full").exists() {
        return support::skip("there is no /dev/full");
    }
    for option in ["--export-json", "--export-csv", "--export-markdown"] {
        let out = run(&["stat", "--backend", "os", option, "/dev/full", "--", "true"]);
        assert_eq!(out.status.code(), Some(125), "{option}");
        assert!(stderr(&out).contains("cannot write /dev/full: "), "{}", stderr(&out));
        assert!(stderr(&out).contains("wall_time"), "the table is missing: {}", stderr(&out));
    }
}

#[test]
fn standard_output_has_the_names_that_the_system_gives_it() {
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let out = run(&["stat", "-r", "2", "--backend", "os", "--export-json", name, "--", "true"]);
        assert!(is_results(&stdout(&out)), "{name}: {}", stdout(&out));
    }
    let mixed = run(&["stat", "--backend", "os", "--export-json", "/dev/stdout", "--", "true"]);
    assert!(stderr(&mixed).contains("would mix on standard output"), "{}", stderr(&mixed));
    let twice = run(&["compare", "--export-json", "-", "--export-csv", "/dev/fd/1", "true", "true"]);
    assert!(stderr(&twice).contains("only one of --export-json, --export-csv can"), "{}", stderr(&twice));
}

#[test]
fn a_descriptor_takes_results_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("exec 3>log; echo first >&3; \"$0\" {STAT} /dev/fd/3 -- true && echo last >&3");
    let out = by_shell("sh", &script, folder.path());
    assert!(out.status.success(), "{}", stderr(&out));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let results = log.strip_prefix("first\n").and_then(|log| log.strip_suffix("last\n")).unwrap();
    assert!(is_results(results), "{log}");
    let out = by_shell("sh", &format!("exec 3<log; \"$0\" {STAT} /dev/fd/3 -- touch ran"), folder.path());
    assert!(stderr(&out).contains("descriptor 3 is open for reading only"), "{}", stderr(&out));
    assert_eq!(names(folder.path()), ["log"], "the command was run");
}

#[test]
fn a_process_substitution_reads_results() {
    if !Command::new("bash").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return support::skip("there is no bash");
    }
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("\"$0\" {STAT} >(cat > got; mv got done) -- true; while [ ! -e done ]; do sleep 0.05; done");
    let out = by_shell("bash", &script, folder.path());
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(is_results(&fs::read_to_string(folder.path().join("done")).unwrap()));
    // A reader that closes it early is not an error of ours.
    let out = by_shell("bash", &format!("\"$0\" {STAT} >(exec <&-) -- sleep 0.1"), folder.path());
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""));
}

#[test]
fn a_named_pipe_and_a_link_to_it_take_results() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mkfifo pipe && ln -s pipe link || exit 1; for name in pipe link; do \
         cat pipe > got-$name & \"$0\" {STAT} $name -- true || exit 1; wait; done"
    );
    let out = by_shell("sh", &script, folder.path());
    assert!(out.status.success(), "{}", stderr(&out));
    for name in ["got-pipe", "got-link"] {
        assert!(is_results(&fs::read_to_string(folder.path().join(name)).unwrap()), "{name}");
    }
}

#[test]
fn the_target_of_a_link_is_replaced_and_the_link_stays() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("there")).unwrap();
    symlink("there/results.json", folder.path().join("latest")).unwrap();
    for _ in 0..2 {
        let out = by_shell("sh", &format!("\"$0\" {STAT} latest -- true"), folder.path());
        assert!(out.status.success(), "{}", stderr(&out));
        assert!(folder.path().join("latest").is_symlink());
        assert!(is_results(&fs::read_to_string(folder.path().join("there/results.json")).unwrap()));
    }
    assert_eq!(names(&folder.path().join("there")), ["results.json"]);
}

#[test]
fn a_file_that_only_others_may_write_is_refused_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old.json"), "theirs").unwrap();
    symlink("old.json", folder.path().join("link")).unwrap();
    // Root may write every file: under sudo it has the invoker's rights, and without sudo no write is
    // refused.
    let script = format!("chmod 444 old.json; SUDO_UID=65534 SUDO_GID=65534 \"$0\" {STAT} link -- touch ran");
    let out = by_shell("sh", &script, folder.path());
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("--export-json: cannot write link: permission denied"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(folder.path().join("old.json")).unwrap(), "theirs");
    assert_eq!(names(folder.path()), ["link", "old.json"]);
}

#[test]
fn waiting_for_the_reader_of_a_pipe_is_ended_by_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mkfifo pipe && exec \"$0\" {STAT} pipe -- touch ran");
    let mut child = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_cyclometer")])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let late = Instant::now() + Duration::from_secs(300);
    while !folder.path().join("ran").exists() && Instant::now() < late {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = loop {
        // SIGTERM is ignored nowhere, as other signals are in jobs of scripts.
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        match child.try_wait().unwrap() {
            Some(ended) => break Some(ended),
            None if Instant::now() > late => break None,
            None => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    let _ = child.kill();
    assert!(ended.is_some(), "it went on waiting");
}

#[test]
fn two_results_that_would_go_to_one_file_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("old"), "kept").unwrap();
    fs::hard_link(at("old"), at("hard")).unwrap();
    symlink("new", at("dangling")).unwrap();
    let stat = |options: &str| format!("stat -q --backend os {options} -- touch ran");
    let compare = |options: &str| format!("compare -q --backend os -p 1 -w 0 {options} 'touch ran'");
    for (words, named) in [
        (stat("--export-json n1 --export-csv ./n1"), "--export-json and --export-csv both go to ./n1"),
        (
            stat("--export-csv \"$PWD/n1\" --export-markdown n1"),
            "--export-csv and --export-markdown both go to n1",
        ),
        (stat("--export-json old --export-csv hard"), "--export-json and --export-csv both go to hard"),
        (stat("--export-json dangling --export-csv new"), "--export-json and --export-csv both go to new"),
        (stat("--export-json n1 --output ./n1"), "--export-json and --output both go to ./n1"),
        (stat("--input old --export-json old"), "--export-json and --input are one file: old"),
        (stat("--export-json hard < old"), "--export-json and standard input are one file: hard"),
        (stat("--input old --output hard"), "--input and --output are one file: hard"),
        (stat("--events old --export-csv old"), "--events and --export-csv are one file: old"),
        (stat("--export-json out > out"), "--export-json and standard output both go to out"),
        (
            compare("--export-json n1 --save-baseline \"$PWD/n1\""),
            "--export-json and --save-baseline both go to",
        ),
        (compare("--save-baseline n1 --output ./n1"), "--save-baseline and --output both go to ./n1"),
        (compare("--save-baseline hard < old"), "--save-baseline and standard input are one file: hard"),
    ] {
        let out = by_shell("sh", &format!("exec \"$0\" {words}"), folder.path());
        assert_eq!(out.status.code(), Some(125), "{words}: {}", stderr(&out));
        assert!(stderr(&out).contains(named), "{words}: {}", stderr(&out));
        assert!(!at("ran").exists() && !at("n1").exists() && !at("new").exists(), "{words}");
        assert_eq!(fs::read_to_string(at("hard")).unwrap(), "kept", "{words}");
    }
}

#[test]
fn streams_and_results_that_lose_nothing_may_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), "kept").unwrap();
    for (words, files) in [
        ("stat -q --backend os --output /dev/null --export-json /dev/null --export-csv /dev/null -- true", 1),
        ("stat --backend os --json --output null -- true > both 2>&1", 2),
        ("compare --backend os -p 1 -w 0 --baseline base --save-baseline base true", 3),
    ] {
        let script = "\"$0\" compare -q --backend os -p 1 -w 0 --save-baseline base true";
        let before = if words.contains("base") { script } else { "true" };
        let out = by_shell("sh", &format!("{before} && exec \"$0\" {words} < old"), folder.path());
        assert_eq!(out.status.code(), Some(0), "{words}: {}", stderr(&out));
        assert_eq!(names(folder.path()).len(), files, "{words}");
    }
}

#[test]
fn intervals_are_rows_of_the_csv_and_add_up_to_the_whole() {
    let options = ["--machine", "sim:apple-m1", "--workload", "phases:50", "-I", "10", "-M", "ipc"];
    let events = ["-e", "FIXED_INSTRUCTIONS,INST_BRANCH", "--export-csv", "-"];
    let out = run(&[&["stat", "-q"][..], &options, &events].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    let text = stdout(&out);
    let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    assert_eq!(rows[0][column("failed_runs") + 1..], ["run", "warmup", "start_ns", "end_ns"]);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    for event in ["FIXED_INSTRUCTIONS:u", "INST_BRANCH:u"] {
        let of_event: Vec<_> = rows.iter().filter(|row| row[column("metric")] == event).collect();
        let number = |row: &[&str], name: &str| row[column(name)].parse::<u64>().unwrap();
        let (whole, parts) = of_event.split_first().unwrap();
        assert_eq!(whole[column("end_ns")], "");
        assert!(parts.len() >= 5, "{text}");
        let sum: u64 = parts.iter().map(|row| number(row, "mean")).sum();
        assert_eq!(sum, number(whole, "mean"), "{event}");
        for (earlier, later) in parts.iter().zip(&parts[1..]) {
            assert_eq!(number(earlier, "end_ns"), number(later, "start_ns"));
        }
    }
    assert!(rows.iter().filter(|row| row[column("metric")] == "ipc:u").count() > 5, "{text}");
}

#[test]
fn a_live_view_needs_intervals_and_prints_rows_where_there_is_no_terminal() {
    let out = run(&["stat", "--live", "--backend", "os", "-e", "user_time", "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("--interval"), "{}", stderr(&out));
    let out = run(&["stat", "--live", "-I", "10", "--machine", "sim:apple-m1", "-e", "FIXED_INSTRUCTIONS"]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stderr(&out).starts_with("#     time s") || stdout(&out).starts_with("#     time s"));
}
