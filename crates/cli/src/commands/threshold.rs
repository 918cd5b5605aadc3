//! `reverse --kernel REAL --control FAKE`: finds codes by a threshold.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use cyclometer_toolkit::inference::ThresholdRule;
use cyclometer_toolkit::reverse::{
    AssemblyFile, MAX_ASSEMBLY_BYTES, SweepMachine, SweepOptions, ThresholdKernels,
};
use cyclometer_toolkit::{Result, with_invoker_rights};

use super::sweep_log::SweepLog;
use crate::args::{Cli, ReverseArgs};
use crate::failure::{self, FileUse, of_file};
use crate::output::{Channel, clean, clean_os};
use crate::render::threshold;

/// The rule of a configuration without keys.
const DEFAULT_RULE: ThresholdRule = ThresholdRule { runs: 1_000_000, deviation: 10_000 };

/// Runs both kernels for each code, and shows hits.
///
/// # Errors
///
/// Files that cannot be read, and those of [`SweepMachine::find_by_threshold`].
pub fn run(
    machine: &SweepMachine,
    (real, control): (&Path, &Path),
    codes: &[u32],
    options: &SweepOptions,
    args: &ReverseArgs,
    cli: &Cli,
) -> Result<u8> {
    let rule = match &args.config {
        Some(file) => rule_of(file)?,
        None => DEFAULT_RULE,
    };
    let kernels = kernels(real, control)?;
    if args.dry_run {
        return super::print(&threshold::dry_run(machine, codes.len(), rule));
    }
    let mut observer = SweepLog::begin(args, None, codes.len())?;
    let found = machine.find_by_threshold(codes, kernels, rule, options, &mut observer)?;
    drop(observer);
    super::print(&threshold::render(&found, rule, super::paint(cli, Channel::Out)))
}

fn kernels(real: &Path, control: &Path) -> Result<ThresholdKernels> {
    let is_file = |path: &Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("s"));
    match (is_file(real), is_file(control)) {
        (true, true) => Ok(ThresholdKernels::Assembly {
            real: assembly("--kernel", real)?,
            control: assembly("--control", control)?,
        }),
        (false, false) => Ok(ThresholdKernels::Named {
            real: clean_os(real.as_os_str()),
            control: clean_os(control.as_os_str()),
        }),
        _ => Err(failure::usage(
            "--kernel and --control are of two kinds: one is a file of assembly (.s), the other a name",
            "give two files, or the names of two kernels of this program",
        )),
    }
}

fn assembly(option: &str, path: &Path) -> Result<AssemblyFile> {
    let text = read(option, path, MAX_ASSEMBLY_BYTES)?;
    Ok(AssemblyFile { name: clean_os(path.as_os_str()), text })
}

/// The text of a file of at most so many bytes.
fn read(option: &str, path: &Path, most: usize) -> Result<String> {
    let mut text = String::new();
    let opened = with_invoker_rights(|| File::open(path)).and_then(|opened| opened);
    // A byte more than is allowed shows that the file is too long.
    let read = opened.and_then(|file| file.take(most as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| of_file(option, FileUse::Read, path, error))?;
    match text.len() > most {
        true => Err(failure::usage(
            format!("{option}: {} is longer than {most} bytes", clean_os(path.as_os_str())),
            "give a shorter file",
        )),
        false => Ok(text),
    }
}

/// The longest configuration, in bytes.
const MAX_CONFIG_BYTES: usize = 1 << 16;

fn rule_of(path: &Path) -> Result<ThresholdRule> {
    let text = read("--config", path, MAX_CONFIG_BYTES)?;
    parse_rule(&text).map_err(|(line, what)| {
        let name = clean_os(path.as_os_str());
        failure::usage(
            format!("--config: {name}: line {line}: {}", clean(&what)),
            "the keys are TEST_TIME and DEVIATION, as in `#define TEST_TIME 1000000`",
        )
    })
}

/// The rule of a header of C with the keys of the published framework.
///
/// # Source
///
/// ChuhengZhou/M1_PMU_Experiments, `main.c`: `TEST_TIME`, `DEVIATION` of a `config.h` that it does not have.
fn parse_rule(text: &str) -> std::result::Result<ThresholdRule, (usize, String)> {
    let mut rule = DEFAULT_RULE;
    let mut last_key = 1;
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().split("/*").next().unwrap_or_default();
        let Some((key, value)) = definition(line) else { continue };
        let number = || c_number(value).ok_or_else(|| (index + 1, format!("'{value}' is no number")));
        match key {
            "TEST_TIME" => rule.runs = number()?,
            "DEVIATION" => rule.deviation = number()?,
            other => return Err((index + 1, format!("'{other}' is no key"))),
        }
        last_key = index + 1;
    }
    let ThresholdRule { runs, deviation } = rule;
    match runs {
        // Every count from 0 would be a hit.
        1..=1_000_000_000 if deviation >= runs => {
            Err((last_key, format!("DEVIATION, {deviation}, is not below TEST_TIME, {runs}")))
        }
        1..=1_000_000_000 => Ok(rule),
        _ => Err((last_key, "TEST_TIME is not from 1 to 1000000000".to_owned())),
    }
}

/// The key and the value of a line such as `# define KEY VALUE`.
fn definition(line: &str) -> Option<(&str, &str)> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start();
    let mut words = directive.strip_prefix("define")?.strip_prefix([' ', '\t'])?.split_ascii_whitespace();
    Some((words.next()?, words.next()?))
}

/// A number as C writes it: decimal, `0x` hexadecimal or `0` octal, with a suffix and in parentheses.
fn c_number(text: &str) -> Option<u64> {
    let digits = text.trim_matches(['(', ')']).trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) => (rest, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    let is_plain = digits.starts_with(|first: char| first.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_header_make_the_rule() {
        let text = "#ifndef CONFIG_H\n#define CONFIG_H\n#define TEST_TIME 5000UL // runs\n#define DEVIATION (50)\n#endif\n";
        assert_eq!(parse_rule(text), Ok(ThresholdRule { runs: 5000, deviation: 50 }));
        assert_eq!(parse_rule(""), Ok(DEFAULT_RULE));
        assert_eq!(parse_rule("\n#define TEST_TME 5\n"), Err((2, "'TEST_TME' is no key".to_owned())));
        assert_eq!(parse_rule("#define DEVIATION x\n"), Err((1, "'x' is no number".to_owned())));
        assert!(parse_rule("#define TEST_TIME 0\n").is_err());
    }

    #[test]
    fn numbers_and_directives_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("0x10", Some(16)),
            ("(0XfUL)", Some(15)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("09", None),
            ("0x", None),
            ("+5", None),
            ("0x+5", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(c_number(text), expected, "{text}");
        }
        let rule = parse_rule("#  define TEST_TIME 0x1000\n\t# define\tDEVIATION 020\n").unwrap();
        assert_eq!(rule, ThresholdRule { runs: 4096, deviation: 16 });
        assert_eq!(parse_rule("#defined DEVIATION x\n"), Ok(DEFAULT_RULE));
    }

    #[test]
    fn a_deviation_that_makes_every_count_a_hit_is_refused() {
        let error = parse_rule("#define TEST_TIME 50\n#define DEVIATION 50\n").unwrap_err();
        assert_eq!(error, (2, "DEVIATION, 50, is not below TEST_TIME, 50".to_owned()));
        // The default of the other key is judged, too.
        assert_eq!(parse_rule("\n#define TEST_TIME 5000\n").unwrap_err().0, 2);
    }
}
