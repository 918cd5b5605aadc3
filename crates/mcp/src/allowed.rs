//! Which programs may be run, and in which folders.
//!
//! All links of a path are resolved first, and the resolved path has to lie below an allowed folder. The
//! resolved path is also executed, so that a link that changes afterwards has no effect. One race is left:
//! between the check and the execution, a process that may rename folders within an allowed folder can put a
//! link in the place of one. It could as well copy a program to the allowed folder.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The folders whose programs may be run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowedFolders(Vec<PathBuf>);

/// A program that may be run: its path without links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedProgram(PathBuf);

impl AllowedProgram {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A reason why a program is not run, with the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramRefusal(pub String);

impl AllowedFolders {
    /// The folders that `--allow` names, with links resolved.
    ///
    /// # Errors
    ///
    /// The folder that does not exist, or that is none.
    pub fn new(named: &[PathBuf]) -> Result<AllowedFolders, String> {
        let resolved = named.iter().map(|path| {
            let fail = |why: String| format!("--allow {}: {why}", path.display());
            let folder = fs::canonicalize(path).map_err(|error| fail(reason(&error)))?;
            let is_folder = folder.metadata().is_ok_and(|metadata| metadata.is_dir());
            if is_folder { Ok(folder) } else { Err(fail("it is no folder".to_owned())) }
        });
        Ok(AllowedFolders(resolved.collect::<Result<_, _>>()?))
    }

    /// The folders.
    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }

    /// The folder that a call names as its working directory; the first allowed one by default.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn working_directory(&self, asked: Option<&str>) -> Result<PathBuf, ProgramRefusal> {
        let first = self.first()?;
        let Some(asked) = asked else { return Ok(first.to_owned()) };
        let folder = self.resolved(&first.join(asked), "working directory", asked)?;
        match folder.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(folder),
            _ => Err(ProgramRefusal(format!("the working directory {} is no folder", clean(asked)))),
        }
    }

    /// The program that a call names: by its path, or relative to the working directory. It is not looked up
    /// in `PATH`.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn program(&self, asked: &str, folder: &Path) -> Result<AllowedProgram, ProgramRefusal> {
        self.first()?;
        if asked.is_empty() {
            return Err(ProgramRefusal("the program has no name: give its path".to_owned()));
        }
        let path = self.resolved(&folder.join(asked), "program", asked)?;
        let metadata = path.metadata();
        match metadata {
            Ok(metadata) if is_executable(&metadata) => Ok(AllowedProgram(path)),
            _ => Err(ProgramRefusal(format!("the program {} is no executable file", clean(asked)))),
        }
    }

    fn first(&self) -> Result<&Path, ProgramRefusal> {
        let first = self.0.first().ok_or_else(|| {
            ProgramRefusal(
                "this server runs no program: nothing is allowed. Start it with --allow DIR, \
                 for a folder whose programs may be run"
                    .to_owned(),
            )
        });
        first.map(PathBuf::as_path)
    }

    /// A path without links, which lies below an allowed folder.
    fn resolved(&self, path: &Path, what: &str, asked: &str) -> Result<PathBuf, ProgramRefusal> {
        let fail = |why: &str| ProgramRefusal(format!("the {what} {} {why}", clean(asked)));
        let found =
            fs::canonicalize(path).map_err(|error| fail(&format!("cannot be used: {}", reason(&error))))?;
        if self.0.iter().any(|folder| found.starts_with(folder)) {
            return Ok(found);
        }
        let folders: Vec<String> = self.0.iter().map(|folder| folder.display().to_string()).collect();
        let target = match found == path {
            true => String::new(),
            false => format!(" leads to {} and", clean(&found.display().to_string())),
        };
        Err(fail(&format!(
            "is refused: it{target} is not below {}. The server runs programs of the folders that --allow names",
            folders.join(" or ")
        )))
    }
}

/// Programs below folders, for `--dry-run`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundPrograms {
    /// Their paths, in order.
    pub programs: Vec<PathBuf>,
    /// Whether the search ended early.
    pub is_cut: bool,
}

/// The most programs that are listed.
const MOST_LISTED: usize = 200;

/// The most entries of folders that are looked at.
const MOST_LOOKED_AT: usize = 100_000;

impl FoundPrograms {
    /// The programs below the allowed folders. Links are left out: their targets are listed where they lie.
    pub fn below(allowed: &AllowedFolders) -> FoundPrograms {
        let mut found = FoundPrograms::default();
        let (mut folders, mut looked_at) = (allowed.0.clone(), 0);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                looked_at += 1;
                if found.programs.len() >= MOST_LISTED || looked_at > MOST_LOOKED_AT {
                    found.is_cut = true;
                    found.programs.sort();
                    return found;
                }
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                    Ok(metadata) if is_executable(&metadata) => found.programs.push(entry.path()),
                    _ => {}
                }
            }
        }
        found.programs.sort();
        found
    }
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

/// The reason of a system error, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Text from outside, with control characters escaped.
pub fn clean(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder that is allowed, with a program, beside one that is not.
    struct Place {
        root: tempfile::TempDir,
        allowed: AllowedFolders,
    }

    impl Place {
        fn new() -> Place {
            let root = tempfile::tempdir().unwrap();
            for folder in ["in/deep", "out", "in-side"] {
                fs::create_dir_all(root.path().join(folder)).unwrap();
            }
            for program in ["in/deep/a", "out/b", "in-side/c"] {
                let path = root.path().join(program);
                fs::write(&path, "#!/bin/sh\n").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::write(root.path().join("in/text"), "x").unwrap();
            let allowed = AllowedFolders::new(&[root.path().join("in")]).unwrap();
            Place { root, allowed }
        }

        fn path(&self, name: &str) -> String {
            self.root.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned()
        }

        fn program(&self, asked: &str) -> Result<String, String> {
            let folder = self.allowed.working_directory(None).unwrap();
            let found = self.allowed.program(asked, &folder);
            found.map(|program| program.path().to_str().unwrap().to_owned()).map_err(|refusal| refusal.0)
        }
    }

    #[test]
    fn a_program_below_an_allowed_folder_is_found_by_either_path() {
        let place = Place::new();
        let expected = Ok(place.path("in/deep/a"));
        assert_eq!(place.program("deep/a"), expected);
        assert_eq!(place.program(&place.path("in/deep/a")), expected);
        assert_eq!(place.program("deep/../deep/a"), expected);
    }

    #[test]
    fn a_program_outside_is_refused_by_every_path() {
        let place = Place::new();
        symlink(place.path("out/b"), place.path("in/link")).unwrap();
        symlink(place.path("out"), place.path("in/folder")).unwrap();
        for asked in ["../out/b", "link", "folder/b", "deep/../../out/b", "../in-side/c", "/bin/sh"] {
            let refusal = place.program(asked).unwrap_err();
            assert!(refusal.contains("is refused") && refusal.contains("--allow"), "{asked}: {refusal}");
        }
        assert!(place.program("link").unwrap_err().contains(&place.path("out/b")));
    }

    #[test]
    fn a_link_within_an_allowed_folder_becomes_its_target() {
        let place = Place::new();
        symlink("deep/a", place.path("in/link")).unwrap();
        assert_eq!(place.program("link"), Ok(place.path("in/deep/a")));
    }

    #[test]
    fn what_is_no_program_is_refused_with_its_name() {
        let place = Place::new();
        for (asked, expected) in [
            ("text", "no executable file"),
            ("deep", "no executable file"),
            ("gone", "no such file"),
            ("", "no name"),
            ("a\u{1b}[2J", "\\u{1b}[2J"),
            ("a\0b", "cannot be used"),
        ] {
            let refusal = place.program(asked).unwrap_err();
            assert!(refusal.contains(expected), "{asked:?}: {refusal}");
        }
    }

    #[test]
    fn without_an_allowed_folder_nothing_is_run() {
        let none = AllowedFolders::default();
        let refusal = none.program("/bin/sh", Path::new("/")).unwrap_err();
        assert!(refusal.0.contains("--allow DIR"), "{refusal:?}");
        assert_eq!(none.working_directory(None).unwrap_err(), refusal);
    }

    #[test]
    fn a_working_directory_lies_below_an_allowed_folder() {
        let place = Place::new();
        let folder = |asked| place.allowed.working_directory(asked).map_err(|refusal| refusal.0);
        assert_eq!(folder(None), Ok(place.path("in").into()));
        assert_eq!(folder(Some("deep")), Ok(place.path("in/deep").into()));
        assert!(folder(Some("..")).unwrap_err().contains("is refused"));
        assert!(folder(Some("text")).unwrap_err().contains("no folder"));
    }

    #[test]
    fn an_allowed_folder_has_to_exist() {
        let place = Place::new();
        for (name, expected) in [("gone", "no such file"), ("in/text", "no folder")] {
            let error = AllowedFolders::new(&[place.path(name).into()]).unwrap_err();
            assert!(error.contains(expected) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn programs_are_listed_without_links_and_texts() {
        let place = Place::new();
        symlink(place.path("out/b"), place.path("in/link")).unwrap();
        let found = FoundPrograms::below(&place.allowed);
        assert_eq!(found, FoundPrograms { programs: vec![place.path("in/deep/a").into()], is_cut: false });
    }
}
