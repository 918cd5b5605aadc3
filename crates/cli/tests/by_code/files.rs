//! Files that are large, gone or replaced, and stored translations.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cyclometer_test_support::elf_program::{ElfProgram, FUNCTION_LEN};
use cyclometer_test_support::executable;
use serde_json::Value;

use super::support::{cyclometer, software_pmu_works, stdout};
use super::{built, by, functions};

#[test]
fn a_million_functions_are_no_more_rows_than_were_executed() {
    if !software_pmu_works() {
        return;
    }
    const FUNCTIONS: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    // The first function jumps to the second, the second to the last one:
    // mov eax, 60; xor edi, edi; syscall.
    let jump = |functions: u64| {
        let distance = (functions * FUNCTION_LEN) as u32 - 5;
        let mut code = [&[0xe9][..], &distance.to_le_bytes()].concat();
        code.resize(FUNCTION_LEN as usize, 0xcc);
        code
    };
    let mut code = [jump(1), jump(FUNCTIONS - 2)].concat();
    code.resize(((FUNCTIONS - 1) * FUNCTION_LEN) as usize, 0xcc);
    code.extend([0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
    let program = ElfProgram::new(FUNCTIONS, |index| format!("function{index}"), &code);
    executable(&folder.path().join("large"), &program.bytes);
    let by = by(folder.path(), &["--by", "function", "-e", "instructions"], &["./large"]);
    let expected = [("function0", 1), ("function1", 1), ("function999999", 3)];
    let expected = expected.map(|(name, count)| (name.to_owned(), vec![count]));
    assert_eq!(functions(&by, "/large"), BTreeMap::from(expected), "{by}");
    assert_eq!(by["totals"][0], 5, "{by}");
    assert_eq!(by["notes"].as_array().map(Vec::len), Some(0), "{by}");
}

#[test]
fn a_file_that_is_gone_or_a_pipe_by_the_end_has_its_counts_and_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &[]) else { return };
    for script in
        ["./program; rm program", "./program; rm program; mkfifo program", "./program; ln -sf / program"]
    {
        let content = fs::read(folder.path().join("program")).unwrap();
        for grouping in ["function", "line"] {
            let by = by(folder.path(), &["--by", grouping], &["sh", "-c", script]);
            let rows = by["rows"].as_array().unwrap().iter();
            let of_program: Vec<&Value> =
                rows.filter(|row| row["object"].as_str().is_some_and(|o| o.ends_with("/program"))).collect();
            let [row] = &of_program[..] else { panic!("{script}: {by}") };
            assert!(row["function"].is_null() && row["counts"][0].as_u64() > Some(20_000), "{script}: {row}");
            let notes = by["notes"].to_string();
            let said = "/program: no names: it was replaced since, or cannot be read";
            assert_eq!(notes.matches(said).count(), 1, "{script}: {notes}");
            fs::remove_file(folder.path().join("program")).ok();
            executable(&folder.path().join("program"), &content);
        }
    }
}

/// The results of a run of the program, by options.
fn counted(folder: &Path, options: &[&str]) -> Value {
    let common = ["stat", "--backend", "soft", "-e", "instructions,calls", "--output", "null", "--json"];
    let arguments = [&common[..], options, &["--", "env", "-i", "./program"]].concat();
    let out = cyclometer().args(arguments).current_dir(folder).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    report["commands"][0].clone()
}

#[test]
fn counts_by_code_are_the_same_with_profiles_and_translations_of_earlier_runs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built(folder.path(), &["-static"]) else { return };
    for by in [&["--by", "function"][..], &["--by", "function", "--inclusive"]] {
        let without = counted(folder.path(), &[by, &["--no-hints"]].concat());
        let first = functions(&without["by"], "/program");
        assert!(first.values().flatten().sum::<u64>() > 20_000, "{first:?}");
        // The first of these runs leaves a profile, the second a translation, which the third one uses.
        let plain = [(); 3].map(|()| counted(folder.path(), &[])["metrics"][0]["mean"].clone());
        let with = counted(folder.path(), by);
        assert_eq!(functions(&with["by"], "/program"), first, "{by:?}");
        let total = with["by"]["totals"][0].as_f64();
        assert!(plain.iter().all(|count| count.as_f64() == total), "{by:?}: {plain:?} {total:?}");
    }
}
