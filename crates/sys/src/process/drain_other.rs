//! Pipes that threads of this program read to their end; they end with the program.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Creates pipes whose content is read and dropped.
#[derive(Debug)]
pub struct Drain(());

impl Drain {
    /// Starts nothing, because each pipe has a thread.
    ///
    /// # Errors
    ///
    /// None.
    pub fn start() -> io::Result<Drain> {
        Ok(Drain(()))
    }

    /// The write end of a new pipe. Reading continues until no process has this end open any more, or this
    /// program ends.
    ///
    /// # Errors
    ///
    /// The operating system's, where no pipe or thread can be created.
    pub fn pipe(&self) -> io::Result<OwnedFd> {
        let (reader, writer) = io::pipe()?;
        let mut reader = File::from(OwnedFd::from(reader));
        let read = move || drop(io::copy(&mut reader, &mut io::sink()));
        std::thread::Builder::new().spawn(read)?;
        Ok(writer.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn more_than_a_pipe_holds_is_read_and_dropped() {
        let drain = Drain::start().unwrap();
        let mut pipes: Vec<File> = (0..3).map(|_| File::from(drain.pipe().unwrap())).collect();
        for pipe in &mut pipes {
            // Without a reader this would wait for ever.
            pipe.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
    }
}
