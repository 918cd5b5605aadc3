//! Semantics as text: one line for each event and set of counters.
//!
//! ```text
//! cyclometer-semantics 1
//! 0x8c counters=0x80 counts instructions
//! 0x9b counters=0x80 counts loads + 1/2 stores
//! 0xa6 counters=0x3fc counts loads wrong-paths 250
//! 0x52 counters=0x3fc counts uops at-least 2 per cycle noise 1 per interrupt
//! ```
//!
//! `docs/reference/semantics-format.md` has the whole grammar. `#` starts a comment.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use cyclometer_core::{Concept, CounterMask};

use crate::meaning::{ConceptTerm, CountUnit, CountingRule, InterruptNoise, MOST_TERMS, Meaning, Weight};
use crate::table::{EventSemantics, MAX_ROWS, Overlap, Semantics};

/// The first line of a file.
pub const FIRST_LINE: &str = "cyclometer-semantics 1";

/// The longest file that is read, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// The longest line, in bytes.
pub const MAX_LINE: usize = 1000;

/// An error in a file of semantics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SemanticsError {
    /// The line, from 1.
    pub line: usize,
    /// The description of the error.
    pub message: String,
    /// The text to write instead.
    pub remedy: String,
}

impl fmt::Display for SemanticsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SemanticsError {}

/// A message and a remedy.
struct LineFault(String, String);

type FileResult<T> = Result<T, LineFault>;

fn fault<T>(message: impl Into<String>, remedy: impl Into<String>) -> FileResult<T> {
    Err(LineFault(message.into(), remedy.into()))
}

impl Semantics {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The first line that is not of the format; two lines for one event and counter; a file with more than
    /// [`MAX_BYTES`] or [`MAX_ROWS`], or a line with more than [`MAX_LINE`].
    pub fn parse(file: &[u8]) -> Result<Semantics, SemanticsError> {
        let error =
            |line: usize, LineFault(message, remedy)| SemanticsError { line: line + 1, message, remedy };
        if file.len() > MAX_BYTES {
            let message = format!("the file has {} bytes", file.len());
            return Err(error(
                0,
                LineFault(message, format!("at most {MAX_BYTES} are read; make several files")),
            ));
        }
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for (number, line) in file.split(|byte| *byte == b'\n').enumerate() {
            let row = line_of(line).and_then(|line| match number {
                0 => header(line).map(|()| None),
                _ => row(line),
            });
            if let Some(row) = row.map_err(|fault| error(number, fault))? {
                rows.push(row);
                lines.push(number);
            }
            if rows.len() > MAX_ROWS {
                let message = format!("the file has more than {MAX_ROWS} events");
                return Err(error(number, LineFault(message, "make several files".to_owned())));
            }
        }
        Semantics::new(&rows).map_err(|overlap| {
            let [first, second] = overlap.rows.map(|row| lines[row]);
            error(second, repeated(&overlap, first + 1))
        })
    }

    /// The file that is read back as this table.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for row in self.rows() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{row}");
        }
        text
    }
}

fn repeated(overlap: &Overlap, line: usize) -> LineFault {
    let Overlap { code, counters, .. } = overlap;
    let message = format!("event {code:#x} has a row for counters {counters} in line {line}");
    LineFault(message, "give each event and counter one line".to_owned())
}

/// A line without its comment and the spaces around it.
fn line_of(line: &[u8]) -> FileResult<&str> {
    if line.len() > MAX_LINE {
        return fault(format!("the line has {} bytes", line.len()), format!("at most {MAX_LINE} are read"));
    }
    let Ok(line) = std::str::from_utf8(line) else {
        return fault("the line is not UTF-8", "write it in ASCII");
    };
    Ok(line.split('#').next().unwrap_or("").trim())
}

fn header(line: &str) -> FileResult<()> {
    let remedy = format!("begin the file with '{FIRST_LINE}'");
    match line.strip_prefix("cyclometer-semantics ") {
        _ if line == FIRST_LINE => Ok(()),
        Some(version) => fault(format!("version '{}' is unknown", shown(version)), remedy),
        None => fault("the file has no semantics", remedy),
    }
}

/// A part of a line as a message shows it.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// The words of a line.
struct LineWords<'a> {
    left: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> LineWords<'a> {
    fn next(&mut self, wanted: &str) -> FileResult<&'a str> {
        match self.left.next() {
            Some(word) => Ok(word),
            None => fault(format!("{wanted} is missing"), "see docs/reference/semantics-format.md"),
        }
    }

    /// Whether the next word is this one, which is then gone.
    fn takes(&mut self, word: &str) -> bool {
        self.left.next_if_eq(&word).is_some()
    }

    fn expect(&mut self, word: &str) -> FileResult<()> {
        match self.next(&format!("'{word}'"))? {
            found if found == word => Ok(()),
            found => {
                fault(format!("'{}' where '{word}' is expected", shown(found)), format!("write '{word}'"))
            }
        }
    }

    /// A whole number from `least` to the greatest of its type.
    fn number<T: FromStr + PartialOrd + From<u8> + fmt::Display>(&mut self, most: T) -> FileResult<T> {
        let word = self.next("a number")?;
        match word.parse() {
            Ok(number) if number >= T::from(1) && number <= most => Ok(number),
            _ => fault(
                format!("'{}' is no number of this place", shown(word)),
                format!("give a whole number from 1 to {most}"),
            ),
        }
    }

    fn concept(&mut self) -> FileResult<Concept> {
        let word = self.next("a concept")?;
        word.parse().or_else(|_| {
            fault(
                format!("'{}' is no concept", shown(word)),
                "docs/reference/semantics-format.md lists the concepts",
            )
        })
    }

    fn unit(&mut self) -> FileResult<CountUnit> {
        self.expect("per")?;
        match self.next("'cycle' or 'iteration'")? {
            "cycle" => Ok(CountUnit::Cycle),
            "iteration" => Ok(CountUnit::Iteration),
            word => fault(format!("'{}' is no unit", shown(word)), "write 'cycle' or 'iteration'"),
        }
    }
}

/// A hexadecimal number with `0x` before it, or a decimal one.
fn integer(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    // A sign is a part of a number for the library, not for this format.
    hexadecimal.unwrap_or_else(|| text.parse()).ok().filter(|_| !text.contains(['+', '-']))
}

/// The row of a line; `None` if the line is empty.
fn row(line: &str) -> FileResult<Option<EventSemantics>> {
    if line.is_empty() {
        return Ok(None);
    }
    let mut words = LineWords { left: line.split_whitespace().peekable() };
    let code = words.next("an event code")?;
    let Some(code) = integer(code).and_then(|code| u32::try_from(code).ok()) else {
        return fault(format!("'{}' is no event code", shown(code)), "write one as 0x8c, of at most 32 bits");
    };
    let counters = counters(words.next("'counters='")?)?;
    words.expect("counts")?;
    let mut meaning = sum(&mut words)?;
    if words.takes("wrong-paths") {
        meaning.wrong_paths = words.number(u16::MAX)?;
    }
    meaning.rule = rule(&mut words)?;
    meaning.noise = noise(&mut words)?;
    match words.left.next() {
        None => Ok(Some(EventSemantics { code, counters, meaning })),
        Some(word) => fault(
            format!("'{}' is unexpected", shown(word)),
            "parts of a line have an order: the sum, wrong-paths, a rule, noise",
        ),
    }
}

fn counters(word: &str) -> FileResult<CounterMask> {
    match word.strip_prefix("counters=").and_then(integer) {
        Some(general) if general != 0 => Ok(CounterMask::from_bits(general, 0)),
        _ => fault(
            format!("'{}' names no counters", shown(word)),
            "write the mask of general counters, as counters=0x80",
        ),
    }
}

/// A sum of concepts, or `nothing`.
fn sum(words: &mut LineWords<'_>) -> FileResult<Meaning> {
    if words.takes("nothing") {
        return Ok(Meaning::DEAD);
    }
    let mut terms = vec![term(words)?];
    while words.takes("+") {
        if terms.len() == MOST_TERMS {
            return fault("the sum is too long", format!("a sum has at most {MOST_TERMS} concepts"));
        }
        let next = term(words)?;
        if terms.iter().any(|term| term.concept == next.concept) {
            return fault(
                format!("'{}' is in the sum twice", next.concept),
                "give it the sum of the weights",
            );
        }
        terms.push(next);
    }
    Meaning::weighted(&terms).map_or_else(|| fault("the sum is not possible", "write fewer concepts"), Ok)
}

fn term(words: &mut LineWords<'_>) -> FileResult<ConceptTerm> {
    let has_weight =
        words.left.peek().is_some_and(|word| word.starts_with(|c: char| !c.is_ascii_lowercase()));
    let weight = if has_weight { weight(words.next("a weight")?)? } else { Weight::ONE };
    Ok(ConceptTerm { concept: words.concept()?, weight })
}

fn weight(word: &str) -> FileResult<Weight> {
    let (number, parts) = word.split_once('/').unwrap_or((word, "1"));
    let each = match parts {
        "1" => Some(4),
        "2" => Some(2),
        "4" => Some(1),
        _ => None,
    };
    let number = number.parse().ok().filter(|n| (1..=Weight::MOST_QUARTERS).contains(n));
    let quarters = number.zip(each).and_then(|(number, each)| number.checked_mul(each));
    match quarters.and_then(Weight::quarters) {
        Some(weight) => Ok(weight),
        None => {
            fault(format!("'{}' is no weight", shown(word)), "write quarters from 1/4 to 4, as 1/2, 3/4 or 2")
        }
    }
}

fn rule(words: &mut LineWords<'_>) -> FileResult<CountingRule> {
    let edges = words.takes("edges");
    let below = match words.left.peek().copied() {
        Some("at-least") => false,
        Some("fewer-than") => true,
        _ if edges => return fault("'edges' has no condition", "write 'edges at-least 1 per cycle'"),
        _ => return state(words),
    };
    words.left.next();
    Ok(CountingRule::Threshold { events: words.number(u32::MAX)?, per: words.unit()?, below, edges })
}

/// A rule that is no threshold.
fn state(words: &mut LineWords<'_>) -> FileResult<CountingRule> {
    if words.takes("at-most") {
        return Ok(CountingRule::AtMost { events: words.number(u32::MAX)?, per: words.unit()? });
    }
    if words.takes("alternates") {
        return Ok(CountingRule::Alternates { events: words.number(u64::MAX)? });
    }
    if words.takes("after") {
        let events = words.number(u64::MAX)?;
        return Ok(CountingRule::After { concept: words.concept()?, events });
    }
    Ok(CountingRule::Events)
}

fn noise(words: &mut LineWords<'_>) -> FileResult<InterruptNoise> {
    let mut noise = InterruptNoise::default();
    while words.takes("noise") {
        let counts = words.number(u16::MAX)?;
        words.expect("per")?;
        let place = match words.next("'interrupt' or 'million-cycles'")? {
            "interrupt" => &mut noise.per_interrupt,
            "million-cycles" => &mut noise.per_million_cycles,
            word => {
                return fault(
                    format!("'{}' is no cause of noise", shown(word)),
                    "write 'interrupt' or 'million-cycles'",
                );
            }
        };
        if *place != 0 {
            return fault("noise of one kind is given twice", "give each kind once");
        }
        *place = counts;
    }
    Ok(noise)
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_quarters() {
            quarters if quarters % 4 == 0 => write!(f, "{}", quarters / 4),
            quarters if quarters % 2 == 0 => write!(f, "{}/2", quarters / 2),
            quarters => write!(f, "{quarters}/4"),
        }
    }
}

impl fmt::Display for CountUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CountUnit::Cycle => "cycle",
            CountUnit::Iteration => "iteration",
        })
    }
}

/// As in a file, without `counts`.
impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for ConceptTerm { concept, weight } in self.terms() {
            f.write_str(separator)?;
            if weight != Weight::ONE {
                write!(f, "{weight} ")?;
            }
            write!(f, "{concept}")?;
            separator = " + ";
        }
        if separator.is_empty() {
            f.write_str("nothing")?;
        }
        if self.wrong_paths != 0 {
            write!(f, " wrong-paths {}", self.wrong_paths)?;
        }
        match self.rule {
            CountingRule::Events => {}
            CountingRule::Threshold { events, per, below, edges } => {
                let edges = if edges { " edges" } else { "" };
                let condition = if below { "fewer-than" } else { "at-least" };
                write!(f, "{edges} {condition} {events} per {per}")?;
            }
            CountingRule::AtMost { events, per } => write!(f, " at-most {events} per {per}")?,
            CountingRule::Alternates { events } => write!(f, " alternates {events}")?,
            CountingRule::After { concept, events } => write!(f, " after {events} {concept}")?,
        }
        for (counts, cause) in
            [(self.noise.per_interrupt, "interrupt"), (self.noise.per_million_cycles, "million-cycles")]
        {
            if counts != 0 {
                write!(f, " noise {counts} per {cause}")?;
            }
        }
        Ok(())
    }
}

/// As in a file.
impl fmt::Display for EventSemantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventSemantics { code, counters, meaning } = self;
        write!(f, "{code:#x} counters={:#x} counts {meaning}", counters.general_bits())
    }
}
