//! The self-test of this machine's sources, as in `cyclometer selftest`.
//!
//! Loops of known length are counted with every generic and portable event, and with the software PMU.

mod mac;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cyclometer_backend::{Launcher, on_cpu, sources};
use cyclometer_catalog::{Listing, ListingKind, list, resolve_list_in};
use cyclometer_core::exec::{CommandSpec, InputStream, OutputStream};
use cyclometer_core::machine::{CpuId, Vendor};
use cyclometer_core::plan::{IntentSubject, Outcome};
use cyclometer_core::pmu::KernelPmu;
use cyclometer_core::{
    Counted, Error, ErrorKind, Intent, Machine, Modes, Provenance, Recovery, Result, Rung, Slot, SlotId,
    Source, Verdict,
};
use cyclometer_selftest::{
    Kernel, KernelMemory, KernelQuantity, MeterSample, MeteredWork, RecordedCounts, Repetitions, Rounds,
    ThreadMeter,
};
use cyclometer_selftest::{ROUNDS, examine, together};
use cyclometer_session::Quiet;
use cyclometer_stats::{LineSummary, summarise};

pub use cyclometer_selftest::{EventVerdict, Finding, Measurement, Truth};

use crate::{EventTables, Stat};

/// A test of this machine's sources; nothing is counted before [`SelfTest::run`].
#[derive(Clone, Debug)]
pub struct SelfTest {
    machine: Machine,
    only: Option<Rung>,
    program: Option<PathBuf>,
}

/// The result of a self-test.
#[derive(Clone, PartialEq, Debug)]
pub struct Examined {
    /// One for each kind of event and source.
    pub sections: Vec<Section>,
    /// The signal that ended the test early, if one did. Events that were not tested are not counted.
    pub interrupted: Option<i32>,
}

/// The result for the events of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// The kind.
    pub kind: SectionKind,
    /// The source.
    pub rung: Rung,
    /// The kernel's PMU, on a CPU of which everything ran; `None` where there are not several.
    pub pmu: Option<String>,
    /// Why none of them can be counted here, if so.
    pub absent: Option<String>,
    /// One for each event.
    pub findings: Vec<Finding>,
}

/// Kinds of events that a self-test examines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SectionKind {
    /// Events of a PMU.
    Hardware,
    /// The kernel's software events.
    Software,
    /// macOS's sums of a thread.
    Accounts,
    /// Events of the software PMU.
    Translated,
}

impl SectionKind {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            SectionKind::Hardware => "hardware",
            SectionKind::Software => "software",
            SectionKind::Accounts => "accounts",
            SectionKind::Translated => "translated",
        }
    }
}

impl Examined {
    /// Whether no count contradicts a known number.
    pub fn is_true(&self) -> bool {
        self.findings().all(|finding| finding.verdict != EventVerdict::Wrong)
    }

    /// Everything that was found out.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.sections.iter().flat_map(|section| &section.findings)
    }
}

impl Section {
    /// The names of the events of a verdict.
    pub fn of(&self, verdict: EventVerdict) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.verdict == verdict)
    }
}

/// How many copies of an event count at the same time.
const COPIES: usize = 3;

impl SelfTest {
    /// A test of `machine`, which must be the one that this runs on.
    pub fn new(machine: Machine) -> SelfTest {
        SelfTest { machine, only: None, program: None }
    }

    /// Tests one source only; `None`: all of them.
    pub fn backend(mut self, only: Option<Rung>) -> SelfTest {
        self.only = only;
        self
    }

    /// The program that runs a kernel when it is started as `PROGRAM selftest --kernel NAME:ROUNDS`, by
    /// [`run_kernel`]: the software PMU counts whole programs. Without one it is not tested.
    pub fn program(mut self, program: PathBuf) -> SelfTest {
        self.program = Some(program);
        self
    }

    /// Counts and judges. A signal that `launcher` watches for ends the test early.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a source that loops cannot be counted with,
    /// `ErrorKind::EventUnsupported` for one that counts nothing here. A single event that cannot be counted
    /// is a finding, not an error.
    pub fn run(&self, launcher: &Launcher) -> Result<Examined> {
        let run = SelfTestRun::new(self, launcher);
        let sections = match self.only {
            None if run.is_on_a_mac() => vec![run.by_kperf(), run.by_accounts(), run.translated()],
            None => [run.hardware(), vec![run.software(), run.translated()]].concat(),
            Some(Rung::Kperf) => vec![run.by_kperf()],
            Some(Rung::SelfCounts) => vec![run.by_accounts()],
            Some(Rung::Perf) => [run.hardware(), vec![run.software()]].concat(),
            Some(Rung::Soft) => vec![run.translated()],
            Some(other) => return Err(untestable(other)),
        };
        let examined = Examined { sections, interrupted: run.interrupted.get() };
        match self.only.filter(|_| examined.findings().next().is_none()) {
            Some(only) => Err(nothing_tested(only, &examined)),
            None => Ok(examined),
        }
    }
}

/// A test that is running. After a signal, events are not counted any more.
struct SelfTestRun<'a> {
    test: &'a SelfTest,
    launcher: &'a Launcher,
    tables: EventTables,
    /// The signal that came.
    interrupted: Cell<Option<i32>>,
}

impl<'a> SelfTestRun<'a> {
    fn new(test: &'a SelfTest, launcher: &'a Launcher) -> SelfTestRun<'a> {
        let (tables, _) = EventTables::here(&test.machine);
        SelfTestRun { test, launcher, tables, interrupted: Cell::default() }
    }

    /// Checks that no signal has come yet.
    fn check(&self) -> std::result::Result<(), String> {
        let signal = self.interrupted.get().or_else(|| self.launcher.take_signal());
        self.interrupted.set(signal);
        signal.map_or(Ok(()), |signal| Err(format!("interrupted by signal {signal}")))
    }

    /// The finding of an event. A count during which a signal came includes the handler, so it is dropped.
    fn finding(&self, name: &str, count: impl FnOnce() -> std::result::Result<Finding, String>) -> Finding {
        let counted = self.check().and_then(|()| {
            let counted = count();
            self.check().and(counted)
        });
        counted.unwrap_or_else(|why| Finding::not_counted(name, why))
    }

    /// One section; of a hybrid one for each core type, on a CPU of it.
    fn hardware(&self) -> Vec<Section> {
        let section = Section::new(SectionKind::Hardware, Rung::Perf);
        let Some(source) = perf() else { return vec![section.without("there is no perf on this system")] };
        if let Err(cause) = &self.test.machine.ladder.perf_hardware {
            return vec![section.without(&cause.text)];
        }
        let places: Vec<(&str, u32)> = self.test.machine.core_pmus().filter_map(place).collect();
        if places.len() < 2 {
            return vec![Section { findings: self.on_this_cpu(source.as_ref()), ..section }];
        }
        let on = |(pmu, cpu): (&str, u32)| {
            let section = Section { pmu: Some(pmu.to_owned()), ..section.clone() };
            match on_cpu(cpu, || self.on_this_cpu(source.as_ref())) {
                Some(findings) => Section { findings, ..section },
                None => section.without(&format!("this process may not run on CPU {cpu}")),
            }
        };
        places.into_iter().map(on).collect()
    }

    fn on_this_cpu(&self, source: &dyn Source) -> Vec<Finding> {
        let mut memory = KernelMemory::new();
        let listed = self.listed(&[ListingKind::Hardware, ListingKind::Cache, ListingKind::Portable]);
        let examined = listed.iter().map(|one| self.examined(source, one, ":u", &mut memory));
        let mut findings: Vec<Finding> = examined.collect();
        findings.push(self.at_once(source, &mut memory));
        findings
    }

    fn software(&self) -> Section {
        let section = Section::new(SectionKind::Software, Rung::Perf);
        let Some(source) = perf() else { return section.without("there is no perf on this system") };
        if let Err(cause) = &self.test.machine.ladder.perf_software {
            return section.without(&cause.text);
        }
        let known = |listing: &&Listing| Truth::of(&listing.name) != Truth::Unknown;
        let listed = self.listed(&[ListingKind::Software]);
        let mut memory = KernelMemory::new();
        let known = listed.iter().filter(known);
        let findings = known.map(|one| self.of_kernel(source.as_ref(), one, &mut memory));
        Section { findings: findings.collect(), ..section }
    }

    /// A software event; where the kernel's share is not permitted that of user mode, under its name, if the
    /// work is seen there.
    ///
    /// # Source
    ///
    /// Linux `kernel/events/core.c`, `perf_exclude_event`: a fault is counted in the mode that it happened
    /// in, a switch always in the kernel's. The clocks have no modes.
    fn of_kernel(&self, source: &dyn Source, listing: &Listing, memory: &mut KernelMemory) -> Finding {
        let all = self.examined(source, listing, "", memory);
        let is_seen = matches!(Truth::of(&listing.name), Truth::Time | Truth::Faults);
        if all.verdict != EventVerdict::NotCounted || !is_seen {
            return all;
        }
        let user = self.filtered(source, listing, ("", Some(Modes::USER)), memory);
        match (user.verdict, Truth::of(&listing.name)) {
            (EventVerdict::NotCounted, _) => all,
            (_, Truth::Time) => user,
            _ => Finding { event: format!("{}:u", listing.name), ..user },
        }
    }

    fn listed(&self, kinds: &[ListingKind]) -> Vec<Listing> {
        let all = list(&self.test.machine, self.tables.tables());
        all.into_iter().filter(|listing| kinds.contains(&listing.kind)).collect()
    }

    /// Counts an event on the calling thread.
    fn examined(
        &self,
        source: &dyn Source,
        listing: &Listing,
        modes: &str,
        memory: &mut KernelMemory,
    ) -> Finding {
        self.filtered(source, listing, (modes, None), memory)
    }

    /// The same with a filter for events whose name has no modes.
    fn filtered(
        &self,
        source: &dyn Source,
        listing: &Listing,
        (modes, filter): (&str, Option<Modes>),
        memory: &mut KernelMemory,
    ) -> Finding {
        let name = &listing.name;
        let counted = || {
            let mut slots = self.slots(&format!("{name}{modes}"), source.rung())?;
            slots.iter_mut().filter(|_| filter.is_some()).for_each(|slot| slot.filter = filter);
            let mut meter = ThreadMeter::open(source, &slots, memory)?;
            let finding = examine(name, Truth::of(name), &mut meter, Repetitions::HARDWARE);
            Ok(if meter.is_unfiltered() { finding.with_kernel() } else { finding })
        };
        self.with_errata(self.finding(name, counted))
    }

    /// Several copies of one event at the same time.
    fn at_once(&self, source: &dyn Source, memory: &mut KernelMemory) -> Finding {
        let name = format!("{COPIES} x instructions");
        let counted = || {
            let slots = self.slots("instructions:u", source.rung())?;
            let first = slots.first().ok_or("nothing counts it")?;
            let copies: Vec<Slot> = (0..COPIES).map(|id| Slot { id: SlotId(id), ..first.clone() }).collect();
            let mut meter = ThreadMeter::open(source, &copies, memory)?;
            let finding = together(&name, &mut meter);
            Ok(if meter.is_unfiltered() { finding.with_kernel() } else { finding })
        };
        self.finding(&name, counted)
    }

    /// How a source counts an event.
    fn slots(&self, event: &str, rung: Rung) -> std::result::Result<Vec<Slot>, String> {
        let words = |error: Error| error.to_string();
        let events = resolve_list_in(event, &self.test.machine, self.tables.tables(), true).map_err(words)?;
        let intent = Intent { only: Some(rung), subject: IntentSubject::Running, ..Intent::default() };
        let plan = cyclometer_plan::plan(events, &self.test.machine, intent).map_err(words)?;
        if let Some(Outcome::NotCounted(count)) = plan.lines.first().map(|line| &line.outcome) {
            return Err(count.reason().unwrap_or_default());
        }
        let slots = plan.passes.first().map(|pass| pass.of(rung)).unwrap_or_default();
        if slots.is_empty() { Err(format!("{rung} does not count it")) } else { Ok(slots) }
    }

    /// Names the erratum that explains a count that is too high.
    ///
    /// # Source
    ///
    /// AMD, Revision Guide for Family 17h Models 30h-3Fh Processors, erratum 1291: counts of retired
    /// instructions and branches may be too high.
    fn with_errata(&self, finding: Finding) -> Finding {
        let is_zen2 = matches!(self.test.machine.cpu.id, CpuId::X86 { family: 0x17, model: 0x30.., .. });
        let retired = matches!(Truth::of(&finding.event), Truth::Known(_));
        if self.test.machine.cpu.vendor == Vendor::Amd && is_zen2 && retired && finding.is_too_high() {
            let why = finding.why + "; AMD's erratum 1291: events at retirement may overcount";
            return Finding { why, ..finding };
        }
        finding
    }

    /// The software PMU, which counts another process.
    fn translated(&self) -> Section {
        let section = Section::new(SectionKind::Translated, Rung::Soft);
        let Some(program) = &self.test.program else {
            return section.without("no program was named that runs the loops");
        };
        match self.test.machine.ladder.state(Rung::Soft) {
            None => return section.without("there is no software PMU here"),
            Some(state) if !works(state.works) => {
                let cause = state.causes.first().map_or(state.works.word(), |cause| cause.text.as_str());
                return section.without(cause);
            }
            Some(_) => {}
        }
        let recorded = self.recorded(program);
        if let Err(interrupted) = self.check() {
            let without = |quantity: KernelQuantity| Finding::not_counted(quantity.word(), &interrupted);
            return Section { findings: countable().map(without).collect(), ..section };
        }
        let recorded = match recorded {
            Ok(recorded) => recorded,
            Err(error) => return section.without(&nameless(&error.to_string(), program)),
        };
        let judge = |(quantity, mut recorded): (KernelQuantity, RecordedCounts)| {
            let truth = Truth::of(quantity.word());
            examine(quantity.word(), truth, &mut recorded, Repetitions::UNDISTURBED)
        };
        Section { findings: recorded.into_iter().map(judge).collect(), ..section }
    }

    /// Every kernel under the software PMU: all quantities in the same runs.
    fn recorded(&self, program: &Path) -> Result<BTreeMap<KernelQuantity, RecordedCounts>> {
        let mut all = BTreeMap::new();
        let works = [
            (Rounds::MIN, Repetitions::UNDISTURBED.bases),
            (more_rounds(), Repetitions::UNDISTURBED.repeats),
        ];
        for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_here()) {
            for (rounds, runs) in works {
                for (quantity, samples) in self.translated_once(program, kernel, rounds, runs)? {
                    let recorded: &mut RecordedCounts = all.entry(quantity).or_default();
                    samples
                        .into_iter()
                        .for_each(|sample| recorded.add(MeteredWork::Kernel(kernel, rounds), sample));
                }
            }
        }
        Ok(all)
    }

    fn translated_once(
        &self,
        program: &Path,
        kernel: Kernel,
        rounds: Rounds,
        runs: u32,
    ) -> Result<Vec<(KernelQuantity, Vec<MeterSample>)>> {
        self.check().map_err(interrupted)?;
        let (events, quantities): (Vec<&str>, Vec<KernelQuantity>) =
            countable().map(|one| (one.word(), one)).unzip();
        let stat = Stat::new(self.test.machine.clone()).command(command(program, kernel, rounds));
        let stat = stat.events(&events.join(","))?.backend(Some(Rung::Soft));
        let report = stat.runs(runs).counted(Counted::All).run(self.launcher, &mut Quiet)?;
        self.interrupted.set(self.interrupted.get().or(report.interrupted));
        self.check().map_err(interrupted)?;
        let lines = summarise(&report).lines;
        let each = quantities.into_iter().zip(&lines);
        each.map(|(quantity, line)| Ok((quantity, samples(line)?))).collect()
    }
}

/// The quantities that the software PMU has a name for.
fn countable() -> impl Iterator<Item = KernelQuantity> {
    KernelQuantity::ALL.into_iter().filter(|quantity| *quantity != KernelQuantity::Accesses)
}

fn more_rounds() -> Rounds {
    Rounds::MIN.saturating_add(ROUNDS)
}

/// A reason without the folder that the program is in, which may have the name of a user. Reports are sent to
/// others.
fn nameless(reason: &str, program: &Path) -> String {
    let folder = program.parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    let path = program.to_string_lossy();
    let reason = reason.replace(path.as_ref(), "cyclometer");
    if folder.len() > 1 { reason.replace(&folder, "its folder") } else { reason }
}

/// Numbers of rounds have the same length, so that reading them takes the same number of instructions.
fn command(program: &Path, kernel: Kernel, rounds: Rounds) -> CommandSpec {
    let spec = format!("{}:{rounds:05}", kernel.word());
    let args = ["selftest", "--kernel", &spec].map(OsString::from).to_vec();
    let (stdin, stdout) = (InputStream::Null, OutputStream::Null);
    CommandSpec { args, stdin, stdout, ..CommandSpec::new(program) }
}

/// The exact counts of every run.
fn samples(line: &LineSummary) -> Result<Vec<MeterSample>> {
    let is_exact = line.verdict == Verdict::Exact && line.provenance == Some(Provenance::Counted);
    if !is_exact {
        let reason = line.reason.clone().unwrap_or_else(|| "another source counted it".to_owned());
        return Err(Error::new(ErrorKind::StateLost, format!("{}: {reason}", line.event)));
    }
    let values = line.values.iter().filter_map(|value| value.count.value());
    Ok(values.map(MeterSample::whole).collect())
}

fn works(works: cyclometer_core::ladder::Works) -> bool {
    use cyclometer_core::ladder::Works::{Partly, Yes};
    matches!(works, Yes | Partly)
}

fn perf() -> Option<Box<dyn Source>> {
    sources().into_iter().find(|source| source.rung() == Rung::Perf)
}

/// A core PMU with a CPU of it.
fn place(pmu: &KernelPmu) -> Option<(&str, u32)> {
    Some((pmu.name.as_str(), pmu.cpus.as_ref()?.iter().next()?))
}

impl Section {
    fn new(kind: SectionKind, rung: Rung) -> Section {
        Section { kind, rung, pmu: None, absent: None, findings: Vec::new() }
    }

    fn without(self, reason: &str) -> Section {
        Section { absent: Some(reason.to_owned()), ..self }
    }
}

fn interrupted(reason: String) -> Error {
    Error::new(ErrorKind::Os, reason)
}

fn untestable(rung: Rung) -> Error {
    let message = format!("loops cannot be counted with the source '{rung}': it does not count threads");
    Error::new(ErrorKind::InvalidInput, message)
        .with_recovery(Recovery::fix("use --backend perf or soft, on a Mac kperf or selfcounts"))
}

fn nothing_tested(only: Rung, examined: &Examined) -> Error {
    let reason = examined.sections.iter().find_map(|section| section.absent.clone()).unwrap_or_default();
    Error::new(ErrorKind::EventUnsupported, format!("the source '{only}' cannot be tested: {reason}"))
        .with_recovery(Recovery::fix("`cyclometer doctor` says what works here"))
}

/// Runs a kernel as `NAME:ROUNDS` specifies it, to be counted.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a kernel that does not exist, or a number of rounds that is none.
pub fn run_kernel(spec: &str) -> Result<()> {
    let parsed = spec
        .split_once(':')
        .and_then(|(name, rounds)| Some((Kernel::from_word(name)?, Rounds::new(rounds.parse().ok()?)?)));
    let Some((kernel, rounds)) = parsed else {
        let names: Vec<&str> = Kernel::ALL.iter().map(|kernel| kernel.word()).collect();
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("'{spec}' is no loop with a number of rounds"),
        )
        .with_recovery(Recovery::fix(format!("loops are {}", names.join(", ")))));
    };
    cyclometer_selftest::run_kernel(kernel, rounds);
    Ok(())
}

#[cfg(test)]
mod tests {
    use cyclometer_core::exec::{Refusal, RefusalKind};
    use cyclometer_core::{Counting, Target};

    use super::*;

    #[test]
    fn a_kernel_has_a_name_and_a_number_of_rounds() {
        assert!(run_kernel("additions:00010").is_ok());
        for spec in ["additions", "additions:0", "additions:x", "nothing:5", ""] {
            let error = run_kernel(spec).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{spec}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_does_not_tell_where_it_is() {
        let program = PathBuf::from("/home/hedgehog/bin/no-such-program");
        let test = SelfTest::new(crate::machine()).program(program.clone());
        let section = SelfTestRun::new(&test, &Launcher::start().unwrap()).translated();
        assert!(!section.absent.unwrap().contains("hedgehog"));
        let reason = "command '/home/hedgehog/bin/no-such-program' not found in /home/hedgehog/bin";
        assert_eq!(nameless(reason, &program), "command 'cyclometer' not found in its folder");
        assert_eq!(nameless("a / b", Path::new("/init")), "a / b");
    }

    /// The kernel's events as an ordinary user has them: not without leaving the kernel out.
    struct Ordinary(Box<dyn Source>);

    impl Source for Ordinary {
        fn rung(&self) -> Rung {
            Rung::Perf
        }

        fn open(&self, slots: &[Slot], target: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
            match slots.iter().all(|slot| slot.filter == Some(Modes::USER)) {
                true => self.0.open(slots, target),
                false => Err(Refusal::of_target(RefusalKind::NoPermission, "not permitted")),
            }
        }
    }

    #[test]
    fn who_may_not_count_the_kernel_is_told_of_user_mode_and_by_that_name() {
        let test = SelfTest::new(crate::machine());
        let (Some(source), Ok(())) = (perf(), &test.machine.ladder.perf_software) else { return };
        let source = Ordinary(source);
        let launcher = Launcher::start().unwrap();
        let run = SelfTestRun::new(&test, &launcher);
        let listed = run.listed(&[ListingKind::Software]);
        let found = |name: &str| {
            let listing = listed.iter().find(|listing| listing.name == name).unwrap();
            let finding = run.of_kernel(&source, listing, &mut KernelMemory::new());
            (finding.event.clone(), finding.verdict)
        };
        assert_eq!(found("page-faults"), ("page-faults:u".to_owned(), EventVerdict::Plausible));
        assert_eq!(found("task-clock"), ("task-clock".to_owned(), EventVerdict::Plausible));
        assert_eq!(found("context-switches"), ("context-switches".to_owned(), EventVerdict::NotCounted));
    }

    #[test]
    fn a_count_during_a_signal_is_dropped_and_none_follows() {
        let (test, launcher) = (SelfTest::new(crate::machine()), Launcher::start().unwrap());
        let run = SelfTestRun::new(&test, &launcher);
        let exact = || Finding { verdict: EventVerdict::Exact, ..Finding::not_counted("e", "") };
        assert_eq!(run.finding("e", || Ok(exact())), exact());
        let dropped = run.finding("e", || {
            run.interrupted.set(Some(3));
            Ok(exact())
        });
        assert_eq!(dropped, Finding::not_counted("e", "interrupted by signal 3"));
        assert_eq!(run.finding("f", || panic!("counted")).why, "interrupted by signal 3");
    }

    #[test]
    fn a_source_that_counts_cpus_is_refused() {
        let launcher = Launcher::start().unwrap();
        let error = SelfTest::new(crate::machine()).backend(Some(Rung::Msr)).run(&launcher).unwrap_err();
        assert!(error.to_string().contains("'msr'"), "{error}");
    }
}
