//! Errors as they are shown: a line that names the object, and a remedy.

use std::error::Error as _;
use std::io::{self, ErrorKind as IoKind};
use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind as ClapKind;
use cyclometer_toolkit::core::{Error, ErrorKind, Recovery};

use crate::args::Cli;
use crate::exit;
use crate::output::{self, Channel, clean, clean_os};

/// Shows an error; gives its exit code.
pub fn report(error: &Error, verbose: bool) -> u8 {
    output::tell(&text(error, verbose));
    exit::of_error(error)
}

fn text(error: &Error, verbose: bool) -> String {
    let shown = |text: String| clean(&without_numbers(&text));
    let mut out = format!("cyclometer: error: {}\n", shown(error.to_string()));
    let help = error.recovery().to_string();
    if !help.is_empty() {
        out += &format!("help: {}\n", shown(help));
    }
    let mut cause = error.source().filter(|_| verbose);
    while let Some(source) = cause {
        out += &format!("caused by: {}\n", shown(source.to_string()));
        cause = source.source();
    }
    out
}

/// A text without the numbers of system errors, as in `Permission denied (os error 13)`: the words before a
/// number say the same.
pub fn without_numbers(text: &str) -> String {
    const BEFORE: &str = " (os error ";
    let mut parts = text.split(BEFORE);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        match part[end..].strip_prefix(')') {
            Some(rest) if end > 0 => out += rest,
            _ => out += &format!("{BEFORE}{part}"),
        }
    }
    out
}

/// The use of a file that an option names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileUse {
    /// It is read.
    Read,
    /// Results are written to it.
    Written,
}

/// The error of a file that an option names and that cannot be read or written.
pub fn of_file(option: &str, usage: FileUse, path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{option}: {}", failed_use(usage, path, &error)))
        .with_recovery(Recovery::fix(remedy(usage, error.kind())))
        .with_source(error)
}

/// The error of a file that is an argument and cannot be read.
pub fn of_input(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, failed_use(FileUse::Read, path, &error))
        .with_recovery(Recovery::fix(remedy(FileUse::Read, error.kind())))
        .with_source(error)
}

fn failed_use(usage: FileUse, path: &Path, error: &io::Error) -> String {
    let verb = if usage == FileUse::Read { "read" } else { "write" };
    format!("cannot {verb} {}: {}", clean_os(path.as_os_str()), reason(error))
}

/// The error of a system call for other things than an option's file: `cannot watch signals: …`.
pub fn of_system(what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Os, format!("cannot {what}: {}", reason(&error))).with_source(error)
}

/// The reason of a system error in the words of a message: `permission denied`.
pub fn reason(error: &io::Error) -> String {
    let text = without_numbers(&error.to_string());
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn remedy(usage: FileUse, kind: IoKind) -> &'static str {
    match (kind, usage) {
        (IoKind::NotFound, FileUse::Read) => "check the path: there is no such file",
        (IoKind::NotFound, FileUse::Written) => "check the path: results go to a folder that exists",
        (IoKind::PermissionDenied, FileUse::Read) => "name a file that you may read",
        (IoKind::PermissionDenied, FileUse::Written) => "name a file in a folder that you may write to",
        (IoKind::IsADirectory, _) => "name a file instead of a folder",
        (IoKind::NotADirectory, _) => "check the path: a part of it is not a folder",
        (IoKind::InvalidData, FileUse::Read) => "check the file: it is not text in UTF-8",
        (_, FileUse::Read) => "name another file",
        (IoKind::StorageFull | IoKind::QuotaExceeded, FileUse::Written) => {
            "make room there, or write to another file system"
        }
        (IoKind::FileTooLarge, FileUse::Written) => {
            "raise the limit on the size of files (`ulimit -f`), or write to another file system"
        }
        (_, FileUse::Written) => "write to another file, or to standard output: -",
    }
}

/// An error of usage that the definition of the arguments cannot express.
pub fn usage(message: impl Into<String>, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(hint))
}

/// Shows an error in the arguments, or the requested help or version; returns the exit code.
pub fn of_arguments(error: &clap::Error) -> u8 {
    match error.kind() {
        ClapKind::DisplayHelp | ClapKind::DisplayVersion => {
            match output::put(Channel::Out, &error.render().to_string()) {
                Ok(()) => exit::OK,
                Err(_) => exit::FAILURE,
            }
        }
        ClapKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::tell(&error.render().to_string());
            exit::FAILURE
        }
        _ => {
            output::tell(&arguments_text(&error.render().to_string(), meant().as_deref()));
            exit::FAILURE
        }
    }
}

/// The subcommand that was meant, if there is one of that name.
fn meant() -> Option<String> {
    let command = Cli::command();
    let words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    words.into_iter().find(|word| command.find_subcommand(word).is_some())
}

/// Clap's message in our form: its first paragraph as one line, its tips as help.
fn arguments_text(rendered: &str, meant: Option<&str>) -> String {
    let message: Vec<&str> = rendered.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let message = message.join(" ");
    let message = range_in_words(message.strip_prefix("error: ").unwrap_or(&message));
    let mut out = format!("cyclometer: error: {}\n", clean(&message));
    let tips = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    let more = match meant {
        Some(command) => format!("`cyclometer {command} --help` says more"),
        None => "`cyclometer --help` says more".to_owned(),
    };
    for tip in tips.chain([more.as_str()]) {
        out += &format!("help: {}\n", clean(tip));
    }
    out
}

/// A message with the range of a number in words, in place of Rust's notation: `0 is not in 1..=9`.
fn range_in_words(message: &str) -> String {
    const BEFORE: &str = " is not in ";
    let in_words = || {
        let (value, range) = message.rsplit_once(BEFORE)?;
        let (least, most) = range.split_once("..")?;
        let most = most.strip_prefix('=')?;
        let is_number = |text: &str| text.parse::<i128>().is_ok();
        (is_number(least) && is_number(most)).then(|| format!("{value} is not from {least} to {most}"))
    };
    in_words().unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_and_what_helps() {
        let error = usage("there is nothing to measure", "name a command")
            .with_source(std::io::Error::other("the cause\x1b[2J"));
        assert_eq!(
            text(&error, false),
            "cyclometer: error: there is nothing to measure\nhelp: name a command\n"
        );
        assert!(text(&error, true).ends_with("caused by: the cause\\x1b[2J\n"));
    }

    #[test]
    fn an_error_of_a_file_names_the_option_the_file_and_the_remedy_without_a_number() {
        let refused = io::Error::from_raw_os_error(13);
        let error = of_file("--report", FileUse::Written, Path::new("a\tb"), refused);
        let expected = "cyclometer: error: --report: cannot write a\\tb: permission denied\n\
                        help: name a file in a folder that you may write to\n\
                        caused by: Permission denied\n";
        assert_eq!(text(&error, true), expected);
        let full = of_file("--report", FileUse::Written, Path::new("a"), io::Error::from_raw_os_error(28));
        assert!(full.recovery().to_string().contains("make room"), "{}", full.recovery());
        let limited = of_file("--report", FileUse::Written, Path::new("a"), io::Error::from_raw_os_error(27));
        assert!(limited.recovery().to_string().contains("ulimit -f"), "{}", limited.recovery());
    }

    #[test]
    fn numbers_of_system_errors_are_left_out_and_other_brackets_stay() {
        assert_eq!(without_numbers("a: No (os error 2); b: Full (os error 28)"), "a: No; b: Full");
        for text in ["a (os error x) b", "a (os error ", "a (os error )", "(os error 2)"] {
            assert_eq!(without_numbers(text), text);
        }
    }

    #[test]
    fn the_range_of_a_number_is_in_words() {
        let message = "invalid value '0' for '--runs <N>': 0 is not in 1..=4294967295";
        let expected = "invalid value '0' for '--runs <N>': 0 is not from 1 to 4294967295";
        assert_eq!(range_in_words(message), expected);
        for other in ["'a' is not in the list", "0 is not in 1..9", "0 is not in a..=9", ""] {
            assert_eq!(range_in_words(other), other);
        }
    }

    #[test]
    fn messages_about_arguments_take_one_line() {
        let rendered = "error: unexpected argument '--runz' found\n\n  tip: a similar argument exists: '--runs'\n\n\
                        Usage: cyclometer stat";
        assert_eq!(
            arguments_text(rendered, Some("stat")),
            "cyclometer: error: unexpected argument '--runz' found\n\
             help: a similar argument exists: '--runs'\n\
             help: `cyclometer stat --help` says more\n"
        );
        assert!(arguments_text(rendered, None).ends_with("help: `cyclometer --help` says more\n"));
    }
}
