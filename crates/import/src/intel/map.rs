//! `mapfile.csv` of intel/perfmon: which CPU has which file.
//!
//! # Source
//!
//! intel/perfmon `README.md`, "mapfile.csv": the key is an extended regular expression
//! `GenuineIntel-<family, decimal>-<model, hexadecimal>[-<stepping, hexadecimal>]` that must match as a
//! whole.

use crate::error::{ImportError, ImportResult};

/// The longest file that is read, in bytes. Intel's has 20 KB.
const MAX_BYTES: usize = 1 << 20;

/// One row: a CPU, and one of its files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapRow {
    /// Family, the extended one included.
    pub family: u32,
    /// Model, the extended one included.
    pub model: u32,
    /// Steppings as a bit mask; all where the row names none.
    pub steppings: u16,
    /// Version of the file (`V1.40`).
    pub version: String,
    /// Path of the file below the repository's root.
    pub file: String,
    /// The kind of the file: `core`, `hybridcore`, `uncore`, `metrics`, …
    pub kind: String,
    /// Core type and native model of `CPUID` leaf 0x1A, for files of one core type.
    pub core: Option<(u32, u32)>,
}

impl MapRow {
    /// The row's CPU as a table's `match` line says it: `GenuineIntel-6-55-[01234]`, and for one of several
    /// core types `GenuineIntel-6-97 type=0x40 native=0x1`.
    pub fn pattern(&self) -> String {
        let MapRow { family, model, steppings, core, .. } = self;
        let steppings = match steppings {
            &u16::MAX => String::new(),
            mask => {
                let digits: String =
                    (0..16).filter(|n| mask >> n & 1 == 1).map(|n| format!("{n:x}")).collect();
                format!("-[{digits}]")
            }
        };
        let core =
            core.map(|(kind, native)| format!(" type={kind:#x} native={native:#x}")).unwrap_or_default();
        format!("GenuineIntel-{family}-{model:x}{steppings}{core}")
    }
}

/// Reads the file.
///
/// # Errors
///
/// The first line that is no row, or whose key is more than family, model and a list of steppings.
pub fn rows(csv: &str) -> ImportResult<Vec<MapRow>> {
    if csv.len() > MAX_BYTES {
        return Err(ImportError::file(format!("{} bytes; at most {MAX_BYTES} are read", csv.len())));
    }
    let lines = csv.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| row(line).ok_or_else(|| ImportError::at(format!("line {}", i + 1), "is no row")))
        .collect()
}

fn row(line: &str) -> Option<MapRow> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [key, version, file, kind, rest @ ..] = fields.as_slice() else { return None };
    let (family, model, steppings) = parse_key(key)?;
    let core = match rest {
        [core_type, native, ..] if !core_type.is_empty() => Some((hex(core_type)?, hex(native)?)),
        _ => None,
    };
    let file = file.trim_start_matches('/').to_owned();
    Some(MapRow {
        family,
        model,
        steppings,
        version: (*version).to_owned(),
        file,
        kind: (*kind).to_owned(),
        core,
    })
}

fn parse_key(key: &str) -> Option<(u32, u32, u16)> {
    let mut parts = key.strip_prefix("GenuineIntel-")?.split('-');
    let family = parts.next()?.parse().ok()?;
    let model = u32::from_str_radix(parts.next()?, 16).ok()?;
    let steppings = parts.next().map_or(Some(u16::MAX), steppings)?;
    parts.next().is_none().then_some((family, model, steppings))
}

/// The steppings of `[01234]`.
fn steppings(list: &str) -> Option<u16> {
    let digits = list.strip_prefix('[')?.strip_suffix(']')?;
    digits.chars().try_fold(0, |mask, digit| Some(mask | 1 << digit.to_digit(16)?))
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> MapRow {
        rows(&format!("header\n{line}\n")).unwrap().remove(0)
    }

    #[test]
    fn the_family_is_decimal_and_the_model_hexadecimal() {
        let row = one(
            "GenuineIntel-18-1,V1.00,/NVL/events/novalake_coyotecove_core.json,hybridcore,0x40,0x000005,Core",
        );
        assert_eq!((row.family, row.model), (18, 1));
        assert_eq!(row.core, Some((0x40, 5)));
        assert_eq!(row.file, "NVL/events/novalake_coyotecove_core.json");
        assert_eq!(row.pattern(), "GenuineIntel-18-1 type=0x40 native=0x5");
        assert_eq!(one("GenuineIntel-6-8F,V1.39,/SPR/a.json,core,,,").pattern(), "GenuineIntel-6-8f");
    }

    #[test]
    fn one_model_can_have_two_files_by_stepping() {
        let sky = one("GenuineIntel-6-55-[01234],V1.37,/SKX/events/skylakex_core.json,core,,,");
        let cascade = one("GenuineIntel-6-55-[56789ABCDEF],V1.25,/CLX/events/cascadelakex_core.json,core,,,");
        assert_eq!((sky.steppings, cascade.steppings), (0x001f, 0xffe0));
        assert_eq!(cascade.pattern(), "GenuineIntel-6-55-[56789abcdef]");
    }

    #[test]
    fn what_is_no_row_is_refused_with_its_line() {
        for bad in [
            "GenuineIntel-6",
            "AuthenticAMD-23-1,v1,a,core",
            "GenuineIntel-6-xx,V1,a,core",
            "GenuineIntel-6-55-[0-4],V1,a,core",
            "GenuineIntel-6-55-[01]-1,V1,a,core",
            "GenuineIntel-6-97,V1,a,hybridcore,zz,1,Core",
        ] {
            let error = rows(&format!("header\n\n{bad}")).unwrap_err();
            assert_eq!(error.to_string(), "line 3: is no row", "{bad}");
        }
    }
}
