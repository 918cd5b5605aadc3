//! Files of code that are damaged, compressed, or have strange names.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use cyclometer_test_support::executable;
use cyclometer_toolkit::symbols::{DebugPart, ObjectFile};
use serde_json::Value;

use super::support::{has, skip};
use super::{PROGRAM, by, functions, stat};

#[test]
fn damaged_debug_information_gives_fewer_names_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    if !has("gcc") {
        return skip("gcc is not installed");
    }
    fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    let options = ["-O1", "-g", "-c", "-o", "program.o", "program.c"];
    assert!(Command::new("gcc").args(options).current_dir(folder.path()).status().unwrap().success());
    let whole = fs::read(folder.path().join("program.o")).unwrap();
    let changed = folder.path().join("changed");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..400 {
        let mut content = whole.clone();
        for _ in 0..1 + draw(12) {
            let at = draw(content.len());
            content[at] = u8::try_from(draw(256)).unwrap();
        }
        if draw(8) == 0 {
            content.truncate(draw(whole.len()));
        }
        fs::write(&changed, &content).unwrap();
        match ObjectFile::open(&changed, DebugPart::Lines) {
            Ok(file) => {
                opened += 1;
                for offset in (0..whole.len() as u64).step_by(64) {
                    let _ = (file.function(offset), file.line(offset));
                }
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(opened > 100 && refused > 0, "{opened} {refused}");
}

/// Runs `objcopy` in a folder; `false`: its version does not know an option.
fn objcopy(folder: &Path, arguments: &[&str]) -> bool {
    let out = Command::new("objcopy").args(arguments).current_dir(folder).output().unwrap();
    let is_unknown = String::from_utf8_lossy(&out.stderr).contains("--compress-debug-sections");
    assert!(out.status.success() || is_unknown, "{out:?}");
    out.status.success()
}

#[test]
fn compressed_lines_are_read_or_missing_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    if !has("objcopy") {
        return skip("objcopy is not installed");
    }
    let Some(()) = super::built(folder.path(), &["-g"]) else { return };
    let lines = |command: &str| {
        let by = by(folder.path(), &["--by", "line"], &[command]);
        let rows = by["rows"].as_array().unwrap().iter();
        let row = |row: &Value| Some((row["file"].as_str()?.to_owned(), row["line"].as_u64()?));
        let of_program =
            rows.filter(|row| row["object"].as_str().is_some_and(|o| o.ends_with(&command[1..])));
        let lines: BTreeSet<(String, u64)> = of_program.filter_map(row).collect();
        (lines, by)
    };
    let (whole, _) = lines("./program");
    assert!(whole.len() > 10, "{whole:?}");
    for (format, file) in [("zlib", "packed"), ("zlib-gnu", "packed-gnu")] {
        objcopy(folder.path(), &[&format!("--compress-debug-sections={format}"), "program", file]);
        let (packed, by) = lines(&format!("./{file}"));
        assert_eq!(
            (packed, by["notes"].as_array().map(Vec::len)),
            (whole.clone(), Some(0)),
            "{format}: {}",
            by["notes"]
        );
    }
    // A separate file is compressed as distributions do it.
    objcopy(folder.path(), &["--only-keep-debug", "packed", "apart.debug"]);
    objcopy(folder.path(), &["--strip-all", "--add-gnu-debuglink=apart.debug", "packed", "apart"]);
    assert_eq!(lines("./apart").0, whole);
    if objcopy(folder.path(), &["--compress-debug-sections=zstd", "program", "zstd"]) {
        let (none, by) = lines("./zstd");
        let notes = by["notes"].to_string();
        assert!(none.is_empty() && notes.contains("/zstd: no lines: its debug sections"), "{by}");
        assert!(notes.contains("objcopy --decompress-debug-sections"), "{notes}");
        let counts = super::by(folder.path(), &["--by", "function"], &["./zstd"]);
        assert_eq!(functions(&counts, "/zstd").get("fib").map(Vec::len), Some(1), "it has its functions");
    }
}

#[test]
fn damaged_debug_information_is_said_once_and_functions_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    if !has("objcopy") {
        return skip("objcopy is not installed");
    }
    let Some(()) = super::built(folder.path(), &["-g"]) else { return };
    objcopy(folder.path(), &["--dump-section", ".debug_info=info", "program"]);
    // The version of the first unit.
    let mut info = fs::read(folder.path().join("info")).unwrap();
    info[4] = 0xff;
    fs::write(folder.path().join("info"), info).unwrap();
    objcopy(folder.path(), &["--update-section", ".debug_info=info", "program", "damaged"]);
    for (options, what) in
        [(&["--by", "line"][..], "lines"), (&["--by", "function", "--inlines"], "inlined functions")]
    {
        let by = by(folder.path(), options, &["./damaged"]);
        let notes = by["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
        let of_program: Vec<&str> = notes.filter(|note| note.contains("/damaged: ")).collect();
        let [note] = &of_program[..] else { panic!("{by}") };
        assert!(note.contains(what) && note.ends_with(": its debug information is damaged"), "{note}");
        assert!(functions(&by, "/damaged").contains_key("fib"), "{by}");
        let rows = by["rows"].as_array().unwrap().iter();
        let of_program = rows.filter(|row| row["object"].as_str().is_some_and(|o| o.ends_with("/damaged")));
        assert!(of_program.into_iter().all(|row| row["line"].is_null()), "{by}");
    }
}

#[test]
fn control_bytes_in_a_path_reach_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = super::built(folder.path(), &[]) else { return };
    let strange = "pro\u{1b}[31mgram\u{7}";
    executable(&folder.path().join(strange), &fs::read(folder.path().join("program")).unwrap());
    let files = ["--export-csv", "f.csv", "--export-callgrind", "f.cg", "--export-folded", "f.folded"];
    let options = [&["--by", "function", "--inclusive", "--html", "f.html"][..], &files].concat();
    let out = stat(folder.path(), &options, &[&format!("./{strange}")]);
    assert!(out.status.success(), "{out:?}");
    let exported =
        ["f.csv", "f.cg", "f.folded", "f.html"].map(|file| fs::read(folder.path().join(file)).unwrap());
    for text in exported.iter().chain([&out.stderr]) {
        let control = text.iter().find(|byte| byte.is_ascii_control() && !b"\r\n\t".contains(byte));
        assert_eq!(control, None, "{}", String::from_utf8_lossy(text));
        assert!(!text.is_empty());
    }
}

#[test]
fn paths_of_any_bytes_have_names_and_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = super::built(folder.path(), &[]) else { return };
    let content = fs::read(folder.path().join("program")).unwrap();
    for (strange, shown) in [
        (&b"no\xffutf8\xc3"[..], r"/no\xffutf8\xc3"),
        (b"con\x1b[31mtrol\x07", r"/con\x1b[31mtrol\x07"),
        (b"two\nlines", r"/two\x0alines"),
        (br"back\slash", r"/back\slash"),
        (br"back\x41", r"/back\x5cx41"),
    ] {
        executable(&folder.path().join(OsStr::from_bytes(strange)), &content);
        // An argument of the shell, as a command of ours is text.
        let script = format!("exec \"$(printf './{}')\"", octal(strange));
        let by = by(folder.path(), &["--by", "function", "-e", "calls"], &["sh", "-c", &script]);
        assert_eq!(functions(&by, shown).get("fib"), Some(&vec![1972]), "{shown}: {by}");
        assert_eq!(by["notes"].as_array().map(Vec::len), Some(0), "{}", by["notes"]);
        let objects = super::by(folder.path(), &["--by", "object"], &["sh", "-c", &script]);
        let rows = objects["rows"].as_array().unwrap();
        let is_shown = |row: &Value| row["object"].as_str().is_some_and(|object| object.ends_with(shown));
        assert!(rows.iter().any(is_shown), "{objects}");
    }
}

/// Bytes as `printf` of the shell reads them.
fn octal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}
