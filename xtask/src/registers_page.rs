//! `cargo xtask registers-page [--check]`: the tables of docs/reference/registers.md, from the layouts of
//! `arch`.

use std::fmt::Write as _;

use cyclometer_arch::{FieldKind, FieldRow, RegisterRow, access_text, family_table};
use cyclometer_core::pmu::Family;

use crate::page::{GeneratedPage, title};

/// The page of registers.
pub(crate) const PAGE: GeneratedPage =
    GeneratedPage { path: "docs/reference/registers.md", command: "registers-page", generated };

fn generated() -> String {
    let mut out = String::new();
    for family in Family::ALL {
        let table = family_table(family);
        overview(&mut out, family, &table);
        table.iter().for_each(|row| section(&mut out, row));
    }
    out
}

/// The registers of a family, a line each.
fn overview(out: &mut String, family: Family, table: &[RegisterRow]) {
    let _ =
        write!(out, "## {}\n\n| register | where | a driver may | on |\n|---|---|---|---|\n", title(family));
    for row in table {
        let (name, place) = (&row.name, address(row));
        let _ =
            writeln!(out, "| {name} | {place} | {} | {} |", access_text(row.access), every(&row.presence));
    }
    out.push('\n');
}

fn address(row: &RegisterRow) -> String {
    match row.address.as_str() {
        "" => "no register".to_owned(),
        address => format!("`{address}`"),
    }
}

fn every(presence: &str) -> &str {
    if presence.is_empty() { "every chip" } else { presence }
}

/// A register: where it is, who says so, its fields.
fn section(out: &mut String, row: &RegisterRow) {
    let _ = write!(out, "### {}\n\n{}. Source: {}.\n\n", row.name, address(row), row.source);
    if row.fields.is_empty() {
        out.push_str("No field of it means anything here.\n\n");
        return;
    }
    out.push_str("| bits | field | meaning | on | source |\n|---|---|---|---|---|\n");
    for field in &row.fields {
        let source = if field.source == row.source { "" } else { field.source };
        let (bits, name, meaning) = (&field.bits, &field.name, meaning(field));
        let _ = writeln!(out, "| {bits} | {name} | {meaning} | {} | {source} |", field.presence);
    }
    out.push('\n');
}

/// The meaning of a field, and its single values.
fn meaning(field: &FieldRow) -> String {
    let mut text = match field.kind {
        FieldKind::Ignored => format!("means nothing here: {}", field.meaning),
        _ => field.meaning.to_owned(),
    };
    for (value, meaning) in field.values {
        let _ = write!(text, "; {value:#x}: {meaning}");
    }
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_up_to_date() {
        PAGE.run(&crate::root(), ["--check".to_owned()].into_iter()).unwrap();
    }

    #[test]
    fn every_register_has_a_section_and_a_line() {
        let page = generated();
        for family in Family::ALL {
            for row in family_table(family) {
                assert!(page.contains(&format!("\n### {}\n", row.name)), "{}", row.name);
                assert!(page.contains(&format!("\n| {} | ", row.name)), "{}", row.name);
            }
        }
    }

    #[test]
    fn single_values_and_ignored_fields_are_told() {
        let page = generated();
        assert!(page.contains("; 0x4: overflows raise a FIQ"));
        assert!(page.contains("| means nothing here: perf sets it itself |"));
    }
}
