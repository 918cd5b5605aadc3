//! The commands of all other pages run, too, or the reason why not stands here.
//!
//! A block of `console` has prompts, and one of `sh` is one script. The word behind the language is that of
//! the tutorial's blocks; `runs` wants nothing but that the commands succeed. A command behind which the
//! page shows a gate that failed ends with status 1, and one before `echo $?` with the status that is shown
//! there. A file that a page shows by `cat` is there with that text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Kind, LEFT_OUT, Place, Step, agrees, kind, steps};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Folders of pages that users read, besides the tutorial.
const FOLDERS: [&str; 5] = ["", "docs/guides", "docs/reference", "docs/explanation", "bindings/python"];

/// Commands that cannot run here: the page, how the command begins, the reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo run", "builds the tool in release mode"),
    ("README.md", "cyclometer compare --save-baseline", "COMMAND stands for a command of the reader"),
    ("README.md", "cargo xtask ci", "runs these tests"),
    ("docs/guides/agents.md", "cargo install", "builds and installs the server, which has tests of its own"),
    ("docs/guides/fleet.md", "cargo install", "builds and installs the exporter, which has tests of its own"),
    ("docs/guides/fleet.md", "cyclometer-exporter", "serves until it is ended, on a port of this machine"),
    ("docs/guides/fleet.md", "curl", "asks the exporter"),
    ("docs/guides/fleet.md", "folder=", "records a job of minutes, for the data tools of the page"),
    (
        "docs/guides/reverse-machine.md",
        "cyclometer reverse --backend msr",
        "needs root and the registers of a PMU",
    ),
    (
        "docs/guides/reverse.md",
        "cyclometer reverse --machine sim:apple-m1 --check",
        "takes 15 s in a test build; `claims` tests it",
    ),
    ("docs/guides/sdk.md", "cyclometer run -- cargo bench", "runs the benchmarks and tests of the reader"),
];

/// A program of the examples: `-DMORE` executes more.
const SAMPLE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n\
int main(void) {\n    static int x[4096];\n    static char text[4096];\n    for (int i = 0; i < 4096; i++) x[i] = i * 7919 % 4096;\n\
    qsort(x, 4096, sizeof *x, cmp);\n#ifdef MORE\n    qsort(x, 4096, sizeof *x, cmp);\n#endif\n\
    memset(text, x[1], sizeof text);\n    return printf(\"%d %d\\n\", x[0], text[9]) < 0;\n}\n";

/// Files and programs that the pages take for granted.
fn prepare(place: &Place) {
    let lines = |count: u32| {
        (0..count).map(|i| format!("{} line\n", i.wrapping_mul(2_654_435_761))).collect::<String>()
    };
    fs::write(place.file("input.txt"), lines(32_000)).unwrap();
    fs::write(place.file("numbers.txt"), lines(4_000)).unwrap();
    fs::write(place.file("sample.c"), SAMPLE).unwrap();
    for folder in ["old", "new"] {
        fs::create_dir(place.file(folder)).unwrap();
    }
    place
        .type_in("gcc -O1 -g -o program sample.c && cp program t1 && cp program prog && cp program old/prog");
    place.type_in("gcc -O1 -g -DMORE -o new/prog sample.c");
}

/// A block: its language, the word behind it, and its text.
struct Block {
    language: String,
    word: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(fence)) => {
                let (language, word) = fence.split_once(' ').unwrap_or((fence, ""));
                open =
                    Some(Block { language: language.to_owned(), word: word.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

impl Block {
    /// The commands, with what they print if the page shows that.
    fn steps(&self) -> Vec<Step<'_>> {
        match self.language.as_str() {
            "console" if self.text.starts_with("# ") => steps_of_root(&self.text),
            "console" => steps(self.text.trim_end()),
            "sh" => vec![Step { command: self.text.clone(), shown: "" }],
            _ => Vec::new(),
        }
    }
}

/// The same for a block with the prompt of root.
fn steps_of_root(text: &str) -> Vec<Step<'_>> {
    let commands = text.lines().filter_map(|line| line.strip_prefix("# "));
    commands.map(|command| Step { command: command.to_owned(), shown: "" }).collect()
}

/// The pages of the folders, from the root.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in FOLDERS {
        for file in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            pages.extend(path.ends_with(".md").then_some(path));
        }
    }
    pages.sort();
    pages
}

/// The entry of [`NOT_RUN`] for a command.
fn not_run(page: &str, command: &str) -> Option<usize> {
    NOT_RUN.iter().position(|(listed, beginning, _)| *listed == page && command.starts_with(beginning))
}

/// The output of a shell, and its status.
fn typed(place: &Place, command: &str) -> (String, i32) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("exec 2>&1\n{command}")]).current_dir(place.folder.path());
    shell.env_clear().env("PATH", &place.path).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let out = shell.output().unwrap();
    (String::from_utf8_lossy(&out.stdout).into_owned(), out.status.code().unwrap_or(-1))
}

/// The status that a page wants of a step.
fn status(step: &Step<'_>, next: Option<&Step<'_>>) -> i32 {
    match next {
        Some(next) if next.command == "echo $?" => next.shown.trim().parse().unwrap(),
        _ => i32::from(step.shown.contains(": FAILED")),
    }
}

/// Runs the commands of a block; gives what is wrong.
fn wrong(place: &Place, page: &str, block: &Block, kind: Kind) -> Vec<String> {
    let mut wrong = Vec::new();
    let steps = block.steps();
    for (at, step) in steps.iter().enumerate() {
        if step.command == "echo $?" || not_run(page, &step.command).is_some() {
            continue;
        }
        if let Some(file) = step.command.strip_prefix("cat ") {
            fs::write(place.file(file), format!("{}\n", step.shown)).unwrap();
            continue;
        }
        let (printed, ended) = typed(place, &step.command);
        let wanted = status(step, steps.get(at + 1));
        if ended != wanted {
            wrong.push(format!("{page}: status {ended} and not {wanted}: {}\n{printed}", step.command));
        } else if step.shown.is_empty() {
            continue; // The page leaves the output out.
        } else if let Err(why) = agrees(kind, step.shown, &printed) {
            wrong.push(format!("{page}: {why}: {}\n{printed}", step.command));
        }
    }
    wrong
}

/// Whether anything of a block is to run.
fn runs(page: &str, block: &Block) -> bool {
    block.steps().iter().any(|step| not_run(page, &step.command).is_none())
}

#[test]
fn the_commands_of_guides_and_reference_run() {
    let place = Place::new();
    let mut prepared = false;
    let mut found = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(PathBuf::from(ROOT).join(&page)).unwrap();
        for block in blocks(&text).iter().filter(|block| runs(&page, block)) {
            let Some(kind) = kind(&block.word) else { continue };
            if !prepared {
                prepare(&place);
                prepared = true;
            }
            found.extend(wrong(&place, &page, block, kind));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_reason_not_to_run_a_command_belongs_to_one() {
    let mut used = vec![false; NOT_RUN.len()];
    for page in pages() {
        let text = fs::read_to_string(PathBuf::from(ROOT).join(&page)).unwrap();
        for step in blocks(&text).iter().flat_map(Block::steps) {
            if let Some(at) = not_run(&page, &step.command) {
                used[at] = true;
            }
        }
    }
    let unused: Vec<_> = NOT_RUN.iter().zip(used).filter(|(_, used)| !used).map(|(entry, _)| entry).collect();
    assert!(unused.is_empty(), "no page has these commands any more: {unused:?}");
}

#[test]
fn a_block_is_read_with_its_word_and_a_wrong_command_is_found() {
    let page = "```sh runs\nfalse\n```\ntext\n```console\n$ echo a\nb\n$ exit 3\n$ echo $?\n3\n```\n```text\n$ no\n```\n";
    let blocks = blocks(page);
    let read: Vec<(&str, &str)> =
        blocks.iter().map(|block| (block.language.as_str(), block.word.as_str())).collect();
    assert_eq!(read, [("sh", "runs"), ("console", ""), ("text", "")]);
    assert!(blocks[2].steps().is_empty());
    let place = Place::new();
    assert_eq!(wrong(&place, "x.md", &blocks[0], Kind::Runs).len(), 1);
    let found = wrong(&place, "x.md", &blocks[1], Kind::Exact);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("echo a"), "{found:?}");
    assert!(wrong(&place, "x.md", &blocks[1], Kind::Runs).is_empty(), "{LEFT_OUT}");
}
