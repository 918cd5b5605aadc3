//! The tutorial is correct: every command of `docs/tutorial` runs, and prints the text of the page.
//!
//! A fence says how its commands are compared. `console` prints exactly that, everywhere; `console
//! compiler` too, and needs gcc. `console counted` needs gcc and the software PMU; only the form must be
//! that of the page, as the numbers depend on the compiler. `console timed` needs gcc; only the first words
//! of each line must be the same, as times depend on the load. `console no-pmu` has the form of the page on
//! a machine like the page's, and runs without a comparison on others. `console library` and `console
//! example` are run by the tests of the C interface and the façade. The pages beside the tutorial are in
//! `guides`. `UPDATE_GOLDEN=1` accepts the printed text.

#![cfg(all(unix, target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "guides/mod.rs"]
mod guides;
use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{cyclometer, has, run, skip, skip_without_peer, software_pmu_works, stdout};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial");

/// The reason that the pages quote for the machine on which they were written.
const REFUSAL: &str = "no PMU in this virtual machine (Firecracker on KVM)";

/// Blocks that other tests run.
const ELSEWHERE: [&str; 2] = ["library", "example"];

/// How the output of the commands of a block is compared with the page.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Digit by digit.
    Exact,
    /// In its form.
    Form,
    /// By the first words of its lines.
    FirstWords,
    /// Not at all: the command only has to run.
    Runs,
}

/// A command of a page, and its output there.
#[derive(Debug)]
struct Step<'a> {
    command: String,
    shown: &'a str,
}

/// The blocks of a page with the words behind `console` on their fence.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let fenced = page.split("```console").skip(1).filter_map(|block| block.split_once("\n```"));
    fenced.filter_map(|(block, _)| block.split_once('\n')).map(|(kind, text)| (kind.trim(), text)).collect()
}

/// The commands of a block; one that ends with a backslash goes on in the next line.
fn steps(block: &str) -> Vec<Step<'_>> {
    let parts = block.strip_prefix("$ ").unwrap_or_else(|| panic!("a block begins with a command: {block}"));
    parts.split("\n$ ").map(step).collect()
}

fn step(text: &str) -> Step<'_> {
    let ends = text.match_indices('\n').find(|(at, _)| !text[..*at].ends_with('\\'));
    let (command, shown) = ends.map_or((text, ""), |(at, _)| (&text[..at], &text[at + 1..]));
    Step { command: command.to_owned(), shown }
}

/// The placeholder for lines that a page leaves out.
const LEFT_OUT: &str = "[…]";

/// A line without its digits, units and columns, and without the order of two values. The rest does not
/// depend on a compiler or a clock.
fn form(line: &str) -> String {
    let units = ["ns", "µs", "ms", "s", "KiB", "MiB", "GiB"];
    let word = |word: &str| {
        let bare = word.trim_start_matches(['(', '±', '+', '-']);
        let form = match word {
            _ if bare.starts_with(|c: char| c.is_ascii_digit()) => "#",
            "▼" => "▲",
            other => other,
        };
        form.to_owned()
    };
    let words = line.split_whitespace().filter(|word| !units.contains(word)).map(word);
    words.collect::<Vec<_>>().join(" ")
}

/// The forms of lines, of which the same form again and again is one: rows in time are more or fewer.
fn forms(text: &str) -> Vec<String> {
    let mut forms: Vec<String> = text.lines().filter(|line| *line != LEFT_OUT).map(form).collect();
    forms.dedup();
    forms
}

/// The first words of lines.
fn first_words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

/// The first line shown that is not among those printed, in this order.
fn missing(shown: &[String], printed: &[String]) -> Option<String> {
    let mut rest = printed.iter();
    shown.iter().find(|line| *line != LEFT_OUT && !rest.any(|other| other == *line)).cloned()
}

/// The environment in which the commands of a page are typed: the program on the path, and the sources at
/// hand.
struct Place {
    folder: tempfile::TempDir,
    path: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        for file in fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|ending| ending == "c") {
                fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
            }
        }
        let own = Path::new(env!("CARGO_BIN_EXE_cyclometer")).parent().unwrap();
        let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
        Place { folder, path }
    }

    /// The output that a terminal would show.
    fn type_in(&self, command: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(self.folder.path());
        shell.env_clear().env("PATH", &self.path).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        let out = shell.output().unwrap();
        let text = stdout(&out);
        assert!(out.status.success(), "{command}\n{}\n{text}", out.status);
        text
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Whether a program is here that the tutorial uses; where it must be, that it is not is a failure.
fn has_peer(tool: &str) -> bool {
    let found = has(tool);
    if !found {
        skip_without_peer(&format!("{tool} is missing: the tutorial's programs were not built"));
    }
    found
}

/// How blocks of this kind are compared here; `None`: their commands cannot run.
fn kind(word: &str) -> Option<Kind> {
    match word {
        "" => Some(Kind::Exact),
        "compiler" => has_peer("gcc").then_some(Kind::Exact),
        "timed" => has_peer("gcc").then_some(Kind::FirstWords),
        "counted" => (has_peer("gcc") && software_pmu_works()).then_some(Kind::Form),
        "runs" => (has_peer("gcc") && software_pmu_works()).then_some(Kind::Runs),
        "no-pmu" if !has_peer("gcc") => None,
        "no-pmu" if stdout(&run(&["doctor"])).contains(REFUSAL) && software_pmu_works() => Some(Kind::Form),
        "no-pmu" => {
            skip("the tutorial's refusals were not compared: they are those of another machine");
            Some(Kind::Runs)
        }
        _ => panic!("```console {word} is no kind of block"),
    }
}

/// Whether the output agrees with the page.
fn agrees(kind: Kind, shown: &str, printed: &str) -> Result<(), String> {
    match kind {
        Kind::Runs => Ok(()),
        _ if shown.is_empty() != printed.is_empty() => Err("one of the two is nothing".to_owned()),
        Kind::Exact if shown.trim_end() == printed.trim_end() => Ok(()),
        Kind::Exact => Err("it prints something else".to_owned()),
        Kind::Form => none_is_missing(&forms(shown), &forms(printed)),
        Kind::FirstWords => none_is_missing(&first_words(shown), &first_words(printed)),
    }
}

fn none_is_missing(shown: &[String], printed: &[String]) -> Result<(), String> {
    missing(shown, printed).map_or(Ok(()), |line| Err(format!("this is not printed, or elsewhere: {line}")))
}

/// Types in every command of a page; gives their number.
fn follow(name: &str) -> usize {
    let path = Path::new(FOLDER).join(name);
    let page = fs::read_to_string(&path).unwrap();
    let (mut accepted, mut seen) = (page.clone(), 0);
    let place = Place::new();
    let known: BTreeMap<&str, Option<Kind>> = blocks(&page)
        .iter()
        .filter(|block| !ELSEWHERE.contains(&block.0))
        .map(|block| (block.0, kind(block.0)))
        .collect();
    let mut wrong = Vec::new();
    for (word, block) in blocks(&page) {
        let Some(kind) = known.get(word).copied().flatten() else { continue };
        for step in steps(block) {
            let printed = place.type_in(&step.command);
            assert!(printed.lines().all(|line| line.chars().count() <= 80), "{}\n{printed}", step.command);
            seen += 1;
            if let Err(why) = agrees(kind, step.shown, &printed) {
                let (old, new) = (typed(&step.command, step.shown), typed(&step.command, &printed));
                accepted = accepted.replacen(&old, &new, 1);
                wrong.push(format!("{name}: {why}\n{new}"));
            }
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, accepted).unwrap();
    } else {
        assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 accepts what was printed", wrong.join("\n"));
    }
    seen
}

/// A command and its output as a page shows them.
fn typed(command: &str, output: &str) -> String {
    format!("$ {command}\n{}", output.trim_end()).trim_end().to_owned() + "\n"
}

/// Finds the commands of each page, so that none is left out because its fence is spelled differently.
#[test]
fn every_command_of_the_pages_is_in_a_block_that_is_run() {
    for entry in fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let page = fs::read_to_string(&entry).unwrap();
        let commands = page.lines().filter(|line| line.starts_with("$ ")).count();
        let typed: usize = blocks(&page).iter().map(|(_, block)| steps(block).len()).sum();
        assert_eq!(typed, commands, "{}", entry.display());
        for fence in page.lines().filter(|line| line.starts_with("```") && line.len() > 3) {
            let language = fence[3..].split(' ').next().unwrap();
            assert!(["console", "c", "text"].contains(&language), "{}: {fence}", entry.display());
        }
    }
}

#[test]
fn the_first_chapter_can_be_followed() {
    assert!(follow("1-ipc.md") > 0);
}

#[test]
fn the_second_chapter_can_be_followed() {
    assert!(follow("2-programmable-events.md") > 0);
}

#[test]
fn the_third_chapter_can_be_followed() {
    assert!(follow("3-memory.md") > 0);
}

#[test]
fn the_fourth_chapter_can_be_followed() {
    assert!(follow("4-windows.md") > 0);
}

#[test]
fn the_commands_of_the_answers_can_be_typed_in() {
    assert!(follow("answers.md") > 0);
}

#[test]
fn what_the_first_page_says_can_be_typed_in() {
    assert!(follow("README.md") > 0);
}

#[test]
fn a_page_that_shows_something_else_is_found_out() {
    let page = "a\n```console counted\n$ one \\\n    two\n  1,234 x\n  2 y\n$ three\n```\n";
    let blocks = blocks(page);
    assert_eq!(blocks.len(), 1);
    let steps = steps(blocks[0].1);
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!((steps[0].command.as_str(), steps[0].shown), ("one \\\n    two", "  1,234 x\n  2 y"));
    for (shown, printed, same) in [
        (steps[0].shown, "head\n 99 x\n  5 y", true),
        (steps[0].shown, "  5 y\n 99 x", false),
        ("  instructions:u  7 ≡", "  instructions:u  lost", false),
        ("wall_time 1.59 ms ± 12.3 µs", "wall_time   2 s ±   9 ns", true),
        ("[…]\n 1 x", "any\n2 x", true),
        ("loads:u +0.1 % ▲ changed", "loads:u -3 % ▼ changed", true),
        ("1 x\n[…]\n2 x\n3 y", "1 x\n2 y", true),
    ] {
        assert_eq!(agrees(Kind::Form, shown, printed).is_ok(), same, "{shown} | {printed}");
    }
    assert!(agrees(Kind::Exact, "1 x", "2 x").is_err());
    assert!(agrees(Kind::Form, "", "2 x").is_err());
    assert!(agrees(Kind::FirstWords, "wall 1\n[…]", "wall 2 s\nb").is_ok());
}

/// How the events of an iteration are found in a disassembly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Iteration {
    instructions: i64,
    loads: i64,
    stores: i64,
    branches: i64,
}

const EVENTS: [&str; 4] = ["instructions", "loads", "stores", "branches"];

impl Iteration {
    fn of(values: [i64; 4]) -> Iteration {
        let [instructions, loads, stores, branches] = values;
        Iteration { instructions, loads, stores, branches }
    }
}

/// The instructions of a function in `objdump`'s output: address, mnemonic, operands.
fn disassembled(listing: &str, function: &str) -> Vec<(u64, String, String)> {
    let head = format!("<{function}>:");
    let body = listing.lines().skip_while(|line| !line.ends_with(&head)).skip(1);
    let lines = body.take_while(|line| !line.is_empty()).filter_map(|line| {
        let (address, rest) = line.trim().split_once(':')?;
        let mut words = rest.split_whitespace();
        let mnemonic = words.next()?.to_owned();
        Some((u64::from_str_radix(address, 16).ok()?, mnemonic, words.collect::<Vec<_>>().join(" ")))
    });
    lines.collect()
}

/// The instructions, loads and stores of one iteration of the innermost loop, the one that lies in most other
/// loops.
fn innermost(code: &[(u64, String, String)]) -> Iteration {
    let target = |(at, mnemonic, operands): &(u64, String, String)| {
        let to = u64::from_str_radix(operands.split_whitespace().next()?, 16).ok()?;
        (mnemonic.starts_with('j') && to <= *at).then_some((to, *at))
    };
    let loops: Vec<(u64, u64)> = code.iter().filter_map(target).collect();
    let depth = |&(from, to): &(u64, u64)| loops.iter().filter(|l| l.0 <= from && to <= l.1).count();
    let inner = *loops.iter().max_by_key(|l| depth(l)).unwrap();
    assert_eq!(depth(&inner), 3, "{code:?}");
    let body = code.iter().filter(|(at, ..)| (inner.0..=inner.1).contains(at));
    body.fold(Iteration::default(), |sum, (_, mnemonic, operands)| {
        let (load, store) = memory(mnemonic, operands);
        Iteration {
            instructions: sum.instructions + 1,
            loads: sum.loads + i64::from(load),
            stores: sum.stores + i64::from(store),
            branches: sum.branches + i64::from(mnemonic.starts_with('j')),
        }
    })
}

/// Whether an instruction in AT&T's notation reads memory, and whether it writes it.
fn memory(mnemonic: &str, operands: &str) -> (bool, bool) {
    let Some(open) = operands.find('(') else { return (false, false) };
    let written = operands[open..].ends_with(')');
    match mnemonic {
        _ if mnemonic.starts_with("lea") || mnemonic.starts_with("nop") => (false, false),
        _ if !written => (true, false),
        // With one operand that is in memory it would be the last one, too: none of those is in the loops
        // here.
        _ if mnemonic.starts_with("mov") => (false, true),
        _ if mnemonic.starts_with("cmp") || mnemonic.starts_with("test") => (true, false),
        _ => (true, true),
    }
}

/// Exact counts of one run.
fn counts(program: &Path, arguments: [&str; 3]) -> [i64; 4] {
    let options = ["stat", "--backend", "soft", "--json", "--output", "null", "-e"];
    let mut command = cyclometer();
    command.args(options).arg(EVENTS.join(",")).arg("--").arg(program).args(arguments);
    let out = command.output().unwrap();
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let metrics = value["commands"][0]["metrics"].as_array().unwrap();
    EVENTS.map(|event| {
        let named = |metric: &&Value| metric["name"] == format!("{event}:u");
        let metric = metrics.iter().find(named).unwrap_or_else(|| panic!("no {event} in {out:?}"));
        metric["mean"].as_i64().unwrap_or_else(|| panic!("{metric}"))
    })
}

/// The counts that one product of this size adds: two products less one, so that the rest of the program
/// cancels out.
fn product(program: &Path, size: &str, order: &str) -> [i64; 4] {
    let (one, two) = (counts(program, [size, order, "1"]), counts(program, [size, order, "2"]));
    std::array::from_fn(|event| two[event] - one[event])
}

/// A product of `n` rows costs a n³ + b n² + c n + d. The third difference of four sizes at a distance of h
/// is 6 a h³.
fn cubic(program: &Path, order: &str) -> Iteration {
    let [p4, p8, p12, p16] = ["4", "8", "12", "16"].map(|size| product(program, size, order));
    Iteration::of(std::array::from_fn(|event| {
        let difference = p16[event] - 3 * p12[event] + 3 * p8[event] - p4[event];
        assert_eq!(difference % (6 * 64), 0, "{order}: {difference}");
        difference / (6 * 64)
    }))
}

#[test]
fn counts_of_the_product_are_those_of_its_code() {
    if !has_peer("gcc") || !has_peer("objdump") || !software_pmu_works() {
        return;
    }
    let place = Place::new();
    for level in ["-O0", "-O1"] {
        place.type_in(&format!("gcc {level} -Wall -Wextra -Werror -o matrix matrix.c"));
        let listing = place.type_in("objdump -d --no-show-raw-insn matrix");
        for (order, function) in [("ijk", "multiply_ijk"), ("ikj", "multiply_ikj")] {
            let read = innermost(&disassembled(&listing, function));
            assert!(
                read.instructions >= 5 && read.loads >= 2 && read.branches == 1,
                "{level} {order}: {read:?}"
            );
            assert_eq!(cubic(&place.file("matrix"), order), read, "{level} {order}");
        }
    }
}

#[test]
fn rows_in_time_add_up_to_the_total() {
    if !has_peer("gcc") || !software_pmu_works() {
        return;
    }
    let place = Place::new();
    place.type_in("gcc -O1 -o matrix matrix.c");
    let text = place
        .type_in("cyclometer stat --backend soft -I 100 -e instructions --output null -- ./matrix 512 ijk 2");
    let number = |word: &str| word.replace(',', "").parse::<u64>().unwrap();
    let rows: Vec<u64> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, count, "instructions:u"] => Some(number(count)),
            _ => None,
        })
        .collect();
    let total = text.lines().find_map(|line| line.trim().strip_prefix("instructions:u")).unwrap();
    assert!(!rows.is_empty(), "{text}");
    assert_eq!(rows.iter().sum::<u64>(), number(total.trim().trim_end_matches(" ≡")), "{text}");
}

#[test]
fn the_program_multiplies_and_refuses_what_it_cannot() {
    if !has_peer("gcc") {
        return;
    }
    let place = Place::new();
    place.type_in("gcc -O1 -std=c99 -pedantic -Wall -Wextra -Werror -o matrix matrix.c");
    for (arguments, printed) in [
        ("2", "8 8\n8 8\n"),
        ("1 ikj 3", "4\n"),
        ("20", "sum of the product: 32000\n"),
        ("20 ikj", "sum of the product: 32000\n"),
        ("0 || true", "matrix: '0' is no number from 1 to 4096\n"),
        ("9x || true", "matrix: '9x' is no number from 1 to 4096\n"),
        ("9 kji || true", "usage: matrix [SIZE [ijk|ikj [TIMES]]]\n"),
    ] {
        assert_eq!(place.type_in(&format!("./matrix {arguments}")), printed, "{arguments}");
    }
}
