//! Archives that are the same whenever they are made, and sums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::release::Release;
use crate::command::{output, step};
use crate::root;

/// Packs a folder below another one: names in order, no owner, the time of the release, no time in the head
/// of gzip.
pub(super) fn pack(release: &Release, parent: &Path, name: &str, to: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u+w,go-w,a+rX", "--use-compress-program=gzip -9n"]);
    tar.arg(format!("--mtime=@{}", release.epoch))
        .arg("--file")
        .arg(to)
        .arg("--directory")
        .arg(parent)
        .arg(name);
    step(&format!("tar {}", to.display()), tar)
}

/// The committed sources.
pub(super) fn source(release: &Release, out: &Path) -> Result<PathBuf> {
    let name = format!("cyclometer-{}", release.version);
    let to = out.join(format!("{name}-source.tar.gz"));
    let mut git = Command::new("git");
    git.current_dir(root()).args(["-c", "tar.tar.gz.command=gzip -9n", "archive", "--format=tar.gz"]);
    git.arg(format!("--mtime=@{}", release.epoch));
    git.arg(format!("--prefix={name}/")).arg("--output").arg(&to).arg("HEAD");
    step(&format!("git archive {}", to.display()), git)?;
    Ok(to)
}

/// The SHA-256 of a file.
pub(super) fn sum(file: &Path) -> Result<String> {
    let printed = output("sha256sum", &["--", &file.to_string_lossy()])?;
    let sum = printed.split_whitespace().next().unwrap_or_default();
    ensure!(sum.len() == 64, "sha256sum prints no sum of {}", file.display());
    Ok(sum.to_owned())
}

/// `SHA256SUMS` of all files in a folder, as `sha256sum --check` reads it.
pub(super) fn write_sums(folder: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for file in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if file.file_type()?.is_file() && name != "SHA256SUMS" {
            lines.push((name, sum(&file.path())?));
        }
    }
    lines.sort();
    let text: String = lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    super::tree::write(&folder.join("SHA256SUMS"), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    const RELEASE: Release = Release { version: String::new(), epoch: 1_700_000_000 };

    #[test]
    fn an_archive_does_not_depend_on_the_times_and_modes_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path();
        let packed = |to: &str, time: u64| {
            fs::create_dir_all(parent.join("x/b")).unwrap();
            for name in ["x/b/z", "x/a"] {
                fs::write(parent.join(name), name).unwrap();
                let file = fs::File::options().write(true).open(parent.join(name)).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time)).unwrap();
            }
            pack(&RELEASE, parent, "x", &parent.join(to)).unwrap();
            fs::remove_dir_all(parent.join("x")).unwrap();
            fs::read(parent.join(to)).unwrap()
        };
        assert_eq!(packed("1.tar.gz", 1_000), packed("2.tar.gz", 1_800_000_000));
    }

    #[test]
    fn sums_are_those_that_sha256sum_checks() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "").unwrap();
        fs::write(folder.path().join("a"), "abc").unwrap();
        write_sums(folder.path()).unwrap();
        write_sums(folder.path()).unwrap();
        // Source: FIPS 180-4, examples of NIST for "abc" and the empty message.
        assert_eq!(
            fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
        );
        assert!(sum(&folder.path().join("nowhere")).is_err());
    }
}
