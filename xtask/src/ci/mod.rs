//! `cargo xtask ci`: the steps of continuous integration, their order and the time that each takes.
//!
//! Each step is a process of its own, `cargo xtask ci --only NAME`. The steps that need few CPUs at a time
//! run beside the test programs, with their output in a file. The last step measures a build, so it runs
//! alone.

mod alone;
mod checks;
mod schedule;
mod test_program;
mod test_programs;
mod times;

use anyhow::{Context, Result, bail};

pub(crate) use checks::{golden, quick};
pub(crate) use test_programs::WorkspaceBuild;

use crate::{bindings, budget, corpus, dependencies, dist, guests, mutate, root, targets, tidy};

/// A step of continuous integration.
#[derive(Clone, Copy)]
struct CiStep {
    name: &'static str,
    purpose: &'static str,
    run: fn() -> Result<()>,
}

const fn step(name: &'static str, purpose: &'static str, run: fn() -> Result<()>) -> CiStep {
    CiStep { name, purpose, run }
}

/// The steps before all others: a fault in them makes the rest pointless.
const FIRST: &[CiStep] = &[
    step("peers", "installs the Debian packages that tests compare with", checks::install_peers),
    step("tidy", "the invariants of ARCHITECTURE.md", || tidy::check(&root())),
    step("format", "the form of the code", checks::format),
    step(
        "dependencies",
        "lock files; licences, sources, versions of the crates from outside",
        dependencies::check,
    ),
    step("build", "all tests, with every feature", checks::build),
];

/// The test programs.
const TESTS: &[CiStep] = &[
    step("tests", "the test programs of all crates, with every feature", checks::test_programs),
    step("doc-tests", "the examples in documentation", checks::doc_tests),
    step("hostile", "some test programs in hostile surroundings", checks::in_hostile_surroundings),
    step("mutate", "parsers of foreign bytes on changed files", mutate::some),
    step("corpus", "the small corpus of programs under the software PMU", corpus::small),
];

/// The steps beside the test programs.
const BESIDE: &[CiStep] = &[
    step("lints", "clippy for all crates, with every feature", checks::lints),
    step("sdk", "clippy for the SDK with its default features alone", checks::sdk_alone),
    step("documentation", "rustdoc without a warning", checks::documentation),
    step("targets", "lints, assembly and tests for other targets", targets::check),
    step("module", "the kernel module for Apple's registers", checks::kernel_module),
    step(
        "packages",
        "every crate as a package of crates.io, and programs that depend on them",
        dist::crates::package,
    ),
    step("python", "the Python package, installed", bindings::python),
    step("guests", "emulated machines, the reduced form", guests::reduced),
];

/// The step that measures, and therefore runs alone.
const ALONE: &[CiStep] =
    &[step("release", "the build budget, and the tool as users have it", || budget::check(&root()))];

/// All steps, in the order of their lists.
fn all() -> impl Iterator<Item = &'static CiStep> {
    [FIRST, TESTS, BESIDE, ALONE].into_iter().flatten()
}

/// The request of the command line.
enum CiRequest {
    All,
    List,
    Only(&'static CiStep),
}

impl CiRequest {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<CiRequest> {
        let request = match arguments.next().as_deref() {
            None => CiRequest::All,
            Some("--list") => CiRequest::List,
            Some("--only") => {
                let name = arguments.next().context("--only needs the NAME of a step; see --list")?;
                let found = all().find(|step| step.name == name);
                CiRequest::Only(found.with_context(|| format!("no step '{name}'; see --list"))?)
            }
            Some(other) => bail!("'{other}' is no option; there are --list and --only NAME"),
        };
        match arguments.next() {
            Some(more) => bail!("'{more}' is one argument too many"),
            None => Ok(request),
        }
    }
}

/// Runs all steps, or one of them.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    match CiRequest::parse(arguments)? {
        CiRequest::All => schedule::run(),
        CiRequest::List => {
            all().for_each(|step| eprintln!("{:<14} {}", step.name, step.purpose));
            Ok(())
        }
        CiRequest::Only(step) => {
            let done = (step.run)();
            times::write_cpu_time(step.name)?;
            done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<CiRequest> {
        CiRequest::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn a_step_is_named_once_and_found_by_its_name() {
        let names: std::collections::BTreeSet<&str> = all().map(|step| step.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(
            matches!(parsed(&["--only", "guests"]).unwrap(), CiRequest::Only(step) if step.name == "guests")
        );
        assert!(matches!(parsed(&[]).unwrap(), CiRequest::All));
        assert!(matches!(parsed(&["--list"]).unwrap(), CiRequest::List));
    }

    #[test]
    fn mistakes_name_what_is_wrong() {
        for (arguments, words) in [
            (&["--only"][..], "--only needs the NAME"),
            (&["--only", "gests"], "no step 'gests'; see --list"),
            (&["--fast"], "'--fast' is no option"),
            (&["--list", "x"], "'x' is one argument too many"),
        ] {
            let error = parsed(arguments).err().unwrap().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
