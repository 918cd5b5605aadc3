//! Counting a command, a process, CPUs or a control group, as `cyclometer stat` does.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cyclometer_backend::kperf::{KperfSharing, RunningProcesses};
use cyclometer_backend::{
    Attached, Launcher, SoftwareSettings, WantedEvents, msr, software, sources, sysreg,
};
use cyclometer_catalog::{DEFAULT_EVENTS, resolve_list, resolve_list_in};
use cyclometer_core::code::OwnerKind;
use cyclometer_core::exec::CommandSpec;
use cyclometer_core::ladder::{CauseKind, Works};
use cyclometer_core::plan::{IntentSubject, Multiplex};
use cyclometer_core::window::WindowSpec;
use cyclometer_core::{
    Child, Counted, CpuBaseline, CpuSet, Error, ErrorKind, Event, Intent, LaunchKind, Machine, Modes, Part,
    Plan, Recovery, Report, Result, Rung, Source, Target,
};
use cyclometer_session::{MeasurementJob, Observer, SessionSettings};
use cyclometer_stats::{MetricRequest, partners};

use crate::marked::{Boards, MarkedRegions, collect};
use crate::metric::{Assembled, Wanted, assemble, choose};
use crate::wiring::{Decoration, Wiring};
use crate::{EventTables, Simulated, chips, kperf_source};

/// Describes a measurement; nothing is opened before [`Stat::run`].
///
/// Without a target the command and its descendants are counted. With one, the command only sets how long, as
/// in perf.
#[derive(Clone, Debug)]
pub struct Stat {
    machine: Machine,
    command: Option<CommandSpec>,
    target: Option<Target>,
    tables: EventTables,
    events: Vec<Event>,
    metrics: Vec<Wanted>,
    settings: SessionSettings,
    backend: Option<Rung>,
    counted: Counted,
    random_layout: bool,
    hints: bool,
    by_code: bool,
    owners: Option<OwnerKind>,
    call_paths: bool,
    cpu_baseline: Option<CpuBaseline>,
    multiplex: Multiplex,
    seed: u64,
    simulated: Option<Simulated>,
}

/// The default events of a simulated machine: those of [`DEFAULT_EVENTS`] that its PMU has.
const SIMULATED_EVENTS: &str = "cycles,instructions,branches,branch-misses,cache-references,cache-misses";

/// Registers are a source by request only: if they cannot be used there is no fallback, and the obstacle is
/// an error.
///
/// # Errors
///
/// The first cause, with its remedy.
fn refuse(machine: &Machine, rung: Rung) -> Result<()> {
    use CauseKind::{HeldByAnother, NmiWatchdog, NoPermission, NotInKernel, NotRoot, Seccomp};
    let Some(state) = machine.ladder.state(rung) else { return Ok(()) };
    if matches!(state.works, Works::Yes | Works::Partly) {
        return Ok(());
    }
    let Some(cause) = state.causes.first() else {
        let text = format!("the source '{rung}' is {}", state.works.word());
        return Err(Error::new(ErrorKind::ArchUnsupported, text));
    };
    let kind = match cause.kind {
        NoPermission | NotRoot | Seccomp => ErrorKind::PermissionDenied,
        HeldByAnother | NmiWatchdog => ErrorKind::CounterBusy,
        NotInKernel => ErrorKind::KernelPatchNeeded,
        _ => ErrorKind::ArchUnsupported,
    };
    let help = || Recovery::fix("`cyclometer doctor` says what works here");
    let recovery = cause.mend.clone().map_or_else(help, |command| Recovery::GrantAccess { command });
    Err(Error::new(kind, cause.text.clone()).with_recovery(recovery))
}

/// Another one each time.
fn some_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    nanos ^ u64::from(std::process::id()).rotate_left(32)
}

/// Checks that a CPU baseline can be applied, which is possible for translated commands only.
fn check_baseline(baseline: CpuBaseline, plan: &Plan, has_command: bool) -> Result<()> {
    let name = baseline.word();
    if !has_command {
        let text = format!("the CPU baseline {name} is for a command, and there is no command");
        let hint = "give one: -- COMMAND; a baseline cannot be given to a process that is already running"
            .to_owned();
        return Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(hint)));
    }
    if !plan.passes.iter().any(|pass| pass.launch == LaunchKind::Translated) {
        let text = format!(
            "the CPU baseline {name} is for runs that the software PMU translates, and there is none: name an event \
             that it counts (-e instructions), or choose it (--backend soft)"
        );
        return Err(Error::new(ErrorKind::InvalidInput, text));
    }
    match cyclometer_backend::baseline_lacks(baseline) {
        None => Ok(()),
        Some(feature) => {
            let text =
                format!("this machine's processor is below the CPU baseline {name}: it lacks {feature}");
            let has_all = |lower: &CpuBaseline| cyclometer_backend::baseline_lacks(*lower).is_none();
            let hint = match CpuBaseline::ALL.into_iter().rfind(has_all) {
                Some(highest) => format!("the highest that it has all of is {}", highest.word()),
                None => "it has all features of none".to_owned(),
            };
            Err(Error::new(ErrorKind::EventUnsupported, text).with_recovery(Recovery::fix(hint)))
        }
    }
}

/// Processes or threads, to be waited for until all have ended.
fn attached_to(targets: &[Target]) -> Result<Attached> {
    let pids = targets.iter().filter_map(|target| match target {
        Target::Process { pid, .. } => Some(*pid),
        _ => None,
    });
    let tids = targets.iter().filter_map(|target| match target {
        Target::Thread(tid) => Some(*tid),
        _ => None,
    });
    let (pids, tids): (Vec<u32>, Vec<u32>) = (pids.collect(), tids.collect());
    if tids.is_empty() { Attached::processes(&pids) } else { Attached::threads(&tids) }
}

impl Stat {
    /// A measurement on `machine`, which must be the one that this runs on.
    pub fn new(machine: Machine) -> Stat {
        let (tables, _) = EventTables::here(&machine);
        Stat {
            machine,
            command: None,
            target: None,
            tables,
            events: Vec::new(),
            metrics: Vec::new(),
            settings: SessionSettings::default(),
            backend: None,
            counted: Counted::Auto,
            random_layout: false,
            hints: false,
            by_code: false,
            owners: None,
            call_paths: false,
            cpu_baseline: None,
            multiplex: Multiplex::Auto,
            seed: some_seed(),
            simulated: None,
        }
    }

    /// A measurement on a simulated machine: the command's program is the name of a workload, and no program
    /// is executed.
    pub fn simulated(simulated: Simulated) -> Stat {
        let machine = simulated.machine();
        Stat { simulated: Some(simulated), tables: EventTables::embedded(), ..Stat::new(machine) }
    }

    /// Runs this command.
    pub fn command(mut self, command: CommandSpec) -> Stat {
        self.command = Some(command);
        self
    }

    /// Counts a running process with all its threads and the processes that it starts from now on.
    pub fn process(mut self, pid: u32) -> Stat {
        self.target = Some(Target::Process { pid, inherit: true });
        self
    }

    /// Counts one running thread.
    pub fn thread(mut self, tid: u32) -> Stat {
        self.target = Some(Target::Thread(tid));
        self
    }

    /// Counts several running processes together, with all their threads and the processes that they start
    /// from now on.
    pub fn processes(self, pids: &[u32]) -> Stat {
        self.several(pids, |pid| Target::Process { pid, inherit: true })
    }

    /// Counts several running threads together.
    pub fn threads(self, tids: &[u32]) -> Stat {
        self.several(tids, Target::Thread)
    }

    /// One id is a target of its own; one that is named twice is counted once.
    fn several(mut self, ids: &[u32], target: fn(u32) -> Target) -> Stat {
        let ids: BTreeSet<u32> = ids.iter().copied().collect();
        let mut targets: Vec<Target> = ids.into_iter().map(target).collect();
        self.target = match targets.len() {
            0 | 1 => targets.pop(),
            _ => Some(Target::Several(targets)),
        };
        self
    }

    /// Counts everything on every online CPU.
    pub fn system(mut self) -> Stat {
        self.target = Some(Target::Cpus(self.machine.online.clone()));
        self
    }

    /// Counts everything on these CPUs.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` naming the CPUs that are not online.
    pub fn cpus(mut self, cpus: CpuSet) -> Result<Stat> {
        let missing = cpus.difference(&self.machine.online);
        if cpus.is_empty() || !missing.is_empty() {
            return Err(Error::new(ErrorKind::NoSuchTarget, format!("CPU {missing} is not online"))
                .with_recovery(Recovery::fix(format!("online CPUs are {}", self.machine.online))));
        }
        self.target = Some(Target::Cpus(cpus));
        Ok(self)
    }

    /// Counts the processes of a control group: a path below the cgroup mount, or an absolute one.
    pub fn cgroup(mut self, path: PathBuf) -> Stat {
        self.target = Some(Target::Cgroup { path, cpus: self.machine.online.clone() });
        self
    }

    /// Looks names of events up in these tables, from now on; before that in those of the machine
    /// ([`EventTables::here`]).
    pub fn tables(mut self, tables: EventTables) -> Stat {
        self.tables = tables;
        self
    }

    /// Adds events, a comma-separated list in perf's grammar; without any the default events are counted.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput`, `ErrorKind::UnknownEvent`.
    pub fn events(mut self, list: &str) -> Result<Stat> {
        let groups = self.events.iter().filter_map(|event| event.group).max().map_or(0, |last| last + 1);
        let more = resolve_list_in(list, &self.machine, self.tables.tables(), true)?;
        self.events.extend(
            more.into_iter().map(|event| Event { group: event.group.map(|group| group + groups), ..event }),
        );
        Ok(self)
    }

    /// Adds an event in front, unless it is in the list with the same modes.
    ///
    /// # Errors
    ///
    /// As [`Stat::events`]; `ErrorKind::InvalidInput` for several events.
    pub(crate) fn leading(mut self, name: &str) -> Result<Stat> {
        if self.position_of(name)?.is_none() {
            let leader = self.single(name)?;
            self.events.insert(0, leader);
        }
        Ok(self)
    }

    /// The place of an event in the list: with the same name and modes, which are the default ones if left
    /// out.
    pub(crate) fn position_of(&self, name: &str) -> Result<Option<usize>> {
        let modes = |event: &Event| event.modifiers.modes.unwrap_or(Modes::USER);
        let leader = self.single(name)?;
        let is_same = |event: &Event| event.name == leader.name && modes(event) == modes(&leader);
        Ok(self.events.iter().position(is_same))
    }

    fn single(&self, name: &str) -> Result<Event> {
        let mut events = resolve_list_in(name, &self.machine, self.tables.tables(), true)?;
        match (events.pop(), events.is_empty()) {
            (Some(event), true) => Ok(Event { group: None, ..event }),
            _ => {
                let text = format!("rows end at one event, and '{name}' is not one");
                let fix = "name one event: --every N:EVENT, and others with --also EVENT=N";
                Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(fix)))
            }
        }
    }

    /// Adds metrics and groups of metrics, a comma-separated list of names; the events that they need are
    /// counted, too.
    ///
    /// Without other events these are the only ones.
    ///
    /// # Errors
    ///
    /// `ErrorKind::UnknownEvent` with the nearest names for a metric that this machine's CPU does not have.
    pub fn metrics(mut self, list: &str) -> Result<Stat> {
        self.metrics.extend(choose(list, &self.machine)?);
        Ok(self)
    }

    /// The metrics that were added, for [`summarise_with`](cyclometer_stats::summarise_with) and the report
    /// of this measurement.
    pub fn metric_requests(&self) -> Vec<MetricRequest> {
        self.assembled().requests
    }

    fn assembled(&self) -> Assembled {
        assemble(self.events.clone(), &self.metrics, &self.machine, self.tables.tables())
    }

    /// Exact number of measured executions.
    pub fn runs(mut self, runs: u32) -> Stat {
        self.settings.runs = runs;
        self
    }

    /// Executions before them that are not measured.
    pub fn warmups(mut self, warmups: u32) -> Stat {
        self.settings.warmups = warmups;
        self
    }

    /// Reads all counters at this interval and reports them to the observer.
    pub fn interval(mut self, interval: Duration) -> Stat {
        self.settings.interval = Some(interval);
        self
    }

    /// Records windows, and reports their rows to the observer.
    pub fn windows(mut self, spec: WindowSpec) -> Stat {
        self.settings.windows = Some(spec);
        self
    }

    /// Goes on after an execution that failed.
    pub fn ignore_failure(mut self, ignore: bool) -> Stat {
        self.settings.ignore_failure = ignore;
        self
    }

    /// Counts with one source only; `None` takes the best for each event.
    pub fn backend(mut self, backend: Option<Rung>) -> Stat {
        self.backend = backend;
        self
    }

    /// How many runs the software PMU counts, if it counts any event; the other runs are native and are
    /// timed.
    pub fn counted(mut self, counted: Counted) -> Stat {
        self.counted = counted;
        self
    }

    /// Leaves the layout of addresses random under the software PMU, as the kernel draws it; else it is fixed
    /// where that is allowed, so that counts repeat.
    pub fn random_layout(mut self, random: bool) -> Stat {
        self.random_layout = random;
        self
    }

    /// Keeps hints and translations of code under the software PMU in the user's folder for caches (root's:
    /// `/var/cache`), and uses those of earlier runs. The same code starts faster then. Counts do not depend
    /// on them. Not done unless it is asked for.
    pub fn hints(mut self, hints: bool) -> Stat {
        self.hints = hints;
        self
    }

    /// Counts by instruction under the software PMU, too; [`Observer::code`] gets the
    /// counts of each measured run.
    pub fn by_code(mut self, by_code: bool) -> Stat {
        self.by_code = by_code;
        self
    }

    /// With [`Stat::by_code`], keeps the counts of each process or thread apart.
    pub fn code_owners(mut self, owners: Option<OwnerKind>) -> Stat {
        self.owners = owners;
        self
    }

    /// With [`Stat::by_code`], counts instructions by call path, too, for inclusive counts. The command runs
    /// slower.
    pub fn call_paths(mut self, call_paths: bool) -> Stat {
        self.call_paths = call_paths;
        self
    }

    /// Shows translated commands a processor that is the same on every machine, so that they execute the same
    /// code on two of them. Native runs have the processor that there is.
    pub fn cpu_baseline(mut self, baseline: Option<CpuBaseline>) -> Stat {
        self.cpu_baseline = baseline;
        self
    }

    /// Decides how events that do not fit on the counters at once are counted.
    pub fn multiplex(mut self, multiplex: Multiplex) -> Stat {
        self.multiplex = multiplex;
        self
    }

    /// Decides the order of passes and rotation groups, so that it can be repeated; by default it differs
    /// each time.
    pub fn seed(mut self, seed: u64) -> Stat {
        self.seed = seed;
        self.settings.seed = Some(seed);
        self
    }

    /// The machine that this is for.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How often and how.
    pub(crate) fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// The settings with which the software PMU runs commands for a plan: it counts only the quantities that
    /// events of the plan need.
    pub(crate) fn software_settings(&self, plan: &Plan) -> SoftwareSettings {
        let Stat { random_layout, cpu_baseline, hints, by_code, owners, call_paths, .. } = *self;
        let parts = plan.lines.iter().flat_map(|line| &line.event.candidates).flat_map(|way| &way.parts);
        let wanted = WantedEvents::only(parts.filter_map(|part| match part {
            Part::Soft(name) => Some(name.as_str()),
            _ => None,
        }));
        SoftwareSettings { random_layout, cpu_baseline, hints, wanted, by_code, owners, call_paths }
    }

    /// Checks whether the CPU baseline fits a plan.
    fn check_baseline(&self, plan: &Plan) -> Result<()> {
        self.cpu_baseline.map_or(Ok(()), |baseline| check_baseline(baseline, plan, self.command.is_some()))
    }

    /// Which source would count which event, on which counter.
    ///
    /// # Errors
    ///
    /// `ErrorKind::HardwareLimit` for a `{group}` that can never fit. Also for events that do not fit at
    /// once, must not be rotated, and have too few runs. `ErrorKind::ConstraintConflict` for a group that
    /// cannot be counted in one run. `ErrorKind::InvalidInput` for a pin that the source cannot honour, or an
    /// interval that is too short for the source.
    pub fn plan(&self) -> Result<Plan> {
        let Assembled { events, requests } = match self.events.is_empty() && self.metrics.is_empty() {
            true => {
                let events = resolve_list(self.default_events(), &self.machine, false)?;
                Assembled { events, requests: Vec::new() }
            }
            false => self.assembled(),
        };
        let intent = self.intent(&events, &requests);
        cyclometer_plan::plan(events, &self.machine, intent)
    }

    fn default_events(&self) -> &'static str {
        if self.simulated.is_some() { SIMULATED_EVENTS } else { DEFAULT_EVENTS }
    }

    fn intent(&self, events: &[Event], requests: &[MetricRequest]) -> Intent {
        Intent {
            only: self.backend,
            runs: self.settings.runs,
            counted: self.counted,
            subject: match (&self.command, &self.target) {
                (Some(_), None) => IntentSubject::Command,
                _ => IntentSubject::Running,
            },
            interval: self.settings.interval,
            begun: false,
            multiplex: self.multiplex,
            together: requests.iter().map(MetricRequest::slots).collect(),
            partners: partners(events),
            seed: self.seed,
        }
    }

    /// Measures.
    ///
    /// # Errors
    ///
    /// Only if nothing was measured; later failures are noted in the report. `ErrorKind::InvalidInput` for a
    /// CPU baseline if no run is translated, `ErrorKind::EventUnsupported` for one with a feature that this
    /// machine lacks.
    pub fn run(&self, launcher: &Launcher, observer: &mut dyn Observer) -> Result<Report> {
        let plan = self.plan()?;
        let job = self.job(self.watched(launcher)?);
        self.measure(&Decoration::Nothing, job, plan, launcher, observer)
    }

    /// Measures, and counts the regions beside that the command marks ([`marker`](crate::marker)), with the
    /// same events.
    ///
    /// The threads of the command open counters of their own for that. Events that fit on the counters once
    /// may have to share them then, and their values say so.
    ///
    /// # Errors
    ///
    /// As [`Stat::run`]; `ErrorKind::InvalidInput` if no command is counted: a running or simulated program
    /// cannot get a board.
    pub fn run_marked(
        &self,
        launcher: &Launcher,
        observer: &mut dyn Observer,
    ) -> Result<(Report, MarkedRegions)> {
        if self.command.is_none() || self.target.is_some() || self.simulated.is_some() {
            let text = "regions are counted in commands that are started here, nowhere else";
            let help = Recovery::fix("name a command, and no other target");
            return Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(help));
        }
        let (plan, boards) = (self.plan()?, Boards::default());
        let report = self.measure(&Decoration::Boards(&boards), self.job(None), plan, launcher, observer)?;
        let regions = collect(&boards, &report, self.settings.warmups);
        Ok((report, regions))
    }

    fn measure(
        &self,
        decoration: &Decoration<'_>,
        job: MeasurementJob,
        plan: Plan,
        launcher: &Launcher,
        observer: &mut dyn Observer,
    ) -> Result<Report> {
        self.wiring(&plan)?.with(decoration, launcher, &self.machine, |resources| {
            cyclometer_session::run(job, plan, &self.settings, resources, observer)
        })
    }

    /// The launchers and sources for a plan.
    ///
    /// # Errors
    ///
    /// Those of the sources, and of a CPU baseline that does not fit the plan.
    pub(crate) fn wiring(&self, plan: &Plan) -> Result<Wiring> {
        self.check_baseline(plan)?;
        match &self.simulated {
            Some(simulated) => {
                let simulation = simulated.start()?;
                let source = simulation.source(simulated.cores(&self.tables));
                Ok(Wiring::simulated(simulation, source))
            }
            None => Ok(Wiring::here(software(self.software_settings(plan)), self.sources()?)),
        }
    }

    /// Registers only on request: this source needs the PMU for itself.
    fn sources(&self) -> Result<Vec<Box<dyn Source>>> {
        let cores = || chips::for_counting(&self.machine, &self.tables);
        Ok(match self.backend {
            Some(Rung::Msr) => {
                refuse(&self.machine, Rung::Msr)?;
                msr::source(cores()).into_iter().collect()
            }
            Some(Rung::Sysreg) => vec![sysreg::source(cores(), self.only_cpu())?],
            _ => {
                let mut all = sources();
                all.extend(self.kperf()?);
                all
            }
        })
    }

    /// kperf, which counts CPUs for a process that runs only on request.
    fn kperf(&self) -> Result<Option<Box<dyn Source>>> {
        let processes = match self.backend {
            Some(Rung::Kperf) => RunningProcesses::ByCpus,
            _ => RunningProcesses::Refused,
        };
        kperf_source::open(&self.machine, &self.tables, (KperfSharing::default(), processes))
    }

    /// The CPU that is counted, where it is one.
    fn only_cpu(&self) -> Option<u32> {
        match &self.target {
            Some(Target::Cpus(cpus)) if cpus.len() == 1 => cpus.iter().next(),
            _ => None,
        }
    }

    fn job(&self, watched: Option<Box<dyn Child>>) -> MeasurementJob {
        MeasurementJob { command: self.command.clone(), target: self.target.clone(), watched }
    }

    /// The process to wait for when there is no command. A process or thread that has ended is an error with
    /// a command too.
    fn watched(&self, launcher: &Launcher) -> Result<Option<Box<dyn Child>>> {
        if self.simulated.is_some() {
            return Ok(None);
        }
        let attached = match &self.target {
            None => return Ok(None),
            Some(Target::Process { pid, .. }) => Attached::process(*pid)?,
            Some(Target::Thread(tid)) => Attached::thread(*tid)?,
            Some(Target::Several(targets)) => attached_to(targets)?,
            Some(_) => Attached::system(),
        };
        let is_waited_for = self.command.is_none();
        Ok(is_waited_for.then(|| -> Box<dyn Child> { Box::new(launcher.watched(attached)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::ladder::{Cause, RungState};

    #[test]
    fn an_id_that_is_named_twice_is_one_target() {
        let stat = || Stat::new(crate::machine());
        let process = |pid| Target::Process { pid, inherit: true };
        assert_eq!(stat().processes(&[7, 7]).target, Some(process(7)));
        assert_eq!(stat().threads(&[7, 7, 7]).target, Some(Target::Thread(7)));
        let both = Target::Several(vec![process(7), process(8)]);
        assert_eq!(stat().processes(&[8, 7, 8]).target, Some(both));
    }

    #[test]
    fn registers_that_cannot_be_had_are_an_error_with_the_remedy() {
        let mut machine = crate::machine();
        machine.ladder.rungs.retain(|state| state.rung != Rung::Msr);
        let mut with = |works, causes: Vec<Cause>| {
            machine.ladder.rungs.push(RungState { rung: Rung::Msr, works, causes });
            let answer = refuse(&machine, Rung::Msr);
            machine.ladder.rungs.pop();
            answer
        };
        let cause = |kind, mend: Option<&str>| {
            vec![Cause { kind, text: "the reason".to_owned(), mend: mend.map(str::to_owned) }]
        };
        assert!(with(Works::Yes, Vec::new()).is_ok());
        let error = with(Works::No, cause(CauseKind::NmiWatchdog, Some("sudo sysctl x=0"))).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::CounterBusy, "the reason"));
        assert!(error.recovery().to_string().contains("sudo sysctl x=0"));
        let error = with(Works::No, cause(CauseKind::NoPmu, None)).unwrap_err();
        assert!(error.recovery().to_string().contains("cyclometer doctor"));
        let error = with(Works::NotHere, Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the source 'msr' is not on this system");
    }
}
