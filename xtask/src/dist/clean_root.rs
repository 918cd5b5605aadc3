//! Installing what was made into a clean Debian system, and using it there, as a user without rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::options::DistOptions;
use super::release::Release;
use super::target::{AARCH64, X86_64};
use crate::command::{apt, installed, output, step};
use crate::debian::mirror;

/// Debian's release in the clean system.
const SUITE: &str = "bookworm";
/// Debian packages that make it and, on other machines, stand in for the CPU.
const TOOLS: &[&str] = &["debootstrap", "qemu-user-static"];
/// The user in it.
const USER: &str = "1000:1000";

/// A Debian system in a folder.
struct CleanRoot {
    folder: PathBuf,
}

impl CleanRoot {
    /// A copy of the system that debootstrap made once, in `folder`.
    fn fresh(folder: &Path) -> Result<CleanRoot> {
        let (base, own) = (folder.join("debian"), folder.join("clean"));
        if !base.join("etc/debian_version").is_file() {
            let part = folder.join("debian.part");
            remove(&part)?;
            let mut make = Command::new("debootstrap");
            make.args(["--variant=minbase", "--include=python3", SUITE]).arg(&part).arg(mirror());
            step(&format!("debootstrap {SUITE}"), make)?;
            fs::rename(&part, &base)?;
        }
        remove(&own)?;
        let mut copy = Command::new("cp");
        copy.arg("--archive").arg(&base).arg(&own);
        step("a copy of the clean system", copy)?;
        let root = CleanRoot { folder: own };
        root.run("0:0", "echo 'user:x:1000:1000::/home/user:/bin/sh' >> /etc/passwd; mkdir -p /home/user /dist; chown 1000:1000 /home/user")?;
        Ok(root)
    }

    /// Copies files to `/dist` in the system.
    fn take(&self, files: &[PathBuf]) -> Result<()> {
        for file in files {
            let name = file.file_name().context("a file has a name")?;
            fs::copy(file, self.folder.join("dist").join(name))
                .with_context(|| file.display().to_string())?;
        }
        Ok(())
    }

    /// The output of a shell in the system, both streams; the user is `UID:GID`.
    fn run(&self, user: &str, script: &str) -> Result<String> {
        let proc = format!("--mount-proc={}", self.folder.join("proc").display());
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "--pid", "--fork", "--kill-child", &proc, "chroot"]);
        shell.arg(format!("--userspec={user}")).arg(&self.folder).args(["/bin/sh", "-euc"]);
        shell.arg(format!("exec 2>&1\ncd /\n{script}")).env_clear();
        shell
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/home/user");
        let out = shell.output().context("starting unshare")?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(
            out.status.success(),
            "in the clean system, as {user}: {script}\n{text}{errors}{}",
            out.status
        );
        Ok(text)
    }

    /// Runs a script as the user, and makes sure that it prints certain texts.
    fn expect(&self, script: &str, texts: &[&str]) -> Result<()> {
        eprintln!("==> in the clean system: {script}");
        let printed = self.run(USER, script)?;
        for text in texts {
            ensure!(printed.contains(text), "in the clean system: {script}\nlacks '{text}':\n{printed}");
        }
        Ok(())
    }

    /// The tool's main job, with the tool at this path.
    fn main_job(&self, tool: &str) -> Result<()> {
        self.expect(
            &format!("{tool} stat --backend soft -e instructions -- /bin/true"),
            &["instructions:u", "≡"],
        )?;
        self.expect(&format!("{tool} doctor"), &["perf", "soft        works", "os          works"])?;
        self.expect(&format!("{tool} mcp --allow /bin --dry-run"), &["compare", "allowed      /usr/bin"])
    }

    /// The exporter's main job, with the exporter at this path.
    fn exporter_job(&self, exporter: &str) -> Result<()> {
        let works = "cyclometer_source_state{source=\"os\",state=\"works\"";
        self.expect(&format!("{exporter} --once"), &["cyclometer_machine_info{architecture=", works])
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if folder.exists() => Err(error).with_context(|| format!("removing {}", folder.display())),
        _ => Ok(()),
    }
}

/// Installs the files of a release in `out` and uses them; `folder` keeps the clean system. Says what is
/// skipped.
pub(super) fn check(release: &Release, options: &DistOptions, out: &Path, folder: &Path) -> Result<()> {
    if output("id", &["--user"])?.trim() != "0" {
        eprintln!("==> skipped: installing into a clean system: that needs root");
        return Ok(());
    }
    let lacking: Vec<&str> = TOOLS.iter().copied().filter(|tool| !installed(tool)).collect();
    if !lacking.is_empty() {
        apt(&[&["install", "--yes", "--no-install-recommends"], lacking.as_slice()].concat())?;
    }
    let root = CleanRoot::fresh(folder)?;
    let files = fs::read_dir(out).with_context(|| out.display().to_string())?;
    let files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<PathBuf>>>()?;
    root.take(&files)?;
    root.expect("cd /dist && sha256sum --check --quiet SHA256SUMS && echo sums agree", &["sums agree"])?;
    if options.targets.contains(&X86_64) {
        archive(release, &root)?;
        package(release, &root)?;
        exporter_package(release, &root)?;
    }
    if options.wheel {
        wheel(&root)?;
    }
    if options.targets.contains(&AARCH64) {
        emulated(release, &root)?;
    }
    remove(&root.folder)
}

/// The archive: installed without rights, over another version, removed; and used from where it was
/// unpacked.
fn archive(release: &Release, root: &CleanRoot) -> Result<()> {
    let folder = format!("cyclometer-{}-{}-linux", release.version, X86_64.name);
    root.expect(
        &format!(
            "cd /home/user && tar -xzf /dist/{folder}.tar.gz && mkdir -p .local/bin && \
             echo old > .local/bin/cyclometer && {folder}/install.sh"
        ),
        &["installed cyclometer in /home/user/.local", "is not on your PATH"],
    )?;
    root.main_job("/home/user/.local/bin/cyclometer")?;
    root.exporter_job("/home/user/.local/bin/cyclometer-exporter")?;
    root.expect(
        "grep -q '^.TH cyclometer' /home/user/.local/share/man/man1/cyclometer.1 && echo page",
        &["page"],
    )?;
    let unwritable =
        "HOME=/nonexistent /home/user/.local/bin/cyclometer stat --backend soft -e instructions -- /bin/true";
    root.expect(unwritable, &["instructions:u", "≡"])?;
    root.expect(
        &format!("cd /home/user && {folder}/install.sh --uninstall && find .local -type f | wc -l"),
        &["removed from /home/user/.local\n0\n"],
    )?;
    root.main_job(&format!("/home/user/{folder}/bin/cyclometer"))
}

/// The Debian package: installed over an older version and over itself, used where the home cannot be
/// written, removed without a trace.
fn package(release: &Release, root: &CleanRoot) -> Result<()> {
    let deb = format!("/dist/cyclometer_{}_{}.deb", release.version, X86_64.debian);
    let install = format!("{} && dpkg --install {deb} && ! test -e {ONLY_OLD}", install_older(&deb));
    eprintln!("==> in the clean system: {install}");
    root.run("0:0", &install)?;
    root.main_job("cyclometer")?;
    root.expect(
        "HOME=/nonexistent cyclometer stat --backend soft -e instructions -- /bin/true",
        &["instructions:u", "≡"],
    )?;
    root.expect(
        "dpkg -L cyclometer; for page in stat mcp; do gzip -dc /usr/share/man/man1/cyclometer-$page.1.gz; done",
        &[
            "/usr/share/doc/cyclometer/copyright",
            "completions/cyclometer",
            ".TH cyclometer-stat",
            "\\-\\-allow",
        ],
    )?;
    root.run(
        "0:0",
        "dpkg --purge cyclometer && ! find /usr /etc /var/lib/dpkg/info -name '*cyclometer*' | grep .",
    )?;
    Ok(())
}

/// A file that only the older version of the package has.
const ONLY_OLD: &str = "/usr/share/doc/cyclometer/of-the-older-version";

/// A script that installs a package with an older version number and one more file, then the package itself.
fn install_older(deb: &str) -> String {
    let older = "/tmp/older";
    format!(
        "dpkg-deb --raw-extract {deb} {older} && sed -i 's/^Version: .*/Version: 0.0.0/' {older}/DEBIAN/control && \
         echo old > {older}{ONLY_OLD} && dpkg-deb --build {older} {older}.deb && dpkg --install {older}.deb && \
         test -e {ONLY_OLD} && rm -r {older} {older}.deb && dpkg --install {deb}"
    )
}

/// The package of the exporter: its configuration is accepted, and it leaves no file behind.
fn exporter_package(release: &Release, root: &CleanRoot) -> Result<()> {
    let deb = format!("/dist/cyclometer-exporter_{}_{}.deb", release.version, X86_64.debian);
    root.run("0:0", &format!("dpkg --install {deb}"))?;
    root.exporter_job("cyclometer-exporter")?;
    root.expect(
        "cyclometer-exporter --config /etc/cyclometer/exporter.yaml --check && dpkg -L cyclometer-exporter",
        &[
            "systemd/system/cyclometer-exporter.service",
            "/usr/share/doc/cyclometer-exporter/copyright",
            "/usr/share/man/man8/cyclometer-exporter.8.gz",
        ],
    )?;
    root.run("0:0", "dpkg --purge cyclometer-exporter && ! find /usr /etc -name '*cyclometer*' | grep .")?;
    Ok(())
}

/// The wheel: unpacked as pip does it, and used.
fn wheel(root: &CleanRoot) -> Result<()> {
    let program = "import perf_monitor\nmonitor = perf_monitor.PerfMonitor()\n\
                   monitor.configure(events=['page-faults'])\nwith monitor.measure('x'): sum(range(1000))\n\
                   print(monitor.get_metrics())";
    root.expect(
        &format!(
            "python3 -m zipfile -e /dist/*.whl /home/user/wheel && PYTHONPATH=/home/user/wheel python3 -c \"{program}\""
        ),
        &["page"],
    )
}

/// The program for arm64, in an emulator of its instructions. The emulator has no tracing, so there is
/// no software PMU.
fn emulated(release: &Release, root: &CleanRoot) -> Result<()> {
    let folder = format!("cyclometer-{}-{}-linux", release.version, AARCH64.name);
    fs::copy("/usr/bin/qemu-aarch64-static", root.folder.join("usr/bin/qemu-aarch64-static"))?;
    let tool = format!("qemu-aarch64-static /home/user/{folder}/bin/cyclometer");
    root.expect(
        &format!("cd /home/user && tar -xzf /dist/{folder}.tar.gz && {tool} stat -- /bin/true"),
        &["wall_time"],
    )?;
    root.expect(&format!("{tool} doctor"), &["os          works"])?;
    root.exporter_job(&format!("qemu-aarch64-static /home/user/{folder}/bin/cyclometer-exporter"))?;
    root.expect(
        &format!("qemu-aarch64-static /home/user/{folder}/bin/cyclometer-mcp --version"),
        &["cyclometer-mcp"],
    )?;
    let deb = format!("/dist/cyclometer_{}_{}.deb", release.version, AARCH64.debian);
    root.expect(
        &format!("dpkg-deb --field {deb} Architecture; dpkg-deb --contents {deb}"),
        &["arm64\n", "./usr/bin/cyclometer"],
    )
}
