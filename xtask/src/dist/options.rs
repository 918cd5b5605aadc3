//! The options of `cargo xtask dist`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::target::{DistTarget, TARGETS};

const OPTIONS: &str = "--out DIR, --url URL, --target NAME, --no-wheel, --allow-dirty";

/// The files that are made, and their folder.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct DistOptions {
    /// The folder of the files; `target/dist/out` if left out.
    pub out: Option<PathBuf>,
    /// The address below which the files will lie: the Homebrew formula names it.
    pub url: Option<String>,
    /// Changes that are not committed are no error.
    pub allow_dirty: bool,
    /// The Python wheel, too.
    pub wheel: bool,
    /// The machines that programs are built for.
    pub targets: Vec<DistTarget>,
}

impl Default for DistOptions {
    fn default() -> Self {
        DistOptions { out: None, url: None, allow_dirty: false, wheel: true, targets: TARGETS.to_vec() }
    }
}

impl DistOptions {
    /// Reads the arguments behind `dist`.
    pub(super) fn read(mut arguments: impl Iterator<Item = String>) -> Result<DistOptions> {
        let mut options = DistOptions::default();
        let mut targets = Vec::new();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("a value must follow {argument}"));
            match argument.as_str() {
                "--out" => options.out = Some(PathBuf::from(value()?)),
                "--url" => options.url = Some(value()?),
                "--allow-dirty" => options.allow_dirty = true,
                "--target" => targets.push(DistTarget::named(&value()?)?),
                "--no-wheel" => options.wheel = false,
                other => {
                    bail!("'{other}' is no option; there are {OPTIONS}")
                }
            }
        }
        if !targets.is_empty() {
            options.targets = targets;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::AARCH64;
    use super::*;

    fn read(arguments: &[&str]) -> Result<DistOptions> {
        DistOptions::read(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn options_are_read_in_any_order() {
        let options = read(&["--allow-dirty", "--url", "https://e.org", "--no-wheel", "--out", "x"]).unwrap();
        assert_eq!(options.out, Some(PathBuf::from("x")));
        assert_eq!(options.url.as_deref(), Some("https://e.org"));
        assert!(options.allow_dirty && !options.wheel);
        assert_eq!(read(&[]).unwrap(), DistOptions::default());
        assert_eq!(read(&["--target", "aarch64"]).unwrap().targets, [AARCH64]);
    }

    #[test]
    fn unknown_options_and_missing_values_are_refused() {
        assert!(read(&["--outt", "x"]).unwrap_err().to_string().contains("--out DIR"));
        let unknown = read(&["--target", "mips"]).unwrap_err().to_string();
        assert_eq!(unknown, "'mips' is no target; there are x86_64 and aarch64");
        assert!(read(&["--out"]).unwrap_err().to_string().contains("--out"));
    }
}
