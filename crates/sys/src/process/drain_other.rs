//! Pipes that threads of ours read to their end: they end with this program.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Makes pipes of which everything is read and dropped.
#[derive(Debug)]
pub struct Drain(());

impl Drain {
    /// Nothing to start: each pipe has a thread.
    ///
    /// # Errors
    ///
    /// None.
    pub fn start() -> io::Result<Drain> {
        Ok(Drain(()))
    }

    /// The end of a new pipe that is written to. Reading goes on until nobody has this end any more, or this program ends.
    ///
    /// # Errors
    ///
    /// The operating system's, where no pipe or no thread can be made.
    pub fn pipe(&self) -> io::Result<OwnedFd> {
        let (reader, writer) = io::pipe()?;
        let mut reader = File::from(OwnedFd::from(reader));
        let read = move || drop(io::copy(&mut reader, &mut io::sink()));
        std::thread::Builder::new().spawn(read)?;
        Ok(writer.into())
    }
}
