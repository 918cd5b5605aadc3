//! One type name, one place.
//!
//! Two types with one name make a reader ask which of them is meant. Files that stand for each other on
//! different platforms count as one place; associated types and types of tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::files::SourceFile;
use super::modules;

/// Names that may be defined in more than one place, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "Monitor",
        "the façade's monitor wraps the engine in the crate `monitor`, which has no other name for itself",
    ),
    (
        "Register",
        "`arch` has one for each architecture, qualified by its module; `arch::Register` is their sum",
    ),
];

/// Defined names and the places that define them: package and module.
pub(super) struct TypeNames {
    places: BTreeMap<String, BTreeSet<String>>,
}

impl TypeNames {
    pub fn of(files: &[SourceFile]) -> TypeNames {
        let mut packages: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
        for file in files {
            if let Some((package, _)) = file.package() {
                packages.entry(package).or_default().push(file);
            }
        }
        let mut names = TypeNames { places: BTreeMap::new() };
        for (package, files) in packages {
            for (file, module) in files.iter().zip(modules::of_files(&files)) {
                let place = format!("{package} {}", module.join("::"));
                for name in file.types() {
                    names.places.entry(name.clone()).or_default().insert(place.trim_end().to_owned());
                }
            }
        }
        names
    }

    /// The number of all names.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// One line for each name that several places define without permission, those with most places first.
    pub fn duplicates(&self) -> Vec<String> {
        let mut duplicates: Vec<(&String, &BTreeSet<String>)> = self
            .places
            .iter()
            .filter(|(name, places)| places.len() > 1 && !ALLOWED.iter().any(|(allowed, _)| allowed == name))
            .collect();
        duplicates.sort_by_key(|(_, places)| usize::MAX - places.len());
        duplicates
            .into_iter()
            .map(|(name, places)| {
                let places: Vec<&str> = places.iter().map(String::as_str).collect();
                format!("{name}: {}", places.join(", "))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duplicates(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> =
            files.iter().map(|(path, text)| SourceFile::new(path, text).unwrap()).collect();
        TypeNames::of(&files).duplicates()
    }

    #[test]
    fn a_name_in_two_crates_is_a_duplicate() {
        let found = duplicates(&[
            ("crates/a/src/b.rs", "pub(crate) struct Kind {}"),
            ("crates/c/src/lib.rs", "enum Kind<'a> {}"),
            ("crates/c/src/d/mod.rs", "pub trait Other: Sized {}"),
        ]);
        assert_eq!(found, ["Kind: crates/a b, crates/c"]);
    }

    #[test]
    fn the_name_with_most_places_comes_first() {
        let found = duplicates(&[
            ("crates/a/src/a.rs", "struct A;\nstruct B;"),
            ("crates/a/src/b.rs", "struct A;\nstruct B;"),
            ("xtask/src/b.rs", "type B = u8;"),
        ]);
        assert_eq!(found, ["B: crates/a a, crates/a b, xtask b", "A: crates/a a, crates/a b"]);
    }

    #[test]
    fn platforms_of_one_module_are_one_place() {
        let declarations = "#[cfg(unix)]\nmod a;\n#[cfg(not(unix))]\n#[path = \"a_other.rs\"]\nmod a;\n";
        let files = [
            ("crates/a/src/lib.rs", declarations),
            ("crates/a/src/a.rs", "struct A;"),
            ("crates/a/src/a_other.rs", "struct A;"),
        ];
        assert!(duplicates(&files).is_empty());
        let two_modules = files.map(|(path, text)| (path, text.trim_start_matches(declarations)));
        assert_eq!(duplicates(&two_modules), ["A: crates/a a, crates/a a_other"]);
    }

    #[test]
    fn associated_types_and_types_of_tests_do_not_count() {
        assert!(
            duplicates(&[
                (
                    "crates/a/src/a.rs",
                    "impl A { type Item = u8; }\n#[cfg(test)]\nmod tests {\n    struct Fake;\n}"
                ),
                ("crates/a/src/b.rs", "type Item = u8;\nstruct Fake;"),
                ("crates/a/tests/c.rs", "struct Fake;\ntype Item = u8;"),
            ])
            .is_empty()
        );
    }

    #[test]
    fn names_of_the_allow_list_may_repeat() {
        assert!(
            duplicates(&[
                ("crates/a/src/a.rs", "struct Monitor {}"),
                ("crates/b/src/a.rs", "struct Monitor {}")
            ])
            .is_empty()
        );
    }
}
