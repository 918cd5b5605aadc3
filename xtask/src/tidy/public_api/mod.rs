//! The public API of the façade `cyclometer`, as a committed text.
//!
//! ```text
//! crates/cyclometer/src/lib.rs ──pub use──> Sources: modules of the crates ──> definition
//!         Exposed names                                                         │
//!         public-api.txt <──compared── lines <──definition: members and traits──┘
//! ```
//!
//! Only syntax is read: a name is followed through `use` items to its definition. Items that macros make are
//! not found, so the façade must not export them.

mod definition;
mod exposed;
mod sources;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Violations;
use exposed::ExposedItem;
use sources::Sources;

/// The committed text.
const FILE: &str = "crates/cyclometer/public-api.txt";

/// The most items that the façade may export. Methods, fields and modules do not count.
const MOST_ITEMS: usize = 150;

const HEAD: &str = "The public API of the crate cyclometer. `cargo xtask public-api` writes this file; its changes \
                    are part of review.\n";

/// Compares the committed text with the code, and checks the number of items and their examples.
pub(super) fn findings(root: &Path, found: &mut Violations) -> Result<()> {
    let mut sources = Sources::new(root);
    let items = exposed::items(&mut sources)?;
    if items.len() > MOST_ITEMS {
        found.add(format!("{FILE}: the façade exports {} items; {MOST_ITEMS} is the most", items.len()));
    }
    for item in items.iter().filter(|item| !item.has_example) {
        found.add(format!("crates/cyclometer/src/lib.rs: {} has no example, nor a link to one", item.path));
    }
    let committed = fs::read_to_string(root.join(FILE)).unwrap_or_default();
    if let Some(line) = first_difference(&committed, &text(&items, &mut sources)?) {
        found.add(format!("{FILE} is not up to date at '{line}': `cargo xtask public-api` writes it"));
    }
    Ok(())
}

/// Writes the committed text.
pub(crate) fn write(root: &Path) -> Result<()> {
    let mut sources = Sources::new(root);
    let items = exposed::items(&mut sources)?;
    eprintln!("==> {FILE}: {} items of {MOST_ITEMS}", items.len());
    let text = text(&items, &mut sources)?;
    fs::write(root.join(FILE), text).context(FILE)
}

fn text(items: &[ExposedItem], sources: &mut Sources) -> Result<String> {
    let mut text = String::from(HEAD);
    for item in items {
        text.push('\n');
        for line in definition::lines(item, sources).with_context(|| item.path.clone())? {
            text.push_str(&line);
            text.push('\n');
        }
    }
    Ok(text)
}

/// The first line in which two texts differ, from the second one if that has it.
fn first_difference<'a>(committed: &'a str, current: &'a str) -> Option<&'a str> {
    let (mut old, mut new) = (committed.lines(), current.lines());
    loop {
        match (old.next(), new.next()) {
            (None, None) => return None,
            (old, new) if old == new => {}
            (old, new) => return new.or(old),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A façade over one crate.
    fn api(facade: &str, toolkit: &str) -> Result<(Vec<ExposedItem>, String)> {
        let root = tempfile::tempdir()?;
        for (name, code) in [("cyclometer", facade), ("toolkit", toolkit)] {
            let folder = root.path().join("crates").join(name).join("src");
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("lib.rs"), code)?;
        }
        let mut sources = Sources::new(root.path());
        let items = exposed::items(&mut sources)?;
        let text = text(&items, &mut sources)?;
        Ok((items, text.trim_start_matches(HEAD).trim().to_owned()))
    }

    #[test]
    fn an_item_has_its_public_members_and_its_traits() {
        let toolkit = "mod inner { #[derive(Clone)] pub struct Value { pub count: u64, hidden: u8 }
            impl Value { pub fn number(&self) -> Option<u64> { None } fn own(&self) {} }
            impl std::fmt::Display for Value { } #[cfg(test)] impl Value { pub fn tested() {} } }
            pub use inner::Value as Measured;";
        let (_, text) = api("/// Example: [`x`].\npub use cyclometer_toolkit::Measured;", toolkit).unwrap();
        assert_eq!(
            text,
            "struct cyclometer::Measured\n  count: u64\n  ..\n  fn number(&self) -> Option<u64>\n  \
             implements Clone, std::fmt::Display"
        );
    }

    #[test]
    fn enums_traits_and_functions_are_listed_and_the_unstable_feature_is_not() {
        let toolkit = "pub enum Kind { A, B { at: u8 }, C(u16) } pub trait Observer { fn seen(&mut self) {} }
            pub fn kinds(all: bool) -> Vec<Kind> { Vec::new() }";
        let facade = "pub mod kinds { /// ```\npub use cyclometer_toolkit::{Kind, kinds}; }
            /// Example: [`x`].\n#[cfg(feature = \"simulated\")] pub use cyclometer_toolkit::Observer;
            #[cfg(feature = \"unstable\")] pub use cyclometer_toolkit as unstable;";
        let (items, text) = api(facade, toolkit).unwrap();
        assert_eq!(items.len(), 3);
        let expected = "trait cyclometer::Observer (feature simulated)\n  fn seen(&mut self)\n\n\
            enum cyclometer::kinds::Kind\n  A\n  B { at: u8 }\n  C(u16)\n\n\
            fn cyclometer::kinds::kinds(all: bool) -> Vec<Kind>";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_without_definition_is_an_error_that_names_it() {
        let error = api("pub use cyclometer_toolkit::Missing;", "pub use std::vec::Vec;").unwrap_err();
        assert!(format!("{error:#}").contains("Missing"), "{error:#}");
    }

    #[test]
    fn an_export_without_example_is_found() {
        let (items, _) = api("pub use cyclometer_toolkit::a;", "pub fn a() {}").unwrap();
        assert!(!items[0].has_example);
        let (items, _) =
            api("pub use cyclometer_toolkit::a;", "/// ```\n/// a();\n/// ```\npub fn a() {}").unwrap();
        assert!(items[0].has_example);
    }

    #[test]
    fn the_first_changed_line_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some("c"));
        assert_eq!(first_difference("a\nb\n", "a\n"), Some("b"));
        assert_eq!(first_difference("a\n", "a\n"), None);
    }
}
