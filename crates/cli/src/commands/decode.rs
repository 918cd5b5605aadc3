//! `decode`: the meaning of a register's value, or of an event's code.

use cyclometer_toolkit::arch::Register;
use cyclometer_toolkit::catalogue::decode::{self, Explained};
use cyclometer_toolkit::catalogue::table::Cpu;
use cyclometer_toolkit::core::pmu::{ConfigWord, ConfigWords};
use cyclometer_toolkit::core::syntax::parse_number;
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result, decode_in};

use crate::args::{Cli, DecodeArgs};
use crate::output::{Channel, clean};
use crate::render::{decoded, json};

/// Decodes values.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a CPU or register that is not known, or a value that is no number.
pub fn run(args: &DecodeArgs, cli: &Cli) -> Result<u8> {
    let asked = super::Asked::read(args.cpu.as_deref(), &args.tables)?;
    let cores = asked.cores();
    let mut found: Vec<(Cpu<'_>, Explained)> = Vec::new();
    for tables in &cores {
        found.extend(of_core(tables, args)?);
    }
    super::print(&match args.json {
        true => json::pretty(&decoded::json(&found)),
        false => decoded::render(&found, &asked.tables, super::paint(cli, Channel::Out)),
    })
}

/// The meaning of the values on a core type, from all of its tables; the first table provides the registers.
fn of_core<'a>(tables: &[Cpu<'a>], args: &DecodeArgs) -> Result<Vec<(Cpu<'a>, Explained)>> {
    let Some(cpu) = tables.first() else { return Ok(Vec::new()) };
    let mut meant: Vec<Meant<'_>> = Vec::new();
    for text in &args.values {
        let CodeValue { register, value, label } = read(cpu, text)?;
        let label = label.or(args.label.as_deref());
        match register {
            Register::Perf(word) => add_word(&mut meant, word, value, label),
            register => meant.push(Meant::Register { register, value, label }),
        }
    }
    let explained = |one: &Meant<'_>| {
        decode_in(tables, |cpu| match *one {
            Meant::Register { register, value, label } => decode::decode(cpu, register, value, label),
            Meant::Perf { words, label, .. } => decode::decode_perf(cpu, words, label),
        })
    };
    Ok(meant.iter().filter_map(explained).map(|explained| (*cpu, explained)).collect())
}

/// The object to explain.
enum Meant<'a> {
    Register {
        register: Register,
        value: u64,
        label: Option<&'a str>,
    },
    /// perf's words of one event, and which of them were given.
    Perf {
        words: ConfigWords,
        given: Vec<ConfigWord>,
        label: Option<&'a str>,
    },
}

/// Adds one of perf's words: to the event before it, unless that has this word already.
fn add_word<'a>(meant: &mut Vec<Meant<'a>>, word: ConfigWord, value: u64, label: Option<&'a str>) {
    if let Some(Meant::Perf { words, given, label: known }) = meant.last_mut()
        && !given.contains(&word)
    {
        *word_of(words, word) = value;
        given.push(word);
        *known = known.or(label);
        return;
    }
    let mut words = ConfigWords::default();
    *word_of(&mut words, word) = value;
    meant.push(Meant::Perf { words, given: vec![word], label });
}

fn word_of(words: &mut ConfigWords, word: ConfigWord) -> &mut u64 {
    match word {
        ConfigWord::Config => &mut words.config,
        ConfigWord::Config1 => &mut words.config1,
        ConfigWord::Config2 => &mut words.config2,
    }
}

struct CodeValue<'a> {
    register: Register,
    value: u64,
    label: Option<&'a str>,
}

/// Reads `REGISTER=VALUE`, `CODE` or `CODE=LABEL`.
fn read<'a>(cpu: &Cpu<'_>, text: &'a str) -> Result<CodeValue<'a>> {
    let code =
        |text: &str| parse_number(text).or_else(|| u64::from_str_radix(text.strip_prefix('r')?, 16).ok());
    let Some((left, right)) = text.split_once('=') else {
        let value = code(text).ok_or_else(|| no_number(text))?;
        return Ok(CodeValue { register: decode::register_of_code(cpu, value), value, label: None });
    };
    match (code(left), parse_number(right)) {
        (Some(value), None) => {
            Ok(CodeValue { register: decode::register_of_code(cpu, value), value, label: Some(right) })
        }
        (_, Some(value)) => Ok(CodeValue { register: decode::register(cpu, left)?, value, label: None }),
        (None, None) => Err(no_number(right)),
    }
}

fn no_number(text: &str) -> Error {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_hexdigit()) && digits.len() > 16 {
        let message = format!("'{}' is more than 64 bits hold", clean(text));
        return Error::new(ErrorKind::InvalidInput, message)
            .with_recovery(Recovery::fix("the greatest value is 0xffffffffffffffff"));
    }
    Error::new(ErrorKind::InvalidInput, format!("'{}' is no number", clean(text))).with_recovery(Recovery::fix(
        "write REGISTER=VALUE as in PERFEVTSEL0=0x4300c0, a code as in 0x412e, or a code and what it is said to be, as in \
         0x412e='L3 cache miss'",
    ))
}
