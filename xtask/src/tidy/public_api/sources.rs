//! The modules of our crates, read when a name leads to them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use syn::spanned::Spanned;
use syn::{Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::tidy::syntax::{item_attributes, module_path, needs_test};

/// Our crates' modules, by crate.
pub(super) struct Sources {
    root: PathBuf,
    crates: HashMap<String, Rc<CrateModules>>,
}

/// The modules of one crate, by their path.
pub(super) struct CrateModules {
    modules: HashMap<Vec<String>, ModuleItems>,
}

/// The items of one module that are in shipped code.
pub(super) struct ModuleItems {
    /// The text of its file.
    pub text: Rc<str>,
    pub items: Vec<Item>,
    pub is_public: bool,
}

/// Folders where the files of a module's modules are looked for.
#[derive(Clone, Copy)]
struct Folders<'a> {
    /// The folder of its file, from which `#[path]` counts.
    file: &'a Path,
    /// The folder with the files that its modules have by their names.
    modules: &'a Path,
}

/// An item and the crate that defines it.
pub(super) struct ItemDefinition {
    pub package: Rc<CrateModules>,
    pub module: Vec<String>,
    index: usize,
}

/// The end of a name on its way to the definition.
enum NameStep {
    Found(usize),
    Through(Vec<String>),
}

impl Sources {
    pub fn new(root: &Path) -> Sources {
        Sources { root: root.to_owned(), crates: HashMap::new() }
    }

    /// The modules of a crate, by its name in paths (`cyclometer_core`).
    pub fn of(&mut self, package: &str) -> Result<Rc<CrateModules>> {
        if let Some(known) = self.crates.get(package) {
            return Ok(Rc::clone(known));
        }
        let name = package.strip_prefix("cyclometer_").unwrap_or(package);
        let folder = self.root.join("crates").join(name).join("src");
        let mut modules = CrateModules { modules: HashMap::new() };
        modules.read(Vec::new(), true, &folder.join("lib.rs"), &folder)?;
        let modules = Rc::new(modules);
        self.crates.insert(package.to_owned(), Rc::clone(&modules));
        Ok(modules)
    }

    /// Follows a path that begins with a crate to the item that it means.
    pub fn resolve(&mut self, path: &[String]) -> Result<ItemDefinition> {
        let shown = path.join("::");
        let mut path = path.to_vec();
        for _ in 0..20 {
            let (package, rest) = path.split_first().context("an empty path")?;
            let package_name = package.clone();
            let package = self.of(package).with_context(|| shown.clone())?;
            match package.step(rest).with_context(|| format!("{shown} has no definition"))? {
                (module, NameStep::Found(index)) => return Ok(ItemDefinition { package, module, index }),
                (module, NameStep::Through(next)) => path = absolute(&package_name, &package, &module, next),
            }
        }
        bail!("{shown} leads in circles")
    }
}

impl ItemDefinition {
    pub fn item(&self) -> &Item {
        &self.package.modules[&self.module].items[self.index]
    }

    /// The source text of a part of the item, on one line.
    pub fn text(&self, part: &impl Spanned) -> String {
        self.package.modules[&self.module].text_of(part)
    }
}

impl ModuleItems {
    /// The source text of a part of an item, on one line.
    pub fn text_of(&self, part: &impl Spanned) -> String {
        let text = self.text.get(part.span().byte_range()).unwrap_or_default();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        words.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace(", >", ">")
    }
}

impl CrateModules {
    /// All modules, by path.
    pub fn modules(&self) -> impl Iterator<Item = (&[String], &ModuleItems)> {
        self.modules.iter().map(|(path, module)| (path.as_slice(), module))
    }

    fn read(&mut self, path: Vec<String>, is_public: bool, file: &Path, folder: &Path) -> Result<()> {
        let text: Rc<str> = fs::read_to_string(file).with_context(|| file.display().to_string())?.into();
        let items = syn::parse_file(&text).with_context(|| file.display().to_string())?.items;
        let folders = Folders { file: file.parent().unwrap_or(folder), modules: folder };
        self.add(path, ModuleItems { text, items, is_public }, folders)
    }

    /// Adds a module and those below it. A name may be declared for several platforms, or with and without a
    /// feature: the first declaration is taken.
    fn add(&mut self, path: Vec<String>, module: ModuleItems, folders: Folders<'_>) -> Result<()> {
        let mut items = Vec::new();
        for item in module.items {
            match item {
                item if item_attributes(&item).iter().any(needs_test) => {}
                Item::Mod(inner) => self.add_below(&path, inner, &module.text, folders)?,
                item => items.push(item),
            }
        }
        self.modules.insert(path, ModuleItems { items, ..module });
        Ok(())
    }

    fn add_below(
        &mut self,
        path: &[String],
        module: ItemMod,
        text: &Rc<str>,
        folders: Folders<'_>,
    ) -> Result<()> {
        let name = module.ident.to_string();
        let (below, inner_folder) =
            ([path, std::slice::from_ref(&name)].concat(), folders.modules.join(&name));
        if self.modules.contains_key(&below) {
            return Ok(());
        }
        let is_public = is_public(&module.vis);
        if let Some((_, items)) = module.content {
            let inner = ModuleItems { text: Rc::clone(text), items, is_public };
            return self.add(below, inner, Folders { modules: &inner_folder, ..folders });
        }
        let usual = [folders.modules.join(format!("{name}.rs")), inner_folder.join("mod.rs")];
        let file = match module.attrs.iter().find_map(module_path) {
            Some(file) => Some(folders.file.join(file)),
            None => usual.into_iter().find(|file| file.exists()),
        };
        let file = file.with_context(|| format!("module {name} has no file"))?;
        self.read(below, is_public, &file, &inner_folder)
    }

    /// Goes down modules as far as the path does, and looks for the next name there.
    fn step(&self, path: &[String]) -> Option<(Vec<String>, NameStep)> {
        let mut module = Vec::new();
        for (at, name) in path.iter().enumerate() {
            let below = [module.clone(), vec![name.clone()]].concat();
            if at + 1 < path.len() && self.modules.contains_key(&below) {
                module = below;
                continue;
            }
            let items = &self.modules.get(&module)?.items;
            let rest = &path[at + 1..];
            if rest.is_empty()
                && let Some(index) = items.iter().position(|item| defines(item, name))
            {
                return Some((module, NameStep::Found(index)));
            }
            let uses = items.iter().filter_map(|item| match item {
                Item::Use(item) => Some(leaves(item)),
                _ => None,
            });
            let used = uses.flatten().find(|leaf| leaf.name == *name)?;
            return Some((module, NameStep::Through([used.path, rest.to_vec()].concat())));
        }
        None
    }
}

/// A path of a `use` item, made to begin with a crate.
fn absolute(package: &str, modules: &CrateModules, module: &[String], path: Vec<String>) -> Vec<String> {
    let own = |module: &[String], rest: &[String]| [&[package.to_owned()], module, rest].concat();
    match path.first().map(String::as_str) {
        Some("crate") => own(&[], &path[1..]),
        Some("self") => own(module, &path[1..]),
        Some("super") => own(&module[..module.len().saturating_sub(1)], &path[1..]),
        Some(first) => {
            let below = [module, &[first.to_owned()]].concat();
            if modules.modules.contains_key(&below) { own(module, &path) } else { path }
        }
        None => path,
    }
}

fn defines(item: &Item, name: &str) -> bool {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return false,
    };
    ident == name
}

/// One name that a `use` item brings, and its path.
pub(super) struct UseLeaf {
    pub name: String,
    pub path: Vec<String>,
}

/// All names of a `use` item, in their order.
pub(super) fn leaves(item: &ItemUse) -> Vec<UseLeaf> {
    let mut found = Vec::new();
    collect(&item.tree, &[], &mut found);
    found
}

fn collect(tree: &UseTree, before: &[String], found: &mut Vec<UseLeaf>) {
    let with = |name: String| [before, &[name]].concat();
    match tree {
        UseTree::Path(path) => collect(&path.tree, &with(path.ident.to_string()), found),
        UseTree::Name(name) if name.ident == "self" => {
            let name = before.last().cloned().unwrap_or_default();
            found.push(UseLeaf { name, path: before.to_vec() });
        }
        UseTree::Name(name) => {
            found.push(UseLeaf { name: name.ident.to_string(), path: with(name.ident.to_string()) });
        }
        UseTree::Rename(rename) => {
            found.push(UseLeaf { name: rename.rename.to_string(), path: with(rename.ident.to_string()) });
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, before, found)),
        UseTree::Glob(_) => {}
    }
}

/// Whether an item is `pub`.
pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}
