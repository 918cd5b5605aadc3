//! `reverse --kernel REAL --control FAKE`: finds codes by a threshold.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use cyclometer::inference::ThresholdRule;
use cyclometer::reverse::{AssemblyFile, MAX_ASSEMBLY_BYTES, SweepMachine, SweepOptions, ThresholdKernels};
use cyclometer::{Result, with_invoker_rights};

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
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().split("/*").next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let (Some("#define"), Some(key), Some(value)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let number = || {
            let digits = value.trim_matches(['(', ')']).trim_end_matches(['u', 'U', 'l', 'L']);
            digits.parse::<u64>().map_err(|_| (index + 1, format!("'{value}' is no number")))
        };
        match key {
            "TEST_TIME" => rule.runs = number()?,
            "DEVIATION" => rule.deviation = number()?,
            other => return Err((index + 1, format!("'{other}' is no key"))),
        }
    }
    match rule.runs {
        1..=1_000_000_000 => Ok(rule),
        _ => Err((1, "TEST_TIME is not from 1 to 1000000000".to_owned())),
    }
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
}
