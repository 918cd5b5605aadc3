//! The syntax of a Rust file, as far as checks read it.
//!
//! Code for tests is an item whose `cfg` needs `test`: a module of unit tests wherever it stands, a function
//! for tests, a `mod` line whose file has nothing else. Types in invocations of macros are not seen.

use anyhow::{Context, Result};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItem, Item, ItemMod, Lit, Meta, Token, TraitItem};

/// The parts of one file that checks read.
#[derive(Default)]
pub(super) struct SourceSyntax {
    /// The text with its lines, without code for tests.
    pub shipped: String,
    /// The types that the shipped code defines.
    pub types: Vec<String>,
    /// The modules in other files, those for tests included.
    pub declarations: Vec<ModDeclaration>,
}

/// A line `mod NAME;`, whatever its visibility.
#[derive(Debug, PartialEq)]
pub(super) struct ModDeclaration {
    pub name: String,
    /// The file that a `#[path]` attribute names.
    pub path: Option<String>,
    pub is_test: bool,
}

impl SourceSyntax {
    pub fn of(text: &str) -> Result<SourceSyntax> {
        let file = syn::parse_file(text)
            .map_err(|error| anyhow::anyhow!("line {}: {error}", error.span().start().line))?;
        let mut reader = SyntaxReader::default();
        reader.visit_file(&file);
        let mut shipped = text.as_bytes().to_vec();
        for range in reader.tests {
            let part = shipped.get_mut(range).context("a span outside of its file")?;
            part.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        let shipped = String::from_utf8(shipped)?;
        Ok(SourceSyntax { shipped, types: reader.types, declarations: reader.declarations })
    }
}

/// Collects while it visits all items; those for tests are not entered.
#[derive(Default)]
struct SyntaxReader {
    tests: Vec<std::ops::Range<usize>>,
    types: Vec<String>,
    declarations: Vec<ModDeclaration>,
}

impl SyntaxReader {
    /// Whether an item is for tests; then its bytes are kept.
    fn is_test(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is_test = attributes.iter().any(needs_test);
        if is_test {
            self.tests.push(item.span().byte_range());
        }
        is_test
    }
}

impl<'a> Visit<'a> for SyntaxReader {
    fn visit_item(&mut self, item: &'a Item) {
        if let Item::Mod(module) = item {
            self.declarations.extend(declaration(module));
        }
        if self.is_test(item_attributes(item), item) {
            return;
        }
        let name = match item {
            Item::Enum(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.types.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if !self.is_test(attributes, item) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        let attributes = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if !self.is_test(attributes, item) {
            visit::visit_trait_item(self, item);
        }
    }
}

pub(super) fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The declaration of a module in another file; nothing for a module with its code in braces.
fn declaration(module: &ItemMod) -> Option<ModDeclaration> {
    module.content.is_none().then(|| ModDeclaration {
        name: module.ident.to_string(),
        path: module.attrs.iter().find_map(module_path),
        is_test: module.attrs.iter().any(needs_test),
    })
}

/// The file in `#[path = "FILE"]`.
pub(super) fn module_path(attribute: &Attribute) -> Option<String> {
    let value = &attribute.meta.require_name_value().ok().filter(|meta| meta.path.is_ident("path"))?.value;
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn needs_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|meta: Meta| is_for_test(&meta))
}

/// Whether a predicate of `cfg` is false in every build that is not for tests.
fn is_for_test(predicate: &Meta) -> bool {
    let Meta::List(list) = predicate else { return predicate.path().is_ident("test") };
    let inner = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("all") => inner.iter().any(is_for_test),
        Some("any") => !inner.is_empty() && inner.iter().all(is_for_test),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(text: &str, expected: &str) {
        let found = SourceSyntax::of(text).unwrap().shipped;
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        assert_eq!(found.matches('\n').count(), text.matches('\n').count(), "{text}");
    }

    #[test]
    fn code_for_tests_is_left_out_wherever_it_stands() {
        shipped("struct A;\n#[cfg(test)]\nmod tests {\n struct B;\n}\n", "struct A;");
        shipped("#[cfg(test)]\npub(crate) mod testing {\n}\nstruct É;", "struct É;");
        shipped("/// For é.\n#[cfg(test)]\n#[path = \"c.rs\"]\nmod c;\nstruct A;", "struct A;");
        shipped("impl A {\n #[cfg(test)]\n fn a() {}\n fn b() {}\n}", "impl A { fn b() {} }");
        shipped("fn a() {\n #[cfg(test)]\n use b::C;\n}", "fn a() { }");
    }

    #[test]
    fn a_condition_is_for_tests_if_it_needs_test() {
        for condition in ["test", "all(test, unix)", "any(all(unix, test), all(test, windows))"] {
            shipped(&format!("#[cfg({condition})]\nmod a {{}}"), "");
        }
        for condition in ["any(test, unix)", "not(test)", "unix", "any()", "feature = \"test\""] {
            let text = format!("#[cfg({condition})] mod a {{}}");
            shipped(&text, &text);
        }
    }

    #[test]
    fn texts_and_comments_with_the_attribute_are_code() {
        let text = "// #[cfg(test)] mod tests { const A: &str = \"#[cfg(test)]\\nmod tests {\"; fn a() {}";
        shipped(&text.replacen(" const", "\nconst", 1), text);
    }

    #[test]
    fn types_are_those_of_shipped_items() {
        let text =
            "pub(crate) struct A<'a>(&'a u8); enum B {} pub unsafe trait C { type Item; } union D { a: u8 }
            type E = u8; fn f() { struct F; } impl C for B { type Item = u8; }
            mod g { pub struct G; } #[cfg(test)] struct H; // struct I;";
        assert_eq!(SourceSyntax::of(text).unwrap().types, ["A", "B", "C", "D", "E", "F", "G"]);
    }

    #[test]
    fn declarations_have_the_path_and_the_condition_of_their_module() {
        let declaration = |name: &str, path: Option<&str>, is_test| ModDeclaration {
            name: name.to_owned(),
            path: path.map(str::to_owned),
            is_test,
        };
        let text = "mod a; #[path = \"c.rs\"] pub(crate) mod b; mod d { } #[cfg(test)] mod e;";
        let expected = [
            declaration("a", None, false),
            declaration("b", Some("c.rs"), false),
            declaration("e", None, true),
        ];
        assert_eq!(SourceSyntax::of(text).unwrap().declarations, expected);
    }

    #[test]
    fn a_file_that_does_not_parse_is_an_error_with_the_line() {
        let error = SourceSyntax::of("struct A;\nstruct {}").err().unwrap();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }
}
