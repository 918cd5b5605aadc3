//! Turns the words of the command line into commands: splits them, replaces placeholders by values, or has a
//! shell do it.

use std::ffi::OsString;

use cyclometer_toolkit::core::exec::{CommandSpec, InputStream, OutputStream};
use cyclometer_toolkit::interleaved::Hooks;
use cyclometer_toolkit::{Error, Result, check_program};

use super::args::CompareArgs;
use super::syntax::{self, Syntax};
use crate::failure::usage;
use crate::output::{clean, shown_command};

/// The most commands that are compared at once.
const MOST_COMMANDS: usize = 64;

/// A command to compare.
#[derive(Clone, PartialEq, Debug)]
pub struct Contestant {
    /// How it is shown.
    pub name: String,
    /// How it is run; its streams are to be set.
    pub command: CommandSpec,
    /// The commands that run before and after it.
    pub hooks: Hooks,
}

impl Contestant {
    /// Checks that the first program of the command and its hooks exists; it may make the others.
    ///
    /// # Errors
    ///
    /// `ErrorKind::CommandNotFound`.
    pub fn check_program(&self) -> Result<()> {
        let first = self.hooks.setup.as_ref().or(self.hooks.prepare.as_ref()).unwrap_or(&self.command);
        check_program(&first.program)
    }
}

/// The commands that were asked for, in order.
///
/// # Errors
///
/// Usage: quotes that do not close, a command without a word, a list without values or one that no command
/// names.
pub fn contestants(args: &CompareArgs) -> Result<Vec<Contestant>> {
    let lists = args.lists.iter().map(|text| List::parse(text)).collect::<Result<Vec<_>>>()?;
    if let Some((program, rest)) = args.command.split_first() {
        if let Some(list) = lists.first() {
            let message = format!("-L {} has no command to stand in", list.name);
            return Err(usage(message, "write the command as one quoted word, without --"));
        }
        let command = match args.shell {
            true => shell(&shown_command(args.command.iter().map(OsString::as_os_str))),
            false => CommandSpec { args: rest.to_vec(), ..CommandSpec::new(program) },
        };
        let name = shown_command(args.command.iter().map(OsString::as_os_str));
        return Ok(vec![Contestant { name, command, hooks: hooks(args, &[])? }]);
    }
    if let Some(list) = lists.iter().find(|list| !args.commands.iter().any(|text| list.is_in(text))) {
        let message = format!("no command has {{{}}}, so -L {} changes nothing", list.name, list.name);
        return Err(usage(message, "write the name in braces where its value is to stand"));
    }
    let mut all = Vec::new();
    for text in &args.commands {
        let own: Vec<&List> = lists.iter().filter(|list| list.is_in(text)).collect();
        for values in products(&own) {
            if all.len() == MOST_COMMANDS {
                let message = format!("more than {MOST_COMMANDS} commands");
                return Err(usage(message, "compare fewer at a time"));
            }
            let command = parsed(Role::Command, text, &values, args.shell)?;
            let name = name(text, &values, &command, args.shell);
            all.push(Contestant { name, command, hooks: hooks(args, &values)? });
        }
    }
    Ok(all)
}

/// A command as it was written; with values or control characters in it as its words are, so that it can be
/// typed in.
fn name(text: &str, values: &[(String, String)], command: &CommandSpec, by_shell: bool) -> String {
    if by_shell || (values.is_empty() && clean(text) == text) {
        return clean(&replaced(text, values));
    }
    shown_command([&command.program].into_iter().chain(&command.args).map(OsString::as_os_str))
}

/// A name and the values that replace it, one after the other.
#[derive(Clone, PartialEq, Debug)]
struct List {
    name: String,
    values: Vec<String>,
}

impl List {
    fn parse(text: &str) -> Result<List> {
        let fail = |why: &str| usage(format!("-L '{}': {why}", clean(text)), "write it as -L n=1,2,4");
        let (name, values) = text.split_once('=').ok_or_else(|| fail("there is no ="))?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(fail("a name has letters, digits, - and _"));
        }
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        if values.iter().any(String::is_empty) {
            return Err(fail("a value is missing"));
        }
        Ok(List { name: name.to_owned(), values })
    }

    fn is_in(&self, text: &str) -> bool {
        text.contains(&self.placeholder())
    }

    fn placeholder(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

/// Placeholders, each with its value.
type ParameterValues = Vec<(String, String)>;

/// Every combination of values; the last list changes fastest.
fn products(lists: &[&List]) -> Vec<ParameterValues> {
    let mut all: Vec<ParameterValues> = vec![Vec::new()];
    for list in lists {
        let with = |values: &ParameterValues, value: &String| {
            let mut values = values.clone();
            values.push((list.placeholder(), value.clone()));
            values
        };
        all =
            all.iter().flat_map(|values| list.values.iter().map(move |value| with(values, value))).collect();
    }
    all
}

fn replaced(text: &str, values: &[(String, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// A command of one word: split as a shell would, or given to one. Values replace names after the splitting,
/// so that blanks in them divide nothing.
fn parsed(role: Role, text: &str, values: &[(String, String)], by_shell: bool) -> Result<CommandSpec> {
    if by_shell {
        return Ok(shell(&replaced(text, values)));
    }
    let words = shell_words::split(text).map_err(|error| unclosed(text, &error))?;
    if let Some(syntax) = syntax::first(text) {
        return Err(needs_a_shell(role, text, &syntax));
    }
    let mut words = words.iter().map(|word| OsString::from(replaced(word, values)));
    let program = words.next().filter(|program| !program.is_empty());
    let program =
        program.ok_or_else(|| usage("a command is empty", "write at least the name of a program"))?;
    Ok(CommandSpec { args: words.collect(), ..CommandSpec::new(program) })
}

/// The role of a command text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// It is measured.
    Command,
    /// It runs around that, by the option of this name.
    Hook(&'static str),
}

fn needs_a_shell(role: Role, text: &str, syntax: &Syntax) -> Error {
    let (what, by_shell) = match role {
        // The shell of -S need not expand braces.
        _ if matches!(syntax, Syntax::Braces(_)) => (named(role), "have bash run it: bash -c '…'".to_owned()),
        Role::Command => (named(role), "have a shell run the commands with -S".to_owned()),
        Role::Hook(name) => (named(role), format!("have a shell run it with --{name} \"sh -c '…'\" or -S")),
    };
    let (has, or_else) = match syntax {
        Syntax::Operator(operator) if role == Role::Command && operator.starts_with('<') => (
            format!("has an unquoted '{operator}'"),
            format!("give standard input with --input FILE; or quote '{operator}' if it is an argument"),
        ),
        Syntax::Operator(found) | Syntax::Expansion(found) | Syntax::Braces(found) => (
            format!("has an unquoted '{}'", clean(found)),
            format!("quote '{}' if it is an argument", clean(found)),
        ),
        Syntax::QuotedExpansion(found) => (
            format!("has '{}' in double quotes", clean(found)),
            "put it in single quotes if it is an argument".to_owned(),
        ),
        Syntax::Comment => ("has an unquoted '#'".to_owned(), "quote '#' if it is an argument".to_owned()),
        Syntax::Assignment(name) => (format!("begins with '{name}='"), format!("write env {name}=…")),
        Syntax::LineEnd => {
            ("has a line end between words".to_owned(), "write a backslash before it".to_owned())
        }
    };
    let message = format!("{what} '{}' {has}, and no shell reads it", clean(text));
    usage(message, &format!("{by_shell}; or {or_else}"))
}

fn named(role: Role) -> String {
    match role {
        Role::Command => "the command".to_owned(),
        Role::Hook(name) => format!("--{name}"),
    }
}

fn unclosed(text: &str, error: &shell_words::ParseError) -> Error {
    let message = format!("the command '{}' cannot be divided into words: {error}", clean(text));
    usage(message, "close its quotes, or have a shell run it with -S")
}

fn shell(script: &str) -> CommandSpec {
    CommandSpec { args: vec!["-c".into(), script.into()], ..CommandSpec::new("sh") }
}

/// The hooks of a command: they read nothing, and only their standard error is shown.
fn hooks(args: &CompareArgs, values: &[(String, String)]) -> Result<Hooks> {
    let hook = |name: &'static str, text: &Option<String>| -> Result<Option<CommandSpec>> {
        let Some(text) = text else { return Ok(None) };
        let command = parsed(Role::Hook(name), text, values, args.shell)?;
        Ok(Some(CommandSpec { stdin: InputStream::Null, stdout: OutputStream::Null, ..command }))
    };
    Ok(Hooks {
        setup: hook("setup", &args.setup)?,
        prepare: hook("prepare", &args.prepare)?,
        conclude: hook("conclude", &args.conclude)?,
        cleanup: hook("cleanup", &args.cleanup)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, CliCommand};
    use clap::Parser;

    fn commands(words: &[&str]) -> Result<Vec<Vec<String>>> {
        let words = ["cyclometer", "compare"].iter().chain(words);
        let CliCommand::Compare(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("no compare")
        };
        let flat = |contestant: Contestant| {
            let words = [contestant.command.program].into_iter().chain(contestant.command.args);
            words.map(|word| word.into_string().unwrap()).collect()
        };
        Ok(contestants(&args)?.into_iter().map(flat).collect())
    }

    #[test]
    fn commands_are_divided_as_a_shell_does() {
        let all = commands(&["grep -c 'two words' \"a file\"", r"x a\ b ''"]).unwrap();
        assert_eq!(all, [vec!["grep", "-c", "two words", "a file"], vec!["x", "a b", ""]]);
        assert_eq!(commands(&["-S", "a | b", "c"]).unwrap(), [["sh", "-c", "a | b"], ["sh", "-c", "c"]]);
        assert_eq!(commands(&["--", "a", "b c", "-x"]).unwrap(), [["a", "b c", "-x"]]);
    }

    #[test]
    fn shell_syntax_is_left_to_shells_to_quotes_and_to_words_that_a_shell_has_read() {
        assert_eq!(commands(&["a '<' x", "b"]).unwrap()[0], ["a", "<", "x"]);
        assert_eq!(commands(&["-S", "FOO=1 a < x", "b"]).unwrap()[0], ["sh", "-c", "FOO=1 a < x"]);
        assert_eq!(commands(&["--", "a", "<", "x"]).unwrap(), [["a", "<", "x"]]);
        assert_eq!(commands(&["-L", "n=<,a;b", "p {n}", "q"]).unwrap()[1], ["p", "a;b"]);
        let error = commands(&["sort < x", "b"]).unwrap_err();
        assert_eq!(
            error.recovery().to_string(),
            "have a shell run the commands with -S; or give standard input with --input FILE; or quote '<' if it is an argument"
        );
        let help = |text| commands(&[text, "b"]).unwrap_err().recovery().to_string();
        assert_eq!(
            help("a \"$X\""),
            "have a shell run the commands with -S; or put it in single quotes if it is an argument"
        );
        assert_eq!(help("a {x,y}"), "have bash run it: bash -c '…'; or quote '{x,y}' if it is an argument");
    }

    #[test]
    fn lists_make_a_command_of_each_value() {
        assert_eq!(commands(&["-L", "n=1,2", "xz -T{n}"]).unwrap(), [["xz", "-T1"], ["xz", "-T2"]]);
        let all = commands(&["-L", "a=1,2", "-L", "b=x,y z", "p {a} {b} {c}"]).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all[1], ["p", "1", "y z", "{c}"]);
        assert_eq!(commands(&["-L", "n=1,2", "a {n}", "b"]).unwrap().len(), 3, "b is one command");
    }

    #[test]
    fn a_command_with_values_is_named_so_that_it_can_be_typed_in() {
        let names = |words: &[&str]| -> Vec<String> {
            let words = ["cyclometer", "compare"].iter().chain(words);
            let CliCommand::Compare(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("no compare")
            };
            contestants(&args).unwrap().into_iter().map(|contestant| contestant.name).collect()
        };
        assert_eq!(names(&["-L", "n=a b,c", "echo {n}"]), ["echo 'a b'", "echo c"]);
        assert_eq!(names(&["-S", "-L", "n=1,2", "echo {n} | cat"]), ["echo 1 | cat", "echo 2 | cat"]);
        assert_eq!(names(&["grep \"a b\" f", "true"]), ["grep \"a b\" f", "true"]);
        assert_eq!(names(&["printf 'a\nb'", "x"]), [r"printf $'a\nb'", "x"]);
        assert_eq!(names(&["-S", "a\nb", "x"]), [r"a\nb", "x"]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (words, part) in [
            (&["echo 'a", "b"][..], "the command 'echo 'a' cannot be divided"),
            (&["", "b"], "a command is empty"),
            (&["-L", "n", "a {n}"], "there is no ="),
            (&["-L", "n=1,,2", "a {n}"], "a value is missing"),
            (&["-L", "=1", "a {n}"], "a name has letters"),
            (&["-L", "n=1,2", "a", "b"], "no command has {n}"),
            (&["-L", "n=1,2", "--", "a", "{n}"], "-L n has no command"),
            (&["a < x", "b"], "the command 'a < x' has an unquoted '<'"),
            (&["a", "FOO=1 b"], "'FOO=1 b' begins with 'FOO='"),
            (&["--prepare", "a; b", "c", "d"], "--prepare 'a; b' has an unquoted ';'"),
            (&["--setup", "a > b", "c", "d"], "--setup 'a > b' has an unquoted '>'"),
            (&["--conclude", "a &", "c", "d"], "--conclude 'a &' has an unquoted '&'"),
            (&["ls *.c", "b"], "the command 'ls *.c' has an unquoted '*'"),
            (&["--prepare", "rm -f {a,b}", "c", "d"], "--prepare 'rm -f {a,b}' has an unquoted '{a,b}'"),
            (&["a \"$X\"", "b"], "has '$X' in double quotes"),
            (&["a 2>&1", "b"], "has an unquoted '2>&1'"),
            (&["a # b", "c"], "has an unquoted '#'"),
            (&["--cleanup", "rm $X", "--", "c"], "--cleanup 'rm $X' has an unquoted '$X'"),
        ] {
            let error = commands(words).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let many = format!("n={}", vec!["1"; 65].join(","));
        assert!(commands(&["-L", &many, "a {n}"]).unwrap_err().to_string().contains("more than 64"));
    }
}
