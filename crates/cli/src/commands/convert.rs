//! `convert`: a recording in a format of another program.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cyclometer::recording::{Recording, RecordingError};
use cyclometer::{Error, Result};

use crate::args::{ConvertArgs, ConvertFormat};
use crate::exit;
use crate::export::{Export, NamedFiles};
use crate::failure::{FileUse, of_file, usage};
use crate::output::{Channel, clean, clean_os, tell};
use crate::render::recording::{self, RecordedRows};

/// Converts a recording.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for files that cannot be read or written; for a recording
/// that is damaged, after the rows before the damage were written.
pub fn run(args: &ConvertArgs, is_verbose: bool) -> Result<u8> {
    let convert = recording::converter(args.to)?;
    let (file, output) = (Some(args.file.as_path()), Some(args.output.as_path()));
    NamedFiles::default()
        .read("the recording", file.filter(|file| !is_stdin(file)))
        .written("-o", output)
        .check()?;
    let name = name(&args.file);
    let failed = |error| cannot_convert(&args.file, &name, error);
    let input = open(&args.file).map_err(|error| failed(error.into()))?;
    let mut rows = RecordedRows::new(Recording::open(input).map_err(failed)?);
    let export = Export::open("-o", &args.output)?;
    if args.to == ConvertFormat::Parquet && export.is_stdout() && Channel::Out.is_terminal() {
        return Err(usage(
            "a Parquet file is binary, and standard output is a terminal",
            "name a file with -o",
        ));
    }
    let Some(()) = export.stream(|out| convert(&mut rows, out))? else { return Ok(exit::OK) };
    for warning in rows.warnings() {
        tell(&format!("cyclometer: warning: {name}: {}\n", clean(&warning)));
    }
    if is_verbose {
        rows.notes().for_each(|note| tell(&format!("{name}: {}\n", clean(note))));
    }
    rows.into_failure().map_or(Ok(exit::OK), |error| Err(failed(error)))
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { clean_os(file.as_os_str()) }
}

fn open(file: &Path) -> io::Result<Box<dyn Read>> {
    if is_stdin(file) { Ok(Box::new(io::stdin())) } else { Ok(Box::new(File::open(file)?)) }
}

/// The error with the name of the file.
fn cannot_convert(file: &Path, name: &str, error: RecordingError) -> Error {
    let error = match error {
        RecordingError::Io(error) => return of_file("FILE", FileUse::Read, file, error),
        other => Error::from(other),
    };
    let message = format!("cannot convert {name}: {error}");
    Error::new(error.kind(), message).with_recovery(error.recovery().clone()).with_source(error)
}
