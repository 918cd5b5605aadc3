//! Samples at overflows of hardware counters: each function is a process of its own, run as root and as an
//! ordinary user.

use std::fs;
use std::num::NonZeroU64;
use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use cyclometer_backend::{Launcher, Mode, OverflowRecord, OverflowSample, OverflowSampling, Overflows, Wake};
use cyclometer_core::event::{PerfClass, PerfEvent};
use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Child, CpuSet, Launch, Modes, Part, Refusal, Rung, Slot, SlotId, Target};
use cyclometer_kernels::{Kernel, KernelMemory, Rounds};
use cyclometer_sys::affinity::Affinity;

use crate::cases::Cases;
use crate::programs::{LONG, Program};
use crate::system::{Finished, Who, run, sysctl};

/// How a machine signals overflows.
pub(crate) struct Interrupts {
    /// The kernel's PMU.
    pmu: &'static str,
    /// Whether the kernel requires the PMU in a generic event.
    named: bool,
    /// Whether the interrupts for cycles come late, so that the program may be elsewhere, or some are
    /// missing.
    late: bool,
    /// Whether cycles and instructions count at the same time, and begin together.
    together: bool,
}

const PLAIN: Interrupts = Interrupts { pmu: "cpu", named: false, late: false, together: true };
pub(crate) const ARM64: Interrupts = Interrupts { pmu: "armv8_pmuv3", ..PLAIN };
/// QEMU's timer for the overflow of cycles waits for as many instructions, which are two cycles each
/// (`riscv_pmu_setup_timer` in its `target/riscv/pmu.c`). It is late on a busy host.
pub(crate) const RISCV64: Interrupts = Interrupts { late: true, ..PLAIN };
pub(crate) const X86: Interrupts = PLAIN;
/// The counters do not start together.
pub(crate) const X86_AMD: Interrupts = Interrupts { together: false, ..PLAIN };
/// The PMU of the core: the plugin's interrupts are those of CPU 0.
pub(crate) const X86_HYBRID: Interrupts = Interrupts { pmu: "cpu_core", named: true, ..PLAIN };

/// Every case.
pub(crate) fn cases(cases: &mut Cases, how: &Interrupts) {
    let named = if how.named { "named" } else { "" };
    let tried = |who, what: &str, event: &str| ran(who, &[what, how.pmu, named, event]);
    // Otherwise the kernel reduces the sample rate when interrupts take long, as they do in an emulator.
    let _ = sysctl("kernel/perf_cpu_time_max_percent", "0");
    for (event, late) in [("instructions", false), ("cycles", how.late)] {
        let (what, when) =
            if late { ("late-command", "late") } else { ("command", "each period, in its loop") };
        cases.case(&format!("{event} of a command are sampled {when}"), || tried(Who::Root, what, event));
    }
    cases.case("a sample tells what its group had counted", || {
        tried(Who::Root, if how.together { "group" } else { "late-group" }, "instructions")
    });
    cases
        .case("samples of a command with its children tell a group's counts, or are refused with the version that can", || {
            tried(Who::Root, "family", "instructions")
        });
    cases.case("samples that there is no room for are told as lost", || tried(Who::Root, "lost", "cycles"));
    cases.case("samples of what the kernel executes say so", || tried(Who::Root, "kernel", "cycles"));
    cases.case("an ordinary user samples user mode at paranoid 2, and no more", || {
        sysctl("kernel/perf_event_paranoid", "2")?;
        tried(Who::User, "command", "instructions")?;
        tried(Who::User, "kernel-refused", "instructions")
    });
    cases.case("an ordinary user gets no more memory for samples than the kernel's setting says", || {
        tried(Who::User, "memory-refused", "instructions")
    });
    cases.case("an ordinary user samples nothing at paranoid 3, and is told the fix", || {
        sysctl("kernel/perf_event_paranoid", "3")?;
        let answer = tried(Who::User, "refused", "instructions");
        sysctl("kernel/perf_event_paranoid", "2")?;
        answer
    });
}

/// Without interrupts, events are rejected and the kernel's clocks are not.
pub(crate) fn without_interrupts(cases: &mut Cases) {
    for what in ["no-interrupts", "no-interrupts-user"] {
        cases.case(&format!("a PMU that tells no overflows is refused by name ({what})"), || {
            ran(Who::Root, &[what, "cpu", "", "cycles"])
        });
    }
    a_clock_instead(cases);
}

/// Without a PMU there is no such event.
pub(crate) fn without_a_pmu(cases: &mut Cases) {
    cases.case("without a PMU an event cannot be sampled, for that reason", || {
        ran(Who::Root, &["no-event", "cpu", "", "cycles"])
    });
    a_clock_instead(cases);
}

fn a_clock_instead(cases: &mut Cases) {
    cases.case("a clock of the kernel's samples a command in its loop", || {
        ran(Who::Root, &["clock", "", "", ""])?;
        sysctl("kernel/perf_event_paranoid", "2")?;
        ran(Who::User, &["clock", "", "", ""])
    });
}

fn ran(who: Who, args: &[&str]) -> Result<()> {
    let finished: Finished = run(who, "/init", &[&["overflows"], args].concat())?.expect(0)?;
    finished.out.lines().for_each(|line| println!("overflows: {line}"));
    Ok(())
}

/// Runs one of them: its name, the PMU, whether the event names the PMU, the event.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let word = |number: usize| args.get(number).map_or("", String::as_str);
    let event = || Event::new(word(1), word(2) == "named", word(3));
    match named(word(0), event) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn named(what: &str, event: impl Fn() -> Result<Event>) -> Result<()> {
    match what {
        "command" => command(&event()?, false),
        "late-command" => command(&event()?, true),
        "group" => group(&event()?, 0),
        "late-group" => group(&event()?, LATE),
        "family" => family(&event()?),
        "lost" => lost(&event()?),
        "kernel" => kernel(&event()?),
        "kernel-refused" => {
            is_refused(&event()?.slot(0, Modes::KERNEL), SMALL, &["perf_event_paranoid=1", "user mode"])
        }
        "memory-refused" => {
            is_refused(&event()?.slot(0, Modes::USER), HUGE, &["kernel.perf_event_mlock_kb", "fewer pages"])
        }
        "refused" => is_refused(
            &event()?.slot(0, Modes::USER),
            SMALL,
            &["perf_event_paranoid is 3", "perf_event_paranoid=2"],
        ),
        "no-interrupts" => is_refused(
            &event()?.slot(0, Modes::ALL),
            SMALL,
            &["tells no overflows", "Sscofpmf", "task-clock"],
        ),
        "no-interrupts-user" => {
            is_refused(&event()?.slot(0, Modes::USER), SMALL, &["tells no overflows", "Sscofpmf"])
        }
        "no-event" => is_refused(&event()?.slot(0, Modes::USER), SMALL, &["does not have this event"]),
        "clock" => clock(),
        _ => bail!("there is nothing called {what:?}"),
    }
}

/// Pages of the ring: enough for the samples of a case.
const SMALL: usize = 8;
/// More pages than an ordinary user may lock.
const HUGE: usize = 8192;

/// An event of the kernel's.
struct Event {
    event: PerfEvent,
    name: String,
    /// Events for each instruction.
    each: u64,
}

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_TASK_CLOCK`.
const SOFTWARE: (u32, u64) = (1, 1);

impl Event {
    /// `PERF_COUNT_HW_CPU_CYCLES` and `_INSTRUCTIONS`. The PMU's number is in the upper bits if the event
    /// names the PMU (`PERF_PMU_TYPE_SHIFT`). The emulators count two cycles for each instruction.
    fn new(pmu: &str, is_named: bool, name: &str) -> Result<Event> {
        let (config, each) = match name {
            "cycles" => (0, 2),
            "instructions" => (1, 1),
            _ => bail!("{name:?} is no event here"),
        };
        let of_pmu = |file: &str| {
            let file = format!("/sys/bus/event_source/devices/{pmu}/{file}");
            fs::read_to_string(&file).with_context(|| format!("reading {file}"))
        };
        let mut event = PerfEvent::new(pmu, HARDWARE, config, PerfClass::Core);
        if is_named {
            let number: u64 = of_pmu("type")?.trim().parse().context("the number of the PMU")?;
            event.words.config |= number << 32;
            event.cpus = CpuSet::parse(of_pmu("cpus")?.trim()).ok();
        }
        Ok(Event { event, name: name.to_owned(), each })
    }

    /// Cycles of the same PMU.
    fn cycles(&self) -> Event {
        let mut event = self.event.clone();
        event.words.config &= !0xff;
        Event { event, name: "cycles".to_owned(), each: 2 }
    }

    fn slot(&self, id: usize, modes: Modes) -> Slot {
        let parts = vec![Part::Perf(self.event.clone())];
        Slot { filter: Some(modes), ..Slot::new(SlotId(id), self.name.clone(), Rung::Perf, parts) }
    }

    /// About four million instructions: longer than an emulator takes to signal an overflow. That takes up to
    /// two million instructions if it happens at the next tick (4 ms, 2 ns for each instruction).
    fn period(&self) -> u64 {
        4_000_037 * self.each
    }
}

fn every(period: u64, ring_pages: usize) -> Result<OverflowSampling> {
    let period = NonZeroU64::new(period).context("no period")?;
    Ok(OverflowSampling { ring_pages, ..OverflowSampling::every(period) })
}

fn opened(answer: std::result::Result<Overflows, Refusal>) -> Result<Overflows> {
    answer.map_err(|refusal| anyhow!("refused: {} ({:?})", refusal.reason, refusal.kind))
}

/// The drained records.
#[derive(Default)]
struct Drained {
    samples: Vec<OverflowSample>,
    lost: u64,
    throttled: usize,
}

impl Drained {
    fn take(&mut self, overflows: &mut Overflows) -> Result<()> {
        Ok(overflows.drain(|taken| match taken {
            OverflowRecord::Sample(sample) => self.samples.push(sample),
            OverflowRecord::Lost { records, .. } => self.lost += records,
            OverflowRecord::Throttled { .. } => self.throttled += 1,
            OverflowRecord::Unthrottled { .. } => {}
            other => panic!("threads are not followed: {other:?}"),
        })?)
    }
}

/// Samples a program from its begin to its end on CPU 0; returns the records and the count.
fn sampled(slot: &Slot, program: &Program, how: OverflowSampling) -> Result<(Drained, u64)> {
    Affinity::only(0).give(0).context("moving to CPU 0")?;
    let launcher = Launcher::start()?;
    let mut child = launcher.prepare(&CommandSpec::new(program.path))?;
    let mut overflows = opened(Overflows::open(slot, &[], &target_of(child.as_ref())?, how))?;
    overflows.start()?;
    child.release()?;
    let mut all = Drained::default();
    while overflows.wait(None)? != Wake::Ended {
        all.take(&mut overflows)?;
    }
    all.take(&mut overflows)?;
    child.wait(None)?;
    let count = overflows.counts()?.cells.iter().map(|cell| cell.raw).sum();
    ensure!(overflows.lost()?.unwrap_or(0) == 0 && all.lost == 0, "{} samples are lost", all.lost);
    Ok((all, count))
}

/// The address range of one of our programs: its few instructions begin at its entry.
///
/// # Source
///
/// ELF-64 Object File Format, section "File header": `e_entry` is at 24.
fn code(program: &Program) -> Result<Range<u64>> {
    let bytes = fs::read(program.path).with_context(|| format!("reading {}", program.path))?;
    let entry = bytes.get(24..32).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let entry = entry.context("no entry")?;
    Ok(entry..entry + 64)
}

fn are_in_the_loop(samples: &[OverflowSample], program: &Program, period: u64) -> Result<()> {
    let code = code(program)?;
    for sample in samples {
        let ip = sample.ip.context("no address")?;
        ensure!(sample.mode == Mode::User, "{:?} at {ip:#x}", sample.mode);
        ensure!(code.contains(&ip), "{ip:#x} is not in {code:#x?}");
        ensure!(sample.period_events == period, "{} instead of {period}", sample.period_events);
    }
    Ok(())
}

/// The count is the known one, with one sample for each period. If interrupts are late, there may be fewer
/// samples, and only those in user mode must be in the loop.
fn command(event: &Event, late: bool) -> Result<()> {
    let period = event.period();
    let (mut all, count) = sampled(&event.slot(0, Modes::USER), &LONG, every(period, SMALL)?)?;
    let number = all.samples.len() as u64;
    println!("{number} samples of {count} {} each {period}", event.name);
    ensure!(count == LONG.instructions * event.each, "{count} instead of {}", LONG.instructions * event.each);
    all.samples.retain(|sample| !late || sample.mode == Mode::User);
    are_in_the_loop(&all.samples, &LONG, period)?;
    let least = if late { 1 } else { count / period };
    let fits = (least..=count / period).contains(&number);
    ensure!(fits, "{number} samples of {count} each {period}, {} times throttled", all.throttled);
    Ok(())
}

/// Greatest difference of cycles caused by counters that do not start together.
const LATE: u64 = 10_000;

/// The values of a sample are of one moment: two cycles for each instruction.
fn group(event: &Event, apart: u64) -> Result<()> {
    Affinity::only(0).give(0).context("moving to CPU 0")?;
    let (leader, member) = (event.slot(0, Modes::USER), event.cycles().slot(1, Modes::USER));
    let period = event.period();
    let mut overflows =
        opened(Overflows::open(&leader, &[member], &Target::ThisThread, every(period, SMALL)?))?;
    let rounds = Rounds::new(1_200_000).context("no rounds")?;
    overflows.start()?;
    Kernel::Additions.run(rounds, &mut KernelMemory::new());
    overflows.stop()?;
    let mut all = Drained::default();
    all.take(&mut overflows)?;
    ensure!(!all.samples.is_empty(), "no samples of {:?}", overflows.counts()?.cells);
    for (number, sample) in (1..).zip(&all.samples) {
        let [(SlotId(0), own), (SlotId(1), cycles)] = sample.values[..] else { bail!("{:?}", sample.values) };
        ensure!((period * number..period * (number + 1)).contains(&own), "{own} in sample {number}");
        ensure!(
            cycles.abs_diff(2 * own) <= apart,
            "{cycles} cycles for {own} instructions in sample {number}"
        );
    }
    println!(
        "{} samples with {:?}",
        all.samples.len(),
        all.samples.iter().map(|one| &one.values).collect::<Vec<_>>()
    );
    Ok(())
}

/// A ring without a reader is full after a page.
fn lost(event: &Event) -> Result<()> {
    Affinity::only(0).give(0).context("moving to CPU 0")?;
    let slot = event.slot(0, Modes::USER);
    let mut overflows = opened(Overflows::open(&slot, &[], &Target::ThisThread, every(50_000, 1)?))?;
    let (rounds, mut all) = (Rounds::new(1_000_000).context("no rounds")?, Drained::default());
    overflows.start()?;
    // A busy machine delivers fewer interrupts in as many rounds: the ring is full once something was lost.
    for _ in 0..20 {
        Kernel::Additions.run(rounds, &mut KernelMemory::new());
        if overflows.lost()?.is_none_or(|lost| lost > 0) {
            break;
        }
    }
    all.take(&mut overflows)?;
    let before = all.samples.len() as u64;
    // The number of lost samples comes with the next record that fits.
    Kernel::Additions.run(rounds, &mut KernelMemory::new());
    overflows.stop()?;
    all.take(&mut overflows)?;
    let told = overflows.lost()?;
    println!(
        "{before} samples, then {}, {} told as lost, {told:?} counted as lost",
        all.samples.len(),
        all.lost
    );
    ensure!(before > 0 && all.samples.len() as u64 > before, "{before} samples, then {}", all.samples.len());
    ensure!(all.lost > 0 && told.is_none_or(|told| told >= all.lost), "{} lost, {told:?} counted", all.lost);
    Ok(())
}

/// The kernel's work for a program, as root. A late interrupt may hit the program, and its sample says so.
/// QEMU signals overflows of arm64's other counters only on the return from the kernel.
fn kernel(event: &Event) -> Result<()> {
    Affinity::only(0).give(0).context("moving to CPU 0")?;
    let slot = event.slot(0, Modes::KERNEL);
    let mut overflows = opened(Overflows::open(&slot, &[], &Target::ThisThread, every(200_000, SMALL)?))?;
    overflows.start()?;
    let mut all = Drained::default();
    for _ in 0..200 {
        fs::read_to_string("/proc/self/maps")?;
        all.take(&mut overflows)?;
    }
    overflows.stop()?;
    all.take(&mut overflows)?;
    ensure!(!all.samples.is_empty(), "no samples of {:?}", overflows.counts()?.cells);
    let of_kernel = |sample: &OverflowSample| sample.mode == Mode::Kernel;
    let stray =
        all.samples.iter().find(|sample| sample.ip.is_none_or(|ip| of_kernel(sample) != (ip >> 63 == 1)));
    ensure!(stray.is_none(), "{stray:x?}");
    let number = all.samples.iter().filter(|sample| of_kernel(sample)).count();
    ensure!(number > 0, "none of {} samples is the kernel's", all.samples.len());
    println!("{number} samples of the kernel, {} in all", all.samples.len());
    Ok(())
}

/// Sampling a family requires Linux 6.12; older kernels are detected, and the error names them.
fn family(event: &Event) -> Result<()> {
    Affinity::only(0).give(0).context("moving to CPU 0")?;
    let mut child = Launcher::start()?.prepare(&CommandSpec::new(LONG.path))?;
    let (leader, member) = (event.slot(0, Modes::USER), event.cycles().slot(1, Modes::USER));
    let answer =
        Overflows::open(&leader, &[member], &target_of(child.as_ref())?, every(event.period(), SMALL)?);
    if release()? < (6, 12) {
        return told(answer, &["from version 6.12", "one event alone"]);
    }
    let mut overflows = opened(answer)?;
    overflows.start()?;
    child.release()?;
    child.wait(None)?;
    let mut all = Drained::default();
    all.take(&mut overflows)?;
    println!("{} samples of a family", all.samples.len());
    let whole = |sample: &OverflowSample| matches!(sample.values[..], [(SlotId(0), 1..), (SlotId(1), 1..)]);
    ensure!(!all.samples.is_empty() && all.samples.iter().all(whole), "{:?}", all.samples);
    Ok(())
}

fn target_of(child: &dyn Child) -> Result<Target> {
    child.pid().map(Target::Child).context("a command without a process id")
}

/// The first two numbers of the kernel's version.
fn release() -> Result<(u32, u32)> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = text.split('.').map(|number| number.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("{text:?} is no version"),
    }
}

fn is_refused(slot: &Slot, ring_pages: usize, words: &[&str]) -> Result<()> {
    told(Overflows::open(slot, &[], &Target::ThisThread, every(1_000_000, ring_pages)?), words)
}

fn told(answer: std::result::Result<Overflows, Refusal>, words: &[&str]) -> Result<()> {
    let Err(refusal) = answer else { bail!("it was opened") };
    let reason = refusal.reason.to_string();
    println!("{reason}");
    for word in words {
        ensure!(reason.contains(word), "nothing said of {word:?}: {reason}");
    }
    Ok(())
}

/// The kernel's clock of a task, each millisecond.
fn clock() -> Result<()> {
    const PERIOD: u64 = 1_000_000;
    let (number, config) = SOFTWARE;
    let part = Part::Perf(PerfEvent::new("software", number, config, PerfClass::Software));
    let slot = Slot::new(SlotId(0), "task-clock", Rung::Perf, vec![part]);
    let slot = Slot { filter: Some(Modes::USER), ..slot };
    let (all, count) = sampled(&slot, &LONG, every(PERIOD, SMALL)?)?;
    println!("{} samples of {count} ns", all.samples.len());
    ensure!(
        !all.samples.is_empty() && all.samples.len() as u64 <= count / PERIOD + 1,
        "{}",
        all.samples.len()
    );
    are_in_the_loop(&all.samples, &LONG, PERIOD)
}
