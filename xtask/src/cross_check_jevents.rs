//! Reads what Linux's `jevents.py` generates: C tables of events, as perf has them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

/// The tables of a generated file.
pub(crate) struct Jevents {
    /// All strings one behind the other; an event is its fields, each with a zero behind it.
    strings: Vec<u8>,
    /// Offsets of the events by the table's name: `skylake_default_core`.
    tables: BTreeMap<String, Vec<usize>>,
}

/// An event as perf has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JeventsEvent {
    /// In lower case.
    pub(crate) name: String,
    /// Its terms: `event=0xc4,period=400009,umask=4`.
    pub(crate) terms: String,
}

/// The prefix of the name of a table of events.
const TABLE: &str = "static const struct compact_pmu_event pmu_events__";

impl Jevents {
    /// Reads a generated file.
    ///
    /// # Errors
    ///
    /// A file without strings or without tables, which another version of the script may write.
    pub(crate) fn parse(source: &str) -> Result<Jevents> {
        let mut lines = source.lines();
        lines
            .find(|line| line.contains("big_c_string ="))
            .context("the generated file has no big_c_string")?;
        let mut strings = Vec::new();
        for line in lines.by_ref().take_while(|line| line.trim() != ";") {
            literal(line, &mut strings);
        }
        let mut tables: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut table = None;
        for line in lines {
            if let Some(name) = line.strip_prefix(TABLE).and_then(|rest| rest.split_once("[]")) {
                table = Some(tables.entry(name.0.to_owned()).or_default());
            } else if line.starts_with("};") {
                table = None;
            } else if let (Some(table), Some(offset)) = (&mut table, offset(line)) {
                ensure!(offset < strings.len(), "an event stands behind the end of the strings: {line}");
                table.push(offset);
            }
        }
        ensure!(!tables.is_empty(), "the generated file has no tables of events");
        Ok(Jevents { strings, tables })
    }

    /// The events of a table.
    pub(crate) fn events(&self, table: &str) -> Option<Vec<JeventsEvent>> {
        Some(self.tables.get(table)?.iter().filter_map(|offset| self.event(*offset)).collect())
    }

    /// The event at an offset; the field with the terms is known by how it begins.
    fn event(&self, offset: usize) -> Option<JeventsEvent> {
        let mut fields = self.strings[offset..].split(|byte| *byte == 0);
        let name = String::from_utf8_lossy(fields.next()?).into_owned();
        let is_terms = |field: &&[u8]| {
            (field.starts_with(b"event=") || field.starts_with(b"config=")) && !field.contains(&b' ')
        };
        let terms = fields.take(4).find(is_terms)?;
        Some(JeventsEvent { name, terms: String::from_utf8_lossy(terms).into_owned() })
    }
}

/// The number in `{ 1749625 },`.
fn offset(line: &str) -> Option<usize> {
    line.trim_start().strip_prefix("{ ")?.split(' ').next()?.parse().ok()
}

/// Appends the string literal of a line, without its escapes; nothing for a line that has none.
fn literal(line: &str, strings: &mut Vec<u8>) {
    let text = match line.split_once("*/") {
        Some((comment, rest)) if comment.starts_with("/*") => rest,
        _ => line,
    };
    let Some(text) = text.trim_start().strip_prefix('"') else { return };
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                let mut octal = None;
                while octal.is_none_or(|(_, digits)| digits < 3) {
                    let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    let (value, digits) = octal.unwrap_or((0u8, 0));
                    octal = Some((value.wrapping_mul(8).wrapping_add(digit - b'0'), digits + 1));
                }
                strings.push(match octal {
                    Some((value, _)) => value,
                    None => escaped(bytes.next().unwrap_or(b'\\')),
                });
            }
            byte => strings.push(byte),
        }
    }
}

/// The byte that a letter behind a backslash stands for.
fn escaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the layout of Linux 7.2, and with the names, shortened.
    const NEWER: &str = r#"
static const char *const big_c_string =
/* offset=0 */
"default_core\000"
/* offset=13 */
"br_inst_retired.all_branches\000pipeline\000All \"branches\" \\ 50%\000event=0xc4,period=400009\000\00000\000\000"
/* offset=102 */
"l1d.replacement\000cache\000Lines\000event=0x51,umask=1\000\00000\000\000" /* also: x\000 */
;

static const struct compact_pmu_event pmu_events__skylake_default_core[] = {
	/* br_inst_retired.all_branches\000pipeline... */
	{ 13 },
	/* l1d.replacement\000 { 5 } */
	{ 102 },
};

static const struct pmu_table_entry pmu_events__skylake[] = {
	{
		.pmu_name = { 0 /* default_core\000 */ },
	},
};
"#;

    /// In the layout of Linux 6.12.
    const OLDER: &str = r#"
static const char *const big_c_string =
/* offset=0 */ "default_core\000"
/* offset=13 */ "a.b\000t\000d\000event=0x14,cmask=1,umask=1\000\00000\000"
;
static const struct compact_pmu_event pmu_events__skylake_default_core[] = {
{ 13 }, /* a.b\000t\000 { 99999 } */
};
"#;

    fn check(source: &str, expected: &[(&str, &str)]) {
        let events = Jevents::parse(source).unwrap().events("skylake_default_core").unwrap();
        let found: Vec<(&str, &str)> =
            events.iter().map(|event| (event.name.as_str(), event.terms.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn both_layouts_of_the_generated_file_are_read() {
        let newer = [
            ("br_inst_retired.all_branches", "event=0xc4,period=400009"),
            ("l1d.replacement", "event=0x51,umask=1"),
        ];
        check(NEWER, &newer);
        check(OLDER, &[("a.b", "event=0x14,cmask=1,umask=1")]);
        assert!(Jevents::parse(NEWER).unwrap().events("skylake").is_none());
    }

    #[test]
    fn what_is_no_generated_file_is_refused() {
        for source in ["", "int main;", "static const char *const big_c_string =\n\"a\\000\"\n;\n"] {
            assert!(Jevents::parse(source).is_err(), "{source}");
        }
        let beyond = OLDER.replace("{ 13 }", "{ 1300 }");
        assert!(Jevents::parse(&beyond).is_err());
    }

    #[test]
    fn escapes_are_bytes() {
        let mut bytes = Vec::new();
        literal(r#"/* offset=5 */ "a\0001\"\\\n\303\251" "ignored""#, &mut bytes);
        assert_eq!(bytes, b"a\x001\"\\\n\xc3\xa9");
    }
}
