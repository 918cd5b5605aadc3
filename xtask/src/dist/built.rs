//! The programs of a target, built.

use std::path::PathBuf;

use anyhow::Result;

use super::place::BuildPlace;
use super::programs::{DistProgram, PROGRAMS};
use super::release::Release;
use super::sbom::{self, Ingredients};
use super::target::DistTarget;

/// A program that was built for a target, and the crates in it.
pub(super) struct BuiltProgram {
    pub program: DistProgram,
    pub file: PathBuf,
    pub crates: Ingredients,
}

/// Builds all programs for a target, each with the features that it has alone.
pub(super) fn build(release: &Release, target: &DistTarget, place: &BuildPlace) -> Result<Vec<BuiltProgram>> {
    let built = |program: DistProgram| {
        let file = target.build(release, program, place)?;
        Ok(BuiltProgram { program, file, crates: sbom::ingredients(target, program)? })
    };
    PROGRAMS.into_iter().map(built).collect()
}
