//! Files of `/proc`: of no known length, and read with as few calls as possible.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Larger than most files of `/proc`.
const ROOM: usize = 8 << 10;

/// All of a file.
///
/// # Errors
///
/// The operating system's.
pub(super) fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM);
    // `take` hides the unknown length of the file, so that reading starts with the whole buffer.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The content of a file as text; invalid UTF-8 is replaced.
///
/// # Errors
///
/// As [`bytes`].
pub(super) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_however_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in [0, 1, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM] {
            let written: Vec<u8> = (0..len).map(|i| i as u8).collect();
            std::fs::write(&path, &written).unwrap();
            assert_eq!(bytes(&path).unwrap(), written);
        }
        folder.close().unwrap();
        assert!(bytes(&path).is_err());
    }
}
