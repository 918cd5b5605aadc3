//! `install.sh` of the archives, on a tree with a program that says its version.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::output;

/// The list of installed files.
const LIST: &str = "share/doc/cyclometer/installed-files";
/// A file that only the first version has.
const GONE: &str = "share/man/man1/cyclometer-gone.1";

/// An unpacked archive and an empty home.
struct Unpacked {
    folder: tempfile::TempDir,
}

impl Unpacked {
    fn new(version: &str) -> Unpacked {
        let unpacked = Unpacked { folder: tempfile::tempdir().unwrap() };
        unpacked.release(version);
        fs::write(unpacked.folder.path().join(GONE), "a command of this version").unwrap();
        fs::create_dir(unpacked.home()).unwrap();
        unpacked
    }

    /// Puts another version into the archive's place.
    fn release(&self, version: &str) {
        let program = self.folder.path().join("bin/cyclometer");
        for folder in ["bin", "share/man/man1"] {
            fs::create_dir_all(self.folder.path().join(folder)).unwrap();
        }
        // Larger than the limit of the test with a full disk.
        fs::write(&program, format!("#!/bin/sh\necho {version}\n{}", "#".repeat(9_000))).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(self.folder.path().join("share/man/man1/cyclometer.1"), version).unwrap();
        fs::copy(crate::root().join("packaging/install.sh"), self.folder.path().join("install.sh")).unwrap();
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("a home")
    }

    fn prefix(&self) -> PathBuf {
        self.home().join("p q")
    }

    fn install(&self, arguments: &[&str]) -> Output {
        let mut shell = Command::new("sh");
        shell.arg(self.folder.path().join("install.sh")).args(arguments).env("HOME", self.home());
        shell.current_dir("/").output().unwrap()
    }

    /// Installs as a user without rights, in that user's home.
    fn install_without_rights(&self) -> Output {
        self.shell_without_rights().output().unwrap()
    }

    /// The script, which a user without rights is about to execute.
    fn shell_without_rights(&self) -> Command {
        set_mode(self.folder.path(), 0o755);
        let mut shell = if output("id", &["--user"]).is_ok_and(|id| id.trim() == "0") {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh"]);
            setpriv
        } else {
            Command::new("sh")
        };
        shell.arg(self.folder.path().join("install.sh")).env("HOME", self.home()).current_dir("/");
        shell
    }

    fn install_to_prefix(&self) -> Output {
        self.install(&["--prefix", &self.prefix().to_string_lossy()])
    }

    fn uninstall(&self) -> Output {
        self.install(&["--uninstall", "--prefix", &self.prefix().to_string_lossy()])
    }

    fn installed_version(&self) -> String {
        let out = Command::new(self.prefix().join("bin/cyclometer")).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
}

fn set_mode(folder: &Path, mode: u32) {
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()));
    let paths = entries.into_iter().flatten();
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_version_is_installed_over_another_one_and_removed() {
    let unpacked = Unpacked::new("1");
    let out = unpacked.install_to_prefix();
    assert!(out.status.success(), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stdout).contains("p q/bin is not on your PATH"), "{out:?}");
    assert_eq!(unpacked.installed_version(), "1");
    fs::write(unpacked.prefix().join("bin/other"), "of another program").unwrap();
    fs::write(unpacked.prefix().join("share/man/man1/cyclometer-mine.1"), "of another program").unwrap();
    fs::remove_file(unpacked.folder.path().join(GONE)).unwrap();
    unpacked.release("2");
    assert!(unpacked.install_to_prefix().status.success());
    assert_eq!(unpacked.installed_version(), "2");
    let prefix = unpacked.prefix();
    assert!(!prefix.join(GONE).exists(), "a file that only version 1 has");
    assert_eq!(files(&prefix).len(), 5, "{:?}", files(&prefix));
    assert!(unpacked.uninstall().status.success());
    let mut left = files(&prefix);
    left.sort();
    assert_eq!(left, [prefix.join("bin/other"), prefix.join("share/man/man1/cyclometer-mine.1")]);
}

#[test]
fn files_that_the_script_did_not_install_are_not_removed() {
    let unpacked = Unpacked::new("1");
    let tool = unpacked.prefix().join("bin/cyclometer");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "installed by cargo").unwrap();
    let refused = unpacked.uninstall();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("nothing to remove"), "{refused:?}");
    assert!(tool.is_file());
    assert!(unpacked.install_to_prefix().status.success());
    let list = unpacked.prefix().join(LIST);
    let precious = unpacked.home().join("precious");
    fs::write(&precious, "").unwrap();
    let lines = fs::read_to_string(&list).unwrap() + "bin/../../precious\n../precious\n/etc/passwd\n";
    fs::write(&list, lines).unwrap();
    assert!(unpacked.uninstall().status.success());
    assert!(precious.is_file(), "a name that leads out of the folder was followed");
    assert!(files(&unpacked.prefix()).is_empty(), "{:?}", files(&unpacked.prefix()));
}

#[test]
fn an_archive_of_another_version_removes_what_is_installed() {
    let unpacked = Unpacked::new("1");
    assert!(unpacked.install_to_prefix().status.success());
    fs::remove_dir_all(unpacked.folder.path().join("share")).unwrap();
    assert!(unpacked.uninstall().status.success());
    assert!(files(&unpacked.prefix()).is_empty(), "{:?}", files(&unpacked.prefix()));
}

#[test]
fn a_full_disk_leaves_the_old_version_and_nothing_else() {
    let unpacked = Unpacked::new("1");
    assert!(unpacked.install_to_prefix().status.success());
    unpacked.release("2");
    // Files end at 512 bytes, and the signal for that is ignored: a write fails, as on a full disk.
    let script = unpacked.folder.path().join("install.sh");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 1; exec sh \"$0\" --prefix \"$1\""])
        .arg(script)
        .arg(unpacked.prefix());
    let out = shell.output().unwrap();
    assert!(!out.status.success(), "{out:?}");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        told.contains("bin/cyclometer cannot be written; what was installed before is unchanged"),
        "{told}"
    );
    assert_eq!(unpacked.installed_version(), "1");
    assert_eq!(files(&unpacked.prefix()).len(), 4, "{:?}", files(&unpacked.prefix()));
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_the_remedy() {
    let unpacked = Unpacked::new("1");
    fs::write(unpacked.prefix(), "a file").unwrap();
    let out = unpacked.install_to_prefix();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && told.contains("--prefix"), "{out:?}");
}

#[test]
fn a_relative_folder_is_that_of_the_shell_and_others_may_execute_what_is_installed() {
    let unpacked = Unpacked::new("1");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask 077; exec sh \"$0\" --prefix 'p q'"])
        .arg(unpacked.folder.path().join("install.sh"));
    let out = shell.current_dir(unpacked.home()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&unpacked.prefix().join("bin")), 0o755);
    assert_eq!(mode(&unpacked.prefix().join("bin/cyclometer")), 0o755);
}

#[test]
fn unknown_options_and_a_copy_of_the_script_alone_are_refused() {
    let unpacked = Unpacked::new("1");
    for (arguments, text) in [(&["--prefix"][..], "must follow --prefix"), (&["-x"], "'-x' is no option")] {
        let out = unpacked.install(arguments);
        assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains(text), "{out:?}");
    }
    fs::remove_dir_all(unpacked.folder.path().join("bin")).unwrap();
    let out = unpacked.install_to_prefix();
    assert!(String::from_utf8_lossy(&out.stderr).contains("no bin/cyclometer"), "{out:?}");
    assert!(files(&unpacked.home()).is_empty());
}

#[test]
fn a_user_without_rights_installs_over_an_older_version_in_the_home() {
    let unpacked = Unpacked::new("1");
    let tool = unpacked.home().join(".local/bin/cyclometer");
    set_mode(&unpacked.home(), 0o777);
    let out = unpacked.install_without_rights();
    assert!(out.status.success(), "{out:?}");
    assert!(fs::read_to_string(&tool).unwrap().contains("echo 1"));
    fs::remove_file(unpacked.folder.path().join(GONE)).unwrap();
    unpacked.release("2");
    let out = unpacked.install_without_rights();
    assert!(out.status.success(), "{out:?}");
    assert!(fs::read_to_string(&tool).unwrap().contains("echo 2"));
    assert!(!unpacked.home().join(".local").join(GONE).exists(), "a file that only version 1 has");
}

#[test]
fn a_home_that_cannot_be_written_is_named_and_stays_as_it_is() {
    let unpacked = Unpacked::new("1");
    let home = unpacked.home();
    set_mode(&home, 0o555);
    let out = unpacked.install_without_rights();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{out:?}");
    assert!(told.contains("a home/.local/bin cannot be made; choose another folder with --prefix"), "{told}");
    assert!(fs::read_dir(&home).unwrap().next().is_none());
    // An older version in a folder that cannot be written any more.
    set_mode(&home, 0o777);
    assert!(unpacked.install_without_rights().status.success());
    let bin = home.join(".local/bin");
    set_mode(&bin, 0o555);
    unpacked.release("2");
    let before = files(&home);
    let out = unpacked.install_without_rights();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{out:?}");
    assert!(told.contains("cyclometer cannot be written; what was installed before is unchanged"), "{told}");
    assert!(fs::read_to_string(bin.join("cyclometer")).unwrap().contains("echo 1"));
    assert_eq!(files(&home), before);
    set_mode(&bin, 0o777);
}

#[test]
fn without_a_home_the_folder_must_be_named() {
    let unpacked = Unpacked::new("1");
    let mut shell = unpacked.shell_without_rights();
    let out = shell.env_remove("HOME").output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && told.contains("HOME is not set; use --prefix DIR"), "{out:?}");
}
