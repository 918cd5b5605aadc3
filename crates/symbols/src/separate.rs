//! Separate files with debug information, where distributions put them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use object::Object;

/// The folder of all separate files.
///
/// # Source
///
/// GDB manual, "Debugging Information in Separate Files".
const FOLDER: &str = "/usr/lib/debug";

/// The largest separate file that is read, in bytes.
const LARGEST: u64 = 4 << 30;

/// The content of the separate file of an object, if there is one: by its build id, else by its debug link,
/// whose checksum must be right.
pub(crate) fn debug_file(path: &Path, object: &object::File<'_>) -> Option<Vec<u8>> {
    let by_build_id = object.build_id().ok().flatten().and_then(|id| {
        let content = content(&path_of(id)?)?;
        let has_id = object::File::parse(&*content).ok()?.build_id().ok()? == Some(id);
        has_id.then_some(content)
    });
    by_build_id.or_else(|| {
        let (name, sum) = object.gnu_debuglink().ok()??;
        let name = Path::new(std::str::from_utf8(name).ok()?);
        // Only a name in these folders: a link must not lead to any other file.
        let name = name.file_name().filter(|file| *file == name)?;
        let folder = fs::canonicalize(path).ok()?.parent()?.to_owned();
        let inside = folder.strip_prefix("/").ok()?;
        let places = [folder.clone(), folder.join(".debug"), Path::new(FOLDER).join(inside)];
        let mut places = places.into_iter().map(|place| place.join(name)).filter(|place| place != path);
        places.find_map(|place| content(&place).filter(|content| crc32fast::hash(content) == sum))
    })
}

/// The path of a separate file by build id.
fn path_of(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let mut name = String::new();
    rest.iter().for_each(|byte| {
        let _ = write!(name, "{byte:02x}");
    });
    Some(Path::new(FOLDER).join(format!(".build-id/{first:02x}/{name}.debug")))
}

fn content(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= LARGEST).then(|| fs::read(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_a_path() {
        let path = path_of(&[0xab, 0x01, 0xff]).unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/ab/01ff.debug"));
        assert_eq!((path_of(&[]), path_of(&[1])), (None, None));
    }
}
