//! `sysctl` of macOS as text.

use cyclometer_sys::host::{sysctl_integer, sysctl_string};

/// Ends of the names whose values are text; all others that are asked for are numbers.
const TEXTS: [&str; 4] = [".name", "_string", "version", ".vendor"];

/// The value by name: numbers in decimal.
pub(super) fn read(name: &str) -> Option<String> {
    if TEXTS.iter().any(|end| name.ends_with(end)) {
        return sysctl_string(name);
    }
    sysctl_integer(name).map(|number| number.to_string())
}
