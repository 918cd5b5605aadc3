//! The environment of programs that the server runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// The variables of the server's environment that programs get. `HOME` and `XDG_CACHE_HOME` say where the
/// software PMU keeps its profiles.
pub const PASSED: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_CACHE_HOME"];

/// The variables that programs get: those of [`PASSED`] and the ones that `--env` names, with the values that
/// `of` finds. A variable without a value is left out.
pub fn passed(named: &[OsString], of: impl Fn(&OsStr) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    let usual = PASSED.iter().map(|name| OsStr::new(*name));
    for text in usual.chain(named.iter().map(OsString::as_os_str)) {
        let (name, value) = split(text);
        if let Some(value) = value.map(OsStr::to_owned).or_else(|| of(name)) {
            all.retain(|(known, _)| known != name);
            all.push((name.to_owned(), value));
        }
    }
    all
}

/// The name and the value of NAME=VALUE.
fn split(text: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = text.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(OsStr::from_bytes(&bytes[at + 1..]))),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_usual_and_the_named_variables_are_passed() {
        let ours = |name: &OsStr| match name.to_str() {
            Some("PATH") => Some("/bin".into()),
            Some("SECRET" | "LD_PRELOAD" | "MINE") => Some("x".into()),
            _ => None,
        };
        let names = |named: &[&str]| {
            let named: Vec<OsString> = named.iter().map(OsString::from).collect();
            passed(&named, ours)
        };
        assert_eq!(names(&[]), [("PATH".into(), "/bin".into())]);
        assert_eq!(
            names(&["MINE", "GONE", "PATH=/usr/bin", "A=b=c"]),
            [("MINE".into(), "x".into()), ("PATH".into(), "/usr/bin".into()), ("A".into(), "b=c".into())]
        );
    }
}
