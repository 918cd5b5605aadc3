//! Programs that depend on the packed crates, as those of users do: a file that a package lacks is
//! noticed here, and not after it was published.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::tree::write;
use crate::command::{cargo_command, step};
use crate::root;

/// A crate that is published.
pub(super) struct PublishedCrate {
    pub name: String,
    pub version: String,
}

impl PublishedCrate {
    /// The name of its package without the ending, and of the folder in it.
    fn stem(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// The program that uses the SDK: one of its examples.
const DEPENDENT: &str = "[package]\nname = \"dependent\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
    [[bin]]\nname = \"dependent\"\npath = \"../cyclometer-@VERSION@/examples/ipc_of_a_loop.rs\"\n\n\
    [dependencies]\ncyclometer = \"@VERSION@\"\n";

/// Unpacks the packages in `packed`, and checks them and a program that uses the SDK, with nothing of
/// this checkout.
pub(super) fn check(crates: &[PublishedCrate], packed: &Path) -> Result<()> {
    let folder = packed.with_file_name("unpacked");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for each in crates {
        unpack(&packed.join(format!("{}.crate", each.stem())), &folder)?;
    }
    let sdk = crates.iter().find(|each| each.name == "cyclometer").context("the SDK is not published")?;
    write(&folder.join("dependent/Cargo.toml"), DEPENDENT.replace("@VERSION@", &sdk.version).as_bytes())?;
    let ours = root().join("Cargo.toml");
    let ours = fs::read_to_string(&ours).with_context(|| ours.display().to_string())?;
    let manifest = workspace(crates) + "\n" + &development_profile(&ours);
    write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    // The versions that everything else was tested with.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).context("copying Cargo.lock")?;
    let mut check = cargo_command(&["check", "--workspace", "--quiet"]);
    check.current_dir(&folder).env("CARGO_TARGET_DIR", target());
    step("cargo check of programs that depend on the packages", check)
}

fn unpack(package: &Path, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    // All files of packages have one time, by which cargo would take those of the run before for these.
    tar.args(["--extract", "--touch", "--gzip"]).arg("--file").arg(package).arg("--directory").arg(folder);
    step(&format!("tar {}", package.display()), tar)
}

/// The manifest of a workspace with the dependent and all packages, in which each of our crates is its
/// package.
fn workspace(crates: &[PublishedCrate]) -> String {
    let members: Vec<String> = crates.iter().map(|each| format!("\"{}\"", each.stem())).collect();
    let mut text = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"dependent\", {}]\n\n[patch.crates-io]\n",
        members.join(", ")
    );
    for each in crates {
        let _ = writeln!(text, "{} = {{ path = \"{}\" }}", each.name, each.stem());
    }
    text
}

/// The tables of a manifest with the profile of development: with another one, cargo would check the crates
/// from outside again.
fn development_profile(manifest: &str) -> String {
    let mut is_profile = false;
    let of_profile = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.dev]") || line.starts_with("[profile.dev.");
        }
        is_profile && !line.starts_with('#')
    });
    of_profile.flat_map(|line| [line, "\n"]).collect()
}

/// The folder of cargo, so that crates from outside are not built again.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_replace_the_crates_of_the_registry() {
        let each = |name: &str| PublishedCrate { name: name.to_owned(), version: "0.1.0".to_owned() };
        assert_eq!(
            workspace(&[each("cyclometer"), each("cyclometer-cli")]),
            "[workspace]\nresolver = \"3\"\nmembers = [\"dependent\", \"cyclometer-0.1.0\", \"cyclometer-cli-0.1.0\"]\n\n\
             [patch.crates-io]\ncyclometer = { path = \"cyclometer-0.1.0\" }\n\
             cyclometer-cli = { path = \"cyclometer-cli-0.1.0\" }\n"
        );
    }

    #[test]
    fn programs_that_depend_are_checked_with_the_profile_of_the_workspace() {
        let manifest = "[profile.release]\nlto = \"off\"\n\n# Why.\n[profile.dev]\ndebug = 1\n\n\
                        [profile.dev.package.a]\nopt-level = 2\n[profile.develop]\ndebug = 2\n";
        assert_eq!(
            development_profile(manifest),
            "[profile.dev]\ndebug = 1\n\n[profile.dev.package.a]\nopt-level = 2\n"
        );
        let ours = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(development_profile(&ours).contains("build-override"));
    }

    #[test]
    fn a_package_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = unpack(&folder.path().join("a-1.0.0.crate"), folder.path()).unwrap_err().to_string();
        assert!(error.contains("a-1.0.0.crate"), "{error}");
    }
}
