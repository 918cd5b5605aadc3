//! The tables of docs/reference/kernels.md are those of the recipes. `UPDATE_GOLDEN=1` writes them anew.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fmt::Write;

use cyclometer_core::concept::{Concept, Nature};
use cyclometer_kernels::{Geometry, InstructionSet, KernelFamily, KernelRecipe};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kernels.md");
const START: &str = "<!-- generated: UPDATE_GOLDEN=1 cargo test -p cyclometer-kernels --test page -->\n";
const END: &str = "<!-- end of what is generated -->\n";

fn recipes(set: InstructionSet) -> Vec<KernelRecipe> {
    KernelRecipe::of_instruction_set(set, &Geometry::default())
}

/// The recipes of all instruction sets: first those that a family has, by name.
fn tables() -> String {
    let of_sets = InstructionSet::ALL.map(recipes);
    let mut text = "\n## Recipes\n\nSizes are those of the default geometry.\n".to_owned();
    for family in KernelFamily::ALL {
        write!(
            text,
            "\n### {family}\n\n| recipe | an iteration | knob | control | not on |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        for (i, recipe) in of_sets[0].iter().enumerate().filter(|(_, recipe)| recipe.family == family) {
            let absent = InstructionSet::ALL.iter().zip(&of_sets).filter(|(_, of)| of[i].absence().is_some());
            let absent: Vec<&str> = absent.map(|(set, _)| set.name()).collect();
            let control = recipe.control.map_or("-".to_owned(), |control| format!("`{control}`"));
            let absent = if absent.is_empty() { "-".to_owned() } else { absent.join(", ") };
            let KernelRecipe { name, effect, knob, .. } = recipe;
            writeln!(text, "| `{name}` | {effect} | {knob} | {control} | {absent} |").unwrap();
        }
    }
    text.push_str("\n## Concepts\n\nThe number of fitting recipes that move a concept, and three of them with their numbers.\n");
    text.push_str("\n| concept | x86-64 | AArch64 | RV64 | for example, on x86-64 or AArch64 |\n|---|---|---|---|---|\n");
    for concept in Concept::ALL.iter().filter(|concept| concept.nature() != Nature::Duration) {
        let numbers = of_sets.each_ref().map(|of| movers(of, *concept));
        let counts = numbers.each_ref().map(|movers| movers.len().to_string()).join(" | ");
        let shown = if numbers[0].is_empty() { &numbers[1] } else { &numbers[0] };
        writeln!(text, "| `{concept}` | {counts} | {} |", examples(shown)).unwrap();
    }
    text.push('\n');
    text
}

fn movers(recipes: &[KernelRecipe], concept: Concept) -> Vec<(&'static str, f64)> {
    let fitting = recipes.iter().filter(|recipe| !recipe.held_out);
    let numbers = fitting.map(|recipe| (recipe.name, recipe.number_of(concept)));
    numbers.filter(|(_, number)| *number > 0.0).collect()
}

/// Up to three, with different numbers where there are some.
fn examples(movers: &[(&str, f64)]) -> String {
    let mut shown: Vec<(&str, f64)> = Vec::new();
    for (name, number) in movers {
        if shown.len() < 3 && !shown.iter().any(|(_, seen)| seen == number) {
            shown.push((name, *number));
        }
    }
    let words: Vec<String> = shown
        .iter()
        .map(|(name, number)| format!("`{name}` {}", (number * 1000.0).round() / 1000.0))
        .collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

#[test]
fn the_page_has_every_recipe_with_its_family_control_and_concepts() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let start = page.find(START).unwrap() + START.len();
    let end = start + page[start..].find(END).unwrap();
    let tables = tables();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, [&page[..start], &tables, &page[end..]].concat()).unwrap();
        return;
    }
    assert!(page[start..end] == tables, "the tables are out of date; UPDATE_GOLDEN=1 accepts");
}

#[test]
fn the_page_names_the_concepts_that_nothing_tells_apart() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    for concept in
        [Concept::L1dStoreMissesSpeculative, Concept::DataPageWalks, Concept::L1dLoadMissesSpeculative]
    {
        let missing = page.split("## Recipes").next().unwrap();
        assert!(missing.contains(&format!("`{concept}`")), "{concept}");
    }
}
