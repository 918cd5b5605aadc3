//! Why a command cannot be followed, according to its file.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cyclometer_soft::host;

/// The execute permission bits.
const ANYBODY: u32 = 0o111;

/// Why a command cannot be followed, in words that follow "it". `None` where it can be followed, or where the
/// kernel will refuse to execute it.
///
/// Checks each file of `PATH` that the kernel may execute. A file that only some users may execute may be
/// passed over, so the next one is checked too.
pub(super) fn refuses(program: &OsStr) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    refuses_along(program, &path)
}

fn refuses_along(program: &OsStr, path: &OsStr) -> Option<String> {
    for file in candidates(program, path) {
        let Ok(metadata) = fs::metadata(&file) else { continue };
        let allowed = metadata.permissions().mode() & ANYBODY;
        if !metadata.is_file() || allowed == 0 {
            continue;
        }
        let reason = host::refuses(&file);
        if reason.is_some() || allowed == ANYBODY {
            return reason;
        }
    }
    None
}

/// The files that `execvp(3)` would try.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<PathBuf> {
    match program.as_encoded_bytes().contains(&b'/') {
        true => vec![PathBuf::from(program)],
        false => std::env::split_paths(path).map(|folder| in_folder(&folder, program)).collect(),
    }
}

/// An empty entry of `PATH` is the working directory.
fn in_folder(folder: &Path, program: &OsStr) -> PathBuf {
    match folder.as_os_str().is_empty() {
        true => Path::new(".").join(program),
        false => folder.join(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    /// The start of an ELF file for a machine, of 32 or 64 bits (1, 2).
    fn elf(folder: &Path, class: u8, machine: u8, mode: u32) {
        let mut head = [0; 64];
        head[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
        head[18] = machine;
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("program"), head).unwrap();
        fs::set_permissions(folder.join("program"), Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_file_that_will_be_executed_decides() {
        let root = tempfile::tempdir().unwrap();
        let [good, old, hidden, own] = ["good", "old", "hidden", "own"].map(|name| root.path().join(name));
        elf(&good, 2, 62, 0o755);
        elf(&old, 1, 3, 0o755);
        elf(&hidden, 1, 3, 0o644);
        elf(&own, 2, 62, 0o700);
        let check = |folders: &[&PathBuf], refused: bool| {
            let path = std::env::join_paths(folders).unwrap();
            assert_eq!(refuses_along("program".as_ref(), &path).is_some(), refused, "{folders:?}");
        };
        check(&[&good, &old], false);
        check(&[&old, &good], true);
        check(&[&hidden, &good], false);
        check(&[&hidden], false);
        check(&[&own, &old], true);
        check(&[&root.path().join("nowhere")], false);
        let direct = old.join("program");
        assert!(refuses_along(direct.as_os_str(), "".as_ref()).unwrap().contains("32-bit"));
    }
}
