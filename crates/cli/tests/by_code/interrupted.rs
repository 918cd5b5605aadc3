//! Signals while names are looked up.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::built_from;
use super::support::cyclometer;

/// Names the code that it makes in a map of a million entries, which take long to read.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const unsigned char code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3}; /* 1: dec edi; jnz 1b; ret */
static char line[64], block[1 << 16];
int main(void) {
    char *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    memcpy(at, code, sizeof code);
    ((void (*)(int))at)(1000);
    sprintf(name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx 5 made\n", (long)at);
    int len = 0;
    while (len < (int)sizeof block - 64) len += sprintf(block + len, "%x 8 other%d\n", 0x1000 + len, len);
    for (int i = 0; i < 400; i++) fwrite(block, 1, len, map);
    fclose(map);
    FILE *out = fopen("map", "w");
    fputs(name, out);
    fclose(out);
    return 0;
}
"#;

/// A time after which something that waits is taken to hang.
const LONG: Duration = Duration::from_secs(300);

/// The bytes that a process has read so far; `None`: it has ended.
fn bytes_read(pid: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

/// Waits until the tool has read the map of the command; `false`: it has ended before it was seen.
fn reads_names(tool: &mut Child, folder: &Path) -> bool {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LONG, "the tool hangs");
        let map = fs::read_to_string(folder.join("map")).ok().filter(|path| path.ends_with(".map"));
        let size = map.and_then(|path| fs::metadata(path).ok()).map(|metadata| metadata.len());
        match (bytes_read(tool.id()), size) {
            (Some(read), Some(size)) if read > size => return true,
            _ if tool.try_wait().unwrap().is_some() => return false,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Whether a process of the tool's group is left; those that are ending get time.
fn is_group_left(group: u32) -> bool {
    let begun = Instant::now();
    let kill = |signal: &str| {
        let group = format!("-{group}");
        let sent = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
        sent.unwrap().success()
    };
    while kill("-0") {
        if begun.elapsed() > LONG {
            kill("-KILL");
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn an_interrupt_while_names_are_looked_up_ends_the_tool_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &["-O1"]) else { return };
    for options in [&["--by", "function"][..], &["--by", "function", "--inclusive"]] {
        assert!((0..5).any(|_| is_interrupted(folder.path(), options)), "{options:?}: always too late");
    }
}

#[test]
fn an_interrupt_while_a_comparison_looks_names_up_ends_it_with_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &["-O1"]) else { return };
    assert!((0..5).any(|_| is_comparison_interrupted(folder.path())), "always too late");
}

/// Runs the tool, interrupts it when it has read the map of the command, and makes sure that no process is
/// left. Returns its output, and whether it was still there to be interrupted.
fn interrupted(tool: &mut Command, folder: &Path) -> (Output, bool) {
    tool.process_group(0).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    let is_in_time = reads_names(&mut tool, folder);
    let group = tool.id();
    if is_in_time {
        // A terminal sends it to the whole group.
        let whom = format!("-{group}");
        assert!(Command::new("kill").args(["-INT", "--", &whom]).status().unwrap().success());
    }
    let out = tool.wait_with_output().unwrap();
    assert!(!is_group_left(group), "a process is left");
    (out, is_in_time)
}

/// Interrupts a comparison during the look-up after its first run, and checks its end; `false`: it was too
/// late for that.
fn is_comparison_interrupted(folder: &Path) -> bool {
    let mut tool = cyclometer();
    tool.args(["compare", "--by", "function", "--counted", "3", "--export-json", "f.json"])
        .args(["--conclude", "sh -c 'rm -f $(cat map); echo concluded >> hooks'"])
        .args(["--cleanup", "sh -c 'echo cleaned >> hooks'"])
        .args(["./program", "./program"]);
    let (out, is_in_time) = interrupted(&mut tool, folder);
    fs::remove_file(folder.join("map")).unwrap();
    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("f.json")).unwrap()).unwrap();
    let hooks = fs::read_to_string(folder.join("hooks")).unwrap_or_default();
    let _ = fs::remove_file(folder.join("hooks"));
    let commands = results["commands"].as_array().unwrap();
    let run: Vec<_> = commands.iter().filter(|command| command["runs"][0].is_object()).collect();
    // The run is whole and its names are missing: the look-up was not waited for.
    let [only] = run[..] else { return false };
    if !is_in_time || only["runs"][1].is_object() || only.get("by").is_some() {
        return false;
    }
    assert_eq!(only["runs"][0]["exit"], 0, "{only}");
    assert_eq!(out.status.code(), Some(130), "{out:?}");
    assert_eq!(results["ended"]["kind"], "interrupted", "{}", results["ended"]);
    assert!(hooks.starts_with("concluded\n") && hooks.ends_with("cleaned\n"), "{hooks}");
    true
}

/// Interrupts the tool during the look-up, and checks its end; `false`: it had ended before.
fn is_interrupted(folder: &Path, options: &[&str]) -> bool {
    fs::write(folder.join("f.json"), "former").unwrap();
    let mut tool = cyclometer();
    tool.args(["stat", "--output", "null", "--export-json", "f.json"])
        .args(options)
        .args(["--", "./program"]);
    let (out, is_in_time) = interrupted(&mut tool, folder);
    fs::remove_file(fs::read_to_string(folder.join("map")).unwrap()).unwrap();
    fs::remove_file(folder.join("map")).unwrap();
    let exported = fs::read_to_string(folder.join("f.json")).unwrap();
    if !is_in_time || (out.status.success() && exported != "former") {
        return false;
    }
    // A shell reports 128 and the signal.
    assert_eq!(out.status.signal(), Some(2), "{out:?}");
    assert_eq!(exported, "former", "results are whole or not there");
    let left = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.ends_with(".tmp")).count(), 0);
    true
}
