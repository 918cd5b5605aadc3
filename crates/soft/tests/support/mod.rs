//! Running programs natively, translated and step by step.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub mod caches;
pub mod compare;
pub mod oracle;
pub mod programs;
pub mod run;

pub use cyclometer_test_support::skip;

/// Whether programs can be traced and built here; says why not.
pub fn ready() -> bool {
    if let Err(error) = cyclometer_sys::trace::permitted() {
        skip(&format!("tracing is not permitted: {error}"));
        return false;
    }
    programs::starter().is_some()
}

/// The path of a program of the system; `None` where it is missing, which is said.
pub fn installed(name: &str) -> Option<std::path::PathBuf> {
    let found = find(name);
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// Whether the tests can run, without a message.
pub fn find(name: &str) -> Option<std::path::PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/local/bin"].map(std::path::PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().chain(std::env::split_paths(&path));
    all.map(|folder| folder.join(name)).find(|file| file.is_file())
}
