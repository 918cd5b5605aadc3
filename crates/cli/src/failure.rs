//! Errors as they are shown: a line that names the object, and a remedy.

use std::error::Error as _;

use clap::CommandFactory;
use clap::error::ErrorKind as ClapKind;
use cyclometer::core::{Error, ErrorKind, Recovery};

use crate::args::Cli;
use crate::exit;
use crate::output::{self, Channel, clean};

/// Shows an error; gives its exit code.
pub fn report(error: &Error, verbose: bool) -> u8 {
    output::tell(&text(error, verbose));
    exit::of_error(error)
}

fn text(error: &Error, verbose: bool) -> String {
    let mut out = format!("cyclometer: error: {}\n", clean(&error.to_string()));
    let help = error.recovery().to_string();
    if !help.is_empty() {
        out += &format!("help: {}\n", clean(&help));
    }
    let mut cause = error.source().filter(|_| verbose);
    while let Some(source) = cause {
        out += &format!("caused by: {}\n", clean(&source.to_string()));
        cause = source.source();
    }
    out
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
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let mut out = format!("cyclometer: error: {}\n", clean(message));
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
