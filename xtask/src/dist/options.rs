//! The options of `cargo xtask dist`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

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
}

impl Default for DistOptions {
    fn default() -> Self {
        DistOptions { out: None, url: None, allow_dirty: false, wheel: true }
    }
}

impl DistOptions {
    /// Reads the arguments behind `dist`.
    pub(super) fn read(mut arguments: impl Iterator<Item = String>) -> Result<DistOptions> {
        let mut options = DistOptions::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("a value must follow {argument}"));
            match argument.as_str() {
                "--out" => options.out = Some(PathBuf::from(value()?)),
                "--url" => options.url = Some(value()?),
                "--allow-dirty" => options.allow_dirty = true,
                "--no-wheel" => options.wheel = false,
                other => {
                    bail!("'{other}' is no option; there are --out DIR, --url URL, --no-wheel, --allow-dirty")
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn unknown_options_and_missing_values_are_refused() {
        assert!(read(&["--outt", "x"]).unwrap_err().to_string().contains("--out DIR"));
        assert!(read(&["--out"]).unwrap_err().to_string().contains("--out"));
    }
}
