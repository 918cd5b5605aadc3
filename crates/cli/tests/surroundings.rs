//! The tool where limits are low and `/proc` is not its own: it counts or gives a reason, and touches no
//! other process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cyclometer_test_support::executable;
use serde_json::Value;
use support::{has, skip, soft_state, software_pmu_is_first, software_pmu_works, stderr, stdout, unwrapped};

const TOOL: &str = env!("CARGO_BIN_EXE_cyclometer");

/// Whether the software PMU works here, and bash is installed, which sets more limits than other shells.
fn works_with_bash() -> bool {
    has_bash() && software_pmu_works()
}

fn has_bash() -> bool {
    let found = has("bash");
    if !found {
        skip("bash is not installed");
    }
    found
}

/// Runs a script of bash with the tool as `$TOOL`.
fn script(text: &str) -> Output {
    Command::new("bash").args(["-c", text]).env("TOOL", TOOL).stdin(Stdio::null()).output().unwrap()
}

/// Counts the calls of `true`.
const COUNT: &str = r#""$TOOL" stat --json --output null -e calls -- true"#;

/// The calls that the software PMU counts in `true` after some preparation, or the reason why it does not
/// count.
fn counted(preparation: &str) -> Result<u64, String> {
    calls(&script(&format!("{preparation}; {COUNT}")))
}

/// The same for a user who may not raise hard limits.
fn counted_without_privileges(preparation: &str) -> Option<Result<u64, String>> {
    let folder = tempfile::tempdir().unwrap();
    in_namespace(&format!("{preparation}; {COUNT}"), folder.path()).map(|out| calls(&out))
}

/// The count in the output of [`COUNT`], or the reason why there is none.
fn calls(out: &Output) -> Result<u64, String> {
    let report: Value = serde_json::from_str(&stdout(out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let calls = &report["commands"][0]["metrics"][0];
    calls["mean"].as_u64().ok_or_else(|| calls["reason"].as_str().unwrap_or_default().to_owned())
}

/// Whether this user may raise the hard limit that `ulimit` sets with an option.
fn may_raise(option: &str) -> bool {
    script(&format!("ulimit {option} 8000 && ulimit {option} unlimited")).status.success()
}

/// A PID namespace with a `/proc` of its own, which ordinary users may make too; the script in it makes
/// another one without.
fn in_namespace(text: &str, folder: &Path) -> Option<Output> {
    let unshare = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]).args(command);
        unshare.env("TOOL", TOOL).env("FOLDER", folder).stdin(Stdio::null()).output()
    };
    if !unshare(&["unshare", "--pid", "--fork", "bash", "-c", "true"]).is_ok_and(|out| out.status.success()) {
        skip("PID namespaces cannot be made here, or bash is not installed");
        return None;
    }
    Some(unshare(&["bash", "-c", text]).unwrap())
}

/// Processes with a file open at the descriptors that a program would have for its next ones. The script
/// opens the files itself and the processes inherit them, so that no process is ever without its file.
const STRANGERS: &str = r#"
for i in $(seq 1 40); do
    printf 'a line of 27 bytes, exactly' > "$FOLDER/$i"
    for fd in 3 4 5 6 7 8 9; do eval "exec $fd<>$FOLDER/$i"; done
    sleep 100 &
    for fd in 3 4 5 6 7 8 9; do
        test /proc/$!/fd/$fd -ef "$FOLDER/$i" || { echo "process $! has no file at $fd"; exit 1; }
        eval "exec $fd>&-"
    done
done
"#;

#[test]
fn in_another_pid_namespace_than_that_of_proc_nothing_is_counted_by_translation_and_no_file_of_others_changes()
 {
    let folder = tempfile::tempdir().unwrap();
    let work = r#"unshare --pid --fork "$TOOL" stat --backend soft -e calls -- true"#;
    let Some(out) = in_namespace(&format!("{STRANGERS}{work}"), folder.path()) else { return };
    let text = unwrapped(&out);
    assert!(text.contains("/proc belongs to another PID namespace"), "{text}");
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 40);
    for file in files {
        assert_eq!(fs::read(&file).unwrap(), b"a line of 27 bytes, exactly", "{}", file.display());
    }
}

/// Ways to count with the software PMU without asking for it.
const UNASKED: [&str; 6] = [
    r#""$TOOL" stat -e instructions -- true"#,
    r#""$TOOL" stat -r 3 -e branches,instructions -- true"#,
    r#""$TOOL" stat -r 3 -- true"#,
    r#""$TOOL" stat --json --output null -e instructions -- true"#,
    r#""$TOOL" stat -I 200 -e calls,instructions -- true"#,
    r#""$TOOL" compare -r 3 true /bin/true"#,
];

#[test]
fn a_proc_of_others_is_the_reason_where_nobody_asked_for_the_software_pmu() {
    if !software_pmu_is_first() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for command in UNASKED {
        for (preparation, cause) in [
            ("unshare --pid --fork", "/proc belongs to another PID namespace"),
            ("mount -t tmpfs none /proc &&", "/proc is not mounted"),
        ] {
            let Some(out) = in_namespace(&format!("{preparation} {command}"), folder.path()) else { return };
            let text = unwrapped(&out);
            assert!(
                text.contains(&format!("the software PMU cannot count it: {cause}")),
                "{command}: {text}"
            );
            assert!(!text.contains("instructions:u: no PMU"), "{command}: {text}");
        }
    }
}

#[test]
fn doctor_names_a_proc_of_another_namespace_and_one_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    for (work, cause) in [
        (r#"unshare --pid --fork "$TOOL" doctor --json"#, "/proc belongs to another PID namespace"),
        (r#"mount -t tmpfs none /proc && "$TOOL" doctor --json"#, "/proc is not mounted"),
    ] {
        let Some(out) = in_namespace(work, folder.path()) else { return };
        let soft = soft_state(&out);
        if soft["works"] == "not_here" {
            return skip("the software PMU is for x86-64 on Linux");
        }
        assert_eq!(soft["works"], "no");
        assert_eq!(soft["causes"][0]["kind"], "no_process_list", "{soft}");
        assert!(soft["causes"][0]["text"].as_str().unwrap().starts_with(cause), "{soft}");
    }
}

#[test]
fn a_running_process_is_not_looked_up_in_a_proc_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let work = r#"unshare --pid --fork bash -c 'sleep 100 & "$TOOL" stat -e user_time -p $!; kill $!'"#;
    let Some(out) = in_namespace(work, folder.path()) else { return };
    let text = unwrapped(&out);
    assert!(text.contains("/proc belongs to another PID namespace"), "{text}");
}

#[test]
fn a_low_limit_on_the_size_of_files_takes_no_counts_and_stays_the_programs() {
    if !works_with_bash() {
        return;
    }
    let free = counted("true").unwrap();
    assert_eq!(counted("ulimit -S -f 1000"), Ok(free));
    let out = script("ulimit -S -f 1000; \"$TOOL\" stat -e calls -- bash -c 'ulimit -S -f'");
    assert_eq!(stdout(&out).lines().next(), Some("1000"), "{out:?}");
}

#[test]
fn a_limit_on_the_size_of_files_that_may_be_raised_is_no_obstacle() {
    if !works_with_bash() {
        return;
    }
    let free = counted("true").unwrap();
    for blocks in [0, 1, 1000] {
        let limit = format!("ulimit -S -f {blocks}");
        assert_eq!(counted(&limit), Ok(free), "{limit}");
        let state = soft_state(&script(&format!("{limit}; \"$TOOL\" doctor --json | cat")));
        assert_eq!(state["works"], "yes", "{limit}: {state}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_that_may_not_be_raised_is_the_reason_before_anything_runs() {
    if !software_pmu_is_first() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Users of a namespace may not raise it; 1800000 blocks are less than 1.75 GiB.
    for blocks in [1, 1000, 1_800_000] {
        let limited = |command: &str| {
            in_namespace(&format!("ulimit -f {blocks}; ({command}) 2>&1 | cat"), folder.path())
        };
        let Some(doctor) = limited(r#""$TOOL" doctor --json"#) else { return };
        let state = soft_state(&doctor);
        assert_eq!((&state["works"], &state["causes"][0]["kind"]), (&"no".into(), &"file_size_limit".into()));
        let cause = state["causes"][0]["text"].as_str().unwrap();
        assert!(cause.contains("RLIMIT_FSIZE") && cause.contains("ulimit -f"), "{cause}");
        for command in UNASKED {
            let text = unwrapped(&limited(command).unwrap());
            assert!(text.contains(cause), "{command}: {text}");
            assert!(!text.contains("translat"), "{command}: {text}");
        }
    }
    let enough = in_namespace("ulimit -f 1900000; \"$TOOL\" doctor --json | cat", folder.path());
    assert_eq!(soft_state(&enough.unwrap())["works"], "yes");
}

#[test]
fn a_limit_on_the_size_of_files_that_may_not_be_raised_is_named() {
    if !works_with_bash() {
        return;
    }
    let free = counted("true").unwrap();
    let named = |reason: &str| reason.contains("RLIMIT_FSIZE");
    match counted("ulimit -f 1000") {
        Ok(count) => assert_eq!((count, may_raise("-f")), (free, true)),
        Err(reason) => assert!(named(&reason) && !may_raise("-f"), "{reason}"),
    }
    let Some(refused) = counted_without_privileges("ulimit -f 1000") else { return };
    assert!(refused.as_ref().is_err_and(|reason| named(reason)), "{refused:?}");
    let folder = tempfile::tempdir().unwrap();
    let regions =
        in_namespace("ulimit -f 1000; (\"$TOOL\" stat -m -e calls -- true) 2>&1 | cat", folder.path());
    let regions = regions.unwrap();
    assert!(stdout(&regions).contains("cannot make the memory") && named(&stdout(&regions)), "{regions:?}");
}

#[test]
fn a_low_limit_on_private_memory_harms_no_command() {
    if !works_with_bash() {
        return;
    }
    let free = counted("true").unwrap();
    assert_eq!(counted("ulimit -S -d 4000"), Ok(free), "a soft limit is raised");
    let folder = tempfile::tempdir().unwrap();
    for kib in [2000, 4000, 8000, 20_000] {
        let command = format!("ulimit -d {kib}; \"$TOOL\" stat -e calls -- echo done");
        for out in [Some(script(&command)), in_namespace(&command, folder.path())].into_iter().flatten() {
            assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(0), "done\n"), "{kib}: {out:?}");
        }
    }
    let named = |reason: &str| reason.contains("RLIMIT_DATA");
    match counted("ulimit -d 8000") {
        Ok(count) => assert_eq!((count, may_raise("-d")), (free, true)),
        Err(reason) => assert!(named(&reason) && !may_raise("-d"), "{reason}"),
    }
    let Some(refused) = counted_without_privileges("ulimit -d 8000") else { return };
    assert!(refused.as_ref().is_err_and(|reason| named(reason)), "{refused:?}");
}

#[test]
fn a_small_stack_is_enough() {
    if !has_bash() {
        return;
    }
    let out = script("ulimit -s 128; \"$TOOL\" list instructions && \"$TOOL\" doctor");
    assert!(out.status.success(), "{out:?}");
    if software_pmu_works() {
        let free = counted("true").unwrap();
        for stack in [128, 256] {
            assert_eq!(counted(&format!("ulimit -s {stack}")), Ok(free), "{stack} KiB");
        }
    }
}

/// A user without privileges runs the tool: this one, or `nobody` where this one is root. `None`, and a word
/// why, where root cannot become another user.
fn as_ordinary_user(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let is_root = stdout(&Command::new("id").arg("-u").output().unwrap()).trim() == "0";
    let tool = folder.join("tool");
    executable(&tool, &fs::read(TOOL).unwrap());
    let mut command = match is_root {
        true => Command::new("setpriv"),
        false => Command::new(&tool),
    };
    if is_root && !has("setpriv") {
        skip("setpriv is not installed");
        return None;
    }
    if is_root {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&tool);
    }
    command.args(arguments).current_dir(folder).env_remove("HOME").stdin(Stdio::null());
    Some(command.output().unwrap())
}

#[test]
fn a_program_that_may_be_executed_and_not_read_is_lost_and_never_zero() {
    use std::os::unix::fs::PermissionsExt;
    if !works_with_bash() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o755);
    let program = folder.path().join("program");
    executable(&program, &fs::read("/bin/true").unwrap());
    // Its owner is root or this user: in both cases whoever runs it may not read it.
    mode(&program, 0o111);
    for command in [&["./program"][..], &["sh", "-c", "./program; ./program"]] {
        let arguments = [&["stat", "--strict", "--json", "--output", "null", "-e", "calls", "--"], command];
        let Some(out) = as_ordinary_user(folder.path(), &arguments.concat()) else { return };
        let report: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
        let calls = &report["commands"][0]["metrics"][0];
        assert_eq!((calls["mean"].is_null(), out.status.code()), (true, Some(124)), "{calls}");
        let reason = calls["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("may not read"), "{command:?}: {reason}");
    }
}

#[test]
fn rows_of_a_cpu_end_by_time_where_the_kernel_permits_no_interrupts() {
    use std::os::unix::fs::PermissionsExt;
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().is_ok_and(|level| level < 1) {
        return skip("the kernel permits users to count CPUs");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let record = |options: &[&str]| {
        let arguments = [&["record", "-C", "0", "-o", "r.rec"], options, &["--", "sleep", "0.05"]];
        as_ordinary_user(folder.path(), &arguments.concat())
    };
    let Some(by_time) = record(&[]) else { return };
    assert!(by_time.status.success() && stderr(&by_time).contains("rows end by time: "), "{by_time:?}");
    let Some(chosen) = record(&["--every", "1M:cpu-clock"]) else { return };
    assert_eq!(chosen.status.code(), Some(125), "{chosen:?}");
    assert!(stderr(&chosen).contains("perf: not permitted"), "{chosen:?}");
}

/// A folder with the tool alone, on the same file system.
fn folder_with_the_tool() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(TOOL, folder.path().join("cyclometer")).unwrap();
    folder
}

#[test]
fn the_server_for_agents_is_executed_from_beside_the_tool_with_all_arguments() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder_with_the_tool();
    let server = folder.path().join("cyclometer-mcp");
    executable(&server, b"#!/bin/sh\nprintf '<%s>' \"$@\"; exit 9\n");
    let mcp = |args: &[&str]| {
        Command::new(folder.path().join("cyclometer")).arg("mcp").args(args).output().unwrap()
    };
    for (args, expected) in [
        (&["--allow", "a b", "--dry-run"][..], "<--allow><a b><--dry-run>"),
        (&["--help"], "<--help>"),
        (&["--version"], "<--version>"),
        (&["-x", "stat"], "<-x><stat>"),
    ] {
        let out = mcp(args);
        assert_eq!((stdout(&out).as_str(), out.status.code()), (expected, Some(9)), "{}", stderr(&out));
    }
    fs::set_permissions(&server, fs::Permissions::from_mode(0o644)).unwrap();
    let out = mcp(&[]);
    assert_eq!(out.status.code(), Some(126), "{}", stderr(&out));
}

#[test]
fn without_the_server_for_agents_the_tool_says_how_to_install_it() {
    let folder = folder_with_the_tool();
    let mut tool = Command::new(folder.path().join("cyclometer"));
    let out = tool.args(["mcp", "--allow", "."]).env("PATH", folder.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(127));
    let text = stderr(&out);
    assert!(
        text.contains("cyclometer-mcp is not installed")
            && text.contains("help: `cargo install --locked --path crates/mcp`"),
        "{text}"
    );
}
