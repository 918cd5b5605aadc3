//! docs/guides/sdk.md is correct about the code.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use cyclometer::config::CONFIG_KEYS;

const PAGE: &str = include_str!("../../../docs/guides/sdk.md");

#[test]
fn the_page_has_every_key_with_what_it_takes_and_does() {
    for key in CONFIG_KEYS {
        let row = format!("| `{}` | {} | {} |", key.path, key.takes, key.effect);
        assert!(PAGE.contains(&row), "docs/guides/sdk.md lacks the row\n{row}");
    }
    assert_eq!(PAGE.lines().filter(|line| line.starts_with("| `")).count(), CONFIG_KEYS.len());
}

#[cfg(feature = "yaml")]
#[test]
fn the_pages_configuration_is_one_and_sets_every_key() {
    let yaml = PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = cyclometer::Config::from_yaml(yaml).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("None"), "{shown}");
}
