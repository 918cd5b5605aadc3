//! The tree of an installed tool: program, manual pages, completions, licences.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::built::BuiltProgram;
use super::programs::TOOL;
use crate::command::step;
use crate::root;

/// The script that installs an unpacked archive.
const INSTALLER: &str = "packaging/install.sh";

/// Shells with completions, and the file of each below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/cyclometer"),
    ("zsh", "share/zsh/site-functions/_cyclometer"),
    ("fish", "share/fish/vendor_completions.d/cyclometer.fish"),
];

/// Files of the project that are handed on with every copy.
const DOCUMENTS: [&str; 5] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "NOTICE"];

/// Writes what goes with programs, and is the same for all machines: `share`. The programs run on this
/// machine.
pub(super) fn write_share(programs: &[BuiltProgram], prefix: &Path) -> Result<()> {
    let tool = programs.iter().find(|built| built.program == TOOL).context("no tool was built")?;
    let tool = tool.file.as_path();
    if prefix.exists() {
        fs::remove_dir_all(prefix).with_context(|| prefix.display().to_string())?;
    }
    for (shell, path) in COMPLETIONS {
        write(&prefix.join(path), &printed(tool, &["completions", shell])?)?;
    }
    let page = printed(tool, &["man"])?;
    let names = subcommands(&String::from_utf8_lossy(&page));
    ensure!(!names.is_empty(), "the manual page of the tool names no subcommand");
    let pages = prefix.join("share/man/man1");
    write(&pages.join("cyclometer.1"), &page)?;
    for name in names {
        write(&pages.join(format!("cyclometer-{name}.1")), &printed(tool, &["man", &name])?)?;
    }
    // `cyclometer mcp` executes the server for agents: the server's own page replaces that of the subcommand.
    for BuiltProgram { program, file, .. } in programs {
        if let Some(page) = program.own_page {
            write(&prefix.join("share/man").join(page), &printed(file, &["--man"])?)?;
        }
    }
    for name in DOCUMENTS {
        let text = fs::read(root().join(name)).with_context(|| name.to_owned())?;
        write(&prefix.join("share/doc/cyclometer").join(name), &text)?;
    }
    Ok(())
}

/// Puts programs, `share` and the installer into a folder, which is made anew; gives the folder that it is
/// in.
pub(super) fn stage(programs: &[BuiltProgram], share: &Path, folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
    for BuiltProgram { program, file, .. } in programs {
        fs::copy(file, bin.join(program.name)).with_context(|| file.display().to_string())?;
    }
    fs::copy(root().join(INSTALLER), folder.join("install.sh")).context(INSTALLER)?;
    let mut copy = Command::new("cp");
    copy.arg("--recursive").arg(share.join("share")).arg(folder);
    step(&format!("the tree of {}", folder.display()), copy)?;
    Ok(folder.parent().unwrap_or(folder).to_path_buf())
}

/// Writes a file and the folders above it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    written.with_context(|| format!("writing {}", path.display()))
}

fn printed(tool: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let out = Command::new(tool).args(args).output().with_context(|| tool.display().to_string())?;
    ensure!(
        out.status.success() && !out.stdout.is_empty(),
        "{} {}: {}",
        tool.display(),
        args.join(" "),
        out.status
    );
    Ok(out.stdout)
}

/// The subcommands that a manual page refers to, as in `cyclometer\-stat(1)`.
fn subcommands(page: &str) -> Vec<String> {
    let reference = |line: &str| {
        let name = line.trim().strip_prefix("cyclometer\\-")?.strip_suffix("(1)")?;
        Some(name.replace("\\-", "-"))
    };
    page.lines().filter_map(reference).filter(|name| name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_subcommands_are_those_that_the_page_refers_to() {
        let page = ".SH SUBCOMMANDS\n.TP\ncyclometer\\-stat(1)\nCounts\n.TP\ncyclometer\\-two\\-words(1)\n.TP\ncyclometer\\-help(1)\n";
        assert_eq!(subcommands(page), ["stat", "two-words"]);
        assert!(subcommands("cyclometer-stat(1) in a sentence").is_empty());
    }
}
