//! C programs against the library as it is installed: shared, static, and watched by valgrind.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use cyclometer_test_support::{has, note, skip_without_peer};

const STRICT: [&str; 6] = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"];
/// Version 0 of the binary interface, by which programs find the library.
const SHARED: &str = "libcyclometer.so.0";

#[test]
fn what_is_installed_has_its_names() {
    let Some(installed) = installed() else { return };
    for file in
        ["lib/libcyclometer.so", "lib/libcyclometer.a", "lib/pkgconfig/cyclometer.pc", "include/cyclometer.h"]
    {
        assert!(installed.prefix.join(file).exists(), "{file}");
    }
    let link = std::fs::read_link(installed.prefix.join("lib/libcyclometer.so")).unwrap();
    assert_eq!(link, Path::new(SHARED));
    let version = installed.pkg_config(&["--modversion"]);
    assert_eq!(version, [env!("CARGO_PKG_VERSION")]);
}

#[test]
fn the_library_exports_its_functions_and_nothing_else() {
    let Some(installed) = installed() else { return };
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(installed.library(SHARED)));
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let header = include_str!("../include/cyclometer.h");
    for name in &exported {
        assert!(name.starts_with("cyclometer_"), "{name} is exported");
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    assert!(exported.len() > 20, "{exported:?}");
}

#[test]
fn operations_and_mistakes_with_the_shared_library() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("tests/operations.c", "operations", Linked::Shared);
    let said = run(installed.shared(&program));
    assert!(said.contains(" counters\n"), "{said}");
    tell_not_counted("C, operations", &said);
}

#[test]
fn operations_and_mistakes_with_the_static_library() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("tests/operations.c", "operations-static", Linked::Static);
    assert!(run(installed.shared(&program)).contains(" counters\n"));
    let needed = run(Command::new("ldd").arg(&program));
    assert!(!needed.contains("libcyclometer"), "{needed}");
}

#[test]
fn the_unified_interface_is_a_structure_of_the_same_operations() {
    let Some(installed) = installed() else { return };
    for (name, linked) in [("unified", Linked::Shared), ("unified-static", Linked::Static)] {
        let program = installed.compile("tests/unified.c", name, linked);
        assert_eq!(run(installed.shared(&program)), "done\n");
    }
}

#[test]
fn the_example_of_the_unified_interface_counts_or_says_why_not() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("examples/unified.c", "unified-example", Linked::Shared);
    let said = run(installed.shared(&program));
    assert_eq!(said.lines().count(), 4, "{said}");
    for line in said.lines() {
        let (event, value) = line.split_once(": ").unwrap();
        assert!(value.starts_with("not counted (") || value.parse::<u64>().is_ok(), "{event}: {value}");
    }
    tell_not_counted("C, the unified interface", &said);
}

#[test]
fn the_example_counts_or_says_why_not() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("examples/region.c", "region", Linked::Shared);
    let said = run(installed.shared(&program));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].starts_with("instructions:u: "), "{said}");
    for line in &lines {
        assert!(!line.ends_with(": 0"), "a silent zero: {line}");
    }
    let faults: f64 = lines[2].trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    assert!(faults >= 1.0, "{said}");
}

/// The commands of the tutorial's block about regions, in a folder with a clone and the program, as a user
/// types them.
#[test]
fn the_tutorials_regions_are_counted_as_its_page_says() {
    if installed().is_none() {
        return;
    }
    let page = include_str!("../../../docs/tutorial/5-regions.md");
    let block =
        page.split("```console library\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let commands: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let shown = block.split_once(&format!("$ {}\n", commands.last().unwrap())).unwrap().1;
    let said = in_a_clone(&commands);
    let (names, counted) = (first_columns(shown), first_columns(&said));
    assert_eq!((&counted, names.len()), (&names, 20), "{said}");
    let refusal = "no PMU in this virtual machine (Firecracker on KVM)";
    if said.contains(refusal) {
        assert_eq!(said.matches(refusal).count(), shown.matches(refusal).count(), "{said}");
        assert!(!said.contains("IPC"), "{said}");
    }
    // A reason names the remedy, too, and is as long as that.
    let fits = |line: &str| line.contains("none: ") || line.chars().count() <= 80;
    assert!(said.lines().all(|line| fits(line) && !line.ends_with(":u  0")), "{said}");
}

/// Labels, and events without the modes that somebody may count; a PMU adds the IPC.
fn first_columns(text: &str) -> Vec<&str> {
    let columns = text.lines().map(|line| line.trim_start().split("  "));
    let names = columns.filter_map(|mut line| line.next()).map(|name| name.trim_end_matches(":u"));
    names.filter(|name| *name != "IPC").collect()
}

/// Types commands into one shell; gives what they print.
fn in_a_clone(commands: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::os::unix::fs::symlink(&root, folder.path().join("cyclometer")).unwrap();
    std::fs::copy(root.join("docs/tutorial/regions.c"), folder.path().join("regions.c")).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-ec", &commands.join("\n")]).current_dir(folder.path());
    shell.env("PROFILE", "dev").env("CARGO_TARGET_DIR", target_folder());
    shell.env("CARGO", std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    run(&mut shell)
}

#[test]
fn the_tutorials_program_is_good_c() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("../../docs/tutorial/regions.c", "tutorial-regions", Linked::Shared);
    for bad in ["0", "x", "5000", ""] {
        let out = installed.shared(&program).arg(bad).output().unwrap();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{bad}: {out:?}");
    }
}

#[test]
fn the_example_samples_in_time() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("examples/samples.c", "samples", Linked::Shared);
    let said = run(installed.shared(&program));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() >= 11, "{said}");
    let (last, rows) = lines.split_last().unwrap();
    assert!(last.starts_with("lost 0, missed "), "{said}");
    let faults = |row: &str| -> u64 {
        let (_, rest) = row.split_once("page-faults ").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let faults: Vec<u64> = rows.iter().map(|row| faults(row)).collect();
    assert!(faults.is_sorted() && faults[faults.len() - 1] >= 1, "{said}");
    assert!(
        rows.iter().all(|row| row.contains("instructions ") && !row.ends_with("instructions 0")),
        "{said}"
    );
}

#[test]
fn the_header_is_one_of_cplusplus_too() {
    let Some(installed) = installed() else { return };
    if !has("g++") {
        return skip("the C++ compiler g++ is not installed");
    }
    let source = installed.prefix.join("header.cc");
    std::fs::write(
        &source,
        "#include <cyclometer.h>\nint main() { return cyclometer_version() == nullptr; }\n",
    )
    .unwrap();
    let program = installed.prefix.join("header");
    let mut compiler = Command::new("g++");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]).arg(&source).arg("-o").arg(&program);
    run(compiler.args(installed.pkg_config(&["--cflags", "--libs"])));
    run(installed.shared(&program));
}

#[test]
fn nothing_leaks_and_nothing_is_read_that_was_not_written() {
    let Some(installed) = installed() else { return };
    if !has("valgrind") {
        return skip("valgrind is not installed");
    }
    watch(installed, &installed.compile("tests/operations.c", "operations-watched", Linked::Shared));
    watch(installed, &installed.compile("examples/samples.c", "samples-watched", Linked::Shared));
}

/// Runs a program that ends well under valgrind, which fails where it finds something.
fn watch(installed: &Installed, program: &Path) {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--quiet",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect",
        "--show-leak-kinds=definite,indirect",
        "--error-exitcode=9",
    ]);
    valgrind.env("LD_LIBRARY_PATH", installed.prefix.join("lib")).current_dir(installed.folder_of(program));
    run(valgrind.arg(program));
}

#[test]
fn a_program_that_marks_regions_goes_on_where_nobody_counts() {
    let Some(installed) = installed() else { return };
    let program = installed.compile("examples/markers.c", "markers", Linked::Shared);
    assert!(run(installed.shared(&program)).ends_with(", not counted\n"));
}

#[test]
fn marked_regions_of_c_are_counted_exactly() {
    marked_regions_are_counted_exactly("marked", Linked::Static);
}

/// The dynamic linker looks for functions when they are called first, unless it is told otherwise.
#[test]
fn marked_regions_of_c_are_counted_exactly_with_the_shared_library() {
    marked_regions_are_counted_exactly("marked-shared", Linked::Shared);
}

fn marked_regions_are_counted_exactly(name: &str, linked: Linked) {
    let Some(installed) = installed() else { return };
    let program = installed.compile("tests/markers.c", name, linked);
    let launcher = cyclometer_toolkit::Launcher::start().unwrap();
    let counted = |events: &str, backend: cyclometer_toolkit::Rung| {
        let mut spec = cyclometer_toolkit::CommandSpec::new("env");
        let library = format!("LD_LIBRARY_PATH={}", installed.prefix.join("lib").display());
        spec.args = vec![library.into(), "LD_BIND_NOW=".into(), program.clone().into()];
        spec.stdout = cyclometer_toolkit::OutputStream::Null;
        let stat = cyclometer_toolkit::Stat::new(cyclometer_toolkit::machine())
            .command(spec)
            .events(events)
            .unwrap();
        stat.backend(Some(backend)).run_marked(&launcher, &mut cyclometer_toolkit::Quiet).unwrap().1.regions
    };
    let native = counted("page-faults", cyclometer_toolkit::Rung::Perf);
    let labels: Vec<&str> = native.iter().map(|region| region.label.as_str()).collect();
    let expected = [
        "a loop of a thousand rounds",
        "l",
        "outer",
        "inner",
        "\u{fffd} no UTF-8",
        "(no name)",
        "never begun",
    ];
    assert_eq!(labels, expected);
    let exact = counted("instructions", cyclometer_toolkit::Rung::Soft);
    let line = |label: &str| {
        let region = exact.iter().find(|region| region.label == label)?;
        let summary =
            cyclometer_toolkit::stats::summarise_as(&region.report, cyclometer_toolkit::Scope::Thread);
        summary.lines.into_iter().next()
    };
    let value = |label: &str| line(label)?.statistics.mean;
    let Some(short) = value("a loop of a thousand rounds") else {
        let reason = line("a loop of a thousand rounds").and_then(|line| line.reason);
        return skip(&format!("regions: the software PMU does not count here: {reason:?}"));
    };
    let long = value("l").unwrap();
    if cfg!(target_arch = "x86_64") {
        assert!((long - short - 3.0 * 2.0 * 4000.0).abs() < f64::EPSILON, "{long} {short}");
        // The loop, and what prepares it and the calls.
        assert!((3.0 * 2001.0..3.0 * 2010.0).contains(&short), "{short}");
        let (outer, inner) = (value("outer").unwrap(), value("inner").unwrap());
        assert!(outer >= inner && outer - inner <= 4.0 * 12.0, "{outer} {inner}");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Linked {
    Shared,
    Static,
}

/// A tree that `make install` made.
struct Installed {
    prefix: PathBuf,
    _folder: tempfile::TempDir,
}

/// The installed tree, made once; `None`, with the reason told, where a tool is missing.
fn installed() -> Option<&'static Installed> {
    static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();
    INSTALLED.get_or_init(Installed::make).as_ref()
}

impl Installed {
    fn make() -> Option<Installed> {
        for tool in ["gcc", "make", "pkg-config"] {
            if !has(tool) {
                skip(&format!("{tool} is not installed"));
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let mut make = Command::new("make");
        make.args(["--silent", "-C", env!("CARGO_MANIFEST_DIR"), "install", "PROFILE=dev", "PREFIX=/opt/it"]);
        make.arg(format!("DESTDIR={}", folder.path().display()));
        make.arg(format!("CARGO={}", std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())));
        run(make.env("CARGO_TARGET_DIR", target_folder()));
        Some(Installed { prefix: folder.path().join("opt/it"), _folder: folder })
    }

    fn library(&self, name: &str) -> PathBuf {
        self.prefix.join("lib").join(name)
    }

    /// The answer of pkg-config for the tree; DESTDIR takes the place of the root.
    fn pkg_config(&self, args: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(args).arg("cyclometer").env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig"));
        let root = self.prefix.parent().and_then(Path::parent).unwrap();
        run(command.env("PKG_CONFIG_SYSROOT_DIR", root)).split_whitespace().map(str::to_owned).collect()
    }

    fn compile(&self, source: &str, name: &str, linked: Linked) -> PathBuf {
        let program = self.prefix.join(name);
        let mut gcc = Command::new("gcc");
        gcc.args(STRICT).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).arg("-o").arg(&program);
        gcc.args(self.pkg_config(&["--cflags"]));
        gcc.arg("-Wl,-z,lazy");
        match linked {
            Linked::Shared => gcc.args(self.pkg_config(&["--libs"])).arg("-pthread"),
            Linked::Static => gcc.args(self.static_libraries()).arg("-pthread"),
        };
        run(&mut gcc);
        program
    }

    /// The archive in place of the shared library, and what it needs.
    fn static_libraries(&self) -> Vec<String> {
        let libraries = self.pkg_config(&["--libs", "--static"]);
        let archive = self.library("libcyclometer.a").display().to_string();
        libraries.into_iter().map(|arg| if arg == "-lcyclometer" { archive.clone() } else { arg }).collect()
    }

    /// A folder for what the program writes.
    fn folder_of(&self, program: &Path) -> PathBuf {
        let folder = program.with_extension("files");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn shared(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.prefix.join("lib")).current_dir(self.folder_of(program));
        command
    }
}

/// Where this test was built, so that `make` finds everything built.
fn target_folder() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().to_path_buf()
}

fn run(mut command: impl std::borrow::BorrowMut<Command>) -> String {
    let Output { status, stdout, stderr } = command.borrow_mut().output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{:?}: {status}\n{stdout}{stderr}", command.borrow());
    stdout.into_owned()
}

/// Reports that a part of the C interface could not be tried; where the tools must be there, fails.
fn skip(why: &str) {
    skip_without_peer(&format!("the C interface: {why}"));
}

fn tell_not_counted(what: &str, said: &str) {
    for line in said.lines().filter(|line| line.starts_with("not counted: ")) {
        note(&format!("{what}: hardware events were {line}"));
    }
}
