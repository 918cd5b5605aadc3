//! An initial RAM disk: a "newc" archive, written without root and without cpio.
//!
//! # Source
//!
//! Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive that grows.
#[derive(Default)]
pub(super) struct Initrd {
    bytes: Vec<u8>,
    entries: u32,
}

impl Initrd {
    /// One with the device that process 1 gets as its console.
    pub(super) fn new() -> Self {
        let mut initrd = Self::default();
        initrd.folder("dev");
        initrd.entry("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
        initrd
    }

    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, (0, 0), &[]);
    }

    /// Adds a file that may be executed.
    pub(super) fn file(&mut self, name: &str, from: &Path) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        self.entry(name, PROGRAM, (0, 0), &content);
        Ok(())
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        // Inode, mode, user, group, links, time, length, device of the file, device that it is, length of the
        // name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, name_length, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").into_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_name_their_lengths() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "12345").unwrap();
        let mut initrd = Initrd::default();
        initrd.file("init", &file).unwrap();
        let bytes = initrd.finish();
        let text = String::from_utf8(bytes).unwrap();
        let header = "07070100000001000081ed00000000000000000000000100000000000000050000000000000000\
                      00000000000000000000000500000000";
        assert!(text.starts_with(&format!("{header}init\0\0")), "{text}");
        let content = text.find("12345").unwrap();
        assert_eq!(content % 4, 0);
        assert_eq!(text[content..].find("070701"), Some(8), "the next entry is aligned");
        assert!(text.contains("TRAILER!!!\0"));
    }
}
