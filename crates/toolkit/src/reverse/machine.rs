//! The machines that can be swept: simulated chips, and this machine.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cyclometer_arch::Chip;
use cyclometer_backend::{bind_to, on_cpu};
use cyclometer_catalog::table::model::{CpuTable, Header, TableEvent};
use cyclometer_catalog::table::text::write;
use cyclometer_core::ladder::{Cause, Works};
use cyclometer_core::machine::CoreType;
use cyclometer_core::pmu::Family;
use cyclometer_core::{Error, ErrorKind, EventCode, Machine, Recovery, Result, Rung};
use cyclometer_inference::{KernelIndex, ThresholdRule};
use cyclometer_kernels::{Geometry, InstructionSet};
use cyclometer_sweep::{
    SimulatedTarget, SweepKernel, SweepSettings, SweepTarget, ThresholdCode, ThresholdPair, kernels_for,
    text_digest, threshold_sweep,
};

use super::assembled::AssemblyFile;
use super::hardware::{self, HardwarePmu};
use super::verdicts::{DocumentedEvent, Reversed};
use super::watched::{
    BeatingTarget, FinishedSweep, Message, Pulse, ReadyTarget, ReverseObserver, SweepOptions, ended,
    sweep_watched, watched,
};
use crate::simulated::{PREFIX, Simulated};
use crate::{EventTables, chips};

/// The most codes of a sweep.
pub const MOST_CODES: usize = 1 << 16;

/// A machine whose events can be found out.
#[derive(Clone, Debug)]
pub struct SweepMachine {
    /// The id of its table, or of its vendor where there is none.
    cpu: String,
    chip: Chip,
    kind: SweptKind,
}

#[derive(Clone, Debug)]
enum SweptKind {
    Simulated(Box<Simulated>),
    Hardware(Box<HardwarePmu>),
}

/// The time that a sweep takes, as measured for one code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepTime {
    /// For a code that no kernel moves.
    pub dead_code: Duration,
    /// For a code that a kernel moves.
    pub live_code: Duration,
}

impl SweepMachine {
    /// A simulated chip.
    pub fn simulated(simulated: Simulated) -> SweepMachine {
        let model = simulated.model();
        SweepMachine {
            cpu: model.id.to_owned(),
            chip: model.chip,
            kind: SweptKind::Simulated(Box::new(simulated)),
        }
    }

    /// This machine: the source is perf if none is named, and the CPU the last one of the first core type.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a source that codes cannot be placed with, and for a CPU that this
    /// machine does not have; `ErrorKind::EventUnsupported` where the source does not work here, with the
    /// cause.
    pub fn here(source: Option<Rung>, cpu: Option<u32>) -> Result<SweepMachine> {
        let machine = crate::machine();
        let rung = source.unwrap_or(Rung::Perf);
        check_source(&machine, rung, source.is_some())?;
        let (core, cpu) = core_and_cpu(&machine, cpu)?;
        let tables = EventTables::embedded();
        let known = chips::for_counting(&machine, &tables).into_iter().find(|known| known.cpus.contains(cpu));
        let pmu = core.pmu_name().to_owned();
        let chip = known.map(|known| known.chip).or_else(|| chips::chip(&machine, core));
        let chip = chip.ok_or_else(|| {
            let text =
                format!("the layout of the counters of CPU {cpu} is not known, so no code can be placed");
            Error::new(ErrorKind::ArchUnsupported, text).with_recovery(offer_of_a_simulation())
        })?;
        let cpu_id = core.cpu_id.clone().unwrap_or_else(|| machine.cpu.vendor.to_string());
        let pmu = HardwarePmu { machine, rung, cpu, pmu, chip };
        Ok(SweepMachine { cpu: cpu_id, chip, kind: SweptKind::Hardware(Box::new(pmu)) })
    }

    /// Its name in journals and reports: for a simulated one with the meanings of its events.
    pub fn identity(&self) -> String {
        match &self.kind {
            SweptKind::Simulated(simulated) => match simulated.semantics() {
                None => format!("{PREFIX}{}", self.cpu),
                Some(semantics) => {
                    format!("{PREFIX}{} with semantics {}", self.cpu, text_digest(&format!("{semantics:?}")))
                }
            },
            SweptKind::Hardware(pmu) => {
                let name = pmu.machine.cpu.name.as_deref().unwrap_or("unnamed");
                format!("{} ({name}, {}), source {}, CPU {}", self.cpu, pmu.machine.cpu.id, pmu.rung, pmu.cpu)
            }
        }
    }

    /// Its name in texts: `sim:apple-m1`, or the id of the CPU's table.
    pub fn name(&self) -> String {
        match self.is_simulated() {
            true => format!("{PREFIX}{}", self.cpu),
            false => self.cpu.clone(),
        }
    }

    /// Whether it is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, SweptKind::Simulated(_))
    }

    /// Whether its codes have unit masks.
    pub fn has_unit_masks(&self) -> bool {
        matches!(self.chip.family, Family::Intel | Family::Amd)
    }

    /// Whether events can be placed on a chosen counter, so that masks are observed.
    pub fn observes_masks(&self) -> bool {
        !matches!(&self.kind, SweptKind::Hardware(pmu) if pmu.rung == Rung::Perf)
    }

    /// The id of its table.
    pub(crate) fn cpu_id(&self) -> &str {
        &self.cpu
    }

    /// Its chip.
    pub(crate) fn chip(&self) -> &Chip {
        &self.chip
    }

    /// How it is counted if nothing else is asked for: shorter runs on a real machine, whose kernels miss
    /// caches for real.
    pub fn usual_settings(&self) -> SweepSettings {
        match self.is_simulated() {
            true => SweepSettings::default(),
            false => SweepSettings { iterations: 1021, is_noisy: true, ..SweepSettings::default() },
        }
    }

    /// The codes that are swept if none are named: of a chip with selects of 8 bits all of them, of one with
    /// 16 bits those below 0x800, and on x86-64 each select without unit mask and with each bit of it (select
    /// 0 without one only).
    pub fn usual_codes(&self) -> Vec<u32> {
        match self.chip.family {
            Family::Intel | Family::Amd => {
                let masks = [0].into_iter().chain((0..8).map(|bit| 1 << bit));
                let codes = masks.flat_map(|mask| (0..256).map(move |select| mask << 8 | select));
                // Select 0 with a unit mask is no event of a general counter: tables name fixed counters so.
                codes.filter(|code| *code == 0 || code & 0xff != 0).collect()
            }
            Family::Apple if self.chip.selector_bits == Some(8) => (0..256).collect(),
            _ => (0..0x800).collect(),
        }
    }

    /// The time of a sweep, by running each kernel once. Nothing is counted.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a simulated machine, whose time is no one's.
    pub fn time(&self, settings: &SweepSettings) -> Result<SweepTime> {
        let SweptKind::Hardware(pmu) = &self.kind else {
            return Err(Error::new(ErrorKind::InvalidInput, "the time of simulated sweeps is not estimated"));
        };
        let timed = on_cpu(pmu.cpu, || {
            let kernels = hardware::kernels(pmu.cpu)?;
            let mut runner = hardware::runner(&kernels)?;
            let iterations = settings.iterations.max(1);
            let start = Instant::now();
            (0..kernels.len()).try_for_each(|kernel| runner.run(kernel, iterations))?;
            Ok::<f64, Error>(start.elapsed().as_secs_f64() / iterations as f64)
        });
        let second_per_iteration = timed.ok_or_else(|| not_on(pmu.cpu))??;
        let [dead, live] = settings.iterations_of_code();
        let time = |iterations: u64| Duration::from_secs_f64(second_per_iteration * iterations as f64);
        Ok(SweepTime { dead_code: time(dead), live_code: time(dead.saturating_add(live)) })
    }

    /// Finds out what codes count.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for no codes, more than [`MOST_CODES`], or one that the chip cannot have,
    /// and for the journal of another sweep; those of the source, and `ErrorKind::Os` for a step that does
    /// not end.
    pub fn reverse(
        &self,
        codes: &[u32],
        options: &SweepOptions,
        observer: &mut dyn ReverseObserver,
    ) -> Result<Reversed> {
        let FinishedSweep { swept, kernels } = self.sweep(codes, options, observer)?;
        Reversed::of(&swept, &kernels, options.settings.seed, |code| self.documented(code))
    }

    /// Finds codes that count about once in each run of a code, and not in its control.
    ///
    /// # Errors
    ///
    /// Those of [`SweepMachine::reverse`], `ErrorKind::InvalidInput` for kernels that do not exist and for
    /// assembly that cannot be run.
    pub fn find_by_threshold(
        &self,
        codes: &[u32],
        kernels: ThresholdKernels,
        rule: ThresholdRule,
        options: &SweepOptions,
        observer: &mut dyn ReverseObserver,
    ) -> Result<Vec<ThresholdCode>> {
        self.check(codes)?;
        let codes: Vec<u32> = codes.iter().copied().filter(|code| !options.denied.contains(code)).collect();
        let kind = self.kind.clone();
        let work = move |pulse: &Pulse, sender: &Sender<Message<Vec<ThresholdCode>>>| {
            let (target, pair) = threshold_target(kind, kernels)?;
            let mut target = BeatingTarget { inner: target, pulse: pulse.clone() };
            let progress = |code, progress| {
                pulse.at(code);
                // The receiver is gone if the other thread did not wait any longer.
                let _ = sender.send(Message::Searched(progress));
            };
            threshold_sweep(&mut target, &codes, pair, rule, progress).map_err(ended)
        };
        watched(options.step_limit, work, observer)
    }

    fn sweep(
        &self,
        codes: &[u32],
        options: &SweepOptions,
        observer: &mut dyn ReverseObserver,
    ) -> Result<FinishedSweep> {
        self.check(codes)?;
        let (kind, settings) = (self.kind.clone(), options.settings.clone());
        let ready = move |pulse: &Pulse| match kind {
            SweptKind::Simulated(simulated) => Ok(simulated_target(&simulated)),
            SweptKind::Hardware(pmu) => {
                stay_on(pmu.cpu)?;
                pmu.ready(&settings, pulse)
            }
        };
        sweep_watched(codes.to_vec(), self.identity(), options, ready, observer)
    }

    fn check(&self, codes: &[u32]) -> Result<()> {
        let bits = self.chip.selector_bits.filter(|bits| *bits < 16);
        let has_other_bits = |code: &&u32| {
            let (select, umask) = self.chip.event_select(**code);
            let fits = bits.is_none_or(|bits| select >> bits == 0);
            self.chip.event_number(select, umask) != **code || !fits
        };
        if let Some(code) = codes.iter().find(has_other_bits) {
            let mut text =
                format!("event {code:#x} has bits that no select or unit mask of {} has", self.cpu);
            if let Some(bits) = bits {
                text += &format!(": event selectors of this CPU have {bits} bits");
            }
            let hint = Recovery::fix(
                "codes have the select in the lowest bits, on x86-64 the unit mask from bit 8 on",
            );
            return Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(hint));
        }
        let count = codes.len();
        if (1..=MOST_CODES).contains(&count) {
            return Ok(());
        }
        let text = format!("{count} codes cannot be swept: 1 to {MOST_CODES} can");
        let hint = Recovery::fix("name fewer: --ids 0x00-0xff");
        Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(hint))
    }

    /// The identified events as a table of events, which [`EventTables::with_file`](crate::EventTables)
    /// reads: each is called by its sum and its code, as `loads_0x95`.
    pub fn event_table(&self, found: &Reversed) -> String {
        let header = Header {
            cpu: self.cpu.clone(),
            title: format!("events of {} that were found out", self.cpu),
            family: self.chip.family,
            pmu_version: self.chip.pmu_version,
            selector_bits: self.chip.selector_bits,
            counter_width: self.chip.counter_width,
            counters: self.chip.counters.known(),
            sources: vec![format!("a sweep of {} by cyclometer", self.identity())],
            ..Header::default()
        };
        let events = found.events.iter().filter_map(|event| {
            let sum = &event.judgement.verdict.identified()?.sum;
            let (select, umask) = self.chip.event_select(event.code);
            Some(TableEvent {
                name: name_of(&sum.to_string(), event.code),
                code: EventCode { select, umask, ..EventCode::default() },
                counters: Some(event.judgement.mask.belongs).filter(|belongs| !belongs.is_empty()),
                ..TableEvent::default()
            })
        });
        let mut events: Vec<TableEvent> = events.collect();
        events.sort_by(|one, other| one.name.cmp(&other.name));
        write(&CpuTable { header, events, generic: Vec::new() })
    }

    /// The events of its chip's table with a code. Where other meanings are given, names say nothing.
    fn documented(&self, code: u32) -> Vec<DocumentedEvent> {
        if matches!(&self.kind, SweptKind::Simulated(simulated) if simulated.semantics().is_some()) {
            return Vec::new();
        }
        let select = self.chip.event_select(code);
        let tables = cyclometer_catalog::cpus::cpu(&self.cpu).into_iter();
        let events = tables.flat_map(|table| table.events());
        let same = events.filter(|event| (event.code().select, event.code().umask) == select);
        same.map(|event| DocumentedEvent { name: event.name().to_owned(), counters: event.counters() })
            .collect()
    }
}

/// The two codes of a search by a threshold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ThresholdKernels {
    /// Kernels of this program, by their names.
    Named {
        /// The one with the wanted event.
        real: String,
        /// The one without.
        control: String,
    },
    /// Files of assembly.
    Assembly {
        /// The one with the wanted event.
        real: AssemblyFile,
        /// The one without.
        control: AssemblyFile,
    },
}

/// The target of a search by a threshold, on the calling thread, with the indices of its kernels.
fn threshold_target(
    kind: SweptKind,
    kernels: ThresholdKernels,
) -> Result<(Box<dyn SweepTarget>, ThresholdPair)> {
    match (kind, kernels) {
        (SweptKind::Simulated(simulated), ThresholdKernels::Named { real, control }) => {
            let ReadyTarget { target, kernels } = simulated_target(&simulated);
            Ok((target, pair_of(&kernels, &real, &control)?))
        }
        (SweptKind::Simulated(_), ThresholdKernels::Assembly { .. }) => {
            let text = "simulated chips execute no assembly";
            let hint = Recovery::fix("name kernels, as in --kernel update_l2 --control update_l1");
            Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(hint))
        }
        (SweptKind::Hardware(pmu), ThresholdKernels::Named { real, control }) => {
            stay_on(pmu.cpu)?;
            let kernels = hardware::kernels(pmu.cpu)?;
            let pair = pair_of(&kernels, &real, &control)?;
            Ok((pmu.with_kernels(&kernels)?, pair))
        }
        (SweptKind::Hardware(pmu), ThresholdKernels::Assembly { real, control }) => {
            stay_on(pmu.cpu)?;
            let pair = ThresholdPair { control: KernelIndex(0), real: KernelIndex(1) };
            Ok((pmu.with_assembly(&[control, real])?, pair))
        }
    }
}

fn pair_of(kernels: &[SweepKernel], real: &str, control: &str) -> Result<ThresholdPair> {
    let index = |name: &str| {
        let found = kernels.iter().position(|kernel| kernel.recipe.name == name);
        found.map(KernelIndex).ok_or_else(|| {
            let shown: String = name.chars().filter(|c| !c.is_control()).collect();
            let text = format!("'{shown}' is no kernel and no file of assembly (NAME.s)");
            Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(
                "docs/reference/kernels.md names the kernels: chase_l2, update_l1, …",
            ))
        })
    };
    Ok(ThresholdPair { control: index(control)?, real: index(real)? })
}

/// Binds the calling thread, which ends with the sweep, to a CPU.
fn stay_on(cpu: u32) -> Result<()> {
    bind_to(cpu).ok_or_else(|| not_on(cpu))?.keep();
    Ok(())
}

fn simulated_target(simulated: &Simulated) -> ReadyTarget {
    let model = simulated.model();
    let set = match model.chip.family {
        Family::Intel | Family::Amd => InstructionSet::X86_64,
        Family::Apple | Family::Arm => InstructionSet::Aarch64,
        Family::RiscV => InstructionSet::Riscv64,
    };
    let mut kernels: Vec<SweepKernel> = kernels_for(set, &Geometry::default());
    let semantics = simulated.semantics().map_or_else(|| Arc::new(model.semantics()), Arc::clone);
    let target = SimulatedTarget::new(model, simulated.settings(), semantics, &mut kernels);
    ReadyTarget { target: Box::new(target), kernels }
}

/// The name of an event: the words of its sum, and its code.
fn name_of(sum: &str, code: u32) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let words = sum.replace(" + ", "_plus_").replace(" × ", "_times_").chars().map(word).collect::<String>();
    format!("{words}_{code:#04x}")
}

/// Whether a source can place codes on counters here.
fn check_source(machine: &Machine, rung: Rung, is_named: bool) -> Result<()> {
    if !matches!(rung, Rung::Perf | Rung::Msr | Rung::Sysreg) {
        let text = format!("the source '{rung}' cannot place a code on counters");
        let hint = Recovery::fix("the sources perf, msr and sysreg can: --backend msr");
        return Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(hint));
    }
    let state = machine.ladder.state(rung);
    let perf = machine.ladder.perf_hardware.as_ref().err().filter(|_| rung == Rung::Perf);
    let works = state.is_some_and(|state| matches!(state.works, Works::Yes | Works::Partly));
    let cause = perf.or_else(|| state.filter(|_| !works).and_then(|state| state.causes.first()));
    if works && perf.is_none() {
        return Ok(());
    }
    Err(no_pmu(rung, cause, machine, is_named))
}

/// The need of a sweep of this machine that is not met.
fn no_pmu(rung: Rung, cause: Option<&Cause>, machine: &Machine, is_named: bool) -> Error {
    let cause_text = cause.map_or_else(|| "it does not work here".to_owned(), |cause| cause.text.clone());
    let text = format!("no event of this machine can be counted by the source '{rung}': {cause_text}");
    let works = |rung| {
        let state = machine.ladder.state(rung);
        state.is_some_and(|state| matches!(state.works, Works::Yes | Works::Partly))
    };
    let other = [Rung::Msr, Rung::Sysreg].into_iter().find(|other| !is_named && works(*other));
    let error = Error::new(ErrorKind::EventUnsupported, text);
    match (cause.and_then(|cause| cause.mend.clone()), other) {
        (_, Some(other)) => error.with_recovery(Recovery::fix(format!("--backend {other} counts here"))),
        (Some(mend), None) => error.with_recovery(Recovery::fix(format!(
            "{mend}; or learn on a simulated chip: --machine sim:skylake"
        ))),
        (None, None) => error.with_recovery(offer_of_a_simulation()),
    }
}

fn offer_of_a_simulation() -> Recovery {
    Recovery::fix(
        "a sweep needs a PMU: a machine without hypervisor, or one whose hypervisor passes the PMU on \
         (`cyclometer doctor`); simulated chips have one: --machine sim:skylake",
    )
}

fn not_on(cpu: u32) -> Error {
    Error::new(ErrorKind::NoSuchTarget, format!("this process may not run on CPU {cpu}"))
        .with_recovery(Recovery::fix("name a CPU that it may run on: --cpu N"))
}

/// The core type of a CPU; if none is named, the last CPU of the first core type that this process may run
/// on.
fn core_and_cpu(machine: &Machine, named: Option<u32>) -> Result<(&CoreType, u32)> {
    if let Some(cpu) = named {
        let core = machine.core_types.iter().find(|core| core.cpus.contains(cpu));
        return core.map(|core| (core, cpu)).ok_or_else(|| {
            let text = format!("this machine has no CPU {cpu}: {} are online", machine.online);
            Error::new(ErrorKind::NoSuchTarget, text)
                .with_recovery(Recovery::fix("--cpu N names one of them"))
        });
    }
    let all = machine.core_types.iter().flat_map(|core| {
        let mut cpus: Vec<u32> = core.cpus.iter().collect();
        cpus.reverse();
        cpus.into_iter().map(move |cpu| (core, cpu))
    });
    let mut all = all.filter(|(_, cpu)| on_cpu(*cpu, || ()).is_some());
    all.next().ok_or_else(|| not_on(machine.online.iter().next().unwrap_or(0)))
}
