//! The Homebrew formula: it builds the source archive, whose address and sum it names.

use anyhow::{Result, ensure};

use super::release::Release;

/// The formula with places for what a release decides.
const TEMPLATE: &str = include_str!("../../../packaging/homebrew/cyclometer.rb.in");

/// The formula for a source archive that lies below an address.
pub(super) fn formula(release: &Release, below: &str, archive: &str, sum: &str) -> Result<String> {
    let below = below.trim_end_matches('/');
    ensure!(
        below.starts_with("https://")
            && !below.contains(|letter: char| letter == '"' || letter == '#' || letter.is_whitespace()),
        "--url wants an address that begins with https://, without quotes, '#' and spaces, not '{below}'"
    );
    let values = [
        ("@HOMEPAGE@", below.to_owned()),
        ("@URL@", format!("{below}/{archive}")),
        ("@VERSION@", release.version.clone()),
        ("@SHA256@", sum.to_owned()),
    ];
    Ok(values.iter().fold(TEMPLATE.to_owned(), |text, (place, value)| text.replace(place, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        Release { version: "1.2.3".to_owned(), epoch: 0 }
    }

    #[test]
    fn a_formula_names_the_archive_and_its_sum_and_leaves_no_place_open() {
        let text = formula(&release(), "https://example.org/v1/", "c-source.tar.gz", "00ff").unwrap();
        assert!(text.contains("url \"https://example.org/v1/c-source.tar.gz\""), "{text}");
        assert!(text.contains("sha256 \"00ff\"") && text.contains("version \"1.2.3\""), "{text}");
        assert!(!text.contains('@'), "{text}");
    }

    #[test]
    fn an_address_that_would_end_the_string_of_a_formula_is_refused() {
        for below in [
            "http://example.org",
            "https://e.org/\"; system \"x",
            "https://e.org/#{1}",
            "",
            "https://e.org/a b",
        ] {
            assert!(formula(&release(), below, "a", "b").is_err(), "{below}");
        }
    }

    #[test]
    fn a_formula_is_ruby() {
        let text = formula(&release(), "https://example.org", "a.tar.gz", "00").unwrap();
        let file = tempfile::Builder::new().suffix(".rb").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        match std::process::Command::new("ruby").arg("-c").arg(file.path()).output() {
            Ok(out) => assert!(out.status.success(), "{out:?}"),
            Err(_) => cyclometer_test_support::skip(
                "ruby is missing: the syntax of the Homebrew formula was not checked",
            ),
        }
    }

    #[test]
    fn the_flake_is_nix() {
        let flake = crate::root().join("flake.nix");
        match std::process::Command::new("nix-instantiate").arg("--parse").arg(flake).output() {
            Ok(out) => assert!(out.status.success(), "{out:?}"),
            Err(_) => {
                cyclometer_test_support::skip("nix is missing: the syntax of flake.nix was not checked")
            }
        }
    }
}
