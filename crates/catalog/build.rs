//! Makes the embedded tables from all of `data/<family>` for the enabled families.
#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use cyclometer_core::pmu::Family;

#[path = "src/table/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, missing_docs, reason = "the library uses all of it")]
mod table;

fn main() -> Result<(), Box<dyn Error>> {
    let data = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no manifest folder")?).join("data");
    let mut tables = Vec::new();
    for family in Family::ALL {
        let folder = data.join(family.word());
        println!("cargo::rerun-if-changed={}", folder.display());
        let feature = format!("CARGO_FEATURE_{}", family.word().to_ascii_uppercase());
        if env::var_os(feature).is_some() && folder.is_dir() {
            read(&folder, &mut tables)?;
        }
    }
    println!("cargo::rerun-if-changed=src/table");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no output folder")?).join("tables.bin");
    fs::write(out, table::blob::write(&tables)?)?;
    Ok(())
}

fn read(folder: &Path, tables: &mut Vec<table::CpuTable>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, tables)?;
        } else {
            let text = fs::read_to_string(&path)?;
            let table = table::text::read(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            tables.push(table);
        }
    }
    Ok(())
}
