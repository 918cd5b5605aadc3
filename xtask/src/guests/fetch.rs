//! The downloads: the emulator, kernels, their headers, compilers for other CPUs. Each is a part of the
//! cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::apt::{Apt, Suite};
use super::cache::DownloadCache;
use super::missing::missing;

/// Where the emulator comes from: the first release with the plugin interface that is needed. And the first
/// kernel for riscv64.
const EMULATOR: &[Suite] = &[
    Suite { name: "trixie", architectures: "amd64,riscv64" },
    Suite { name: "trixie-backports", architectures: "amd64" },
];

/// Where the rest comes from. Its programs run on later releases too. No other release stands beside it:
/// packages for all architectures would come from there, and the linker of one release crashes on the C
/// library of another.
const OTHERS: &[Suite] = &[
    Suite { name: "bookworm", architectures: "amd64,arm64" },
    Suite { name: "bookworm-security", architectures: "amd64,arm64" },
];

/// A kernel that guests boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GuestKernel {
    Arm64,
    Arm64With16KPages,
    Riscv64,
    X86,
}

impl GuestKernel {
    fn name(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Arm64With16KPages => "arm64-16k",
            Self::Riscv64 => "riscv64",
            Self::X86 => "amd64",
        }
    }

    fn metapackage(self) -> &'static str {
        match self {
            Self::Arm64 => "linux-image-cloud-arm64:arm64",
            Self::Arm64With16KPages => "linux-image-6.12-arm64-16k:arm64",
            Self::Riscv64 => "linux-image-riscv64:riscv64",
            Self::X86 => "linux-image-cloud-amd64:amd64",
        }
    }

    /// The wanted files of the package.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::X86 => &["./boot/vmlinu*", "./*/msr.ko*"],
            _ => &["./boot/vmlinu*"],
        }
    }
}

/// Fetches what the cache lacks.
pub(super) struct Fetcher<'a> {
    cache: &'a DownloadCache,
    emulator: Option<Apt>,
    others: Option<Apt>,
}

impl<'a> Fetcher<'a> {
    pub(super) fn new(cache: &'a DownloadCache) -> Self {
        Self { cache, emulator: None, others: None }
    }

    /// The folder with the command `qemu`, which takes the name of a program and its arguments.
    pub(super) fn emulator(&mut self) -> Result<PathBuf> {
        let packages =
            ["qemu-system-x86", "qemu-system-arm", "qemu-system-riscv", "opensbi", "device-tree-compiler"];
        let cache = self.cache;
        cache.part("qemu", &format!("{} 1", packages.join(" ")), |part| {
            let apt = started(&mut self.emulator, &cache.path().join("apt-emulator"), EMULATOR)?;
            eprintln!("==> fetching QEMU");
            let root = part.join("root");
            apt.unpack_with_dependencies(&packages, Some("trixie-backports"), &root)?;
            script(&part.join("qemu"), &emulator_script())
        })
    }

    /// A kernel: the folder with `image` and, where there are some, modules.
    pub(super) fn kernel(&mut self, kernel: GuestKernel) -> Result<PathBuf> {
        let cache = self.cache;
        let recipe = format!("{} {} 1", kernel.metapackage(), kernel.files().join(" "));
        cache.part(&format!("kernel-{}", kernel.name()), &recipe, |part| {
            let apt = match kernel {
                GuestKernel::Riscv64 => {
                    started(&mut self.emulator, &cache.path().join("apt-emulator"), EMULATOR)?
                }
                _ => started(&mut self.others, &cache.path().join("apt"), OTHERS)?,
            };
            eprintln!("==> fetching the kernel {}", kernel.metapackage());
            let package = apt.behind(kernel.metapackage(), "linux-image-")?;
            let architecture = kernel.metapackage().rsplit(':').next().unwrap_or_default();
            apt.unpack_alone(&format!("{package}:{architecture}"), kernel.files(), part)?;
            let image = only_file(&part.join("boot"))?;
            fs::rename(image, part.join("image")).context("naming the kernel's image")?;
            Ok(fs::write(part.join("package"), package)?)
        })
    }

    /// The headers of a kernel for arm64, and what builds modules: the folder of headers.
    pub(super) fn headers(&mut self, kernel: GuestKernel) -> Result<PathBuf> {
        let image = self.kernel(kernel)?;
        let image = fs::read_to_string(image.join("package"))?;
        let Some(version) = image.strip_prefix("linux-image-") else { bail!("{image} is no kernel") };
        let headers = format!("linux-headers-{version}");
        let cache = self.cache;
        let part = cache.part("headers", &format!("{headers} 1"), |part| {
            let apt = started(&mut self.others, &cache.path().join("apt"), OTHERS)?;
            eprintln!("==> fetching {headers}");
            let arm64 = format!("{headers}:arm64");
            let common = apt.behind(&arm64, "linux-headers-")?;
            let tools = apt.behind(&arm64, "linux-kbuild-")?;
            for package in [&arm64, &format!("{common}:amd64"), &format!("{tools}:amd64")] {
                apt.unpack_alone(package, &[], part)?;
            }
            relocate(part, &headers)
        })?;
        Ok(part.join("usr/src").join(headers))
    }

    /// Compilers for C of other CPUs, `make`, `cpio`: the folder of commands.
    pub(super) fn toolchain(&mut self) -> Result<PathBuf> {
        let packages = [
            "gcc-aarch64-linux-gnu",
            "libc6-dev-arm64-cross",
            "gcc-riscv64-linux-gnu",
            "libc6-dev-riscv64-cross",
            "make",
            "cpio",
            "libelf1",
        ];
        let cache = self.cache;
        let part = cache.part("toolchain", &format!("{} 2", packages.join(" ")), |part| {
            let apt = started(&mut self.others, &cache.path().join("apt"), OTHERS)?;
            eprintln!("==> fetching compilers for arm64 and riscv64");
            let root = part.join("root");
            apt.unpack_with_dependencies(&packages, None, &root)?;
            toolchain_commands(part, &root)
        })?;
        Ok(part.join("bin"))
    }

    /// Rust's standard library for a foreign target from Debian's packages, for Debian's own compiler of the
    /// same version.
    pub(super) fn standard_library(&mut self, target: &str, version: &str) -> Result<PathBuf> {
        let architecture = match target.split('-').next() {
            Some("aarch64") => "arm64",
            Some("riscv64gc") => "riscv64",
            _ => return Err(missing(format!("no package has the standard library of {target}"))),
        };
        let cache = self.cache;
        let recipe = format!("{target} {version} 1");
        let part = cache.part(&format!("std-{architecture}"), &recipe, |part| {
            let apt = match architecture {
                "riscv64" => started(&mut self.emulator, &cache.path().join("apt-emulator"), EMULATOR)?,
                _ => started(&mut self.others, &cache.path().join("apt"), OTHERS)?,
            };
            eprintln!("==> fetching Rust's standard library for {architecture}");
            let package = format!("libstd-rust-web-dev:{architecture}");
            let known = apt.versions(&package)?;
            let Some(wanted) = known.iter().find(|known| known.starts_with(&format!("{version}+"))) else {
                return Err(missing(format!("{package} of {version} cannot be had, only {known:?}")));
            };
            apt.unpack_alone(&format!("{package}={wanted}"), &["./usr/lib/rustlib*"], part)
        })?;
        Ok(part.join("usr"))
    }

    /// Removes the lists of packages that this run fetched.
    pub(super) fn done(self) -> Result<()> {
        [self.emulator, self.others].into_iter().flatten().try_for_each(Apt::forget)
    }
}

/// The apt of some suites, set up when it is first needed.
fn started<'a>(apt: &'a mut Option<Apt>, folder: &Path, suites: &[Suite]) -> Result<&'a Apt> {
    match apt {
        Some(apt) => Ok(apt),
        None => {
            eprintln!("==> fetching lists of packages");
            Ok(apt.insert(Apt::new(folder, suites)?))
        }
    }
}

/// The emulator's packages are of another release: they run with their own loader and libraries.
fn emulator_script() -> String {
    "#!/bin/sh\nroot=$(dirname \"$(realpath \"$0\")\")/root; program=$1; shift\n\
     lib=$root/usr/lib/x86_64-linux-gnu\n\
     case $program in qemu-system-*) set -- -L \"$root/usr/share/qemu\" -L \"$root/usr/share/seabios\" \\\n\
     \t-L \"$root/usr/lib/ipxe/qemu\" \"$@\" ;; esac\n\
     exec \"$root/lib64/ld-linux-x86-64.so.2\" --library-path \"$lib:$lib/pulseaudio\" \"$root/usr/bin/$program\" \"$@\"\n"
        .to_owned()
}

/// One command for each program of the compilers. They use the host's C library, and of the others their own.
fn toolchain_commands(part: &Path, root: &Path) -> Result<()> {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let own = part.join("lib");
    fs::create_dir_all(&own)?;
    for name in [
        "libisl",
        "libmpc",
        "libmpfr",
        "libgmp",
        "libzstd",
        "libz",
        "libopcodes",
        "libbfd",
        "libctf",
        "libsframe",
        "libelf",
        "libjansson",
    ] {
        link_libraries(&libraries, name, &own)?;
    }
    let commands = part.join("bin");
    fs::create_dir_all(&commands)?;
    for entry in fs::read_dir(root.join("usr/bin"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if matches!(name.as_str(), "make" | "cpio") || name.contains("-linux-gnu-") {
            let text = format!(
                "#!/bin/sh\nexport LD_LIBRARY_PATH='{}'\nexec '{}' \"$@\"\n",
                own.display(),
                path.display()
            );
            script(&commands.join(name), &text)?;
        }
    }
    Ok(())
}

fn link_libraries(from: &Path, name: &str, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rest = file.strip_prefix(name).unwrap_or_default();
        if rest.starts_with(".so") || rest.starts_with('-') {
            std::os::unix::fs::symlink(&path, to.join(file))?;
        }
    }
    Ok(())
}

/// Headers name their common part, and their tools, by where they are installed: here they name where they
/// are.
fn relocate(part: &Path, headers: &str) -> Result<()> {
    let folder = part.join("usr/src").join(headers);
    for name in ["Makefile", ".kernelvariables"] {
        let file = folder.join(name);
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let own = format!("{}/usr/", part.display());
        fs::write(&file, text.replace("/usr/", &own))?;
    }
    Ok(())
}

/// Writes a command.
pub(super) fn script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    match entries.as_slice() {
        [one] => Ok(one.clone()),
        _ => bail!("{} has {} files, not one", folder.display(), entries.len()),
    }
}
