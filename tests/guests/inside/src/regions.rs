//! Regions of this program, read in user space. Each function is a process of its own, so that a forbidden
//! instruction shows in the exit status.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use cyclometer::{Config, Count, Monitor, MonitorBuilder, Rung};
use cyclometer_core::concept::Concept;
use cyclometer_kernels::{Geometry, Kernel, KernelMemory, KernelRecipe, RecipeMemory, Rounds};
use cyclometer_sys::affinity::Affinity;
use cyclometer_sys::fork::in_child;

use crate::perf::Pmu;

/// Runs one of them; the arguments are its name, and for some another word.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let word = |number: usize| args.get(number).map_or("", String::as_str);
    match named(word(0), word(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn named(what: &str, word: &str) -> Result<()> {
    match what {
        "exact" => exact(),
        "recipes" => recipes(),
        "group" => group(),
        "silent" => silent(),
        "forked" => forked(),
        "migrated" => migrated(),
        "wide" => wide(),
        "turns" => turns(word),
        "asked" => asked(word),
        "page" => page(),
        "hybrid" => hybrid(),
        "nothing" => nothing(),
        "switched" => switched(word),
        _ => bail!("there is nothing called {what:?}"),
    }
}

/// Loops with known numbers of instructions.
const LOOPS: [Kernel; 4] = [Kernel::Additions, Kernel::NotTaken, Kernel::Calls, Kernel::Copies];

/// Repetitions of a count: interruptions add to some of them.
const REPEATS: usize = 5;

fn builder(events: &str) -> MonitorBuilder {
    Monitor::builder().backend(Rung::Perf).event(events).calibrate(false)
}

/// A monitor that reads in user space, and reports so for every event.
fn in_user_space(events: &str) -> Result<Monitor> {
    let monitor = builder(events).build()?;
    let ways = ways(&monitor);
    ensure!(!ways.is_empty() && ways.iter().all(|(works, _)| *works), "{}", ladder(&monitor));
    Ok(monitor)
}

/// A monitor that reads through the kernel, and reports so for every event with this reason.
fn by_the_kernel(builder: &MonitorBuilder, reason: &str) -> Result<Monitor> {
    let monitor = builder.build()?;
    let ways = ways(&monitor);
    let told = |(works, text): &(bool, String)| !works && text.contains(reason);
    ensure!(!ways.is_empty() && ways.iter().all(told), "not {reason:?}:\n{}", ladder(&monitor));
    Ok(monitor)
}

/// Whether each event is read in user space, in the ladder's words.
fn ways(monitor: &Monitor) -> Vec<(bool, String)> {
    let steps = monitor.ladder().iter().filter(|step| step.tried == "read in user space");
    steps.map(|step| (step.is_taken(), step.to_string())).collect()
}

fn ladder(monitor: &Monitor) -> String {
    monitor.ladder().iter().map(|step| format!("{step}\n")).collect()
}

fn rounds(number: u32) -> Result<Rounds> {
    Rounds::new(number).context("no rounds")
}

/// The exact counts of a region around some work, for each event: the least of some repetitions.
fn counted(monitor: &Monitor, mut work: impl FnMut()) -> Result<Vec<u64>> {
    let mut least: Vec<u64> = Vec::new();
    for _ in 0..REPEATS {
        let region = monitor.region("work");
        work();
        let values = region.stop().values;
        let exact = values.iter().map(|value| match value.count {
            Count::Exact(count) => Ok(count),
            _ => bail!("{value}"),
        });
        let exact = exact.collect::<Result<Vec<u64>>>()?;
        least =
            if least.is_empty() { exact } else { least.iter().zip(exact).map(|(a, b)| b.min(*a)).collect() };
    }
    Ok(least)
}

/// The difference of the counts between many and few rounds of a loop, for each event, and the true number of
/// instructions.
fn differences(monitor: &Monitor, kernel: Kernel) -> Result<(Vec<u64>, u64)> {
    let (few, many) = (rounds(1_000)?, rounds(21_000)?);
    let mut memory = KernelMemory::new();
    kernel.run(few, &mut memory);
    let little = counted(monitor, || kernel.run(few, &mut memory))?;
    let much = counted(monitor, || kernel.run(many, &mut memory))?;
    let truth = kernel.counts(many).instructions - kernel.counts(few).instructions;
    Ok((much.iter().zip(little).map(|(much, little)| much.wrapping_sub(little)).collect(), truth))
}

fn loops_are_exact(monitor: &Monitor) -> Result<()> {
    for kernel in LOOPS {
        let (found, truth) = differences(monitor, kernel)?;
        ensure!(found == [truth], "{kernel:?}: {found:?} instead of {truth}\n{}", ladder(monitor));
    }
    Ok(())
}

/// In user space first, then through the kernel, because some PMUs count instructions only once.
fn exact() -> Result<()> {
    loops_are_exact(&in_user_space("instructions:u")?)?;
    let asked = builder("instructions:u").user_reads(false);
    loops_are_exact(&by_the_kernel(&asked, "")?)
}

/// Every recipe of this instruction set, counted through the kernel: the emulators count each instruction.
fn recipes() -> Result<()> {
    let monitor = by_the_kernel(&builder("instructions:u").user_reads(false), "")?;
    let (mut memory, mut ran, mut wrong) = (RecipeMemory::new(), 0, Vec::new());
    for recipe in KernelRecipe::all_for(&small()) {
        if let Some(reason) = recipe.absence() {
            println!("{} is absent: {reason}", recipe.name);
            continue;
        }
        ran += 1;
        let found = more_instructions(&monitor, &recipe, &mut memory)?;
        let mut each = recipe.number_of(Concept::Instructions);
        if std::env::consts::ARCH == "x86_64" {
            // The plugin counts an instruction when it begins: one that faults begins twice.
            each += recipe.number_of(Concept::Faults);
        }
        let truth = each as u64 * u64::from(MORE_ROUNDS);
        if found != truth {
            wrong.push(format!("{}: {found} instead of {truth}", recipe.name));
        }
    }
    println!("{ran} recipes were counted, {} of them wrongly", wrong.len());
    ensure!(ran > 40 && wrong.is_empty(), "{}", wrong.join(", "));
    Ok(())
}

/// Additional iterations of a recipe.
const MORE_ROUNDS: u32 = 200;

/// The instructions of so many more iterations of a recipe.
fn more_instructions(monitor: &Monitor, recipe: &KernelRecipe, memory: &mut RecipeMemory) -> Result<u64> {
    let (few, many) = (rounds(10)?, rounds(10 + MORE_ROUNDS)?);
    recipe.run(few, memory)?;
    let mut count = |rounds: Rounds| -> Result<u64> {
        let mut ran = Ok(());
        let counts = counted(monitor, || ran = recipe.run(rounds, memory))?;
        ran?;
        Ok(counts[0])
    };
    let little = count(few)?;
    Ok(count(many)?.wrapping_sub(little))
}

/// Caches for which every footprint is quickly made. The instructions do not depend on them.
fn small() -> Geometry {
    Geometry {
        l1d_bytes: 4 << 10,
        l2_bytes: 32 << 10,
        llc_bytes: 256 << 10,
        l1i_bytes: 4 << 10,
        dtlb_entries: 8,
        itlb_entries: 8,
        l2_tlb_entries: 64,
        ..Geometry::default()
    }
}

/// The emulators count two cycles for each instruction: both reads are of the same moment.
fn group() -> Result<()> {
    let monitor = in_user_space("{cycles:u,instructions:u}")?;
    let (found, truth) = differences(&monitor, Kernel::Additions)?;
    ensure!(found == [2 * truth, truth], "{found:?} instead of {:?}", [2 * truth, truth]);
    Ok(())
}

/// The kernel's cycles for a read show whether it was called.
fn silent() -> Result<()> {
    let by_instruction = kernel_cycles_a_read(&in_user_space("instructions:u")?)?;
    let asked = by_the_kernel(&builder("instructions:u").user_reads(false), "")?;
    let by_call = kernel_cycles_a_read(&asked)?;
    println!("a read takes the kernel {by_instruction} cycles in user space, {by_call} by a system call");
    ensure!(by_call > 200, "a system call of {by_call} cycles");
    ensure!(
        by_instruction * 20 < by_call,
        "{by_instruction} cycles in user space, {by_call} by a system call"
    );
    Ok(())
}

fn kernel_cycles_a_read(monitor: &Monitor) -> Result<u64> {
    const READS: u64 = 3000;
    let kernel = by_the_kernel(&builder("cycles:k").user_reads(false), "")?;
    let counter = monitor.counter("instructions").with_context(|| ladder(monitor))?;
    let mut before = counter.read().context("no value")?;
    let mut runs_backwards = false;
    let all = counted(&kernel, || {
        for _ in 0..READS {
            let now = counter.read().unwrap_or_default();
            runs_backwards |= now <= before;
            before = now;
        }
    })?;
    ensure!(!runs_backwards, "a count went back, or stood still");
    Ok(all[0] / READS)
}

/// The parent's region is lost in the child, which counts for itself; the parent counts on.
fn forked() -> Result<()> {
    let monitor = in_user_space("instructions:u")?;
    let mut over = Some(monitor.region("over"));
    let answer = in_child(|| {
        let lost = over.take().is_none_or(|over| over.stop().values[0].number().is_none());
        match (lost, loops_are_exact(&monitor)) {
            (true, Ok(())) => 7,
            (false, _) => 1,
            (_, Err(error)) => {
                eprintln!("in the child: {error:#}");
                2
            }
        }
    })?;
    ensure!(answer == 7, "the child ended with {answer}");
    let over = over.take().context("no region")?.stop();
    ensure!(matches!(over.values[0].count, Count::Exact(1..)), "{}", over.values[0]);
    loops_are_exact(&monitor)
}

/// Moves from one CPU to the other and back, within a region. The cost of a move varies. A lost stay, or
/// another CPU's counter, would cause an error of hundreds of thousands.
fn migrated() -> Result<()> {
    let own = moved(&in_user_space("instructions:u")?)?;
    let kernels = moved(&by_the_kernel(&builder("instructions:u").user_reads(false), "")?)?;
    let truth = STAYS.len() as u64 * 18 * 20_000;
    println!("over {} stays {own} in user space, {kernels} by the kernel, {truth} known", STAYS.len());
    ensure!(own.abs_diff(truth) < 1_000, "{own} instead of {truth}; {kernels} by the kernel");
    Affinity::only(0).give(0)?;
    loops_are_exact(&in_user_space("instructions:u")?)
}

/// The CPUs of a region, in order.
const STAYS: [u32; 4] = [0, 1, 0, 1];

/// The number of additional instructions counted if each stay has 20,000 more rounds.
fn moved(monitor: &Monitor) -> Result<u64> {
    let mut memory = KernelMemory::new();
    let mut around = |each: Rounds| {
        let mut moves = Vec::with_capacity(REPEATS * STAYS.len());
        let all = counted(monitor, || {
            for cpu in STAYS {
                moves.push(Affinity::only(cpu).give(0));
                Kernel::Additions.run(each, &mut memory);
            }
        })?;
        moves.into_iter().collect::<std::io::Result<()>>().context("moving to the other CPU")?;
        Ok::<u64, anyhow::Error>(all[0])
    };
    let little = around(rounds(1_000)?)?;
    Ok(around(rounds(21_000)?)?.wrapping_sub(little))
}

/// More cycles than a counter of 32 bits holds above the kernel's preset: it overflows within the region.
fn wide() -> Result<()> {
    let monitor = in_user_space("cycles:u")?;
    let (few, many, mut memory) = (rounds(1_000)?, rounds(70_000_000)?, KernelMemory::new());
    let little = counted(&monitor, || Kernel::Additions.run(few, &mut memory))?[0];
    let region = monitor.region("work");
    Kernel::Additions.run(many, &mut memory);
    let count = region.stop().values.remove(0).count;
    let of = |rounds| 2 * Kernel::Additions.counts(rounds).instructions;
    let truth = of(many) - of(few) + little;
    // The calls are inlined differently, and an interrupted read is repeated. A lost overflow would cause an
    // error of billions.
    let fits = matches!(count, Count::Exact(count) if count.abs_diff(truth) < 1_000);
    ensure!(truth > 1 << 31 && fits, "{count:?} instead of {truth}");
    Ok(())
}

/// More events than counters: an event without a counter is read through the kernel. No number is far from
/// the truth.
fn turns(events: &str) -> Result<()> {
    let monitor = builder(events).build()?;
    let (rounds, mut memory) = (rounds(4_000_000)?, KernelMemory::new());
    let region = monitor.region("turns");
    for _ in 0..4 {
        Kernel::Additions.run(rounds, &mut memory);
        let _ = region.so_far();
    }
    let truth = 4.0 * Kernel::Additions.counts(rounds).instructions as f64;
    let values = region.stop().values;
    let numbers: Vec<f64> = values.iter().filter_map(|value| value.number()).collect();
    let near = numbers.iter().all(|number| (truth / 4.0..truth * 4.0).contains(number));
    ensure!(near && numbers.len() == values.len(), "{values:?} instead of {truth}");
    let scaled = values.iter().filter(|value| matches!(value.count, Count::Scaled { .. })).count();
    ensure!(scaled >= 2, "{scaled} events shared counters in rotation: {values:?}");
    Ok(())
}

/// The setting is off: the reason is reported, and the counts are the kernel's.
fn asked(reason: &str) -> Result<()> {
    loops_are_exact(&by_the_kernel(&builder("instructions:u"), reason)?)
}

/// The setting is off and not checked: the page denies access in time.
fn page() -> Result<()> {
    let mut config = Config::default();
    config.x86.pce_flag_check = Some(false);
    loops_are_exact(&by_the_kernel(&builder("instructions:u").config(config), "the kernel")?)
}

/// Exact, or an estimate if the thread moves; never a number of other counters.
fn hybrid() -> Result<()> {
    let monitor = by_the_kernel(&builder("instructions:u"), "different counters")?;
    let (rounds, mut memory) = (rounds(2_000_000)?, KernelMemory::new());
    let region = monitor.region("hybrid");
    Kernel::Additions.run(rounds, &mut memory);
    let value = region.stop().values.remove(0);
    let truth = Kernel::Additions.counts(rounds).instructions as f64;
    let near = value.number().is_some_and(|number| (truth / 2.0..truth * 2.5).contains(&number));
    ensure!(near, "{value} instead of {truth}");
    Ok(())
}

/// Without a PMU there is neither a number nor a signal.
fn nothing() -> Result<()> {
    let monitor = builder("instructions:u").build()?;
    let region = monitor.region("nothing");
    let value = region.stop().values.remove(0);
    ensure!(value.number().is_none() && value.reason().is_some_and(|why| !why.is_empty()), "{value}");
    ensure!(monitor.counter("instructions").and_then(|counter| counter.read()).is_none(), "a value");
    Ok(())
}

/// The setting is turned off while counters are being read. The kernel does not update the pages then.
fn switched(setting: &str) -> Result<()> {
    let monitor = in_user_space("instructions:u")?;
    fs::write(setting, "0").with_context(|| format!("writing to {setting}"))?;
    loops_are_exact(&monitor)
}

/// Events of a PMU that do not fit on its counters together.
pub(crate) fn too_many(pmu: &Pmu) -> String {
    pmu.many.iter().map(|event| format!("{event}:u")).collect::<Vec<_>>().join(",")
}
