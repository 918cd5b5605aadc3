//! The Python package: built and installed as users do it, and tested in an environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{as_from_a_shell, cargo, output, step};
use crate::{clippy, root};

const MANIFEST: &str = "bindings/python/Cargo.toml";

/// Installs the package into a fresh environment, and runs its tests and its types' check there. Clippy
/// compiles the native part, so that one build does for both.
pub(crate) fn python() -> Result<()> {
    if output("python3", &["-c", "import venv, ensurepip"]).is_err() {
        eprintln!("==> skipped: the Python package: there is no python3 with venv");
        return Ok(());
    }
    cargo(&["fmt", "--manifest-path", MANIFEST, "--check"])?;
    let environment = VirtualEnvironment::fresh(&target().join("python"))?;
    environment.install()?;
    environment.run("pytest", &["-q", "-p", "no:cacheprovider"])?;
    environment.run("mypy", &["--cache-dir", "/dev/null"])
}

/// A virtual environment.
pub(crate) struct VirtualEnvironment {
    folder: PathBuf,
}

impl VirtualEnvironment {
    pub(crate) fn fresh(folder: &Path) -> Result<VirtualEnvironment> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder);
        step("python3 -m venv", venv)?;
        Ok(VirtualEnvironment { folder: folder.to_path_buf() })
    }

    /// `pip install ./bindings/python`, with the code as the other tests have it: not optimized.
    fn install(&self) -> Result<()> {
        let mut pip = Command::new(self.program("pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "./bindings/python[test]"]);
        pip.env("MATURIN_PEP517_ARGS", "--profile dev --locked").env("CARGO_TARGET_DIR", target());
        as_from_a_shell(&mut pip);
        clippy::compiles(&mut pip)?;
        step("pip install ./bindings/python", in_folder(pip, &root()))
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<()> {
        let mut command = Command::new(self.program(program));
        command.args(args);
        step(&format!("{program} of the Python package"), in_folder(command, &root().join("bindings/python")))
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }
}

fn in_folder(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    command
}

/// Where everything is built.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
