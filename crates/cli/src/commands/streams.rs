//! The standard streams of commands: `--output` and `--input`, and the kind of our own standard input.

use std::path::Path;
use std::time::Duration;

use cyclometer_toolkit::{InputStream, OutputStream, Result, StandardInput, standard_output_is_null};

use crate::failure::usage;

/// Standard output and standard error; `usual` is the default.
pub fn outputs(asked: Option<&Path>, usual: OutputStream) -> (OutputStream, OutputStream) {
    let Some(path) = asked else { return (usual.clone(), usual) };
    match path.to_str() {
        Some("inherit") => (OutputStream::Inherit, OutputStream::Inherit),
        Some("null") => (OutputStream::Null, OutputStream::Null),
        Some("pipe") => (OutputStream::Pipe, usual),
        _ => (OutputStream::File(path.to_owned()), usual),
    }
}

/// Standard input as it was asked for; ours by default.
pub fn input(asked: Option<&Path>) -> InputStream {
    asked.map_or(InputStream::Inherit, named)
}

/// Standard output as the command sees it: a command that inherits the null device writes to that.
pub fn as_seen(stdout: OutputStream) -> OutputStream {
    match stdout {
        OutputStream::Inherit if standard_output_is_null() => OutputStream::Null,
        other => other,
    }
}

/// Standard input of a command.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandInput {
    /// Where it comes from.
    pub stream: InputStream,
    /// Whether it is empty because no data has arrived in our standard input yet.
    is_unheard: bool,
}

/// How long data may take to arrive in a pipe: the program that writes to it starts at the same time as we
/// do.
const PATIENCE: Duration = Duration::from_millis(100);

impl CommandInput {
    /// The input of a command that is run once: our standard input by default.
    pub fn of_one_run(asked: Option<&Path>) -> CommandInput {
        CommandInput::certain(input(asked))
    }

    /// The input of a command that is run several times, the same each time.
    ///
    /// # Errors
    ///
    /// Usage: data in a pipe, of which each run would get another part.
    pub fn of_several_runs(asked: Option<&Path>) -> Result<CommandInput> {
        match asked {
            Some(path) => Ok(CommandInput::certain(named(path))),
            None => CommandInput::replayed(StandardInput::look(PATIENCE)),
        }
    }

    fn replayed(ours: StandardInput) -> Result<CommandInput> {
        Ok(match ours {
            StandardInput::Nothing => CommandInput::certain(InputStream::Null),
            StandardInput::Inheritable => CommandInput::certain(InputStream::Inherit),
            StandardInput::File { offset_bytes } => {
                CommandInput::certain(InputStream::Replay { offset_bytes })
            }
            StandardInput::Silent => CommandInput { stream: InputStream::Null, is_unheard: true },
            StandardInput::Data => {
                let hint =
                    "give the data as a file, --input FILE; say --input null if the runs are to read nothing";
                return Err(usage(
                    "standard input is a pipe with data, which several runs cannot share",
                    hint,
                ));
            }
        })
    }

    fn certain(stream: InputStream) -> CommandInput {
        CommandInput { stream, is_unheard: false }
    }

    /// A note about the input, before any command runs.
    pub fn note(&self) -> Option<&'static str> {
        self.is_unheard.then_some(
            "cyclometer: note: nothing arrives in standard input, a pipe: the runs read /dev/null, as with --input null\n",
        )
    }

    /// A warning about the input, after all commands have run.
    pub fn warning(&self) -> Option<&'static str> {
        let has_come = || StandardInput::look(Duration::ZERO) == StandardInput::Data;
        (self.is_unheard && has_come()).then_some(
            "cyclometer: warning: data arrived in standard input too late: the runs read /dev/null; \
             give the data as a file, --input FILE\n",
        )
    }
}

fn named(path: &Path) -> InputStream {
    match path.to_str() {
        Some("null") => InputStream::Null,
        _ => InputStream::File(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_no_files_unless_they_have_a_folder() {
        let (stdout, stderr) = outputs(Some("pipe".as_ref()), OutputStream::Discard);
        assert_eq!((stdout, stderr), (OutputStream::Pipe, OutputStream::Discard));
        let (stdout, _) = outputs(Some("./pipe".as_ref()), OutputStream::Discard);
        assert_eq!(stdout, OutputStream::File("./pipe".into()));
        assert_eq!(
            outputs(Some("null".as_ref()), OutputStream::Inherit),
            (OutputStream::Null, OutputStream::Null)
        );
        assert_eq!(outputs(None, OutputStream::Inherit), (OutputStream::Inherit, OutputStream::Inherit));
        assert_eq!(CommandInput::of_one_run(Some("null".as_ref())).stream, InputStream::Null);
        assert_eq!(
            CommandInput::of_one_run(Some("./null".as_ref())).stream,
            InputStream::File("./null".into())
        );
        assert_eq!(CommandInput::of_one_run(None).stream, InputStream::Inherit);
    }

    #[test]
    fn several_runs_get_the_same_input_or_none() {
        let stream = |ours| CommandInput::replayed(ours).map(|input| (input.note().is_some(), input.stream));
        let file = StandardInput::File { offset_bytes: 7 };
        assert_eq!(stream(file).unwrap(), (false, InputStream::Replay { offset_bytes: 7 }));
        assert_eq!(stream(StandardInput::Inheritable).unwrap(), (false, InputStream::Inherit));
        assert_eq!(stream(StandardInput::Nothing).unwrap(), (false, InputStream::Null));
        assert_eq!(stream(StandardInput::Silent).unwrap(), (true, InputStream::Null));
        let refused = stream(StandardInput::Data).unwrap_err();
        assert!(refused.recovery().to_string().contains("--input FILE"), "{refused}");
    }
}
