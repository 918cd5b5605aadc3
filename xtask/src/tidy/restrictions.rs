//! Code that crates must not contain: unsafe code, I/O and the clock, questions about the target.

use super::Violations;
use super::files::SourceFile;

/// Crates with unsafe code.
const UNSAFE: &[&str] = &["sys", "kernels"];

/// Crates that may look at the target, on the lines of modules only.
const TARGETS: &[&str] = &["sys", "detect", "backend", "soft", "kernels", "marker"];

/// Crates without I/O and clock.
const PURE: &[&str] = &[
    "advise",
    "core",
    "arch",
    "catalog",
    "import",
    "inference",
    "plan",
    "recording",
    "semantics",
    "sim",
    "soft",
    "stats",
    "sweep",
];

/// Folders of pure crates that may do I/O.
const NOT_PURE: &[&str] = &["crates/soft/src/host/"];

/// Paths that a pure crate does not name.
const IMPURE: &[&str] =
    &["std::fs", "std::env", "std::process", "std::net", "std::thread", "Instant::now", "time::SystemTime"];

/// Checks one file of a crate.
pub(super) fn of_crate(name: &str, file: &SourceFile, found: &mut Violations) {
    let SourceFile { path, text, .. } = file;
    let test = path.contains("/tests/") || path.contains("/examples/");
    let root_file = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    if root_file && !UNSAFE.contains(&name) && !text.contains("#![forbid(unsafe_code)]") {
        found.add(format!("{path}: no #![forbid(unsafe_code)]"));
    }
    if test {
        return;
    }
    let code = file.shipped();
    if PURE.contains(&name) && !NOT_PURE.iter().any(|folder| path.starts_with(folder)) {
        for word in IMPURE.iter().filter(|word| code.contains(**word)) {
            found.add(format!("{path}: {word} in a crate without I/O and clock"));
        }
    }
    targets(name, path, code, found);
}

/// Checks one file of the binding to a language; only that to C has unsafe code of its own.
pub(super) fn of_binding(name: &str, file: &SourceFile, found: &mut Violations) {
    let SourceFile { path, text, .. } = file;
    // PyO3 generates code that allows itself what `deny` forbids.
    let forbids = ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"].iter().any(|line| text.contains(line));
    if path.ends_with("src/lib.rs") && name != "c" && !forbids {
        found.add(format!("{path}: unsafe code is not forbidden"));
    }
    targets(name, path, file.shipped(), found);
}

/// Invariant: no framework of macOS is linked. A private one may be missing, so it is opened at run time.
pub(super) fn of_links(file: &SourceFile, found: &mut Violations) {
    let links = ["kind = \"framework\"", "rustc-link-lib=framework", "link-arg=-framework"];
    for (i, line) in file.text.lines().enumerate() {
        if links.iter().any(|link| line.contains(link)) && !file.path.starts_with("xtask/") {
            found.add(format!("{}:{}: a framework is linked; open it at run time", file.path, i + 1));
        }
    }
}

/// Invariant: `cfg(target_…)` stands on lines of modules, in the crates at the edge.
fn targets(name: &str, path: &str, text: &str, found: &mut Violations) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (i, line) in lines.iter().enumerate() {
        let asks = line.starts_with("#[cfg(") && line.contains("target_");
        if !asks && !line.contains("cfg!(target_") {
            continue;
        }
        let next = lines[i + 1..].iter().find(|next| !next.starts_with("#[")).copied().unwrap_or("");
        let module = ["mod ", "pub mod ", "pub(crate) mod ", "use ", "pub use ", "pub(crate) use "]
            .iter()
            .any(|start| next.starts_with(start));
        if !asks || !TARGETS.contains(&name) || !module {
            found.add(format!("{path}:{}: the target is asked for outside a line of modules", i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile::new(path, text).unwrap()
    }

    fn findings(name: &str, path: &str, text: &str) -> Vec<String> {
        let mut found = Violations::default();
        of_crate(name, &file(path, text), &mut found);
        found.0
    }

    #[test]
    fn unsafe_must_be_forbidden_outside_its_rooms() {
        assert_eq!(findings("plan", "crates/plan/src/lib.rs", "").len(), 1);
        assert_eq!(findings("sys", "crates/sys/src/lib.rs", "").len(), 0);
    }

    #[test]
    fn io_in_a_pure_crate_is_found_outside_its_tests() {
        let code = "use std::fs;\n";
        assert_eq!(findings("stats", "crates/stats/src/a.rs", code).len(), 1);
        assert_eq!(findings("soft", "crates/soft/src/a.rs", code).len(), 1);
        assert_eq!(findings("soft", "crates/soft/src/host/a.rs", code).len(), 0);
        let test = "#[cfg(test)]\nmod tests {\n use std::fs;\n}";
        assert_eq!(findings("stats", "crates/stats/src/a.rs", test).len(), 0);
    }

    #[test]
    fn the_target_is_asked_for_on_lines_of_modules_only() {
        let module = "#[cfg(target_os = \"linux\")]\nmod linux;\n";
        let function = "#[cfg(target_os = \"linux\")]\nfn f() {}\n";
        assert_eq!(findings("backend", "crates/backend/src/a.rs", module).len(), 0);
        assert_eq!(findings("backend", "crates/backend/src/a.rs", function).len(), 1);
        assert_eq!(findings("plan", "crates/plan/src/a.rs", module).len(), 1);
        assert_eq!(
            findings("backend", "crates/backend/src/a.rs", "fn f() { if cfg!(target_os = \"linux\") {} }")
                .len(),
            1
        );
    }

    #[test]
    fn a_linked_framework_is_found() {
        let mut found = Violations::default();
        let linked = "#[link(name = \"kperf\", kind = \"framework\")]\nunsafe extern \"C\" {}\n";
        of_links(&file("crates/sys/src/a.rs", linked), &mut found);
        let script = "fn main() { println!(\"cargo:rustc-link-lib=framework=kperf\"); }";
        of_links(&file("bindings/c/build.rs", script), &mut found);
        of_links(&file("crates/sys/src/b.rs", "fn opened_at_run_time() {}"), &mut found);
        assert_eq!(found.0.len(), 2, "{:?}", found.0);
    }

    #[test]
    fn bindings_forbid_unsafe_code() {
        let mut found = Violations::default();
        of_binding("python", &file("bindings/python/src/lib.rs", ""), &mut found);
        of_binding("python", &file("bindings/python/src/other.rs", ""), &mut found);
        of_binding("c", &file("bindings/c/src/lib.rs", ""), &mut found);
        assert_eq!(found.0, ["bindings/python/src/lib.rs: unsafe code is not forbidden"]);
    }
}
