//! The machines for which there are archives, and the static program for each.
//!
//! The program is linked statically with glibc: it needs no version of a C library, and no loader.
//! Rust's library for musl would give the same, but no distribution's toolchain has it for both
//! machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

use super::place::BuildPlace;
use super::programs::DistProgram;
use super::release::Release;
use crate::command::{cargo_command, step};
use crate::targets;

/// A machine that the tool is built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DistTarget {
    /// The first part of its name in file names, and how the command line names it.
    pub name: &'static str,
    /// Rust's name of it.
    pub triple: &'static str,
    /// Debian's name of it.
    pub debian: &'static str,
    /// The linker, if it is not that of the host.
    linker: Option<&'static str>,
    /// The Debian package with the C library that is linked.
    pub c_library: &'static str,
}

pub(super) const X86_64: DistTarget = DistTarget {
    name: "x86_64",
    triple: "x86_64-unknown-linux-gnu",
    debian: "amd64",
    linker: None,
    c_library: "libc6-dev",
};

pub(super) const AARCH64: DistTarget = DistTarget {
    name: "aarch64",
    triple: "aarch64-unknown-linux-gnu",
    debian: "arm64",
    linker: Some("aarch64-linux-gnu-gcc"),
    c_library: "libc6-dev-arm64-cross",
};

/// All targets.
pub(super) const TARGETS: [DistTarget; 2] = [X86_64, AARCH64];

impl DistTarget {
    /// Builds a program, and makes sure that it needs no library of the system.
    pub(super) fn build(
        &self,
        release: &Release,
        program: DistProgram,
        place: &BuildPlace,
    ) -> Result<PathBuf> {
        let Self { triple, .. } = self;
        ensure!(
            targets::has_library(triple),
            "Rust's standard library for {triple} is not installed; try `rustup target add {triple}`"
        );
        let args = ["build", "--release", "--locked", "--package", program.package, "--target", triple];
        let mut build = cargo_command(&args);
        build.current_dir(&place.source).env("CARGO_TARGET_DIR", &place.folder);
        build.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
        build.env("CARGO_ENCODED_RUSTFLAGS", place.rust_flags(&["-Ctarget-feature=+crt-static"]));
        build.env("CFLAGS", c_flags(place));
        if let Some(linker) = self.linker {
            build.env(format!("CARGO_TARGET_{}_LINKER", variable(triple)), linker);
        }
        step(&format!("cargo {}, static", args.join(" ")), build)?;
        let program = self.program(program, &place.folder);
        let bytes = fs::read(&program).with_context(|| program.display().to_string())?;
        let needed = needed(&bytes).with_context(|| program.display().to_string())?;
        ensure!(needed.is_empty(), "{} is not static: it needs {}", program.display(), needed.join(", "));
        Ok(program)
    }

    /// The target that the command line names.
    pub(super) fn named(name: &str) -> Result<DistTarget> {
        let found = TARGETS.into_iter().find(|target| target.name == name);
        found.with_context(|| {
            let names = TARGETS.map(|target| target.name).join(" and ");
            format!("'{name}' is no target; there are {names}")
        })
    }

    /// Whether this machine runs its programs.
    pub(super) fn runs_here(&self) -> bool {
        self.name == std::env::consts::ARCH
    }

    /// A built program in a folder of cargo.
    fn program(&self, program: DistProgram, folder: &Path) -> PathBuf {
        folder.join(self.triple).join("release").join(program.name)
    }
}

/// Flags of C compilers for code of crates that is the same wherever it is built.
fn c_flags(place: &BuildPlace) -> String {
    let remaps = place.remaps().into_iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    remaps.collect::<Vec<_>>().join(" ")
}

fn variable(triple: &str) -> String {
    triple.to_uppercase().replace('-', "_")
}

/// The loader and the libraries that a program needs at run time.
fn needed(program: &[u8]) -> Result<Vec<String>> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let mut found = Vec::new();
    for segment in header.program_headers(endian, program)? {
        if segment.p_type(endian) == PT_INTERP {
            found.push("a loader".to_owned());
        }
        let entries = segment.dynamic(endian, program).ok().flatten().unwrap_or_default();
        found.extend(
            entries
                .iter()
                .filter(|entry| entry.tag(endian) == elf::DT_NEEDED)
                .map(|_| "a library".to_owned()),
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_and_libraries_is_not_static() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let needed = needed(&own).unwrap();
        assert!(needed.contains(&"a loader".to_owned()), "{needed:?}");
        assert!(needed.contains(&"a library".to_owned()), "{needed:?}");
    }

    #[test]
    fn a_text_is_no_program() {
        assert!(needed(b"#!/bin/sh\n").is_err());
        assert!(needed(b"").is_err());
    }

    #[test]
    fn variables_of_cargo_are_in_capitals() {
        assert_eq!(variable(AARCH64.triple), "AARCH64_UNKNOWN_LINUX_GNU");
    }
}
