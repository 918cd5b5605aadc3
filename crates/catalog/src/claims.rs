//! Claims: what documents say that an event counts, with the concepts that the label means.
//!
//! ```text
//! cyclometer-claims 1
//! title The events of a document
//! source where the labels stand
//! cpu apple-m1
//! 0xbf DCACHE_load_miss = l1d-load-misses | l1d-load-misses-speculative
//! 0x9b load_and_store = loads + stores
//! 0x94 carry_is_clear = part conditional-branches
//! 0x53 uops_int, int_unit_uops ? no concept for operations of one kind of unit
//! ```
//!
//! A row has a code, its labels, and either the meanings that the label may have, or the reason why it has
//! none in concepts. `part` means some of a sum and not all of it. A line `vendor` says that the labels are
//! the vendor's own names. `#` starts a comment line.
//!
//! A claim is no name: no event is found by the label of a table that is not the vendor's.

use std::collections::HashMap;
use std::fmt;

use cyclometer_core::Concept;

/// The first line of a table.
pub const FIRST_LINE: &str = "cyclometer-claims 1";

/// The longest table that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// The longest line, in bytes.
pub const MAX_LINE: usize = 1000;

/// The most meanings of a claim, and the most concepts of a meaning.
const MOST_PARTS: usize = 16;

/// The tables that are part of this program, by name.
const SHIPPED: [(&str, &str); 2] = [
    ("apple-m1", include_str!("../data/claims/apple-m1")),
    ("seed-000", include_str!("../data/claims/seed-000")),
];

/// The claims of a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimTable {
    /// The name that it is asked for by.
    pub name: String,
    /// The document.
    pub title: String,
    /// Where the labels stand.
    pub source: String,
    /// The CPUs that the document is about, as `list --cpus` names them; any if there are none.
    pub cpus: Vec<String>,
    /// Whether the labels are the vendor's own names.
    pub vendor: bool,
    /// The claims, in the order of the file, one for each code.
    pub claims: Vec<EventClaim>,
}

/// The claim about one code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventClaim {
    /// The code: select, on x86-64 with the unit mask from bit 8 on.
    pub code: u32,
    /// The labels, at least one.
    pub labels: Vec<String>,
    /// The meanings that the label may have; none if it has none in concepts.
    pub meanings: Vec<ClaimedMeaning>,
    /// The reason why there are none.
    pub unclear: Option<String>,
}

/// A meaning of a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedMeaning {
    /// Whether it means some of the sum and not all of it.
    pub part: bool,
    /// The concepts whose sum it is, each counted once.
    pub concepts: Vec<Concept>,
}

/// An error in a table of claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimTableError {
    /// The line, from 1.
    pub line: usize,
    /// The description of the error.
    pub message: String,
    /// The text to write instead.
    pub remedy: String,
}

impl fmt::Display for ClaimTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ClaimTableError {}

/// The text of a meaning, as a table has it.
impl fmt::Display for ClaimedMeaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.concepts.iter().map(|concept| concept.name()).collect();
        write!(f, "{}{}", if self.part { "part " } else { "" }, names.join(" + "))
    }
}

impl ClaimTable {
    /// The names of the tables that are part of this program.
    pub fn shipped_names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The table with a name that is part of this program.
    pub fn shipped(name: &str) -> Option<ClaimTable> {
        let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
        // A test reads every one of them.
        ClaimTable::parse(name, text.as_bytes()).ok()
    }

    /// The tables that are part of this program and about a CPU.
    pub fn shipped_for(cpu: &str) -> impl Iterator<Item = ClaimTable> {
        let tables = ClaimTable::shipped_names().filter_map(ClaimTable::shipped);
        tables.filter(move |table| table.cpus.iter().any(|known| known == cpu))
    }

    /// Reads a table.
    ///
    /// # Errors
    ///
    /// The first line that is not of the format; two lines for one code; a table with more than
    /// [`MAX_BYTES`], or a line with more than [`MAX_LINE`].
    pub fn parse(name: &str, file: &[u8]) -> Result<ClaimTable, ClaimTableError> {
        let mut table = ClaimTable {
            name: name.to_owned(),
            title: name.to_owned(),
            source: String::new(),
            cpus: Vec::new(),
            vendor: false,
            claims: Vec::new(),
        };
        if file.len() > MAX_BYTES {
            let message = format!("the table has {} bytes", file.len());
            let remedy = format!("at most {MAX_BYTES} are read; make several tables");
            return Err(ClaimTableError { line: 1, message, remedy });
        }
        let mut lines: HashMap<u32, usize> = HashMap::new();
        for (index, bytes) in file.split(|byte| *byte == b'\n').enumerate() {
            let line = index + 1;
            let read = text_of(bytes).and_then(|text| match index {
                0 => header(text),
                _ => table.read_line(text, line, &mut lines),
            });
            read.map_err(|ClaimFault(message, remedy)| ClaimTableError { line, message, remedy })?;
        }
        Ok(table)
    }

    fn read_line(&mut self, text: &str, line: usize, lines: &mut HashMap<u32, usize>) -> ClaimResult<()> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "" => {}
            _ if word.starts_with('#') => {}
            "title" => rest.clone_into(&mut self.title),
            "source" => rest.clone_into(&mut self.source),
            "cpu" => self.cpus.push(rest.to_owned()),
            "vendor" => self.vendor = true,
            _ => {
                let claim = claim(word, rest)?;
                if let Some(first) = lines.insert(claim.code, line) {
                    let message = format!("code {:#04x} has a row in line {first}", claim.code);
                    return fault(message, "give each code one row, with all of its labels");
                }
                self.claims.push(claim);
            }
        }
        Ok(())
    }

    /// The claim about a code.
    pub fn about(&self, code: u32) -> Option<&EventClaim> {
        self.claims.iter().find(|claim| claim.code == code)
    }

    /// The claims with a label, in any case of its letters, or with a code.
    pub fn matching<'t>(&'t self, event: &'t str) -> impl Iterator<Item = &'t EventClaim> {
        let code = number(event);
        self.claims.iter().filter(move |claim| {
            let named = claim.labels.iter().any(|label| label.eq_ignore_ascii_case(event));
            named || Some(claim.code) == code
        })
    }
}

/// A message and a remedy.
struct ClaimFault(String, String);

type ClaimResult<T> = Result<T, ClaimFault>;

fn fault<T>(message: impl Into<String>, remedy: impl Into<String>) -> ClaimResult<T> {
    Err(ClaimFault(message.into(), remedy.into()))
}

fn text_of(bytes: &[u8]) -> ClaimResult<&str> {
    if bytes.len() > MAX_LINE {
        return fault(format!("the line has {} bytes", bytes.len()), format!("at most {MAX_LINE} are read"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.trim()),
        Err(_) => fault("the line is not text in UTF-8", "write the table as text"),
    }
}

fn header(text: &str) -> ClaimResult<()> {
    match text == FIRST_LINE {
        true => Ok(()),
        false => fault("the first line names no table of claims", format!("begin with '{FIRST_LINE}'")),
    }
}

const ROW: &str =
    "write CODE LABEL = SUM | SUM, or CODE LABEL ? REASON, as in 0x8d instruction_branch = branches";

fn claim(code: &str, rest: &str) -> ClaimResult<EventClaim> {
    let Some(code) = number(code) else { return fault(format!("'{}' is no code", shown(code)), ROW) };
    let Some(at) = rest.find(['=', '?']) else { return fault("the row has neither '=' nor '?'", ROW) };
    let (labels, meaning) = rest.split_at(at);
    let labels: Vec<String> = labels.split(',').map(|label| label.trim().to_owned()).collect();
    if labels.iter().any(|label| label.is_empty() || label.contains(char::is_whitespace)) {
        return fault("a label is empty or has a space in it", ROW);
    }
    if labels.len() > MOST_PARTS {
        return fault(
            format!("the row has {} labels", labels.len()),
            format!("at most {MOST_PARTS} are read"),
        );
    }
    let text = meaning[1..].trim();
    if meaning.starts_with('?') {
        return match text.is_empty() {
            true => fault("the row has no reason", ROW),
            false => Ok(EventClaim { code, labels, meanings: Vec::new(), unclear: Some(text.to_owned()) }),
        };
    }
    let meanings = text.split('|').map(claimed).collect::<ClaimResult<Vec<_>>>()?;
    if meanings.len() > MOST_PARTS {
        let message = format!("the row has {} meanings", meanings.len());
        return fault(message, format!("at most {MOST_PARTS} are read"));
    }
    Ok(EventClaim { code, labels, meanings, unclear: None })
}

fn claimed(text: &str) -> ClaimResult<ClaimedMeaning> {
    let text = text.trim();
    let (part, sum) = match text.strip_prefix("part ") {
        Some(sum) => (true, sum),
        None => (false, text),
    };
    let mut concepts = Vec::new();
    for name in sum.split('+').map(str::trim) {
        let Ok(concept) = name.parse::<Concept>() else {
            let message = format!("'{}' is no concept", shown(name));
            let known = Concept::ALL.iter().map(|concept| concept.name());
            let near = crate::suggest::nearest(name, known);
            let remedy = match near.first() {
                Some(near) => format!("did you mean {near}?"),
                None => "docs/reference/semantics-format.md lists the concepts".to_owned(),
            };
            return fault(message, remedy);
        };
        if concepts.contains(&concept) {
            return fault(format!("{concept} is twice in one sum"), "name each concept once");
        }
        concepts.push(concept);
    }
    if concepts.len() > MOST_PARTS {
        let message = format!("a sum has {} concepts", concepts.len());
        return fault(message, format!("at most {MOST_PARTS} are read"));
    }
    Ok(ClaimedMeaning { part, concepts })
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u32::from_str_radix(digits, 16).ok()
        }
        _ if text.bytes().all(|digit| digit.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

fn shown(text: &str) -> String {
    crate::suggest::shown(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> Result<ClaimTable, ClaimTableError> {
        ClaimTable::parse("test", format!("{FIRST_LINE}\n{rows}").as_bytes())
    }

    #[test]
    fn every_shipped_table_is_read_and_names_its_source() {
        for (name, text) in SHIPPED {
            let table = ClaimTable::parse(name, text.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!table.source.is_empty() && !table.cpus.is_empty(), "{name}");
            assert!(text.lines().all(|line| line.len() < 260), "{name}");
        }
    }

    #[test]
    fn the_document_makes_56_claims() {
        let table = ClaimTable::shipped("seed-000").unwrap();
        assert_eq!(table.claims.len(), 56);
        assert_eq!(table.about(0x53).unwrap().labels, ["uops_int", "int_unit_uops"]);
    }

    #[test]
    #[cfg(feature = "apple")]
    fn vendor_claims_have_the_names_and_codes_of_the_catalogue() {
        for table in ClaimTable::shipped_names().filter_map(ClaimTable::shipped).filter(|table| table.vendor)
        {
            let cpu = crate::cpus::cpu(&table.cpus[0]).unwrap();
            let general = cpu
                .events()
                .filter(|entry| entry.counters().is_some_and(|counters| counters.general_bits() != 0));
            let mut known: Vec<(u32, String)> =
                general.map(|entry| (u32::from(entry.code().select), entry.name().to_owned())).collect();
            let mut claimed: Vec<(u32, String)> =
                table.claims.iter().map(|claim| (claim.code, claim.labels[0].clone())).collect();
            known.sort();
            claimed.sort();
            assert_eq!(known, claimed, "{}", table.name);
        }
    }

    #[test]
    fn a_row_has_labels_and_meanings_or_a_reason() {
        let read =
            table("# a comment\n\n0x94 a, b = part branches | loads + stores\n149 c ? why not\n").unwrap();
        let [first, second] = &read.claims[..] else { panic!("{read:?}") };
        assert_eq!(first.labels, ["a", "b"]);
        let meanings: Vec<String> = first.meanings.iter().map(ToString::to_string).collect();
        assert_eq!(meanings, ["part branches", "loads + stores"]);
        assert_eq!((second.code, second.unclear.as_deref()), (0x95, Some("why not")));
        assert_eq!(read.matching("B").count(), 1);
        assert_eq!(read.matching("0x95").count(), 1);
        assert_eq!(read.matching("d").count(), 0);
    }

    #[test]
    fn errors_name_the_line_and_a_remedy() {
        for (rows, line, message) in [
            ("0x1 a = loads\n0x1 b = stores", 3, "code 0x01 has a row in line 2"),
            ("x a = loads", 2, "'x' is no code"),
            ("0x1 a loads", 2, "the row has neither '=' nor '?'"),
            ("0x1 a = lodas", 2, "'lodas' is no concept"),
            ("0x1 a = loads + loads", 2, "loads is twice in one sum"),
            ("0x1 a b = loads", 2, "a label is empty or has a space in it"),
            ("0x1 = loads", 2, "a label is empty or has a space in it"),
            ("0x1 a ?", 2, "the row has no reason"),
            ("0x1 a = loads |", 2, "'' is no concept"),
            ("0x123456789 a = loads", 2, "'0x123456789' is no code"),
        ] {
            let error = table(rows).unwrap_err();
            assert_eq!((error.line, error.message.as_str()), (line, message), "{rows}");
            assert!(!error.remedy.is_empty(), "{rows}");
        }
        assert!(ClaimTable::parse("t", b"other").unwrap_err().message.contains("first line"));
        assert!(ClaimTable::parse("t", b"").is_err());
        assert!(table("\u{0}\u{ff}").is_err());
        assert!(table(&format!("0x1 a ? {}", "x".repeat(MAX_LINE))).is_err());
    }
}
