//! The journal of a sweep: a line of text for each code that is done, so that a sweep can go on after a kill.
//!
//! ```text
//! cyclometer-sweep 1 CHECKSUM
//! tool VERSION CHECKSUM
//! machine WORDS CHECKSUM
//! kernels DIGEST NUMBER CHECKSUM
//! settings ITERATIONS REPEATS SEED NOISY CHECKSUM
//! counters 0,1,2,3 CHECKSUM                      or: counters unknown
//! durations KERNEL:CONCEPT=NUMBER … CHECKSUM
//! codes 0x0,0x1,… CHECKSUM
//! code 0x8d counted KERNEL:ITERATIONS:1,2/1,2;… CHECKSUM     repeats by comma, counters by slash
//! code 0x8e refused WHY CHECKSUM
//! code 0x8f disturbs KERNEL EXPECTED FOUND CHECKSUM
//! ```
//!
//! The checksum is that of the line and of all lines before it, so that a removed or
//! repeated line shows. Lines behind the first one with another checksum are not used: a kill may have left a
//! part of a line.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crc32fast::Hasher;
use cyclometer_core::CounterId;
use cyclometer_core::concept::Concept;
use cyclometer_inference::{CounterObservations, EventObservations, KernelIndex, Observation};

use crate::recipes::SweepKernel;
use crate::swept::{Exclusion, SweptCode, SweptOutcome};
use crate::target::SweepSettings;

const FIRST_LINE: &str = "cyclometer-sweep 1";

/// The sweep that a journal is of.
#[derive(Clone, PartialEq, Debug)]
pub struct JournalHeader {
    /// The version of the tool.
    pub tool: String,
    /// The machine, with the source of its counts.
    pub machine: String,
    /// A digest of the kernels ([`JournalHeader::digest`]).
    pub kernels: String,
    /// How it counts.
    pub settings: SweepSettings,
    /// The counters of the machine.
    pub counters: Vec<Option<CounterId>>,
    /// The durations of each kernel that were measured before.
    pub durations: Vec<Vec<(Concept, f64)>>,
    /// The codes.
    pub codes: Vec<u32>,
}

/// A journal that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepJournal {
    /// The sweep that it is of.
    pub header: JournalHeader,
    /// The codes that are done.
    pub done: BTreeMap<u32, SweptCode>,
    /// The bytes up to the end of the last whole line: further lines are to be written there.
    pub whole_bytes: usize,
    /// The writer of further lines.
    pub writer: JournalWriter,
}

/// The reason why a journal cannot be gone on with.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JournalError {
    /// The file is none.
    NoJournal,
    /// Its header is damaged or incomplete.
    DamagedHeader {
        /// The line, from 1.
        line: usize,
    },
    /// A line has the right checksum and no meaning.
    BadLine {
        /// The line, from 1.
        line: usize,
    },
    /// It is of another sweep.
    Differs {
        /// The part that differs.
        what: &'static str,
        /// As the journal has it.
        journal: String,
        /// As it is now.
        now: String,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::NoJournal => f.write_str("the file is no journal of a sweep"),
            JournalError::DamagedHeader { line } => {
                write!(f, "line {line} of the journal is damaged or missing, so that its sweep is not known")
            }
            JournalError::BadLine { line } => write!(f, "line {line} of the journal has no meaning"),
            JournalError::Differs { what, journal, now } => {
                write!(f, "the journal is of another {what}: {journal}, and now {now}")
            }
        }
    }
}

impl std::error::Error for JournalError {}

impl JournalHeader {
    /// The digest of kernels: their names and what an iteration of each does.
    pub fn digest(kernels: &[SweepKernel]) -> String {
        let mut hasher = Hasher::new();
        for kernel in kernels {
            hasher.update(kernel.recipe.name.as_bytes());
            for (concept, number) in kernel.recipe.per_iteration() {
                hasher.update(concept.name().as_bytes());
                hasher.update(&number.to_le_bytes());
            }
        }
        format!("{:08x}", hasher.finalize())
    }

    /// Checks that a sweep of this machine, by these kernels, can go on with the journal.
    ///
    /// # Errors
    ///
    /// [`JournalError::Differs`].
    pub fn check(&self, now: &JournalHeader) -> Result<(), JournalError> {
        let pairs = [
            ("version of the tool", &self.tool, &now.tool),
            ("machine", &self.machine, &now.machine),
            ("set of kernels", &self.kernels, &now.kernels),
            ("set of counters", &counters_text(&self.counters), &counters_text(&now.counters)),
        ];
        let differs = pairs.into_iter().find(|(_, journal, now)| journal != now);
        differs.map_or(Ok(()), |(what, journal, now)| {
            Err(JournalError::Differs { what, journal: journal.clone(), now: now.clone() })
        })
    }

    fn lines(&self) -> [String; 8] {
        let SweepSettings { iterations, repeats, seed, is_noisy } = self.settings;
        let durations = self.durations.iter().enumerate().flat_map(|(kernel, known)| {
            known.iter().map(move |(concept, number)| format!(" {kernel}:{}={number}", concept.name()))
        });
        let codes: Vec<String> = self.codes.iter().map(|code| format!("{code:#x}")).collect();
        [
            FIRST_LINE.to_owned(),
            format!("tool {}", one_line(&self.tool)),
            format!("machine {}", one_line(&self.machine)),
            format!("kernels {} {}", one_line(&self.kernels), self.durations.len()),
            format!("settings {iterations} {repeats} {seed} {}", u8::from(is_noisy)),
            format!("counters {}", counters_text(&self.counters)),
            format!("durations{}", durations.collect::<String>()),
            format!("codes {}", codes.join(",")),
        ]
    }

    /// The header of its lines, or the number of a line without meaning.
    fn parse(lines: &[&str]) -> Result<JournalHeader, usize> {
        let settings = lines.get(4).and_then(|line| parse_settings(line.strip_prefix("settings ")?));
        JournalHeader::with_settings(lines, settings.ok_or(5usize)?).ok_or(8)
    }

    fn with_settings(lines: &[&str], settings: SweepSettings) -> Option<JournalHeader> {
        let [_, tool, machine, kernels, _, counters, durations, codes] = lines else { return None };
        let (digest, number) = kernels.strip_prefix("kernels ")?.rsplit_once(' ')?;
        let mut header = JournalHeader {
            tool: tool.strip_prefix("tool ")?.to_owned(),
            machine: machine.strip_prefix("machine ")?.to_owned(),
            kernels: digest.to_owned(),
            settings,
            counters: parse_counters(counters.strip_prefix("counters ")?)?,
            durations: vec![Vec::new(); number.parse().ok().filter(|number| *number <= MOST_KERNELS)?],
            codes: Vec::new(),
        };
        for word in durations.strip_prefix("durations")?.split_ascii_whitespace() {
            let (kernel, rest) = word.split_once(':')?;
            let (concept, number) = rest.split_once('=')?;
            let known = header.durations.get_mut(kernel.parse::<usize>().ok()?)?;
            known.push((concept.parse().ok()?, number.parse().ok()?));
        }
        let codes = codes.strip_prefix("codes ")?.split(',').map(parse_code);
        header.codes = codes.collect::<Option<_>>()?;
        Some(header)
    }
}

const MOST_KERNELS: usize = 10_000;

/// A digest of a text, for [`JournalHeader::machine`].
pub fn text_digest(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn counters_text(counters: &[Option<CounterId>]) -> String {
    let word = |counter: &Option<CounterId>| match counter {
        Some(CounterId::General(n)) => n.to_string(),
        Some(CounterId::Fixed(n)) => format!("f{n}"),
        None => "unknown".to_owned(),
    };
    counters.iter().map(word).collect::<Vec<_>>().join(",")
}

fn parse_counters(text: &str) -> Option<Vec<Option<CounterId>>> {
    let counter = |word: &str| match word.strip_prefix('f') {
        _ if word == "unknown" => Some(None),
        Some(n) => Some(Some(CounterId::Fixed(n.parse().ok()?))),
        None => Some(Some(CounterId::General(word.parse().ok()?))),
    };
    text.split(',').map(counter).collect()
}

fn parse_settings(text: &str) -> Option<SweepSettings> {
    let words: Vec<&str> = text.split(' ').collect();
    let [iterations, repeats, seed, noisy] = words.as_slice() else { return None };
    let settings = SweepSettings {
        iterations: iterations.parse().ok()?,
        repeats: repeats.parse().ok()?,
        seed: seed.parse().ok()?,
        is_noisy: *noisy == "1",
    };
    settings.are_possible().then_some(settings)
}

fn parse_code(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Makes the lines of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalWriter {
    /// The checksum over the lines so far.
    checksum: u32,
}

impl JournalWriter {
    /// The writer of a new journal, and its header.
    pub fn begin(header: &JournalHeader) -> (JournalWriter, String) {
        let mut writer = JournalWriter { checksum: 0 };
        let text = header.lines().iter().map(|line| writer.line(line)).collect();
        (writer, text)
    }

    /// The line of a code; `None` for one that was not tried.
    pub fn code(&mut self, swept: &SweptCode) -> Option<String> {
        let mut line = format!("code {:#x} ", swept.code);
        match &swept.outcome {
            SweptOutcome::Counted(observed) => line += &counted_text(observed),
            SweptOutcome::Excluded(Exclusion::Denied) => return None,
            SweptOutcome::Excluded(Exclusion::Refused(why)) => line += &format!("refused {}", one_line(why)),
            SweptOutcome::Excluded(Exclusion::Disturbs { kernel, expected, found }) => {
                line += &format!("disturbs {kernel} {expected} {found}");
            }
        }
        Some(self.line(&line))
    }

    fn line(&mut self, text: &str) -> String {
        self.checksum = continued(self.checksum, text);
        format!("{text} {:08x}\n", self.checksum)
    }
}

/// The checksum of a line and all before it.
fn continued(before: u32, line: &str) -> u32 {
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(line.as_bytes());
    hasher.finalize()
}

/// The sizes of the kernels with the counts of each counter. All counters have the same sizes.
fn counted_text(observed: &EventObservations) -> String {
    let mut out = "counted ".to_owned();
    let Some(first) = observed.counters.first() else { return out };
    for (index, one) in first.observations.iter().enumerate() {
        let separator = if index == 0 { "" } else { ";" };
        let _ = write!(out, "{separator}{}:{}:", one.kernel.0, one.iterations);
        for (number, counter) in observed.counters.iter().enumerate() {
            let counts = counter.observations.get(index).map_or(&[][..], |one| &one.counts);
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            let _ = write!(out, "{}{}", if number == 0 { "" } else { "/" }, counts.join(","));
        }
    }
    out
}

fn parse_counted(text: &str, code: u32, header: &JournalHeader) -> Option<EventObservations> {
    let mut counters: Vec<CounterObservations> = header
        .counters
        .iter()
        .map(|counter| CounterObservations { counter: *counter, observations: Vec::new() })
        .collect();
    for size in text.split(';').filter(|size| !size.is_empty()) {
        let mut fields = size.split(':');
        let kernel = fields.next()?.parse().ok().filter(|kernel| *kernel < header.durations.len())?;
        let iterations = fields.next()?.parse().ok()?;
        let mut of_counters = fields.next()?.split('/');
        for counter in &mut counters {
            let counts = of_counters.next()?.split(',').map(str::parse);
            counter.observations.push(Observation {
                kernel: KernelIndex(kernel),
                iterations,
                counts: counts.collect::<Result<_, _>>().ok()?,
                interrupts: Vec::new(),
            });
        }
        if of_counters.next().is_some() {
            return None;
        }
    }
    Some(EventObservations { event: format!("{code:#04x}"), counters })
}

fn parse_swept(line: &str, header: &JournalHeader) -> Option<SweptCode> {
    let (code, rest) = line.strip_prefix("code ")?.split_once(' ')?;
    let code = parse_code(code)?;
    let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let outcome = match kind {
        "counted" => SweptOutcome::Counted(parse_counted(rest, code, header)?),
        "refused" => SweptOutcome::Excluded(Exclusion::Refused(rest.to_owned())),
        "disturbs" => {
            let words: Vec<&str> = rest.split(' ').collect();
            let [kernel, expected, found] = words.as_slice() else { return None };
            SweptOutcome::Excluded(Exclusion::Disturbs {
                kernel: (*kernel).to_owned(),
                expected: expected.parse().ok()?,
                found: found.parse().ok()?,
            })
        }
        _ => return None,
    };
    Some(SweptCode { code, outcome })
}

impl SweepJournal {
    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub fn read(bytes: &[u8]) -> Result<SweepJournal, JournalError> {
        if !bytes.starts_with(FIRST_LINE.as_bytes()) {
            return Err(JournalError::NoJournal);
        }
        let mut lines = WholeLines { rest: bytes, checksum: 0, read_bytes: 0 };
        let head: Vec<&str> = lines.by_ref().take(8).collect();
        if head.len() < 8 {
            return Err(JournalError::DamagedHeader { line: head.len() + 1 });
        }
        let header = JournalHeader::parse(&head).map_err(|line| JournalError::BadLine { line })?;
        let mut done = BTreeMap::new();
        for (index, line) in lines.by_ref().enumerate() {
            let swept = parse_swept(line, &header).ok_or(JournalError::BadLine { line: index + 9 })?;
            done.insert(swept.code, swept);
        }
        let writer = JournalWriter { checksum: lines.checksum };
        Ok(SweepJournal { header, done, whole_bytes: lines.read_bytes, writer })
    }
}

/// The lines of a journal up to the first one whose checksum is wrong, without their checksums.
struct WholeLines<'a> {
    rest: &'a [u8],
    checksum: u32,
    read_bytes: usize,
}

impl<'a> Iterator for WholeLines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&self.rest[..end]).ok()?;
        let (text, checksum) = line.rsplit_once(' ')?;
        let expected = continued(self.checksum, text);
        if format!("{expected:08x}") != checksum {
            return None;
        }
        self.checksum = expected;
        self.read_bytes += end + 1;
        self.rest = &self.rest[end + 1..];
        Some(text)
    }
}
