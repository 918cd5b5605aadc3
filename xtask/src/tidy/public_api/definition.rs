//! The lines of one item: its kind, its public members and the traits that it implements.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use syn::punctuated::Punctuated;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Path, Token, TraitItem, Type};

use super::exposed::ExposedItem;
use super::sources::{ItemDefinition, ModuleItems, Sources, is_public};
use crate::tidy::syntax::{item_attributes, needs_test};

/// The lines of an item.
pub(super) fn lines(exposed: &ExposedItem, sources: &mut Sources) -> Result<Vec<String>> {
    let definition = sources.resolve(&exposed.origin)?;
    let (head, mut lines, name) = described(&definition, &exposed.path)?;
    let feature = exposed.feature.as_ref().map(|name| format!(" (feature {name})")).unwrap_or_default();
    lines.insert(0, head + &feature);
    if let Some(name) = name {
        let (mut members, mut traits) = (Vec::new(), derived(item_attributes(definition.item())));
        for (_, module) in definition.package.modules() {
            let of_item = module.items.iter().filter_map(|item| match item {
                Item::Impl(item) if is_of(item, &name) => Some(item),
                _ => None,
            });
            for item in of_item {
                match &item.trait_ {
                    Some((path, _)) => drop(traits.insert(module.text_of(path))),
                    None => members.extend(public_members(item, module)),
                }
            }
        }
        members.sort();
        lines.extend(members);
        if !traits.is_empty() {
            lines.push(format!("  implements {}", traits.into_iter().collect::<Vec<_>>().join(", ")));
        }
    }
    Ok(lines)
}

/// The first line, the lines of fields, variants or methods, and the name for which there may be `impl`s.
fn described(definition: &ItemDefinition, path: &str) -> Result<(String, Vec<String>, Option<String>)> {
    let item = definition.item();
    let open = if item_attributes(item).iter().any(|attribute| attribute.path().is_ident("non_exhaustive")) {
        vec!["  ..".to_owned()]
    } else {
        Vec::new()
    };
    Ok(match item {
        Item::Struct(item) => {
            let mut lines = fields(&item.fields, definition);
            lines.extend(open);
            lines.dedup();
            let generics = definition.text(&item.generics);
            (format!("struct {path}{generics}"), lines, Some(item.ident.to_string()))
        }
        Item::Enum(item) => {
            let variant = |variant: &syn::Variant| {
                format!("  {}{}", variant.ident, without_comments(&variant.fields, definition))
            };
            let lines = item.variants.iter().map(variant).chain(open).collect();
            let generics = definition.text(&item.generics);
            (format!("enum {path}{generics}"), lines, Some(item.ident.to_string()))
        }
        Item::Trait(item) => {
            let lines = item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(method) => Some(format!("  {}", definition.text(&method.sig))),
                _ => None,
            });
            (format!("trait {path}"), lines.collect(), None)
        }
        Item::Fn(item) => {
            let signature = definition.text(&item.sig);
            let name = item.sig.ident.to_string();
            (signature.replacen(&format!("fn {name}"), &format!("fn {path}"), 1), Vec::new(), None)
        }
        Item::Const(item) => (format!("const {path}: {}", definition.text(&item.ty)), Vec::new(), None),
        Item::Type(item) => (format!("type {path} = {}", definition.text(&item.ty)), Vec::new(), None),
        _ => bail!("an item of this kind is not exported"),
    })
}

/// Public fields, and `..` where others are hidden.
fn fields(fields: &Fields, definition: &ItemDefinition) -> Vec<String> {
    let mut lines: Vec<String> = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_public(&field.vis))
        .map(|(at, field)| {
            let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
            format!("  {name}: {}", definition.text(&field.ty))
        })
        .collect();
    if lines.len() < fields.len() {
        lines.push("  ..".to_owned());
    }
    lines
}

/// The fields of a variant; their documentation is left out.
fn without_comments(fields: &Fields, definition: &ItemDefinition) -> String {
    let each = fields.iter().map(|field| {
        let ty = definition.text(&field.ty);
        field.ident.as_ref().map_or_else(|| ty.clone(), |name| format!("{name}: {ty}"))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    match fields {
        Fields::Unit => String::new(),
        Fields::Named(_) => format!(" {{ {each} }}"),
        Fields::Unnamed(_) => format!("({each})"),
    }
}

/// Whether an `impl` is of a type with this name.
fn is_of(item: &ItemImpl, name: &str) -> bool {
    match &*item.self_ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        _ => false,
    }
}

fn public_members(item: &ItemImpl, module: &ModuleItems) -> Vec<String> {
    let member = |member: &ImplItem| match member {
        ImplItem::Fn(method) if is_public(&method.vis) && !method.attrs.iter().any(needs_test) => {
            Some(format!("  {}", module.text_of(&method.sig)))
        }
        ImplItem::Const(item) if is_public(&item.vis) => {
            Some(format!("  const {}: {}", item.ident, module.text_of(&item.ty)))
        }
        _ => None,
    };
    item.items.iter().filter_map(member).collect()
}

/// The traits of `#[derive(..)]`.
fn derived(attributes: &[Attribute]) -> BTreeSet<String> {
    let paths = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let paths = paths
        .filter_map(|attribute| {
            attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated).ok()
        })
        .flatten();
    paths.filter_map(|path| path.segments.last().map(|last| last.ident.to_string())).collect()
}
