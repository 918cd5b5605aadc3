//! Debian packages, fetched and unpacked without the host noticing: an apt of its own, with its own lists and
//! an empty status. Signatures are checked as always, by Debian's keyring.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::missing::missing;
use crate::command::output;
use crate::debian::mirror;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A suite of the archive, and the architectures that are wanted of it.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) architectures: &'static str,
}

/// An apt with its own folder. The first architecture of the first suite is the native one.
pub(super) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Sets it up below a folder and fetches the lists of packages.
    pub(super) fn new(folder: &Path, suites: &[Suite]) -> Result<Self> {
        for tool in ["apt-get", "dpkg-deb"] {
            if output(tool, &["--version"]).is_err() {
                return Err(missing(format!("there is no {tool}: packages come from a Debian system")));
            }
        }
        if !Path::new(KEYRING).is_file() {
            return Err(missing(format!("there is no {KEYRING} (package debian-archive-keyring)")));
        }
        let apt = Self { folder: folder.to_path_buf() };
        apt.write_configuration(suites)?;
        if !apt.run("apt-get", &["--quiet=2", "update"])?.success {
            return Err(missing(format!("the lists of packages cannot be had from {}", mirror())));
        }
        Ok(apt)
    }

    fn write_configuration(&self, suites: &[Suite]) -> Result<()> {
        for part in ["etc/parts", "etc/sources", "state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.folder.join(part))?;
        }
        fs::write(self.folder.join("status"), "")?;
        fs::write(self.folder.join("etc/sources.list"), sources(&mirror(), suites))?;
        let text = configuration(&self.folder, &architectures(suites), &proxies());
        Ok(fs::write(self.folder.join("apt.conf"), text)?)
    }

    /// Fetches packages with everything they depend on, and unpacks them below a folder.
    pub(super) fn unpack_with_dependencies(
        &self,
        packages: &[&str],
        suite: Option<&str>,
        to: &Path,
    ) -> Result<()> {
        let mut args = vec!["--quiet=2", "--yes", "--download-only"];
        args.extend(suite.iter().flat_map(|suite| ["--target-release", *suite]));
        args.push("install");
        args.extend(packages);
        if !self.run("apt-get", &args)?.success {
            return Err(missing(format!("the packages {} cannot be had", packages.join(", "))));
        }
        for link in ["bin", "lib", "lib64", "sbin"] {
            fs::create_dir_all(to.join("usr").join(link))?;
            let _ = std::os::unix::fs::symlink(format!("usr/{link}"), to.join(link));
        }
        let archives = self.folder.join("cache/archives");
        for entry in fs::read_dir(&archives)? {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                unpack(&package, to, &[])?;
                fs::remove_file(&package)?;
            }
        }
        Ok(())
    }

    /// Fetches one package, without what it depends on, and unpacks of it what the patterns name.
    pub(super) fn unpack_alone(&self, package: &str, patterns: &[&str], to: &Path) -> Result<()> {
        let folder = self.folder.join("one");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let mut command = self.command("apt-get");
        command.args(["--quiet=2", "download", package]).current_dir(&folder);
        if !finish(&mut command)?.success {
            return Err(missing(format!("the package {package} cannot be had")));
        }
        for entry in fs::read_dir(&folder)? {
            unpack(&entry?.path(), to, patterns)?;
        }
        Ok(fs::remove_dir_all(&folder)?)
    }

    /// The package of a real kernel or of its headers that a metapackage depends on now.
    pub(super) fn behind(&self, metapackage: &str, prefix: &str) -> Result<String> {
        let shown = self.run("apt-cache", &["show", "--no-all-versions", metapackage])?.text;
        dependency(&shown, prefix).ok_or_else(|| missing(format!("{metapackage} names no {prefix}… package")))
    }

    /// The versions of a package that can be had.
    pub(super) fn versions(&self, package: &str) -> Result<Vec<String>> {
        let text = self.run("apt-cache", &["madison", package])?.text;
        Ok(text.lines().filter_map(|line| line.split('|').nth(1)).map(|v| v.trim().to_owned()).collect())
    }

    /// Removes the lists and what was downloaded.
    pub(super) fn forget(self) -> Result<()> {
        fs::remove_dir_all(&self.folder).with_context(|| format!("removing {}", self.folder.display()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("apt.conf")).env("DEBIAN_FRONTEND", "noninteractive");
        command.env("LC_ALL", "C");
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<FinishedCommand> {
        finish(self.command(program).args(args))
    }
}

struct FinishedCommand {
    success: bool,
    text: String,
}

fn finish(command: &mut Command) -> Result<FinishedCommand> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(FinishedCommand {
        success: output.status.success(),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// `dpkg-deb --fsys-tarfile … | tar --extract`, which keeps links of folders where dpkg-deb would replace
/// them.
fn unpack(package: &Path, to: &Path, patterns: &[&str]) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut deb = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .context("starting dpkg-deb")?;
    let Some(stream) = deb.stdout.take() else { bail!("dpkg-deb has no output") };
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "--keep-directory-symlink"]).arg("--directory").arg(to);
    for left_out in ["doc", "man", "locale", "info"] {
        tar.arg(format!("--exclude=./usr/share/{left_out}"));
    }
    if !patterns.is_empty() {
        tar.arg("--wildcards").args(patterns);
    }
    let status = tar.stdin(stream).status().context("starting tar")?;
    // Where only a part is asked for, tar may close the pipe before dpkg-deb has written everything.
    let _ = deb.wait()?;
    if !status.success() {
        bail!("unpacking {} to {}: tar: {status}", package.display(), to.display());
    }
    Ok(())
}

fn proxies() -> String {
    let dump = output("apt-config", &["dump", "Acquire"]).unwrap_or_default();
    dump.lines().filter(|line| line.contains("Proxy ")).map(|line| format!("{line}\n")).collect()
}

/// Security suites are in an archive beside the main one.
fn sources(mirror: &str, suites: &[Suite]) -> String {
    let line = |suite: &Suite| {
        let security = if suite.name.ends_with("-security") { "-security" } else { "" };
        let Suite { name, architectures } = suite;
        format!("deb [signed-by={KEYRING} arch={architectures}] {mirror}{security} {name} main\n")
    };
    suites.iter().map(line).collect()
}

fn architectures(suites: &[Suite]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for architecture in suites.iter().flat_map(|suite| suite.architectures.split(',')) {
        if !found.contains(&architecture) {
            found.push(architecture);
        }
    }
    found
}

fn configuration(folder: &Path, architectures: &[&str], proxies: &str) -> String {
    let native = architectures.first().copied().unwrap_or("amd64");
    let all: String = architectures.iter().map(|name| format!("\"{name}\"; ")).collect();
    let folder = folder.display();
    format!(
        "APT::Architecture \"{native}\";\nAPT::Architectures {{ {all}}};\nDir \"{folder}\";\nDir::Etc \"etc\";\n\
         Dir::Etc::sourcelist \"sources.list\";\nDir::Etc::sourceparts \"sources\";\nDir::Etc::parts \"parts\";\n\
         Dir::State \"state\";\nDir::State::status \"{folder}/status\";\nDir::Cache \"cache\";\n\
         APT::Install-Recommends \"false\";\nAcquire::Languages \"none\";\nAcquire::Retries \"2\";\n\
         APT::Update::Error-Mode \"any\";\nAcquire::http::Timeout \"30\";\nAPT::Sandbox::User \"root\";\n{proxies}"
    )
}

/// In the text of a package, the first dependency whose name begins so and goes on with a version.
fn dependency(shown: &str, prefix: &str) -> Option<String> {
    let line = shown.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let mut names = line.split(',').filter_map(|item| item.split_whitespace().next());
    let versioned = |name: &&str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    names.find(versioned).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metapackage_names_its_kernel() {
        let shown =
            "Package: linux-image-arm64\nDepends: kmod (>> 1), linux-image-6.1.0-56-arm64 (= 6.1.192-1)\n";
        assert_eq!(dependency(shown, "linux-image-").as_deref(), Some("linux-image-6.1.0-56-arm64"));
        assert_eq!(dependency(shown, "linux-headers-"), None);
        assert_eq!(dependency("Depends: linux-image-arm64", "linux-image-"), None);
    }

    #[test]
    fn security_suites_come_from_the_archive_beside_the_main_one() {
        let suites = [
            Suite { name: "bookworm", architectures: "amd64" },
            Suite { name: "bookworm-security", architectures: "amd64,arm64" },
        ];
        let text = sources("http://m/debian", &suites);
        assert!(text.contains("arch=amd64] http://m/debian bookworm main\n"), "{text}");
        assert!(
            text.contains("arch=amd64,arm64] http://m/debian-security bookworm-security main\n"),
            "{text}"
        );
        assert_eq!(architectures(&suites), ["amd64", "arm64"]);
    }
}
