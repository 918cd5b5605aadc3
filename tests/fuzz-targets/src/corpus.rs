//! The committed files from which changes start.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Files of other tests that belong to the corpus of a target: the target, a folder from the root of the
/// workspace, the end of the names, and the byte that the target expects before such a file.
const SHARED: &[(&str, &str, &str, Option<u8>)] = &[
    ("machine", "fixtures/machines", ".txt", None),
    ("perfmon", "crates/import/tests/data", "intel.json", None),
    ("pmu_events", "crates/import/tests/data", "linux-amd.json", Some(0)),
    ("pmu_events", "crates/import/tests/data", "linux-arm.json", Some(1)),
    ("pmu_events", "crates/import/tests/data", "linux-riscv.json", Some(2)),
    ("pmu_events", "crates/import/tests/data", "linux-intel.json", Some(3)),
    ("kpep", "crates/import/tests/data", ".plist", None),
    ("claims", "crates/catalog/data/claims", "", None),
    ("exporter", "deploy", "exporter.yaml", None),
];

/// The folder with a folder for each target.
pub fn folder() -> PathBuf {
    root().join("fuzz").join("seeds")
}

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a target, in the order of their names.
///
/// # Errors
///
/// There is none, or one cannot be read.
pub fn of(target: &str) -> Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    let own = folder().join(target);
    if own.is_dir() {
        files.extend(files_of(&own, "")?);
    }
    for (_, folder, end, first) in SHARED.iter().filter(|(name, ..)| *name == target) {
        let shared = files_of(&root().join(folder), end)?;
        files.extend(shared.into_iter().map(|file| first.iter().copied().chain(file).collect()));
    }
    ensure!(!files.is_empty(), "the corpus of {target} has no file: {}", own.display());
    Ok(files)
}

fn files_of(folder: &Path, end: &str) -> Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.is_file() && path.to_string_lossy().ends_with(end));
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| path.display().to_string())).collect()
}
