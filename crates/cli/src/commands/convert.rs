//! `convert`: a recording in a format of another program.

use cyclometer_toolkit::Result;

use super::recorded;
use crate::args::{ConvertArgs, ConvertFormat};
use crate::exit;
use crate::export::{Export, NamedFiles};
use crate::failure::usage;
use crate::output::{Channel, clean, tell};
use crate::render::recording::{self, RecordedRows};

/// Converts a recording.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for files that cannot be read or written; for a recording
/// that is damaged, after the rows before the damage were written.
pub fn run(args: &ConvertArgs, is_verbose: bool) -> Result<u8> {
    let convert = recording::converter(args.to.into())?;
    let (file, output) = (Some(args.file.as_path()), Some(args.output.as_path()));
    NamedFiles::default()
        .read("the recording", file.filter(|file| !recorded::is_stdin(file)))
        .written("-o", output)
        .check()?;
    let name = recorded::name(&args.file);
    let failed = |error| recorded::failed("convert", &args.file, error);
    let mut rows = RecordedRows::new(recorded::open(&args.file).map_err(failed)?);
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
