//! Tables with commas: quoted fields, comments, nothing more.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The rows of a file, without empty ones and comments.
pub(super) fn rows(path: &Path) -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect())
}

/// One row. A quote starts or ends a part in which commas are text.
fn row(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().map(|field| field.push(character)).unwrap_or_default(),
        }
    }
    fields
}

/// The rows of a file as look-ups by the names in its first row.
pub(super) fn records(path: &Path) -> Result<Vec<CsvRecord>> {
    let mut rows = rows(path)?.into_iter();
    let names = rows.next().unwrap_or_default();
    Ok(rows.map(|row| CsvRecord { names: names.clone(), row }).collect())
}

/// A row with names.
pub(super) struct CsvRecord {
    names: Vec<String>,
    row: Vec<String>,
}

impl CsvRecord {
    /// The field in a column.
    pub(super) fn field(&self, name: &str) -> Result<&str> {
        let column = self.names.iter().position(|known| known == name);
        let field = column.and_then(|column| self.row.get(column));
        field.map(String::as_str).with_context(|| format!("no column {name} in {}", self.row.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_commas() {
        assert_eq!(row(r#"a,"b,c",,d"#), ["a", "b,c", "", "d"]);
        assert_eq!(row("a,"), ["a", ""]);
    }
}
