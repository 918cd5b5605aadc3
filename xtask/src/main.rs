//! The project's own tools.
//!
//! `cargo xtask test` is the quick form of the tests: no privileges, no PMU, no network beyond crates.
//! `cargo xtask ci` is the full form: it may install packages, and it also checks the build budget.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a tool of the project talks to its developers")]

mod advise_score;
mod bindings;
mod book;
mod budget;
mod catalog;
mod ci;
mod clippy;
mod command;
mod corpus;
mod cross_check;
mod cross_check_jevents;
mod debian;
mod dependencies;
mod dist;
mod guests;
mod mutate;
mod nightly;
mod page;
mod pictures;
mod registers_page;
mod released_tool;
mod reverse_score;
mod targets;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask COMMAND

  test      quick: format, lints, tests, documentation, tidy
  ci [--list | --only NAME]
            full: every step of continuous integration, or one of them; installs the peers that tests compare with;
            CYCLOMETER_GUESTS=no leaves the emulated machines out
  python    the Python package only: lints, installs it into an environment of its own, tests and checks types
  targets   lints and assembly for other targets, and the tests of arm64's instructions in an emulator, as far as tools are there
  guests [KIND...] [--keep] [--reduced] [--limit SECONDS]
            the programs on real kernels, in emulated machines with a PMU: arm64, arm64-hybrid, riscv64, x86, x86-amd,
            x86-hybrid, apple; fetches what it needs (Debian) into $CYCLOMETER_GUESTS_CACHE or the user's caches
  tidy [--list | --lower]
            the invariants of ARCHITECTURE.md only; --list prints all that is counted against xtask/src/tidy/ratchet.txt,
            --lower lowers its limits to the tree
  public-api
            writes crates/cyclometer/public-api.txt from the code; `tidy` compares them
  budget    the tool's cold release build and number of crates, and the SDK's number of crates, only
  dependencies
            lock files; licences, sources, versions and the oldest compiler of the crates from outside, by deny.toml
  golden    rewrites the golden files of the tests
  catalog --from DIR [FAMILY...]
            makes the tables of the catalogue from the vendors' files
  events-page [--check]
            writes the tables of docs/reference/events.md from the catalogue, or checks that they are up to date
  registers-page [--check]
            the same for docs/reference/registers.md from the layouts of arch
  corpus [--small | --write [--note TEXT]] [--install] [--tool FILE] [NAME...]
            real programs under the software PMU, compared with themselves; --small is the part that `ci` runs, --write
            renews docs/reference/compatibility.md, --install installs the Debian packages of programs that are missing
  torture --minutes N | --rounds N [--seed S] [--tool FILE] [NAME...]
            the corpus' short loads under random signals to the tool, its tracer and the programs
  mutate [--files N] [--command-files N] [--seed S] [TARGET...]
            changed files for every parser of foreign bytes: no panic, no hang, bounded memory
  nightly [--list] [--only NAME]... [--minutes N]
            the long checks: torture, the whole corpus, every guest, benchmarks, fuzzing; their output is in target/nightly
  book [--out DIR]
            the documentation as a site that can be searched, by mdBook, in DIR (target/book/site), and a check of its links
  pictures [--tool FILE] [NAME...]
            renews the pictures of terminal sessions in docs/pictures, with the tool FILE or a release build
  dist [--out DIR] [--url URL] [--target NAME] [--no-wheel] [--allow-dirty]
            static archives and Debian packages for x86_64 and aarch64 Linux, or one of them, their bills of materials, the Python wheel,
            the sources, a Homebrew formula if URL says where they will lie, and SHA256SUMS, in DIR (target/dist/out)
  dist-check [--target NAME] [--no-wheel]
            makes them twice, in two folders, compares them, and uses them in a clean Debian system (root, network)
  cross-check --jevents TREE
            compares config words with those that the perf of a Linux source tree has
  advise-score [--seed N] [--tool FILE] [--record FOLDER] [NAME...]
            compiles programs with known faults and healthy ones (gcc), and judges the findings of `advise`; fails for a precision
            or recall below 0.9; depends on time, on a disk and on a machine that is not too busy; takes minutes
  reverse-score [--seeds A-B] [--chip ID]... [--list]
            hides events on simulated chips and judges the verdicts of `reverse`; fails for a wrong A, a recall below 0.90
            of the identifiable events or a wrong mask; --list names the sums that no hypothesis explains; takes minutes with
            cargo run --release -p xtask";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    match dispatch(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str) -> Result<()> {
    match command {
        "test" => ci::quick(),
        "ci" => ci::run(std::env::args().skip(2)),
        "python" => bindings::python(),
        "targets" => targets::check(),
        "tidy" => tidy::run(&root(), std::env::args().skip(2)),
        "public-api" => tidy::public_api::write(&root()),
        "dependencies" => dependencies::check(),
        "mutate" => mutate::run(std::env::args().skip(2)),
        "nightly" => nightly::run(std::env::args().skip(2)),
        "budget" => budget::check(&root()),
        "golden" => ci::golden(),
        "catalog" => catalog::run(&root(), std::env::args().skip(2)),
        "events-page" => catalog::docs::PAGE.run(&root(), std::env::args().skip(2)),
        "registers-page" => registers_page::PAGE.run(&root(), std::env::args().skip(2)),
        "corpus" => corpus::run(std::env::args().skip(2)),
        "torture" => corpus::torture::run(std::env::args().skip(2)),
        "guests" => guests::run(std::env::args().skip(2)),
        "book" => book::run(std::env::args().skip(2)),
        "pictures" => pictures::run(std::env::args().skip(2)),
        "dist" => dist::run(std::env::args().skip(2)),
        "dist-check" => dist::check(std::env::args().skip(2)),
        "cross-check" => cross_check::run(std::env::args().skip(2)),
        "advise-score" => advise_score::run(std::env::args().skip(2)),
        "reverse-score" => reverse_score::run(std::env::args().skip(2)),
        _ => bail!("no such command\n{USAGE}"),
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}
