//! Writers of everything that is shown, which outlive a closed pipe.

use std::io::{self, IsTerminal, Write};

pub use cyclometer_render::text::{clean, clean_os, shown_command};

/// Which of our streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Channel {
    /// Whether a terminal shows the stream.
    pub fn is_terminal(self) -> bool {
        match self {
            Channel::Out => io::stdout().is_terminal(),
            Channel::Err => io::stderr().is_terminal(),
        }
    }
}

/// Writes the text; a reader that has gone away is not an error.
///
/// # Errors
///
/// Any other failure to write, such as a full disk.
pub fn put(channel: Channel, text: &str) -> io::Result<()> {
    let written = match channel {
        Channel::Out => put_to(&mut io::stdout().lock(), text),
        Channel::Err => put_to(&mut io::stderr().lock(), text),
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn put_to(stream: &mut dyn Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Writes a message to standard error; a failure to do so cannot be reported.
pub fn tell(text: &str) {
    // A closed standard error has no reader.
    let _ = put(Channel::Err, text);
}
