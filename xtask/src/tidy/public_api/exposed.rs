//! The names that the façade exports.

use anyhow::Result;
use syn::{Attribute, Expr, Item, Lit, Meta};

use super::sources::{Sources, UseLeaf, is_public, leaves};
use crate::tidy::syntax::item_attributes;

/// One exported item.
#[derive(Debug)]
pub(super) struct ExposedItem {
    /// The path by which users name it.
    pub path: String,
    /// The path that it is taken from.
    pub origin: Vec<String>,
    /// The feature that it needs.
    pub feature: Option<String>,
    /// Whether its documentation has an example or names one.
    pub has_example: bool,
}

/// The feature of the internal crates, whose API is not recorded.
const UNSTABLE: &str = "unstable";

/// All exported items, by path.
pub(super) fn items(sources: &mut Sources) -> Result<Vec<ExposedItem>> {
    let facade = sources.of("cyclometer")?;
    let mut found = Vec::new();
    for (path, module) in facade.modules().filter(|(_, module)| module.is_public) {
        let path = [&["cyclometer".to_owned()], path].concat().join("::");
        module.items.iter().for_each(|item| found.extend(exports(item, &path)));
    }
    for item in &mut found {
        if !item.has_example {
            let definition = sources.resolve(&item.origin)?;
            item.has_example = documentation(item_attributes(definition.item())).contains("```");
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The names that a `pub use` item of a module exports.
fn exports(item: &Item, path: &str) -> Vec<ExposedItem> {
    let Item::Use(item) = item else { return Vec::new() };
    let feature = item.attrs.iter().find_map(feature);
    if !is_public(&item.vis) || feature.as_deref() == Some(UNSTABLE) {
        return Vec::new();
    }
    let documentation = documentation(&item.attrs);
    let has_example = documentation.contains("```") || documentation.contains("Example: ");
    let exposed = |leaf: UseLeaf| ExposedItem {
        path: format!("{path}::{}", leaf.name),
        origin: leaf.path,
        feature: feature.clone(),
        has_example,
    };
    leaves(item).into_iter().map(exposed).collect()
}

/// The feature in `#[cfg(feature = "NAME")]`.
fn feature(attribute: &Attribute) -> Option<String> {
    let list = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"))?;
    match list.parse_args::<Meta>().ok()? {
        Meta::NameValue(pair) if pair.path.is_ident("feature") => string(&pair.value),
        _ => None,
    }
}

/// The text of the documentation.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => string(&pair.value),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn string(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}
