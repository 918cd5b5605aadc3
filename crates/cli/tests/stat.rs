//! `stat` from the outside: streams, exit codes, exports, bad input.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
#[cfg(target_os = "linux")]
use std::{io::Read, process::Child};

use serde_json::Value;
use support::{cyclometer, run, run_with, schema, stderr, stdout};

/// Events that the operating system accounts for everywhere.
const OS: &[&str] = &["stat", "--backend", "os"];

fn json_of(arguments: &[&str]) -> Value {
    let out = run_with(OS, &[&["--json", "--output", "null"], arguments].concat());
    serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"))
}

#[test]
fn one_run_leaves_standard_output_to_the_command() {
    let out = run_with(OS, &["--", "echo", "hello"]);
    assert_eq!(stdout(&out), "hello\n");
    assert!(stderr(&out).contains("echo hello · 1 run"), "{}", stderr(&out));
    assert!(stderr(&out).contains("wall_time"), "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(0));
}

#[test]
fn one_run_passes_standard_input_on() {
    let mut child = cyclometer()
        .args(["stat", "--backend", "os", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "through\n");
}

#[test]
fn several_runs_drop_the_output_and_print_the_table_on_standard_output() {
    let out = run_with(OS, &["-r", "3", "--", "sh", "-c", "cat; echo loud; echo louder >&2"]);
    assert!(stdout(&out).contains("· 3 runs"), "{}", stdout(&out));
    assert!(!stdout(&out).contains("loud\n") && stderr(&out).is_empty(), "{out:?}");
}

#[test]
fn the_command_runs_exactly_as_often_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!("echo x >> {}", log.display());
    for (options, expected) in [(&[][..], 1), (&["-r", "3"], 3), (&["-r", "2", "-w", "2"], 4)] {
        fs::write(&log, "").unwrap();
        let out = run_with(OS, &[options, &["--", "sh", "-c", &script]].concat());
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), expected, "{options:?}");
    }
}

#[test]
fn output_and_input_can_be_files() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, "from a file\n").unwrap();
    let (input_arg, output_arg) = (input.to_str().unwrap(), output.to_str().unwrap());
    let out = run_with(OS, &["-r", "2", "--input", input_arg, "--output", output_arg, "--", "cat"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "from a file\n");
}

#[test]
fn the_status_of_the_command_is_passed_on() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        let out = run_with(OS, &["--", "sh", "-c", script]);
        assert_eq!(out.status.code(), Some(code), "{script}");
        assert!(stderr(&out).contains("wall_time"), "what was measured is shown: {}", stderr(&out));
    }
}

#[test]
fn the_first_failure_ends_the_session_unless_ignored() {
    let failing = ["--", "sh", "-c", "exit 3"];
    let out = run_with(OS, &[&["-r", "4"][..], &failing].concat());
    assert_eq!(out.status.code(), Some(3));
    assert!(stdout(&out).contains("· 1 run"), "{}", stdout(&out));
    let out = run_with(OS, &[&["-r", "4", "-i"][..], &failing].concat());
    assert_eq!(out.status.code(), Some(0));
    assert!(stdout(&out).contains("· 4 runs"), "{}", stdout(&out));
}

#[test]
fn commands_that_cannot_run_have_the_codes_of_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "no program").unwrap();
    for (command, code) in [("no_such_command_here", 127), (plain.to_str().unwrap(), 126)] {
        let out = run_with(OS, &["--", command]);
        assert_eq!(out.status.code(), Some(code), "{out:?}");
        assert!(stderr(&out).starts_with("cyclometer: error: "), "{}", stderr(&out));
        assert!(stderr(&out).contains(command), "{}", stderr(&out));
    }
}

#[test]
fn bad_input_is_named_and_ends_with_125() {
    let cases: &[(&[&str], &str)] = &[
        (&["-r", "0", "true"], "'0'"),
        (&["-e", "", "true"], "an event is missing in ''"),
        (&["-e", "cycles,", "true"], "an event is missing in 'cycles,'"),
        (&["-e", "cylces", "true"], "cylces"),
        (&["-e", "no_such_pmu/event=1/", "true"], "no_such_pmu"),
        (&["-e", "{cycles", "true"], "no closing brace"),
        (&["-p", "4194999"], "4194999"),
        (&["-t", "4194999"], "4194999"),
        (&["-p", "x"], "'x'"),
        (&["-C", "99999"], "99999"),
        (&["-G", "no/such/cgroup", "true"], "no/such/cgroup"),
        (&["--backend", "magic", "true"], "magic"),
        (&["--json", "true"], "mix on standard output"),
        (&["--export-csv", "-", "true"], "mix on standard output"),
        (
            &["--json", "--export-csv", "-", "--output", "null", "true"],
            "only one of --json, --export-csv can",
        ),
        (
            &["--export-csv", "/tmp/x", "--export-json", "/tmp/x", "true"],
            "--export-json and --export-csv both go to /tmp/x",
        ),
        (&["--input", "/no/such/input", "true"], "/no/such/input"),
        (&["--no-such-option", "true"], "--no-such-option"),
        (&["-r", "2", "-p", "1"], "nothing to repeat"),
        (&[], "nothing to measure"),
    ];
    for (arguments, named) in cases {
        let out = run(&[&["stat"], *arguments].concat());
        let text = stderr(&out);
        assert_eq!(out.status.code(), Some(125), "{arguments:?}: {text}");
        assert!(text.starts_with("cyclometer: error: "), "{arguments:?}: {text}");
        assert!(text.lines().next().unwrap().contains(named), "{arguments:?}: {text}");
        assert_eq!(stdout(&out), "", "{arguments:?}");
    }
}

#[test]
fn typos_get_the_nearest_names() {
    let text = stderr(&run(&["stat", "-e", "wall_tmie", "true"]));
    assert!(text.lines().nth(1).unwrap().contains("wall_time"), "{text}");
}

#[test]
fn a_pattern_that_fits_no_name_gets_the_nearest_names() {
    for (arguments, nearest) in [
        (&["cycels"][..], "help: nearest names: cycles"),
        (&["--machine", "sim:skylake", "inst_retired.anyy"], "help: nearest names: INST_RETIRED.ANY"),
        (&["--cpu", "amdzen4", "ex_ret_instrs"], "help: nearest names: ex_ret_instr"),
        (&["--everywhere", "L1D_CASHE_REFILL"], "help: nearest names: L1D_CACHE_REFILL"),
        (&["--metrics", "ipcc"], "help: nearest names: ipc"),
        (&["zzzzzzzzzzzz"], "help: `cyclometer list` shows"),
        (
            &["--cpu", "skylake", "--fixed", "BR_MISP_RETIRED.ALL_BRANCHES"],
            "help: `cyclometer list --cpu skylake`",
        ),
    ] {
        let out = run(&[&["list"], arguments].concat());
        assert_eq!(out.status.code(), Some(125), "{arguments:?}");
        assert!(stderr(&out).contains(nearest), "{arguments:?}: {}", stderr(&out));
    }
}

#[test]
fn no_runs_of_a_command_that_does_not_exist_are_announced() {
    for arguments in [&["-r", "5", "no_such_program"][..], &["-r", "3", "-w", "1", "./no_such_program"]] {
        let out = run(&[&["stat", "-e", "instructions,wall_time"], arguments].concat());
        assert_eq!(out.status.code(), Some(127), "{arguments:?}");
        assert!(stderr(&out).starts_with("cyclometer: error: command '"), "{}", stderr(&out));
    }
}

#[test]
fn an_export_that_cannot_be_written_stops_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    let missing = folder.path().join("no/such/folder.json");
    for target in [missing.as_path(), folder.path()] {
        let target = target.to_str().unwrap();
        let out = run_with(OS, &["--export-json", target, "--", "touch", witness.to_str().unwrap()]);
        assert_eq!(out.status.code(), Some(125), "{out:?}");
        assert!(stderr(&out).contains(target), "{}", stderr(&out));
        assert!(!witness.exists(), "the command must not have run");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn results_are_still_printed_when_an_export_fails_in_the_end() {
    let out = run_with(OS, &["--export-json", "/dev/full", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("wall_time"), "{}", stderr(&out));
    assert!(stderr(&out).contains("cannot write /dev/full"), "{}", stderr(&out));
}

#[test]
#[cfg(target_os = "linux")]
fn under_sudo_exports_have_the_rights_of_the_invoker() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    if fs::metadata(folder.path()).unwrap().uid() != 0 {
        return support::skip("only root can take on the rights of another");
    }
    let (export, witness) = (folder.path().join("a.json"), folder.path().join("witness"));
    let export_to = |arguments: &[&str]| {
        cyclometer().args(arguments).env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().unwrap()
    };
    let (path, touched) = (export.to_str().unwrap(), witness.to_str().unwrap());
    let measured = ["stat", "--backend", "os", "--export-json", path, "--", "touch", touched];
    let recorded = ["doctor", "--record", path];
    // Only root may enter.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for arguments in [&measured[..], &recorded] {
        let out = export_to(arguments);
        assert_eq!(out.status.code(), Some(125), "{out:?}");
        assert!(stderr(&out).contains(path) && !export.exists() && !witness.exists(), "{}", stderr(&out));
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for arguments in [&measured[..], &recorded] {
        assert_eq!(export_to(arguments).status.code(), Some(0), "{arguments:?}");
        assert_eq!(fs::metadata(&export).unwrap().uid(), 65534, "{arguments:?}");
    }
}

#[test]
fn exports_are_written_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, csv, markdown) = (path("a.json"), path("a.csv"), path("a.md"));
    let options = ["--export-json", &json, "--export-csv", &csv, "--export-markdown", &markdown, "-q"];
    let out = run_with(OS, &[&options[..], &["-r", "2", "--", "true"]].concat());
    assert_eq!((stdout(&out), stderr(&out)), (String::new(), String::new()));
    let value: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(schema("stat-1.json").is_valid(&value));
    assert!(fs::read_to_string(csv).unwrap().starts_with("command,metric,"));
    assert!(fs::read_to_string(markdown).unwrap().starts_with("### `true` · 2 runs"));
}

#[test]
fn real_json_obeys_the_schema() {
    let schema = schema("stat-1.json");
    let events = "cycles,instructions,wall_time,user_time,system_time,peak_rss";
    for arguments in [
        &["--", "true"][..],
        &["-r", "3", "--", "true"],
        &["-e", events, "--", "true"],
        &["-r", "3", "-i", "--", "sh", "-c", "exit 2"],
        &["-w", "1", "--", "echo", "\u{1b}[2Jx"],
        &["--", "sh", "-c", "kill -9 $$"],
    ] {
        let value = json_of(arguments);
        let errors: Vec<String> =
            schema.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(errors, [""; 0], "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn json_of_every_target_obeys_the_schema() {
    let own = std::process::id().to_string();
    let schema = schema("stat-1.json");
    for target in [&["-p", &own][..], &["-t", &own], &["-a"], &["-C", "0"]] {
        let events = ["--json", "--output", "null", "-e", "wall_time,page-faults"];
        let out = run(&[&["stat"], target, &events, &["sleep", "0.05"]].concat());
        // A target that may not be counted here is refused, and never half reported.
        if out.status.code() == Some(0) {
            let value: Value = serde_json::from_str(&stdout(&out)).unwrap();
            let errors: Vec<String> = schema.iter_errors(&value).map(|e| e.to_string()).collect();
            assert_eq!(errors, [""; 0], "{target:?}");
        } else {
            assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""), "{target:?}");
        }
    }
}

#[test]
fn a_broken_pipe_inside_the_command_stays_its_own_affair() {
    let out = run_with(OS, &["--", "sh", "-c", "yes | head -n 1"]);
    assert_eq!((stdout(&out).as_str(), out.status.code()), ("y\n", Some(0)));
    assert!(!stderr(&out).contains("roken pipe"), "{}", stderr(&out));
}

#[test]
fn json_tells_every_run_and_never_the_environment() {
    let value = json_of(&["-r", "3", "--", "sh", "-c", "exit 0", "word"]);
    let command = &value["commands"][0];
    assert_eq!(command["command"], serde_json::json!(["sh", "-c", "exit 0", "word"]));
    assert_eq!(command["runs"].as_array().unwrap().len(), 3);
    let wall = &command["metrics"][0];
    assert_eq!((&wall["name"], &wall["count"]), (&"wall_time".into(), &"exact".into()));
    assert_eq!((wall["values"].as_array().unwrap().len(), &wall["n"]), (3, &3.into()));
    assert!(wall["mean"].as_f64().unwrap() > 0.0);
    assert!(!value.to_string().contains("CARGO_MANIFEST_DIR"));
}

#[test]
fn events_that_cannot_be_counted_are_null_with_a_reason() {
    let value = json_of(&["-e", "cycles,wall_time", "--", "true"]);
    let cycles = &value["commands"][0]["metrics"][0];
    assert!(cycles["mean"].is_null() && cycles["reason"].is_string(), "{cycles}");
    assert_eq!(cycles["requested"], true);
}

#[test]
fn strict_refuses_what_is_not_exact() {
    let out = run_with(OS, &["--strict", "-e", "wall_time,page-faults", "--", "true"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let out = run_with(OS, &["--strict", "-e", "cycles,wall_time", "--", "true"]);
    assert_eq!(out.status.code(), Some(124), "{out:?}");
    let out = run_with(OS, &["--strict", "-e", "cycles", "--", "sh", "-c", "exit 9"]);
    assert_eq!(out.status.code(), Some(9), "the command's failure comes first");
}

#[test]
#[cfg(unix)]
fn a_closed_standard_output_is_no_panic() {
    for (arguments, code) in [
        (&["list"][..], 0),
        (&["doctor"], 0),
        (&["man"], 0),
        (&["--help"], 0),
        (&["stat", "--backend", "os", "-r", "2", "--", "true"], 0),
        (&["stat", "--backend", "os", "--json", "--output", "null", "--", "sh", "-c", "exit 4"], 4),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        // The reader is gone before the first byte comes.
        drop(reader);
        let out = cyclometer().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{arguments:?}");
        assert!(!stderr(&out).contains("panicked") && !stderr(&out).contains("error"), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_output_is_told() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let out = cyclometer().args(["list"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("cannot write to standard output"), "{}", stderr(&out));
}

#[test]
fn intervals_are_told_while_the_command_runs() {
    let out = run_with(OS, &["-I", "20", "-e", "wall_time", "--", "sleep", "0.15"]);
    let rows: Vec<f64> = stderr(&out)
        .lines()
        .filter(|line| line.ends_with(" ns    wall_time"))
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert!(rows.len() >= 3, "{}", stderr(&out));
    assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{rows:?}");
}

#[test]
#[cfg(unix)]
fn an_interrupted_session_prints_what_it_has() {
    use std::os::unix::process::CommandExt;
    // A terminal sends SIGINT to the whole group; SIGTERM comes to us alone.
    let everything = [
        ("-INT", 2, true),
        ("-QUIT", 3, true),
        ("-QUIT", 3, false),
        ("-TERM", 15, false),
        ("-HUP", 1, false),
    ];
    // Where a core is written.
    let folder = tempfile::tempdir().unwrap();
    for (signal, number, whole_group) in everything {
        let begun = std::time::Instant::now();
        let mut child = cyclometer()
            .args(["stat", "--backend", "os", "--", "sh", "-c", "echo ready; exec sleep 60"])
            .process_group(0)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The command runs, so the tool watches for signals.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let whom = format!("{}{}", if whole_group { "-" } else { "" }, child.id());
        let sent = std::process::Command::new("kill").args([signal, "--", &whom]).status().unwrap();
        assert!(sent.success());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(128 + number), "{}", stderr(&out));
        assert!(stderr(&out).contains("wall_time"), "{}", stderr(&out));
        assert!(begun.elapsed().as_secs() < 60, "the command outlived the signal");
    }
}

/// A process that runs until the test ends it.
#[cfg(target_os = "linux")]
fn sleeper() -> Child {
    std::process::Command::new("sleep").arg("60").spawn().unwrap()
}

#[cfg(target_os = "linux")]
fn end(process: &mut Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

/// The tool, which observes running processes.
#[cfg(target_os = "linux")]
struct Observing {
    tool: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

#[cfg(target_os = "linux")]
impl Observing {
    /// Starts it with these arguments, and waits until it observes.
    fn of(arguments: &[&str]) -> Observing {
        let stat = ["stat", "--backend", "os", "-I", "20"];
        let mut tool = cyclometer().args(stat).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(tool.stderr.take().unwrap());
        let mut row = String::new();
        while !row.ends_with(" wall_time\n") {
            row.clear();
            assert_ne!(stderr.read_line(&mut row).unwrap(), 0, "it ended at once");
        }
        Observing { tool, stderr }
    }

    /// Whether it still runs after a moment.
    fn goes_on(&mut self) -> bool {
        std::thread::sleep(std::time::Duration::from_millis(100));
        self.tool.try_wait().unwrap().is_none()
    }

    /// Its messages since the first row, after it ended with status 0.
    fn ends_well(mut self) -> String {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(self.tool.wait().unwrap().code(), Some(0), "{said}");
        said
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_running_process_is_counted_until_it_ends() {
    let mut sleeper = sleeper();
    let mut tool = Observing::of(&["-e", "wall_time", "-p", &sleeper.id().to_string()]);
    assert!(tool.goes_on());
    end(&mut sleeper);
    let said = tool.ends_well();
    assert!(said.contains(&format!("process {} · 1 run", sleeper.id())), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn several_processes_are_counted_until_all_have_ended() {
    let (mut long, mut short) = (sleeper(), sleeper());
    let (first, last) = (long.id().min(short.id()), long.id().max(short.id()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let (export, both) = (format!("--export-json={}", file.display()), format!("{last},{first}"));
    let mut tool =
        Observing::of(&["-e", "wall_time,peak_rss", &export, "-p", &both, "-p", &first.to_string()]);
    end(&mut short);
    assert!(tool.goes_on(), "it did not wait for the last one");
    end(&mut long);
    let said = tool.ends_well();
    assert!(said.contains(&format!("processes {first}, {last} · 1 run")), "{said}");
    assert!(said.contains("does not account peak_rss for process"), "{said}");
    let json: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    support::schema("stat-1.json").validate(&json).unwrap();
    let target = &json["commands"][0]["target"];
    assert_eq!((&target["kind"], &target["ids"]), (&"processes".into(), &serde_json::json!([first, last])));
}

#[test]
#[cfg(target_os = "linux")]
fn a_target_of_several_that_is_missing_or_means_nothing_is_named() {
    let own = std::process::id();
    let missing = format!("{own},2147483632");
    for (words, part) in [
        (&["-p", missing.as_str()][..], "there is no process 2147483632"),
        (&["-t", missing.as_str()], "there is no thread 2147483632"),
        (&["-p", "1,"], "for '--pid <PID>'"),
        (&["-p", "1;2"], "invalid value '1;2' for '--pid <PID>'"),
        (&["-G", "a", "-G", "b"], "-G names several control groups: a, b"),
        (&["-G", "a,b"], "-G names several control groups: a,b"),
    ] {
        let out = run_with(&["stat", "--backend", "os"], words);
        assert_eq!(out.status.code(), Some(125), "{words:?}");
        assert!(
            stderr(&out).contains(part) && stderr(&out).contains("help: "),
            "{words:?}: {}",
            stderr(&out)
        );
    }
}

#[test]
fn an_export_does_not_take_the_file_of_the_commands_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    fs::write(&file, "precious").unwrap();
    let name = file.to_str().unwrap();
    let out = run(&["stat", "--output", name, "--export-json", name, "--", "echo", "hello"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("--export-json and --output both go to"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
#[cfg(target_os = "linux")]
fn an_export_to_a_named_pipe_waits_for_its_reader_after_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    let out = run(&["stat", "-e", "wall_time", "--export-csv", pipe.to_str().unwrap(), "--", "true"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(reader.join().unwrap().contains("wall_time"));
}

#[test]
fn turns_cannot_be_both_forced_and_forbidden() {
    let out = run_with(OS, &["--multiplex", "--no-multiplex", "true"]);
    assert_eq!(out.status.code(), Some(125));
    let said = stderr(&out);
    assert!(said.contains("--multiplex") && said.contains("--no-multiplex"), "{said}");
}

#[test]
fn what_fits_runs_with_either() {
    for option in ["--multiplex", "--no-multiplex"] {
        let json = json_of(&[option, "-r", "2", "true"]);
        assert_eq!(json["commands"][0]["sharing"], Value::Null);
        assert_eq!(json["commands"][0]["runs"].as_array().unwrap().len(), 2);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_only_waits_to_be_reaped_cannot_be_measured_by_any_source() {
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let pid = ended.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    for source in ["auto", "os", "soft"] {
        for target in ["-p", "-t"] {
            for command in [&["--", "true"][..], &[]] {
                let out = run(&[&["stat", "--backend", source, target, &pid], command].concat());
                assert_eq!(out.status.code(), Some(125), "{source} {target}: {out:?}");
                assert!(stderr(&out).contains("there is no "), "{source}: {}", stderr(&out));
            }
        }
    }
    ended.wait().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_kernel_thread_has_no_peak_of_memory_and_is_not_said_to_have_ended() {
    let is_kthreadd = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if !is_kthreadd {
        return support::skip("process 2 is not a kernel thread here");
    }
    let out = run(&["stat", "--backend", "os", "-e", "peak_rss,context-switches", "-p", "2", "--", "true"]);
    let words: Vec<String> = stderr(&out).split_whitespace().map(str::to_owned).collect();
    assert!(words.join(" ").contains("process 2 is a kernel thread"), "{}", stderr(&out));
    assert!(!words.join(" ").contains("ended before"), "{}", stderr(&out));
}
