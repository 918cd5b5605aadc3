//! The files that users install: archives and Debian packages of the programs, their bills of
//! materials, the Python wheel, the sources, a Homebrew formula, and the sums of them all.
//!
//! Two runs over one commit can give the same sums: all times are that of the commit, archives are
//! packed in the order of names, and the paths of the machine are in no program. [`check`] compares
//! them.

mod archive;
mod built;
mod clean_root;
pub(crate) mod crates;
mod deb;
mod dependents;
mod formula;
#[cfg(test)]
mod install_tests;
mod licences;
mod options;
mod place;
mod programs;
mod release;
mod sbom;
mod target;
mod tree;
mod wheel;

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::root;
use built::BuiltProgram;
use options::DistOptions;
use place::BuildPlace;
use release::Release;
use target::DistTarget;

/// Makes the files of a release.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = DistOptions::read(arguments)?;
    let release = Release::of_checkout(options.allow_dirty)?;
    let out = options.out.clone().unwrap_or_else(|| work().join("out"));
    make(&release, &options, &BuildPlace::of_checkout(work().join("build")), &out)?;
    eprintln!("==> {} has the files of cyclometer {}", out.display(), release.version);
    Ok(())
}

/// Makes the files of a release, uses them in a clean system, makes them again from a copy of the
/// sources in another folder, and compares both.
pub(crate) fn check(arguments: impl Iterator<Item = String>) -> Result<()> {
    let url = "https://example.org/cyclometer".to_owned();
    let arguments = ["--url".to_owned(), url, "--allow-dirty".to_owned()].into_iter().chain(arguments);
    let options = DistOptions::read(arguments)?;
    let release = Release::of_checkout(options.allow_dirty)?;
    let out = options.out.clone().unwrap_or_else(|| work().join("checked"));
    make(&release, &options, &BuildPlace::of_checkout(work().join("build")), &out)?;
    clean_root::check(&release, &options, &out, &work().join("root"))?;
    crates::package()?;
    same_again(&release, &options, &out)
}

/// A folder for all that is in between.
fn work() -> PathBuf {
    root().join("target").join("dist")
}

/// Makes everything again from nothing in another folder, and compares the sums.
fn same_again(release: &Release, options: &DistOptions, out: &Path) -> Result<()> {
    let (parent, again) = (work().join("elsewhere"), work().join("again"));
    make(release, options, &BuildPlace::copy(&parent)?, &again)?;
    let [first, second] = [out, &again].map(|folder| fs::read_to_string(folder.join("SHA256SUMS")));
    let (first, second) = (first?, second?);
    ensure!(first == second, "two runs gave different files:\n{first}\n{second}");
    fs::remove_dir_all(&parent)?;
    fs::remove_dir_all(&again).with_context(|| again.display().to_string())
}

/// Makes all files beside `out`, and puts them there when all are made: a failure leaves what was there.
fn make(release: &Release, options: &DistOptions, place: &BuildPlace, out: &Path) -> Result<()> {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    let name = out.file_name().with_context(|| format!("{} is no name of a folder", out.display()))?;
    let part = parent.join(format!(".{}.part", name.to_string_lossy()));
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("removing {}", part.display()))?;
    }
    fs::create_dir(&part).with_context(|| format!("making {}", part.display()))?;
    let made = fill(release, options, place, &part).and_then(|()| replace(&part, out));
    if made.is_err() {
        let _ = fs::remove_dir_all(&part);
    }
    made
}

/// Puts a folder in the place of another one, which has nothing but files of an earlier release.
fn replace(part: &Path, out: &Path) -> Result<()> {
    if out.exists() {
        let old = fs::read_dir(out).with_context(|| out.display().to_string())?.count();
        ensure!(
            old == 0 || out.join("SHA256SUMS").is_file(),
            "{} has files and no SHA256SUMS: it is no folder of a release; name another one with --out",
            out.display()
        );
        fs::remove_dir_all(out).with_context(|| format!("removing {}", out.display()))?;
    }
    fs::rename(part, out).with_context(|| format!("renaming {} to {}", part.display(), out.display()))
}

fn fill(release: &Release, options: &DistOptions, place: &BuildPlace, out: &Path) -> Result<()> {
    let source = archive::source(release, out)?;
    // This machine's program writes the manual pages of all.
    let mut targets = options.targets.clone();
    let any = targets.iter().any(DistTarget::runs_here);
    ensure!(any, "the program for this machine writes the manual pages of all; add --target {ARCH}");
    targets.sort_by_key(|target| !target.runs_here());
    for target in targets {
        programs(release, &target, place, out)?;
    }
    if options.wheel {
        let folder = place.folder.join("python");
        wheel::build(release, &BuildPlace { source: place.source.clone(), folder }, out)?;
    }
    if let Some(below) = &options.url {
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let text = formula::formula(release, below, &name, &archive::sum(&source)?)?;
        tree::write(&out.join("cyclometer.rb"), text.as_bytes())?;
    }
    archive::write_sums(out)
}

/// The archive, the Debian packages and the bills of materials for one machine.
fn programs(release: &Release, target: &DistTarget, place: &BuildPlace, out: &Path) -> Result<()> {
    let built = built::build(release, target, place)?;
    let share = root().join(deb::SHARE);
    if target.runs_here() {
        tree::write_share(&built, &share)?;
    }
    let texts = licences::texts(built.iter().map(|built| &built.crates))?;
    tree::write(&share.join("share/doc/cyclometer/THIRD-PARTY"), texts.as_bytes())?;
    let name = format!("cyclometer-{}-{}-linux", release.version, target.name);
    let staged = tree::stage(&built, &share, &place.folder.join("staged").join(&name))?;
    archive::pack(release, &staged, &name, &out.join(format!("{name}.tar.gz")))?;
    for package in deb::PACKAGES {
        deb::package(release, target, package, &place.folder, out)?;
    }
    let sums = sbom::sums(&fs::read_to_string(root().join("Cargo.lock"))?);
    for BuiltProgram { program, crates, .. } in &built {
        let bill = sbom::bill(release, crates, &sbom::linked(target)?, &sums)?;
        let text = serde_json::to_string_pretty(&bill)? + "\n";
        let name = format!("{}-{}-{}-linux.cdx.json", program.name, release.version, target.name);
        tree::write(&out.join(name), text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_release_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (part, out) = (folder.path().join("part"), folder.path().join("out"));
        for made in [&part, &out] {
            fs::create_dir(made).unwrap();
        }
        fs::write(part.join("new"), "").unwrap();
        fs::write(out.join("thesis.txt"), "").unwrap();
        let refused = replace(&part, &out).unwrap_err().to_string();
        assert!(refused.contains("--out"), "{refused}");
        assert!(out.join("thesis.txt").is_file());
        fs::write(out.join("SHA256SUMS"), "").unwrap();
        replace(&part, &out).unwrap();
        assert!(out.join("new").is_file() && !out.join("thesis.txt").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let release = Release { version: "0".to_owned(), epoch: 0 };
        let out = file.join("out");
        let refused =
            make(&release, &DistOptions::default(), &BuildPlace::of_checkout(folder.path().to_owned()), &out)
                .unwrap_err();
        assert!(format!("{refused:#}").contains("file"), "{refused:#}");
    }
}
