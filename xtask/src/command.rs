//! Runs cargo and the system's tools; each step is named before it runs.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root;

pub(crate) fn installed(package: &str) -> bool {
    output("dpkg-query", &["--show", "--showformat=${db:Status-Status}", package])
        .is_ok_and(|s| s == "installed")
}

pub(crate) fn apt(args: &[&str]) -> Result<()> {
    let root = output("id", &["--user"])?.trim() == "0";
    let mut command = Command::new(if root { "apt-get" } else { "sudo" });
    if !root {
        command.arg("apt-get");
    }
    command.arg("--quiet").args(args).env("DEBIAN_FRONTEND", "noninteractive");
    step(&format!("apt-get {}", args.join(" ")), command)
}

pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    step(&format!("cargo {}", args.join(" ")), cargo_command(args))
}

pub(crate) fn cargo_command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    as_from_a_shell(&mut command);
    command
}

/// Takes out what `cargo run` tells a program about its package. Build scripts ask to run again when it
/// changes, so cargo, started with it, builds crates again that cargo has built for a shell.
pub(crate) fn as_from_a_shell(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(tells_of_a_package) {
            command.env_remove(name);
        }
    }
}

/// # Source
///
/// The chapter "Environment Variables" of The Cargo Book, on those of `cargo run`.
fn tells_of_a_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

pub(crate) fn step(name: &str, mut command: Command) -> Result<()> {
    eprintln!("==> {name}");
    let status = command.status().with_context(|| format!("starting {name}"))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}

pub(crate) fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(root())
        .output()
        .with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", args.join(" "), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_started_as_from_a_shell() {
        let command = cargo_command(&["--version"]);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        // Cargo tells the tests' program too.
        assert!(removed.iter().any(|(name, _)| *name == "CARGO_MANIFEST_DIR"), "{removed:?}");
        assert!(!tells_of_a_package("CARGO_TARGET_DIR") && !tells_of_a_package("CARGO_HOME"));
    }
}
