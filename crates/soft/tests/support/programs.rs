//! Building the programs of `fixtures/programs`.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{find, skip};

/// How to build a program.
pub struct BuildRecipe<'a> {
    /// The source, in `fixtures/programs`.
    pub source: &'a str,
    /// Arguments of the compiler.
    pub flags: &'a [&'a str],
}

/// Without the C library and its start.
pub const BARE: &[&str] =
    &["-O2", "-static", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fno-stack-protector"];

/// Builds a program, unless it was built before; `None` where that cannot be done here, which is said.
pub fn build(recipe: &BuildRecipe<'_>) -> Option<PathBuf> {
    let source = folder().join(recipe.source);
    let text = fs::read(&source).unwrap();
    let compiler = match source.extension().and_then(|name| name.to_str()) {
        Some("cc") => "c++",
        Some("rs") => "rustc",
        _ => "cc",
    };
    let Some(path) = find(compiler) else {
        skip(&format!("{compiler} is not installed"));
        return None;
    };
    let mut hasher = DefaultHasher::new();
    (&text, recipe.flags, &path).hash(&mut hasher);
    let name = format!("{}-{:016x}", recipe.source.replace('.', "-"), hasher.finish());
    let built = place().join(name);
    if !built.exists() {
        compile(&path, &source, recipe.flags, &built);
    }
    Some(built)
}

fn compile(compiler: &Path, source: &Path, flags: &[&str], built: &Path) {
    let draft = unique("draft");
    // Libraries behind what uses them.
    let (libraries, flags): (Vec<&str>, Vec<&str>) = flags.iter().partition(|flag| flag.starts_with("-l"));
    let mut command = Command::new(compiler);
    command.args(flags).arg(source).arg("-o").arg(&draft).args(libraries);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    fs::rename(draft, built).unwrap();
}

/// The options that the installed compilers support; some lack the static libraries.
pub fn can_link_statically() -> bool {
    let probe = unique("static");
    let source = folder().join("exit.c");
    let Some(cc) = find("cc") else { return false };
    let done = Command::new(cc).args(["-static", "-o"]).arg(&probe).arg(source).output();
    let able = done.is_ok_and(|output| output.status.success());
    let _ = fs::remove_file(probe);
    able
}

/// The flags of a program whose own code is the subject: without shared libraries where that can be, because
/// its start is 30 000 steps then, and 105 000 with the dynamic loader.
pub fn self_contained() -> &'static [&'static str] {
    static FLAGS: OnceLock<&[&str]> = OnceLock::new();
    FLAGS.get_or_init(|| if can_link_statically() { &["-O2", "-static"] } else { &["-O2"] })
}

/// Where programs and files go instead, if this variable is set.
pub const FOLDER: &str = "CYCLOMETER_TEST_FOLDER";

fn place() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

/// A file of that name that nobody else uses.
pub fn unique(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    place().join(format!("{name}-{}-{number}", std::process::id()))
}

/// Where the sources are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs")
}

/// The program that executes another with a small environment that is always the same.
pub fn starter() -> Option<PathBuf> {
    build(&BuildRecipe { source: "start.c", flags: BARE })
}
