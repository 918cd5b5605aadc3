//! Code that programs make while they run.

use std::fs;

use super::{built_from, by};

/// Makes functions that loop so many times as their argument says, at three addresses, and names them as a
/// compiler at run time does. The third address belongs to two functions, one after the other.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* 1: dec edi; jnz 1b; ret */
static const unsigned char code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};
int main(int argc, char **argv) {
    char *at = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    for (int i = 0; i < 4; i++) memcpy(at + 1024 * i, code, sizeof code);
    sprintf(name, "/tmp/perf-%d.map", getpid());
    if (argc > 1) { if (symlink(argv[1], name)) return 1; }
    else {
        FILE *map = fopen(name, "w");
        fprintf(map, "%lx %x made_one\n%lx %x made\033[31m_two\n", (long)at, 5, (long)at + 1024, 5);
        fprintf(map, "%lx %x early\n%lx %x late\n", (long)at + 2048, 5, (long)at + 2048, 5);
        fclose(map);
    }
    ((void (*)(int))at)(1000);
    ((void (*)(int))(at + 1024))(2000);
    ((void (*)(int))(at + 2048))(3000);
    ((void (*)(int))(at + 3072))(4000);
    FILE *out = fopen("map", "w");
    fputs(name, out);
    fclose(out);
    return 0;
}
"#;

/// The first count of each function of no file, and the notes of a run.
fn of_no_file(folder: &std::path::Path, command: &[&str]) -> (Vec<(String, u64)>, String) {
    let options = ["--by", "function", "-e", "instructions"];
    let by = by(folder, &options, command);
    let rows = by["rows"].as_array().unwrap().iter().filter(|row| row["object"].is_null());
    let row = |row: &serde_json::Value| {
        (row["function"].as_str().unwrap_or_default().to_owned(), row["counts"][0].as_u64().unwrap())
    };
    let mut rows: Vec<(String, u64)> = rows.map(row).collect();
    rows.sort();
    let map = fs::read_to_string(folder.join("map")).unwrap();
    fs::remove_file(&map).unwrap();
    (rows, by["notes"].to_string())
}

#[test]
fn code_made_at_run_time_has_the_names_of_its_map_and_no_wrong_ones() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &["-O1"]) else { return };
    let (rows, notes) = of_no_file(folder.path(), &["./program"]);
    let of = |name: &str| rows.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
    assert_eq!(of("made_one"), Some(2001), "{rows:?} {notes}");
    assert_eq!(of("made?[31m_two"), Some(4001), "{rows:?}");
    assert_eq!(of("early or late"), Some(6001), "{rows:?}");
    // The last function is in no map; the vDSO may be in this row, too.
    assert!(of("").is_some_and(|count| count >= 8001), "{rows:?}");
}

#[test]
fn a_map_that_is_a_link_gives_no_names_and_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &["-O1"]) else { return };
    let (rows, notes) = of_no_file(folder.path(), &["./program", "/etc/passwd"]);
    let [(name, count)] = &rows[..] else { panic!("{rows:?}") };
    assert!(name.is_empty() && *count >= 20_004, "{rows:?}");
    assert!(notes.contains(".map: not used for names: it is a link"), "{notes}");
    assert!(notes.contains("made at run time and has no names"), "{notes}");
}
