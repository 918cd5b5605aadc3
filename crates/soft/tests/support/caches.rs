//! Folders for what later runs can use.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::programs::unique;

/// A temporary folder, with folders for profiles and translations in it.
pub struct TestCacheFolder {
    outer: PathBuf,
    pub profiles: PathBuf,
    pub translations: PathBuf,
}

impl TestCacheFolder {
    /// Creates the folder for profiles with a mode. The tracer creates that for translations.
    pub fn new(mode: u32) -> TestCacheFolder {
        // A cache is used below folders only that no other user can change; not every machine's /tmp is one.
        let outer = Path::new("/var/tmp").join(unique("caches").file_name().unwrap());
        let (profiles, translations) = (outer.join("hints"), outer.join("translations"));
        fs::create_dir_all(&profiles).unwrap();
        fs::set_permissions(&profiles, fs::Permissions::from_mode(mode)).unwrap();
        TestCacheFolder { outer, profiles, translations }
    }

    /// The files of profiles.
    pub fn files(&self) -> Vec<PathBuf> {
        files(&self.profiles)
    }

    /// The files of translations; none where there is no folder.
    pub fn kept(&self) -> Vec<PathBuf> {
        if self.translations.exists() { files(&self.translations) } else { Vec::new() }
    }
}

impl Drop for TestCacheFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outer);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The identities of files. A file that was written again has another one: an inode may be used again, but
/// not with the same time of creation.
pub fn numbers(files: &[PathBuf]) -> Vec<(u64, Option<SystemTime>)> {
    let number = |path: &PathBuf| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.ino(), metadata.created().ok())
    };
    files.iter().map(number).collect()
}
