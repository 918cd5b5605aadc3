//! The build budget: the cost of the command-line tool for a user who installs it from source, and of the SDK
//! for a program that depends on it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::command::{cargo_command, output, step};
use crate::released_tool;

/// Crates that the release build of the command-line tool may compile.
const CRATES: usize = 120;
/// Time that a cold release build of it may take on two cores of the machine on which the yardstick takes
/// [`YARDSTICK`].
const TIME: Duration = Duration::from_secs(110);
/// The yardstick on that machine, a virtual one with two CPUs of 2021 (AMD EPYC, third generation).
const YARDSTICK: Duration = Duration::from_millis(3100);
/// Modules of the source that serves as the yardstick.
const MODULES: usize = 16;
const TOOL: &str = "cyclometer-cli";
/// Crates that a program compiles which depends on the SDK with its default features.
const SDK_CRATES: usize = 50;
const SDK: &str = "cyclometer";

/// Counts the crates and times a cold release build in a folder of its own.
///
/// The same machine compiles at half its speed in some hours, so the limit is a ratio: what the compiler
/// takes for a source that never changes is measured before and behind the build.
pub(crate) fn check(root: &Path) -> Result<()> {
    let sdk_crates = crates(SDK)?;
    ensure!(sdk_crates <= SDK_CRATES, "{SDK} needs {sdk_crates} crates; the budget is {SDK_CRATES}");
    let crates = crates(TOOL)?;
    ensure!(crates <= CRATES, "{TOOL} needs {crates} crates; the budget is {CRATES}");
    let folder = root.join("target").join("budget");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let before = yardstick(&folder)?;
    let took = cold_build(&folder)?;
    let behind = yardstick(&folder)?;
    released_tool::check(&folder.join("build").join("release").join("cyclometer"))?;
    std::fs::remove_dir_all(&folder)?;
    let limit = limit([before, behind]);
    eprintln!(
        "==> budget: {SDK} {sdk_crates} crates of {SDK_CRATES}; {TOOL} {crates} crates of {CRATES}, {:.0} s of {:.0} s (yardstick {:.1} and {:.1} s, {:.1} s where {} s are allowed)",
        took.as_secs_f64(),
        limit.as_secs_f64(),
        before.as_secs_f64(),
        behind.as_secs_f64(),
        YARDSTICK.as_secs_f64(),
        TIME.as_secs()
    );
    ensure!(
        took <= limit,
        "a cold release build took {:.0} s; the budget is {:.0} s at the speed that this machine has now",
        took.as_secs_f64(),
        limit.as_secs_f64()
    );
    Ok(())
}

/// Time that the build may take where the yardstick took `yardsticks`; never less than on the machine of the
/// budget.
fn limit(yardsticks: [Duration; 2]) -> Duration {
    let mean = yardsticks.iter().sum::<Duration>() / 2;
    TIME.mul_f64((mean.as_secs_f64() / YARDSTICK.as_secs_f64()).max(1.0))
}

/// Time of two compilers at once with the same source.
fn yardstick(folder: &Path) -> Result<Duration> {
    let source = folder.join("yardstick.rs");
    std::fs::write(&source, (0..MODULES).map(module).collect::<String>())?;
    let compiler = |name: &str| {
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2021", "--crate-type", "lib", "-O", "-C", "codegen-units=1", "-o"]);
        rustc.arg(folder.join(name)).arg(&source).spawn().context("rustc cannot be started")
    };
    let start = Instant::now();
    for mut compiler in [compiler("one.rlib")?, compiler("other.rlib")?] {
        ensure!(compiler.wait()?.success(), "the yardstick of the budget does not compile");
    }
    Ok(start.elapsed())
}

/// A module of ordinary code; no two are the same.
fn module(i: usize) -> String {
    let bits = 8 << (i % 4);
    format!(
        r#"pub mod part{i} {{
    use std::collections::{{BTreeMap, HashMap}};

    pub fn count(text: &str) -> BTreeMap<String, Vec<(u{bits}, usize)>> {{
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (at, word) in text.split(|c: char| !c.is_alphanumeric()).enumerate() {{
            *seen.entry(word).or_default() += at * {i};
        }}
        let mut sorted: Vec<_> = seen.into_iter().collect();
        sorted.sort_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
        let mut found = BTreeMap::new();
        for (word, total) in sorted {{
            found.entry(format!("{{word:>{i}}}")).or_insert_with(Vec::new).push((total as u{bits}, total));
        }}
        found
    }}
}}
"#
    )
}

/// The crates of a package with its default features, itself included.
fn crates(package: &str) -> Result<usize> {
    let args =
        ["tree", "--package", package, "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let tree = output("cargo", &args)?;
    Ok(tree.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len())
}

fn cold_build(folder: &Path) -> Result<Duration> {
    let mut fetch = cargo_command(&["fetch", "--locked", "--quiet"]);
    fetch.stdout(Stdio::null());
    step("cargo fetch", fetch)?;
    let mut build = cargo_command(&["build", "--release", "--locked", "--quiet", "--package", TOOL]);
    // Nothing else builds the tool for this machine with the features that are on by default.
    build.env("CARGO_TARGET_DIR", folder.join("build")).env("RUSTFLAGS", "-D warnings");
    let start = Instant::now();
    step("a cold release build", build)?;
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_machine_has_more_time_and_a_fast_one_no_less() {
        assert_eq!(limit([YARDSTICK; 2]), TIME);
        assert_eq!(limit([YARDSTICK, YARDSTICK * 3]), TIME * 2);
        assert_eq!(limit([YARDSTICK / 2; 2]), TIME);
    }
}
