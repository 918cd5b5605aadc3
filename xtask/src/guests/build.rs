//! The build outputs: the command-line tool and the suite for every instruction set, programs of known
//! length, the plugin, the kernel module, device trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::emulator::Emulator;
use super::fetch::{Fetcher, GuestKernel};
use super::initrd::Initrd;
use super::machine::{DeviceTree, GuestMachine, GuestTarget};
use super::missing::missing;
use crate::ci::WorkspaceBuild;
use crate::command::{cargo_command, output, step};
use crate::root;
use crate::targets::has_library;

/// The packages whose programs go into every machine: the tool, and process 1 with the suite.
const PACKAGES: [&str; 2] = ["cyclometer-cli", "cyclometer-guest"];

/// Their programs: name in the machine, and file name.
const OURS: [(&str, &str); 2] = [("cyclometer", "cyclometer"), ("init", "cyclometer-guest")];

/// Programs of known length: name in the machine, source, rounds of its loop. The suite has the same numbers.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("loop", "loop.S", "0x100000"),
    ("long", "loop.S", "0x2000000"),
    ("fork", "fork.S", "0x100000"),
    ("waiting", "waiting.S", "0x100000"),
];

/// Where things are built, and with what.
pub(super) struct Builder<'a, 'b> {
    pub(super) fetcher: &'a mut Fetcher<'b>,
    /// A folder for what is built in this run.
    pub(super) work: &'a Path,
}

/// The tools that build programs for an instruction set.
pub(super) struct Tools {
    target: GuestTarget,
    /// The folder of the compiler; `None` for the host's own.
    folder: Option<PathBuf>,
    /// Flags of Rust's compiler.
    flags: String,
}

impl Tools {
    fn command(&self, program: &str) -> Command {
        Command::new(self.folder.as_ref().map_or_else(|| program.into(), |folder| folder.join(program)))
    }
}

/// Programs of ours for one instruction set, and the shared libraries of those that need some: path in the
/// machine, and file.
pub(super) struct Programs(Vec<(String, PathBuf)>);

impl Builder<'_, '_> {
    /// The tools that build programs for an instruction set.
    ///
    /// # Errors
    ///
    /// Something is missing: the compiler, or the standard library.
    pub(super) fn tools(&mut self, target: GuestTarget) -> Result<Tools> {
        let folder = if target.is_foreign() { Some(self.fetcher.toolchain()?) } else { None };
        Ok(Tools { target, folder, flags: self.flags(target)? })
    }

    /// The tool, the suite and the programs for some instruction sets. Those that `workspace` has built for
    /// the host are not built again.
    pub(super) fn programs(
        &self,
        all: &[Tools],
        workspace: Option<&WorkspaceBuild>,
    ) -> Result<BTreeMap<GuestTarget, Programs>> {
        let is_built = |tools: &&Tools| workspace.is_some() && !tools.target.is_foreign();
        let (ready, others): (Vec<&Tools>, Vec<&Tools>) = all.iter().partition(is_built);
        let built = if others.is_empty() { Vec::new() } else { cargo(&others)? };
        let mut programs = BTreeMap::new();
        for tools in others {
            let of_target = |path: &&PathBuf| path.iter().any(|part| part == tools.target.triple());
            let files: Vec<PathBuf> = built.iter().filter(of_target).cloned().collect();
            programs.insert(tools.target, self.of_target(tools, &files)?);
        }
        for (tools, workspace) in ready.into_iter().zip(workspace) {
            let files: Vec<PathBuf> =
                OURS.iter().filter_map(|(_, program)| workspace.program(program)).collect();
            let mut found = self.of_target(tools, &files)?;
            found.0.extend(shared_libraries(&files)?);
            programs.insert(tools.target, found);
        }
        Ok(programs)
    }

    /// Compiler flags: no shared libraries, and where rustup has no standard library, that of Debian's
    /// packages.
    fn flags(&mut self, target: GuestTarget) -> Result<String> {
        let static_only = "-Ctarget-feature=+crt-static";
        if has_library(target.triple()) {
            return Ok(static_only.to_owned());
        }
        let sysroot = output("rustc", &["--print", "sysroot"])?;
        if sysroot.trim() != "/usr" {
            return Err(missing(format!("rustup cannot add the target {}", target.triple())));
        }
        let version = output("rustc", &["--version"])?;
        let version = version.split_whitespace().nth(1).unwrap_or_default();
        let folder = self.fetcher.standard_library(target.triple(), version)?;
        Ok(format!("{static_only} --sysroot={}", folder.display()))
    }

    fn of_target(&self, tools: &Tools, built: &[PathBuf]) -> Result<Programs> {
        let target = tools.target;
        let folder = self.work.join(target.triple());
        fs::create_dir_all(&folder)?;
        let mut programs = Vec::new();
        for (name, program) in OURS {
            let found = built.iter().find(|path| path.file_name().is_some_and(|file| file == program));
            let found = found.with_context(|| format!("cargo built no {program} for {}", target.triple()))?;
            programs.push((name.to_owned(), stripped(found, &folder.join(name), tools)?));
        }
        for (name, source, rounds) in PROGRAMS {
            let program = folder.join(name);
            let mut compiler = tools.command(target.compiler());
            compiler.args([
                "-nostdlib",
                "-static",
                "-Wl,--build-id=none",
                &format!("-DROUNDS={rounds}"),
                "-o",
            ]);
            compiler.arg(&program).arg(root().join("tests/guests/programs").join(source));
            step(&format!("{} for {name}", target.compiler()), compiler)?;
            programs.push((name.to_owned(), program));
        }
        Ok(Programs(programs))
    }

    /// The plugin.
    pub(super) fn plugin(&self) -> Result<PathBuf> {
        let plugin = self.work.join("pmu.so");
        let mut command = Command::new("cc");
        command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-o"]);
        command.arg(&plugin).arg(root().join("tests/guests/plugin/pmu.c")).arg("-lpthread");
        step("cc for the plugin", command)?;
        Ok(plugin)
    }

    /// The module for Apple's registers, with the modules of its own tests if `tests`: the folder where it
    /// was built.
    pub(super) fn apple_module(&mut self, tests: bool) -> Result<PathBuf> {
        let folder = self.work.join(if tests { "apple-pmu-tests" } else { "apple-pmu" });
        if folder.join("apple_pmu_el0.ko").exists() {
            return Ok(folder);
        }
        let headers = self.fetcher.headers(GuestKernel::Arm64With16KPages)?;
        let tools = self.fetcher.toolchain()?;
        let mut files = vec!["Kbuild", "Makefile", "apple_pmu_el0.c", "uapi/apple_pmu_el0.h"];
        files.extend(["tests/apple_pmu_test.c", "tests/apple_pmu_test.h"].iter().filter(|_| tests));
        for file in files {
            let (from, to) = (root().join("kernel/apple-pmu").join(file), folder.join(file));
            fs::create_dir_all(to.parent().unwrap_or(&folder))?;
            fs::copy(&from, to).with_context(|| format!("copying {}", from.display()))?;
        }
        let mut make = Command::new(tools.join("make"));
        make.args([
            "-s",
            "CROSS_COMPILE=aarch64-linux-gnu-",
            "KCFLAGS=-Werror",
            "CONFIG_DEBUG_INFO_BTF_MODULES=",
        ]);
        make.args(tests.then_some("TESTS=1"));
        make.arg("-C").arg(&folder).arg(format!("KDIR={}", headers.display())).arg("modules");
        make.env("PATH", before_path(&tools));
        step("make for kernel/apple-pmu", make)?;
        Ok(folder)
    }

    /// The device tree that a machine gets; `None` for the emulator's own.
    pub(super) fn tree(&self, machine: &GuestMachine, emulator: &Emulator) -> Result<Option<PathBuf>> {
        let tree = self.work.join(format!("{}.dtb", machine.name));
        let source = match machine.tree {
            DeviceTree::Own => return Ok(None),
            DeviceTree::Hybrid => root().join("tests/guests/hybrid.dts"),
            DeviceTree::Apple => self.claimed_by_apple(machine, emulator)?,
        };
        emulator.device_tree_compiler(&source, "dts", &tree, "dtb")?;
        Ok(Some(tree))
    }

    /// The emulator's device tree, with the names that a Mac mini of 2020 has under Linux: one of a virtual
    /// machine keeps the tool, rightly, from looking for Apple's registers.
    fn claimed_by_apple(&self, machine: &GuestMachine, emulator: &Emulator) -> Result<PathBuf> {
        let (plain, source) = (self.work.join("plain.dtb"), self.work.join("apple.dts"));
        emulator.dump_tree(machine, &plain)?;
        emulator.device_tree_compiler(&plain, "dtb", &source, "dts")?;
        let text = fs::read_to_string(&source).context("reading the emulator's device tree")?;
        let (own, claimed) = (
            "compatible = \"linux,dummy-virt\"",
            "compatible = \"apple,j274\", \"apple,t8103\", \"apple,arm-platform\"",
        );
        if !text.contains(own) {
            bail!("the emulator's device tree has no {own}");
        }
        fs::write(&source, text.replace(own, claimed))?;
        Ok(source)
    }

    /// The initial RAM disk of a machine.
    pub(super) fn initrd(
        &mut self,
        machine: &GuestMachine,
        programs: &Programs,
        module: Option<&Path>,
    ) -> Result<PathBuf> {
        let mut initrd = Initrd::new();
        let folders: BTreeSet<&Path> =
            programs.0.iter().flat_map(|(name, _)| Path::new(name).ancestors().skip(1)).collect();
        folders.into_iter().filter_map(Path::to_str).filter(|name| !name.is_empty()).for_each(|name| {
            initrd.folder(name);
        });
        for (name, path) in &programs.0 {
            initrd.file(name, path)?;
        }
        initrd.folder("modules");
        if let Some(module) = module {
            initrd.file("modules/apple_pmu_el0.ko", module)?;
        }
        if machine.kernel == GuestKernel::X86 {
            let driver = found_below(&self.fetcher.kernel(GuestKernel::X86)?, "msr.ko")?;
            initrd.file("modules/msr.ko", &driver)?;
        }
        let path = self.work.join(format!("{}.initrd", machine.name));
        fs::write(&path, initrd.finish()).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// The search path with a folder before all others.
pub(super) fn before_path(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

/// `cargo build`, and the programs that it made.
fn cargo(all: &[&Tools]) -> Result<Vec<PathBuf>> {
    let mut command = cargo_command(&["build", "--locked", "--message-format", "json-render-diagnostics"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", *package]));
    for Tools { target, folder, flags } in all {
        let variable = target.triple().to_uppercase().replace('-', "_");
        command.args(["--target", target.triple()]).env(format!("CARGO_TARGET_{variable}_RUSTFLAGS"), flags);
        if let Some(folder) = folder {
            command.env(format!("CARGO_TARGET_{variable}_LINKER"), folder.join(target.compiler()));
        }
    }
    // Programs are stripped for the machines.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    // They would stand in for those above.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let targets: Vec<&str> = all.iter().map(|tools| tools.target.triple()).collect();
    eprintln!("==> cargo build for {}", targets.join(", "));
    let output = command.stderr(Stdio::inherit()).output().context("starting cargo")?;
    if !output.status.success() {
        bail!("cargo build: {}", output.status);
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// A copy without debug information, which makes the machine start faster.
fn stripped(from: &Path, to: &Path, tools: &Tools) -> Result<PathBuf> {
    let mut command = tools.command(tools.target.strip());
    command.arg("--strip-debug").arg("-o").arg(to).arg(from);
    step(&format!("strip {}", from.display()), command)?;
    Ok(to.to_path_buf())
}

/// The shared libraries of programs of the host, each with its path in a machine.
///
/// # Source
///
/// `ldd(1)`: a line `NAME => PATH (ADDRESS)` for a library, `PATH (ADDRESS)` for the dynamic loader.
fn shared_libraries(programs: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>> {
    let mut libraries = BTreeMap::new();
    for program in programs {
        let text = output("ldd", &[&program.display().to_string()])?;
        libraries
            .extend(paths_of_ldd(&text).map(|path| (path.trim_start_matches('/').to_owned(), path.into())));
    }
    Ok(libraries)
}

/// The paths in the output of `ldd`.
fn paths_of_ldd(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let path = line.rsplit_once("=> ").map_or(line, |(_, path)| path).trim();
        path.split(' ').next().filter(|path| path.starts_with('/'))
    })
}

/// The programs that cargo's messages name.
fn executables(messages: &str) -> Vec<PathBuf> {
    let message = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let executable = |message: serde_json::Value| message["executable"].as_str().map(PathBuf::from);
    messages.lines().filter_map(message).filter_map(executable).collect()
}

fn found_below(folder: &Path, name: &str) -> Result<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == name {
                return Ok(entry.path());
            }
        }
    }
    bail!("{} has no {name}", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_of_ldd_and_the_kernels_own_has_none() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(paths_of_ldd(text).collect::<Vec<_>>(), expected);
        assert_eq!(paths_of_ldd("\tstatically linked\n").count(), 0);
    }

    #[test]
    fn programs_are_read_from_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":\"/t/x/debug/a\"}\nnot JSON\n\
                        {\"executable\":null}\n{\"reason\":\"build-finished\"}\n";
        assert_eq!(executables(messages), [PathBuf::from("/t/x/debug/a")]);
    }
}
