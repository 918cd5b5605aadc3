//! Programs that the project's tools need, installed from crates.io into `target/tools`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::step;
use crate::root;

/// A program of crates.io, in the version that the project was tried with.
pub(crate) struct CargoTool {
    /// The crate, which has the name of its program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl CargoTool {
    /// The program, installed first if this version is not there.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let folder = root().join("target").join("tools");
        let installed = fs::read_to_string(folder.join(".crates.toml")).unwrap_or_default();
        if !lists(&installed, self) {
            self.install(&folder)?;
        }
        Ok(folder.join("bin").join(self.name))
    }

    /// The profile of a tool that runs for seconds: it is built faster.
    fn install(&self, folder: &Path) -> Result<()> {
        let Self { name, version } = self;
        let mut install = Command::new("cargo");
        install.args(["install", "--locked", "--quiet", "--root"]).arg(folder);
        install.arg(format!("{name}@{version}")).env_remove("CARGO_TARGET_DIR");
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_PROFILE_RELEASE_LTO", "off");
        step(&format!("cargo install {name}@{version}"), install)
    }
}

/// Whether cargo's list of installed programs has this tool in this version.
fn lists(installed: &str, tool: &CargoTool) -> bool {
    installed.lines().any(|line| line.starts_with(&format!("\"{} {} (", tool.name, tool.version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_another_version_is_not_taken() {
        let installed = "[v1]\n\"mdbook 0.5.1 (registry+https://x)\" = [\"mdbook\"]\n";
        let tool = |name, version| CargoTool { name, version };
        assert!(lists(installed, &tool("mdbook", "0.5.1")));
        assert!(!lists(installed, &tool("mdbook", "0.5.10")));
        assert!(!lists(installed, &tool("mdbook", "0.5")));
        assert!(!lists(installed, &tool("book", "0.5.1")));
        assert!(!lists("", &tool("mdbook", "0.5.1")));
    }
}
