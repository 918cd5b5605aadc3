//! `stat --by function --inlines`: functions that compilers have inlined.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::support::{cyclometer, has, run, skip, stderr, stdout};
use super::{built_from, by, compare, compared, functions, stat};

/// Repeats strings in functions that are inlined once, twice and within another one.
const PROGRAM: &str = r#"
#define INLINED static inline __attribute__((always_inline))
#define ALONE __attribute__((noinline))
static char from[5000], to[5000]; static volatile int sink;
INLINED void copy(long n) {
    char *d = to, *s = from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory"); /* in copy */
}
ALONE void leaf(void) { sink++; }
INLINED void twice(long n) { leaf(); copy(n); copy(n); leaf(); sink--; }
ALONE void one(long n) {
    copy(100);
    char *d = to, *s = from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory"); /* in one */
}
ALONE void two(void) { twice(1000); }
int main(void) { one(7); two(); copy(10); return 0; }
"#;

const OPTIONS: [&str; 2] = ["-g", "-O2"];

/// A count of each function of a file, and the function that it is inlined into.
fn rows(by: &Value, file: &str, event: usize) -> Vec<(String, Option<String>, u64)> {
    let of_file = |row: &&Value| row["object"].as_str().is_some_and(|path| path.ends_with(file));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let rows = by["rows"].as_array().unwrap().iter().filter(of_file);
    let row = |row: &Value| {
        let count = row["counts"][event].as_u64().unwrap();
        (text(&row["function"]).unwrap_or_default(), text(&row["inlined_into"]), count)
    };
    let mut rows: Vec<_> = rows.map(row).filter(|(.., count)| *count > 0).collect();
    rows.sort();
    rows
}

fn expected(rows: &[(&str, Option<&str>, u64)]) -> Vec<(String, Option<String>, u64)> {
    rows.iter().map(|(name, into, count)| ((*name).to_owned(), into.map(str::to_owned), *count)).collect()
}

const COPIED: [(&str, Option<&str>, u64); 4] =
    [("copy", Some("main"), 10), ("copy", Some("one"), 100), ("copy", Some("two"), 2000), ("one", None, 7)];

#[test]
fn inlined_functions_have_their_own_rows_which_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let events = ["--by", "function", "-e", "rep_iterations,instructions"];
    let files = ["--export-csv", "f.csv", "--export-folded", "f.folded", "--export-callgrind", "f.out"];
    let options = [&events[..], &["--inlines", "--html", "f.html"], &files].concat();
    let inlined = by(folder.path(), &options, &["./program"]);
    assert_eq!(rows(&inlined, "/program", 0), expected(&COPIED), "{inlined}");
    // A function has what it and the functions that are inlined there have apart.
    let whole = functions(&by(folder.path(), &events, &["./program"]), "/program");
    let apart = rows(&inlined, "/program", 1);
    for (name, counts) in &whole {
        let is_part =
            |(function, into, _): &&(String, Option<String>, u64)| into.as_ref().unwrap_or(function) == name;
        let sum: u64 = apart.iter().filter(is_part).map(|(.., count)| count).sum();
        assert_eq!(sum, counts[1], "{name}: {apart:?}");
    }
    assert!(whole.contains_key("two") && !whole.contains_key("copy"), "{whole:?}");

    let csv = fs::read_to_string(folder.path().join("f.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",object,function,line,inlined_into"), "{csv}");
    assert!(csv.contains(",copy,,two\r\n") && csv.contains(",one,,\r\n"), "{csv}");
    let folded = fs::read_to_string(folder.path().join("f.folded")).unwrap();
    for line in ["program;two;copy 2000", "program;one;copy 100", "program;one 7"] {
        assert!(folded.lines().any(|found| found == line), "{line}: {folded}");
    }
    let callgrind = fs::read_to_string(folder.path().join("f.out")).unwrap();
    assert!(callgrind.lines().any(|line| line.ends_with(") copy (in two)")), "{callgrind}");
    assert_eq!(super::costs(&callgrind).0, super::costs(&callgrind).1);
    let page = fs::read_to_string(folder.path().join("f.html")).unwrap();
    assert!(page.contains("[not inlined]") && page.contains("copy"), "{page}");

    let out = stat(folder.path(), &["--by", "function", "--inlines"], &["./program"]);
    let text = stderr(&out) + &stdout(&out);
    assert!(text.contains("copy (in two) program\n") && text.contains("(in F): inlined into F"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn lines_are_those_of_inlined_functions_with_and_without_rows_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let lines = by(folder.path(), &["--by", "line", "-e", "rep_iterations"], &["./program"]);
    let line = |text: &str| 1 + PROGRAM.lines().position(|line| line.contains(text)).unwrap();
    let of_line = |line: usize| {
        let rows = lines["rows"].as_array().unwrap().iter().filter(|row| row["line"] == line);
        let mut rows: Vec<(&str, u64)> =
            rows.map(|row| (row["function"].as_str().unwrap(), row["counts"][0].as_u64().unwrap())).collect();
        rows.retain(|(_, count)| *count > 0);
        rows.sort_unstable();
        rows
    };
    assert_eq!(of_line(line("/* in copy */")), [("main", 10), ("one", 100), ("two", 2000)], "{lines}");
    assert_eq!(of_line(line("/* in one */")), [("one", 7)], "{lines}");
}

#[test]
fn calls_in_inlined_functions_are_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let options = ["--by", "function", "--inlines", "--calls", "-e", "calls"];
    let by = by(folder.path(), &options, &["./program"]);
    let calls = by["calls"].as_array().unwrap();
    let to_leaf: Vec<&Value> = calls.iter().filter(|call| call["callee"]["function"] == "leaf").collect();
    let [call] = &to_leaf[..] else { panic!("{by}") };
    assert_eq!((call["caller"]["function"].as_str(), call["times"].as_u64()), (Some("twice"), Some(2)));
    assert_eq!(call["caller"]["inlined_into"], "two", "{call}");
    let sum: u64 = calls.iter().map(|call| call["times"].as_u64().unwrap()).sum();
    assert_eq!(by["totals"][0], sum, "every call is one of a caller");
}

/// Repeats strings in inlined functions of Rust: plain, generic, and a closure.
const IN_RUST: &str = r#"
use std::arch::asm;
use std::hint::black_box;
static FROM: [u8; 5000] = [1; 5000];
#[inline(always)]
fn copy(n: usize) {
    let mut to = [0_u8; 5000];
    unsafe { asm!("rep movsb", inout("rdi") to.as_mut_ptr() => _, inout("rsi") FROM.as_ptr() => _, inout("rcx") n => _); }
    black_box(&to);
}
struct Shape<T>(T);
impl<T: Copy + Into<u64>> Shape<T> {
    #[inline(always)]
    fn area(&self) { copy(self.0.into() as usize) }
}
#[inline(never)]
fn one() { copy(100) }
#[inline(never)]
fn two() { Shape(400_u32).area(); Shape(600_u16).area() }
fn main() { one(); two(); }
"#;

#[test]
fn inlined_functions_of_rust_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    if !has("rustc") {
        return skip("rustc is not installed");
    }
    // A program of C tells whether programs can be built and translated here.
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    fs::write(folder.path().join("shapes.rs"), IN_RUST).unwrap();
    let options = ["--edition", "2021", "-g", "-C", "opt-level=2", "shapes.rs"];
    let out = Command::new("rustc").args(options).current_dir(folder.path()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let options = ["--by", "function", "--inlines", "-e", "rep_iterations"];
    let by = by(folder.path(), &options, &["./shapes"]);
    let copied = rows(&by, "/shapes", 0);
    let in_program: Vec<_> =
        copied.into_iter().filter(|(_, into, _)| into.as_deref().is_some_and(is_of_shapes)).collect();
    let copy = "shapes::copy";
    let rows = [(copy, Some("shapes::one"), 100), (copy, Some("shapes::two"), 1000)];
    assert_eq!(in_program, expected(&rows), "{by}");
}

fn is_of_shapes(function: &str) -> bool {
    function.starts_with("shapes::")
}

#[test]
fn a_program_without_debug_information_has_a_note_and_its_functions() {
    let folder = tempfile::tempdir().unwrap();
    // Most instructions are its own.
    let source = PROGRAM.replace("{ one(7);", "{ for (volatile int i = 0; i < 300000; i++); one(7);");
    let Some(()) = built_from(folder.path(), &source, &["-O2"]) else { return };
    let by = by(folder.path(), &["--by", "function", "--inlines"], &["./program"]);
    let notes = by["notes"].to_string();
    assert!(notes.contains("no inlined functions: no debug information; compile with -g"), "{notes}");
    assert_eq!(notes.matches("no debug information").count(), 1, "{notes}");
    assert!(notes.contains("/program"), "{notes}");
    assert!(rows(&by, "/program", 0).iter().all(|(_, into, _)| into.is_none()), "{by}");
    assert!(functions(&by, "/program").contains_key("two"), "{by}");
}

#[test]
fn a_comparison_has_inlined_functions_within_others() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = built_from(folder.path(), PROGRAM, &OPTIONS) else { return };
    let exported = ["--by", "function", "--inlines", "--export-json", "base.json"];
    assert!(stat(folder.path(), &exported, &["./program"]).status.success());
    assert!(is_unchanged(folder.path()));
}

/// The counts of functions of the programs on both sides that changed, and how they were matched.
fn changes(results: &Value) -> Vec<(String, Option<String>, [u64; 2], String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let all = results["comparisons"][0]["by"]["changes"].as_array().unwrap().iter();
    let mut changes: Vec<_> = all
        .filter(|change| change["counts"][0]["change"] != 0.0)
        .map(|change| {
            let side = if change["b"].is_null() { &change["a"] } else { &change["b"] };
            let count = |side: &str| change["counts"][0][side][0].as_u64().unwrap();
            let names = (text(&side["function"]).unwrap(), text(&side["inlined_into"]));
            (names.0, names.1, [count("a"), count("b")], text(&change["match"]).unwrap())
        })
        .collect();
    changes.sort();
    changes
}

#[test]
fn a_comparison_matches_inlined_functions_by_name_and_by_the_function_around_them() {
    let folder = tempfile::tempdir().unwrap();
    // `two` copies more, `one` copies in another place, and `main` does not copy any more.
    let other = PROGRAM.replace("twice(1000)", "twice(1500)").replace("copy(10);", "");
    let other = other.replace("copy(100);", "").replace("/* in one */", "copy(100);");
    let Some(()) = built_from(folder.path(), &other, &OPTIONS) else { return };
    fs::rename(folder.path().join("program"), folder.path().join("other")).unwrap();
    built_from(folder.path(), PROGRAM, &OPTIONS).unwrap();
    let by = ["--by", "function", "-e", "rep_iterations", "--export-json", "f.json"];
    let run = |options: &[&str]| {
        let out = compare(folder.path(), &[&by, options].concat());
        assert!(out.status.success(), "{out:?}");
        (stdout(&out) + &stderr(&out), compared(folder.path(), "f.json"))
    };
    let expected: Vec<(String, Option<String>, [u64; 2], String)> = vec![
        ("copy".to_owned(), Some("main".to_owned()), [10, 0], "one_side".to_owned()),
        ("copy".to_owned(), Some("two".to_owned()), [2000, 3000], "same".to_owned()),
    ];
    let (text, results) = run(&["--inlines", "./program", "./other"]);
    assert_eq!(changes(&results), expected, "{results}");
    assert!(text.contains("copy (in two) other\n") && text.contains("(in F): inlined into F"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    // The same against baselines that `compare` and `stat` have written.
    run(&["--inlines", "--save-baseline", "base.json", "./program"]);
    let stat_options =
        ["--by", "function", "--inlines", "-e", "rep_iterations", "--export-json", "stat.json"];
    assert!(stat(folder.path(), &stat_options, &["./program"]).status.success());
    for file in ["base.json", "stat.json"] {
        let (_, results) = run(&["--inlines", "--baseline", file, "./other"]);
        assert_eq!(changes(&results), expected, "{file}: {results}");
        let (text, results) = run(&["--baseline", file, "./other"]);
        let whole: Vec<_> = changes(&results).into_iter().map(|(name, into, ..)| (name, into)).collect();
        assert_eq!(whole, [("main".to_owned(), None), ("two".to_owned(), None)], "{file}: {text}");
    }
    let worse = compare(folder.path(), &[&by[..], &["--save-baseline", "base.json", "./program"]].concat());
    let said = stderr(&worse);
    assert!(said.contains("counts of inlined functions") && said.contains("add --inlines"), "{said}");

    run(&["--save-baseline", "plain.json", "./program"]);
    let against = ["--inlines", "--baseline", "plain.json", "./other"];
    let refused = compare(folder.path(), &[&by[..], &against].concat());
    assert!(!refused.status.success(), "{refused:?}");
    let said = stderr(&refused);
    assert!(said.contains("plain.json has no counts of inlined functions"), "{said}");
    assert!(said.contains("--by function --inlines"), "{said}");
}

#[test]
fn a_comparison_of_inlined_functions_needs_functions() {
    for (options, said) in
        [(&["--by", "object", "--inlines"][..], "use --by function"), (&["--inlines"], "--by")]
    {
        let out = run(&[&["compare"], options, &["true", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
}

/// Whether no function of the program differs from the baseline `base.json`.
fn is_unchanged(folder: &Path) -> bool {
    let against =
        ["--baseline", "base.json", "--by", "function", "--export-json", "f.json", "--", "./program"];
    let out = compare(folder, &against);
    assert!(out.status.success(), "{out:?}");
    let by = compared(folder, "f.json")["comparisons"][0]["by"].clone();
    let is_of_program = |change: &&Value| {
        ["a", "b"].iter().any(|side| change[side]["object"].as_str().is_some_and(|o| o.ends_with("/program")))
    };
    by["changes"].as_array().unwrap().iter().filter(is_of_program).count() == 0
}

#[test]
fn inlined_functions_where_there_are_none_are_an_error() {
    for (options, said) in [
        (
            &["--by", "line", "--inlines"][..],
            "leave --inlines out: lines are those of inlined functions, too",
        ),
        (&["--by", "object", "--inlines"], "use --by function"),
        (&["--by", "function", "--inlines", "--inclusive"], "cannot be used with"),
        (&["--inlines"], "--by"),
    ] {
        let out = run(&[&["stat"], options, &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
    let help = cyclometer().args(["stat", "--help"]).output().unwrap();
    assert!(stdout(&help).contains("--inlines"), "{help:?}");
}
