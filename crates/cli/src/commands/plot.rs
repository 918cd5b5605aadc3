//! `plot`: the rates, phases and marks of a recording as a picture, or on the terminal.

use std::path::Path;

use cyclometer_toolkit::Result;

use super::recorded;
use crate::args::{Cli, PlotArgs, PlotAxis};
use crate::exit;
use crate::export::{Export, NamedFiles};
use crate::failure::usage;
use crate::output::Channel;
use crate::render::WIDTH;
use crate::render::lanes::{LaneAxis, RecordingLanes};
use crate::render::plot::chart::{RecordingChart, rated_events};
use crate::render::plot::{PlotFormat, page, recording, terminal};

/// Draws a recording.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for files that cannot be read or written, and for an axis or
/// thread that the recording does not have; for a damaged recording, after the rows before the damage were
/// drawn.
pub fn run(args: &PlotArgs, cli: &Cli) -> Result<u8> {
    NamedFiles::default()
        .read("the recording", Some(args.file.as_path()).filter(|file| !recorded::is_stdin(file)))
        .written("-o", args.output.as_deref())
        .check()?;
    let picture = args.output.as_deref().map(|path| PictureFile::open("-o", path)).transpose()?;
    let mut read = recorded::read(&args.file)?;
    if let Some(tid) = args.thread {
        recorded::keep_thread(&mut read, tid)?;
    }
    let axis = args.over.map(|over| axis(&read, over)).transpose()?;
    let chart = RecordingChart::new(&read, axis, None);
    match picture {
        Some(picture) => picture.write(&chart)?,
        None => {
            let text = terminal::render(&chart, terminal_width(), super::paint(cli, Channel::Out));
            super::print(&text)?;
        }
    }
    match read.failure {
        Some(error) => Err(recorded::unreadable(&args.file, error)),
        None => Ok(exit::OK),
    }
}

/// The file of a picture, which has proved writable.
pub struct PictureFile {
    export: Export,
    format: PlotFormat,
}

impl PictureFile {
    /// Opens the file that an option names; the format is that of its name.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a name of no format, and `ErrorKind::Io` when it cannot be written.
    pub fn open(option: &'static str, path: &Path) -> Result<PictureFile> {
        let format = PlotFormat::named(option, path)?;
        Ok(PictureFile { export: Export::open(option, path)?, format })
    }

    /// Draws the recording of a file with the usual axis and threads.
    ///
    /// # Errors
    ///
    /// Those of [`run`].
    pub fn draw(self, file: &Path) -> Result<()> {
        let read = recorded::read(file)?;
        self.write(&RecordingChart::new(&read, None, None))?;
        read.failure.map_or(Ok(()), |error| Err(recorded::unreadable(file, error)))
    }

    fn write(self, chart: &RecordingChart) -> Result<()> {
        self.export.write(&match self.format {
            PlotFormat::Svg => recording::svg(chart, None),
            PlotFormat::Html => page::recording(chart),
        })
    }
}

fn axis(recording: &RecordingLanes, over: PlotAxis) -> Result<LaneAxis> {
    let instructions =
        cyclometer_toolkit::stats::window_rates::instructions(&rated_events(&recording.header));
    match over {
        PlotAxis::Instructions => instructions.map(LaneAxis::Instructions).ok_or_else(|| {
            usage(
                "--over instructions: the recording has no column of instructions",
                "use --over time, or record with -e instructions,…",
            )
        }),
        PlotAxis::Time if recording.has_times() || recording.windows() == 0 => Ok(LaneAxis::Time),
        PlotAxis::Time => {
            Err(usage("--over time: the rows of the recording have no times", "leave --over out"))
        }
    }
}

/// The width of the terminal, or the usual one in a pipe.
fn terminal_width() -> usize {
    let shown = Channel::Out.is_terminal().then(terminal_size::terminal_size).flatten();
    shown.map_or(WIDTH, |(width, _)| usize::from(width.0))
}
