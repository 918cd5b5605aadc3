//! Executable files without a library, made of bytes.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the code is, and starts.
pub const CODE: u64 = 0x40_0000;
/// Where the data are.
pub const DATA: u64 = 0x60_0000;
/// Bytes of data; a stack may grow down from their end.
pub const DATA_BYTES: u64 = 0x2_0000;

/// A file that goes away with its owner.
pub struct ElfProgram {
    path: PathBuf,
}

impl ElfProgram {
    /// Writes a static executable: code at [`CODE`], data at [`DATA`], of which the first bytes are given.
    pub fn new(code: &[u8], data: &[u8]) -> io::Result<ElfProgram> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cyclometer-lockstep-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let program = ElfProgram { path };
        fs::write(&program.path, image(code, data))?;
        fs::set_permissions(&program.path, fs::Permissions::from_mode(0o755))?;
        Ok(program)
    }

    /// Leaves a copy that stays, to be looked at.
    pub fn keep(&self, name: &str) -> PathBuf {
        let kept = self.path.with_file_name(name);
        let _ = fs::copy(&self.path, &kept);
        kept
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ElfProgram {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// # Source
///
/// `elf(5)`.
fn image(code: &[u8], data: &[u8]) -> Vec<u8> {
    const PAGE: u64 = 0x1000;
    let data_at = PAGE + (code.len() as u64).next_multiple_of(PAGE);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for (value, bytes) in
        [(2, 2), (62, 2), (1, 4), (CODE, 8), (64, 8), (0, 8), (0, 4), (64, 2), (56, 2), (2, 2)]
    {
        put(&mut file, value, bytes);
    }
    file.resize(64, 0);
    segment(&mut file, 5, [PAGE, CODE, code.len() as u64, code.len() as u64]);
    segment(&mut file, 6, [data_at, DATA, data.len() as u64, DATA_BYTES]);
    file.resize(PAGE as usize, 0);
    file.extend(code);
    file.resize(data_at as usize, 0);
    file.extend(data);
    file
}

fn segment(file: &mut Vec<u8>, flags: u64, [offset, address, in_file, in_memory]: [u64; 4]) {
    put(file, 1, 4);
    put(file, flags, 4);
    [offset, address, address, in_file, in_memory, 0x1000].into_iter().for_each(|value| put(file, value, 8));
}

fn put(file: &mut Vec<u8>, value: u64, bytes: usize) {
    file.extend(&value.to_le_bytes()[..bytes]);
}
