//! Programs that mark regions, counted by the software PMU to the last instruction, and by the kernel. The
//! program is this one: it has no harness, as a harness has threads.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test says what it does")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where something fails")]

use std::hint::black_box;
use std::os::unix::process::CommandExt as _;

use cyclometer_kernels::{Kernel, KernelMemory, Rounds};
use cyclometer_test_support::skip;
use cyclometer_toolkit::core::Rung;
use cyclometer_toolkit::stats::{asked_scope, summarise_as};
use cyclometer_toolkit::{
    Command, CommandSpec, Launcher, MarkedRegion, MarkedRegions, OutputStream, Quiet, Scope, Stat, machine,
    marker,
};

/// An event that is counted even where no CPU counter is available.
const FAULTS: &str = "page-faults,task-clock";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [what, number] if what == "program" => program(number),
        [what, number, times] if what == "unattached" => unattached(number, times.parse().unwrap()),
        // Whatever a harness would take: names of tests, options.
        _ => check(),
    }
}

fn check() {
    let launcher = Launcher::start().unwrap();
    let tests: &[(&str, Test)] = &[
        ("a program that is not run by the tool pays a few instructions", unattached_regions_cost_nothing),
        ("a region around a loop has the loop's instructions", a_loop_is_counted_exactly),
        ("every quantity of every kernel is exact", every_kernel_is_counted_exactly),
        ("regions within a region add nothing to it", nested_regions_add_nothing),
        ("recursive regions are counted once", recursive_regions_are_counted_once),
        ("each thread counts its own", threads_are_told_apart),
        ("a child counts its own, and its parent goes on", a_fork_is_followed),
        ("a program that executes another keeps what it counted", an_exec_keeps_the_counts),
        ("a killed program has counted what had ended", a_killed_program_has_counted),
        ("ends that do not match are told", ends_that_do_not_match_are_told),
        ("thousands of names are kept, long ones cut", names_of_all_kinds_are_kept),
        ("threads one after the other need no new room each", threads_one_after_the_other_share_rooms),
        ("the kernel counts regions too", the_kernel_counts_regions),
        ("several runs make statistics", several_runs_make_statistics),
        ("a program without markers is told", a_program_without_markers_is_told),
        ("another version of the library is told", another_version_is_told),
        ("what runs already is refused", what_runs_already_is_refused),
    ];
    let only: Option<String> = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    for (name, test) in tests {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        println!("{name}");
        test(&Tool { launcher: &launcher });
    }
}

type Test = fn(&Tool<'_>);

/// The tool that counts.
struct Tool<'a> {
    launcher: &'a Launcher,
}

impl Tool<'_> {
    /// The regions of this program; `None`, and a word why, where there is no such source.
    fn regions(&self, what: &str, events: &str, backend: Rung) -> Option<MarkedRegions> {
        let mut spec = CommandSpec::new(std::env::current_exe().unwrap());
        spec.args = vec!["program".into(), what.into()];
        spec.stdout = OutputStream::Null;
        let stat = Stat::new(machine()).command(spec).events(events).unwrap().backend(Some(backend));
        let (report, marked) = stat.run_marked(self.launcher, &mut Quiet).unwrap();
        let whole = summarise_as(&report, asked_scope(&report));
        if whole.lines[0].statistics.mean.is_none() {
            skip(&format!("{backend}: {}", whole.lines[0].reason.as_deref().unwrap_or("no reason")));
            return None;
        }
        Some(marked)
    }

    fn exact(&self, what: &str, events: &str) -> Option<MarkedRegions> {
        self.regions(what, events, Rung::Soft)
    }

    fn native(&self, what: &str) -> Option<MarkedRegions> {
        self.regions(what, FAULTS, Rung::Perf)
    }
}

#[track_caller]
fn region<'a>(marked: &'a MarkedRegions, label: &str) -> &'a MarkedRegion {
    let found = marked.regions.iter().find(|region| region.label == label);
    found.unwrap_or_else(|| panic!("no region {label:?} in {:?}", labels(marked)))
}

fn labels(marked: &MarkedRegions) -> Vec<&str> {
    marked.regions.iter().map(|region| region.label.as_str()).collect()
}

/// The value of the nth event, if it has one.
fn value(region: &MarkedRegion, event: usize) -> Option<f64> {
    summarise_as(&region.report, Scope::Thread).lines[event].statistics.mean
}

#[track_caller]
fn exact_value(region: &MarkedRegion, event: usize) -> u64 {
    let summary = summarise_as(&region.report, Scope::Thread);
    let line = &summary.lines[event];
    assert_eq!(line.verdict, cyclometer_toolkit::Verdict::Exact, "{}: {:?}", line.name, line.reason);
    line.statistics.mean.unwrap() as u64
}

fn calls(region: &MarkedRegion) -> u64 {
    region.runs[0].calls
}

fn program(what: &str) {
    match what {
        "loops" => program_loops(),
        "kernels" => program_kernels(),
        "nested" => program_nested(),
        "recursive" => recurse(20, &mut KernelMemory::new()),
        "threads" => program_threads(),
        "fork" => program_fork(),
        "exec" => program_exec(),
        "killed" => program_killed(),
        "odd" => program_odd(),
        "names" => program_names(),
        "many-threads" => program_many_threads(),
        "faults" => program_faults(),
        "nothing" => {}
        other => panic!("no program {other}"),
    }
}

/// Runs the loop of 16 additions this many times.
#[inline(never)]
fn additions(rounds: u32, memory: &mut KernelMemory) {
    Kernel::Additions.run(Rounds::new(rounds).unwrap(), memory);
}

fn instructions(rounds: u32) -> u64 {
    Kernel::Additions.counts(Rounds::new(rounds).unwrap()).instructions
}

fn unattached(what: &str, times: u64) {
    let is_marked = what == "marked";
    for i in 0..times {
        black_box(i);
        if is_marked {
            marker::begin("region");
            marker::end("region");
        }
    }
}

fn unattached_regions_cost_nothing(tool: &Tool<'_>) {
    let count = |what: &str, times: u64| {
        let mut spec = CommandSpec::new(std::env::current_exe().unwrap());
        spec.args = vec!["unattached".into(), what.into(), times.to_string().into()];
        let command = Command::new(spec).backend(Rung::Soft).events("instructions").unwrap();
        command.run(tool.launcher).unwrap().lines[0].statistics.mean
    };
    let each = |what: &str| Some((count(what, 11_000)? - count(what, 1_000)?) / 10_000.0);
    let (Some(marked), Some(bare)) = (each("marked"), each("bare")) else {
        return skip("the software PMU does not work here");
    };
    println!("  {:.1} instructions", marked - bare);
    assert!((marked - bare) <= 20.0 && marked > bare, "{marked} and {bare} instructions a round");
}

fn program_loops() {
    let mut memory = KernelMemory::new();
    for rounds in [1000, 2000, 50_000] {
        for _ in 0..3 {
            let label = rounds.to_string();
            marker::begin(&label);
            additions(rounds, &mut memory);
            marker::end(&label);
        }
    }
    marker::begin("empty");
    marker::end("empty");
}

/// The instructions that this test's own code adds to a region: to call the loop, to make the memory.
const AROUND: u64 = 120;

fn a_loop_is_counted_exactly(tool: &Tool<'_>) {
    let Some(marked) = tool.exact("loops", "instructions,branches") else { return };
    let counted = |rounds: u32| exact_value(region(&marked, &rounds.to_string()), 0);
    let around = counted(1000) - 3 * instructions(1000);
    println!(
        "  {} instructions around a loop, {} in an empty region",
        around / 3,
        exact_value(region(&marked, "empty"), 0)
    );
    for rounds in [1000, 2000, 50_000] {
        assert_eq!(counted(rounds), 3 * instructions(rounds) + around, "{rounds}");
        assert_eq!(calls(region(&marked, &rounds.to_string())), 3);
    }
    assert!(exact_value(region(&marked, "empty"), 0) <= 4, "{}", exact_value(region(&marked, "empty"), 0));
    let again = tool.exact("loops", "instructions,branches").unwrap();
    let all = |marked: &MarkedRegions| {
        marked.regions.iter().map(|region| exact_value(region, 0)).collect::<Vec<_>>()
    };
    assert_eq!(all(&again), all(&marked), "every run has the same");
    assert!(around <= 3 * AROUND, "{around}");
}

fn program_kernels() {
    let mut memory = KernelMemory::new();
    for (i, kernel) in Kernel::ALL.into_iter().enumerate() {
        kernel.run(Rounds::MIN, &mut memory);
        for rounds in [100, 300] {
            let label = format!("{i} {rounds}");
            marker::begin(&label);
            kernel.run(Rounds::new(rounds).unwrap(), &mut memory);
            marker::end(&label);
        }
    }
}

fn every_kernel_is_counted_exactly(tool: &Tool<'_>) {
    use cyclometer_kernels::KernelQuantity;
    let quantities = [
        KernelQuantity::Instructions,
        KernelQuantity::Branches,
        KernelQuantity::Calls,
        KernelQuantity::Returns,
        KernelQuantity::NotTaken,
    ];
    let events = quantities.map(KernelQuantity::word).join(",");
    let Some(marked) = tool.exact("kernels", &events) else { return };
    for (i, kernel) in Kernel::ALL.into_iter().enumerate() {
        for (event, quantity) in quantities.into_iter().enumerate() {
            let of = |rounds: u32| exact_value(region(&marked, &format!("{i} {rounds}")), event);
            let known = |rounds: u32| kernel.counts(Rounds::new(rounds).unwrap()).of(quantity);
            assert_eq!(of(300) - of(100), known(300) - known(100), "{kernel:?} {quantity:?}");
        }
    }
}

fn program_nested() {
    let mut memory = KernelMemory::new();
    for inner in [0, 1, 7] {
        let label = format!("around {inner}");
        marker::begin(&label);
        for _ in 0..8 {
            black_box(0);
        }
        for i in 0..8 {
            if i < inner {
                marker::begin("inner");
                additions(500, &mut memory);
                marker::end("inner");
            } else {
                additions(500, &mut memory);
            }
        }
        marker::end(&label);
    }
}

fn nested_regions_add_nothing(tool: &Tool<'_>) {
    let Some(marked) = tool.exact("nested", "instructions") else { return };
    let around = |inner: u64| exact_value(region(&marked, &format!("around {inner}")), 0);
    // The rest is the arguments of the calls, and the branches around them.
    let each = |inner: u64| (around(inner) - around(0)) as f64 / inner as f64;
    println!("  {:.1} instructions for each inner region", each(7));
    assert!(around(0) >= 8 * instructions(500));
    assert!((0.0..=12.0).contains(&each(1)) && (each(7) - each(1)).abs() < 1e-9, "{} {}", each(1), each(7));
    let inner = exact_value(region(&marked, "inner"), 0);
    assert_eq!((inner % 8, calls(region(&marked, "inner"))), (inner % 8, 8));
    assert!(inner >= 8 * instructions(500) && inner <= 8 * (instructions(500) + AROUND), "{inner}");
}

fn recurse(depth: u32, memory: &mut KernelMemory) {
    let _region = marker::region("recursive");
    additions(100, memory);
    if depth > 1 {
        recurse(depth - 1, memory);
    }
}

fn recursive_regions_are_counted_once(tool: &Tool<'_>) {
    let Some(marked) = tool.exact("recursive", "instructions") else { return };
    let found = region(&marked, "recursive");
    let counted = exact_value(found, 0);
    assert_eq!(calls(found), 20);
    assert!(counted >= 20 * instructions(100) && counted <= 20 * (instructions(100) + AROUND), "{counted}");
    assert_eq!(found.notes, [""; 0]);
}

fn program_threads() {
    let work = |rounds: u32| {
        move || {
            let mut memory = KernelMemory::new();
            let _region = marker::region("work");
            additions(rounds, &mut memory);
        }
    };
    let threads: Vec<_> =
        [1000, 2000, 3000].map(|rounds| std::thread::spawn(work(rounds))).into_iter().collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    work(4000)();
}

fn threads_are_told_apart(tool: &Tool<'_>) {
    let Some(marked) = tool.exact("threads", "instructions") else { return };
    let run = &region(&marked, "work").runs[0];
    assert_eq!((run.calls, run.threads, run.by_thread.len()), (4, 4, 4));
    let mut own: Vec<u64> = run.by_thread.iter().map(|thread| thread.reading.cells[0].raw).collect();
    own.sort_unstable();
    let around = own[0] - instructions(1000);
    assert!(around <= AROUND, "{own:?}");
    assert_eq!(own, [1000, 2000, 3000, 4000].map(|rounds| instructions(rounds) + around));
    assert_eq!(exact_value(region(&marked, "work"), 0), own.iter().sum::<u64>());
    let first = &run.by_thread[0];
    assert!(run.by_thread.iter().all(|thread| thread.pid == first.pid && thread.tid.is_some()));
}

fn program_fork() {
    let mut memory = KernelMemory::new();
    marker::begin("over");
    let answer = cyclometer_sys::fork::in_child(|| {
        marker::end("over");
        marker::begin("child");
        additions(3000, &mut memory);
        marker::end("child");
        0
    });
    assert_eq!(answer.unwrap(), 0);
    additions(2000, &mut memory);
    marker::end("over");
}

fn a_fork_is_followed(tool: &Tool<'_>) {
    if let Some(marked) = tool.exact("fork", "instructions") {
        let (over, child) = (region(&marked, "over"), region(&marked, "child"));
        assert_eq!((calls(over), calls(child)), (1, 1));
        let counted = exact_value(child, 0);
        assert!(counted >= instructions(3000) && counted <= instructions(3000) + AROUND, "{counted}");
        assert!(exact_value(over, 0) >= instructions(2000));
        assert_eq!(over.notes, ["begun before a fork and ended in the child once: the parent counts it"]);
        let of = |region: &MarkedRegion| region.runs[0].by_thread.iter().find(|t| t.calls > 0).unwrap().pid;
        assert_ne!(of(over), of(child));
    }
    let Some(marked) = tool.native("fork") else { return };
    assert_eq!((calls(region(&marked, "over")), calls(region(&marked, "child"))), (1, 1));
    assert!(value(region(&marked, "child"), 0).is_some() && value(region(&marked, "over"), 0).is_some());
}

fn program_exec() {
    let mut memory = KernelMemory::new();
    marker::begin("before");
    additions(1000, &mut memory);
    marker::end("before");
    marker::begin("over");
    let error =
        std::process::Command::new(std::env::current_exe().unwrap()).args(["program", "recursive"]).exec();
    panic!("{error}");
}

fn an_exec_keeps_the_counts(tool: &Tool<'_>) {
    let check = |marked: &MarkedRegions| {
        assert_eq!(labels(marked), ["before", "over", "recursive"]);
        assert_eq!(region(marked, "over").notes, ["begun and not ended once: nothing is counted"]);
        assert_eq!(value(region(marked, "over"), 0), None, "what did not end has no count");
        assert_eq!(calls(region(marked, "recursive")), 20);
    };
    if let Some(marked) = tool.exact("exec", "instructions") {
        check(&marked);
        let before = exact_value(region(&marked, "before"), 0);
        assert!(before >= instructions(1000) && before <= instructions(1000) + AROUND, "{before}");
    }
    tool.native("exec").iter().for_each(check);
}

fn program_killed() {
    let mut memory = KernelMemory::new();
    for _ in 0..5 {
        let _region = marker::region("done");
        additions(100, &mut memory);
    }
    marker::begin("open");
    cyclometer_sys::process::signal(std::process::id(), cyclometer_sys::process::SIGKILL).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

fn a_killed_program_has_counted(tool: &Tool<'_>) {
    let check = |marked: Option<MarkedRegions>| {
        let Some(marked) = marked else { return };
        assert_eq!((calls(region(&marked, "done")), region(&marked, "done").runs[0].ended), (5, 5));
        assert!(value(region(&marked, "done"), 0).is_some());
        assert_eq!((calls(region(&marked, "open")), region(&marked, "open").runs[0].ended), (1, 0));
        assert_eq!(value(region(&marked, "open"), 0), None);
    };
    // Whole runs that were killed may have no counts; regions have.
    let mut spec = CommandSpec::new(std::env::current_exe().unwrap());
    spec.args = vec!["program".into(), "killed".into()];
    for (events, backend) in [("instructions", Rung::Soft), (FAULTS, Rung::Perf)] {
        let stat = Stat::new(machine()).command(spec.clone()).events(events).unwrap().backend(Some(backend));
        let (_, marked) = stat.run_marked(tool.launcher, &mut Quiet).unwrap();
        let works = tool.regions("recursive", events, backend).is_some();
        check(works.then_some(marked));
    }
}

fn program_odd() {
    let mut memory = KernelMemory::new();
    marker::end("never begun");
    marker::begin("crossing");
    marker::begin("crossed");
    additions(100, &mut memory);
    marker::end("crossing");
    additions(100, &mut memory);
    marker::end("crossed");
    marker::begin("around an end");
    additions(100, &mut memory);
    marker::end("never begun");
    marker::end("around an end");
    marker::begin("around a begin");
    additions(100, &mut memory);
    marker::begin("never ended");
    marker::end("around a begin");
    marker::begin("");
    marker::end("");
    marker::begin("returns early");
    for _ in 0..5 {
        let _region = marker::region("returns early");
        additions(100, &mut memory);
    }
}

fn ends_that_do_not_match_are_told(tool: &Tool<'_>) {
    let Some(marked) = tool.exact("odd", "instructions") else { return };
    let notes = |label: &str| region(&marked, label).notes.clone();
    assert_eq!(notes("never begun"), ["ended without having begun 2 times: those ends count nothing"]);
    assert_eq!(notes("never ended"), ["begun and not ended once: nothing is counted"]);
    assert_eq!(notes("returns early"), ["begun and not ended once: nothing is counted"]);
    assert_eq!(
        (calls(region(&marked, "returns early")), value(region(&marked, "returns early"), 0)),
        (6, None)
    );
    assert_eq!(
        notes("crossing"),
        ["ended before a region that had begun in it once: each counts from its begin to its end"]
    );
    assert_eq!(notes("crossed"), [""; 0]);
    for (label, rounds) in [("crossing", 1), ("crossed", 2), ("around an end", 1), ("around a begin", 1)] {
        let summary = summarise_as(&region(&marked, label).report, Scope::Thread);
        let (verdict, counted) = (summary.lines[0].verdict, summary.lines[0].statistics.mean.unwrap() as u64);
        assert_eq!(verdict, cyclometer_toolkit::Verdict::Partial, "{label}");
        let loops = rounds * instructions(100);
        println!("  {} more in {label:?}", counted - loops);
        assert!((loops..=loops + rounds * AROUND).contains(&counted), "{label}: {counted} of {loops}");
    }
    assert_eq!(calls(region(&marked, "(no name)")), 1);
}

/// A name that is as long as one may be, and one that is longer.
fn long_name(bytes: usize) -> String {
    "ä".repeat(bytes / 2)
}

fn program_names() {
    for round in 0..2 {
        for i in 0..3000 {
            let label = i.to_string();
            let _region = marker::region(&label);
        }
        let _ = round;
    }
    for name in ["a\nb\u{1b}[31m", "日本語", &long_name(4096), &long_name(4098)] {
        let _region = marker::region(name);
    }
}

fn names_of_all_kinds_are_kept(tool: &Tool<'_>) {
    let Some(marked) = tool.native("names") else { return };
    assert_eq!(marked.regions.len(), 3003);
    assert!(marked.regions.iter().take(3000).all(|region| calls(region) == 2));
    assert_eq!(calls(region(&marked, "日本語")), 1);
    assert_eq!(calls(region(&marked, "a\nb\u{1b}[31m")), 1);
    assert_eq!(calls(region(&marked, &long_name(4096))), 2, "the longer one was cut to this");
    assert_eq!(marked.notes, ["names of regions are cut to 4096 bytes, and equal ones are one region"]);
}

fn program_many_threads() {
    for _ in 0..2000 {
        let mark = || {
            for i in 0..40 {
                let label = i.to_string();
                let _region = marker::region(&label);
            }
        };
        std::thread::spawn(mark).join().unwrap();
    }
}

fn threads_one_after_the_other_share_rooms(tool: &Tool<'_>) {
    let Some(marked) = tool.native("many-threads") else { return };
    assert_eq!((marked.regions.len(), marked.notes.as_slice()), (40, [].as_slice()));
    for region in &marked.regions {
        assert_eq!((calls(region), region.runs[0].ended, region.runs[0].threads), (2000, 2000, 2000));
        assert!(region.runs[0].by_thread.len() < 1000);
        assert!(value(region, 0).is_some());
    }
}

/// Touches this many pages that were never touched before.
fn touch(pages: usize) {
    let mut memory: Vec<u8> = Vec::with_capacity(pages << 12);
    for page in 0..pages {
        memory.resize((page + 1) << 12, 1);
    }
    black_box(memory);
}

fn program_faults() {
    // So large that the allocator takes it from the system, and gives it back.
    for pages in [1000, 2000] {
        let label = pages.to_string();
        let _region = marker::region(&label);
        touch(pages);
    }
    let mut memory = KernelMemory::new();
    let _region = marker::region("none");
    black_box(additions)(1000, &mut memory);
}

fn the_kernel_counts_regions(tool: &Tool<'_>) {
    let Some(marked) = tool.native("faults") else { return };
    let faults = |label: &str| value(region(&marked, label), 0).unwrap();
    assert!(faults("none") < 100.0, "{}", faults("none"));
    // Huge pages need fewer faults, so that no number can be asked for.
    assert!(faults("1000") >= 1.0 && faults("2000") >= 1.0);
    let clock = |label: &str| value(region(&marked, label), 1).unwrap();
    assert!(clock("2000") > 0.0 && clock("1000") > 0.0);
    let time = region(&marked, "2000").runs[0].time_ns;
    assert!(time > 0);
}

fn several_runs_make_statistics(tool: &Tool<'_>) {
    let mut spec = CommandSpec::new(std::env::current_exe().unwrap());
    spec.args = vec!["program".into(), "recursive".into()];
    let stat = Stat::new(machine()).command(spec).events("page-faults").unwrap();
    let stat = stat.backend(Some(Rung::Perf)).runs(4).warmups(2);
    let (_, marked) = stat.run_marked(tool.launcher, &mut Quiet).unwrap();
    let found = region(&marked, "recursive");
    assert_eq!(
        found.runs.iter().map(|run| (run.run, run.calls)).collect::<Vec<_>>(),
        [(0, 20), (1, 20), (2, 20), (3, 20)]
    );
    let summary = summarise_as(&found.report, Scope::Thread);
    if summary.lines[0].statistics.mean.is_none() {
        return skip(&format!("{:?}", summary.lines[0].reason));
    }
    assert_eq!(summary.lines[0].statistics.n, 4);
}

fn a_program_without_markers_is_told(tool: &Tool<'_>) {
    let Some(marked) = tool.native("nothing") else { return };
    assert_eq!(marked.regions.len(), 0);
    assert!(marked.notes[0].starts_with("no region was marked"), "{:?}", marked.notes);
}

fn another_version_is_told(tool: &Tool<'_>) {
    let _ = tool;
    use cyclometer_toolkit::marker::board::{Board, VERSION};
    let board = Board::make().unwrap();
    assert_eq!(board.other_version(), None);
    // A library of another version finds the version of the board, and writes down its own.
    let variable = board.variable();
    let (_, place) = variable.split_once('=').unwrap();
    let (path, _) = place.rsplit_once('#').unwrap();
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    use std::io::{Seek as _, SeekFrom, Write as _};
    file.seek(SeekFrom::Start(8)).unwrap();
    file.write_all(&(VERSION + 1).to_ne_bytes()).unwrap();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["program", "recursive"])
        .env("CYCLOMETER_MARKERS", place)
        .status();
    assert!(status.unwrap().success(), "the program goes on");
    assert_eq!((board.other_version(), board.attached(), board.rows().len()), (Some(VERSION), 0, 0));
}

fn what_runs_already_is_refused(tool: &Tool<'_>) {
    let stat = Stat::new(machine()).process(std::process::id());
    let error = stat.run_marked(tool.launcher, &mut Quiet).unwrap_err();
    assert_eq!(error.kind(), cyclometer_toolkit::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("started here"), "{error}");
}
