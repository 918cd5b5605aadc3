//! This machine as the target of a sweep: a source places codes on counters, and kernels run on this thread.

use cyclometer_arch::{Chip, Coded, perf_words};
use cyclometer_backend::{msr, sources, sysreg};
use cyclometer_catalog::resolve_list_in;
use cyclometer_core::concept::Concept;
use cyclometer_core::event::{PerfClass, PerfEvent, RegisterAssignment, RegisterCode, RegisterEvent};
use cyclometer_core::exec::Reading;
use cyclometer_core::plan::IntentSubject;
use cyclometer_core::{
    CounterId, CounterMask, Counting, CpuSet, Error, ErrorKind, EventCode, Intent, Machine, Modes, Part,
    Refusal, RefusalKind, Result, Rung, Slot, SlotId, Source, Target,
};
use cyclometer_inference::KernelIndex;
use cyclometer_sweep::{CodePlacement, SweepCounts, SweepKernel, SweepSettings, SweepTarget};

use super::assembled::{AssembledKernel, AssemblyFile};
use super::kernels_here::{KernelRunner, executed_elsewhere, recipes};
use super::watched::{Pulse, ReadyTarget};
use crate::{EventTables, chips};

/// The PMU of a CPU of this machine, with the source that counts there.
#[derive(Clone, Debug)]
pub(super) struct HardwarePmu {
    pub(super) machine: Machine,
    pub(super) rung: Rung,
    pub(super) cpu: u32,
    /// The name of the core type's PMU.
    pub(super) pmu: String,
    pub(super) chip: Chip,
}

/// The kernels that run on a CPU of this machine, without their durations.
pub(super) fn kernels(cpu: u32) -> Result<Vec<SweepKernel>> {
    let kernel = |recipe| SweepKernel { recipe, durations: Vec::new() };
    let kernels: Vec<SweepKernel> = recipes(cpu).into_iter().map(kernel).collect();
    match kernels.is_empty() {
        true => Err(Error::new(ErrorKind::ArchUnsupported, "there are no kernels for this instruction set")),
        false => Ok(kernels),
    }
}

/// The runner of kernels; their memory is prepared.
pub(super) fn runner(kernels: &[SweepKernel]) -> Result<KernelRunner> {
    KernelRunner::new(kernels.iter().map(|kernel| kernel.recipe.clone()).collect())
}

impl HardwarePmu {
    /// The target, on the calling thread, which must be bound to the CPU.
    pub(super) fn ready(&self, settings: &SweepSettings, pulse: &Pulse) -> Result<ReadyTarget> {
        let mut kernels = kernels(self.cpu)?;
        let runner = runner(&kernels)?;
        let mut target = self.counting(Box::new(runner), Target::ThisThread)?;
        if let Some(cycles) = self.slots_of("cycles:u").filter(|slots| slots.len() == 1) {
            target.measure_cycles(&mut kernels, cycles, settings, pulse)?;
        }
        Ok(ReadyTarget { target: Box::new(target), kernels })
    }

    /// The target with these kernels, without a witness.
    pub(super) fn with_kernels(&self, kernels: &[SweepKernel]) -> Result<Box<dyn SweepTarget>> {
        let target = self.counting(Box::new(runner(kernels)?), Target::ThisThread)?;
        Ok(Box::new(HardwareTarget { witness: None, ..target }))
    }

    /// The target with files of assembly, in their order, each in a process of its own.
    pub(super) fn with_assembly(&self, files: &[AssemblyFile]) -> Result<Box<dyn SweepTarget>> {
        let programs = files.iter().map(AssembledKernel::start).collect::<Result<Vec<_>>>()?;
        let process = |program: &AssembledKernel| Target::Process { pid: program.pid(), inherit: false };
        let processes = Target::Several(programs.iter().map(process).collect());
        let target = self.counting(Box::new(AssembledRunner(programs)), processes)?;
        Ok(Box::new(HardwareTarget { witness: None, ..target }))
    }

    /// A target whose kernels are executed on `executing`, which perf counts; registers count the CPU.
    fn counting(&self, runner: Box<dyn RunsKernels>, executing: Target) -> Result<HardwareTarget> {
        let on = match self.rung {
            Rung::Perf => executing,
            _ => Target::Cpus([self.cpu].into_iter().collect::<CpuSet>()),
        };
        Ok(HardwareTarget {
            source: self.source()?,
            on,
            codes: CodeSlots {
                rung: self.rung,
                pmu: self.pmu.clone(),
                chip: self.chip,
                perf: self.perf_type(),
            },
            witness: self.witness(),
            runner,
            open: None,
        })
    }

    fn source(&self) -> Result<Box<dyn Source>> {
        let missing =
            || Error::new(ErrorKind::ArchUnsupported, format!("there is no source '{}' here", self.rung));
        let cores = || chips::for_counting(&self.machine, &EventTables::embedded());
        match self.rung {
            Rung::Msr => msr::source(cores()).ok_or_else(missing),
            Rung::Sysreg => sysreg::source(cores(), Some(self.cpu)),
            rung => sources().into_iter().find(|source| source.rung() == rung).ok_or_else(missing),
        }
    }

    fn perf_type(&self) -> u32 {
        self.machine.pmu(&self.pmu).map_or(PERF_TYPE_RAW, |pmu| pmu.pmu_type)
    }

    /// The slots by which the source counts an event; `None` where it does not.
    fn slots_of(&self, event: &str) -> Option<Vec<Slot>> {
        let tables = EventTables::embedded();
        let events = resolve_list_in(event, &self.machine, tables.tables(), true).ok()?;
        let intent = Intent { only: Some(self.rung), subject: IntentSubject::Running, ..Intent::default() };
        let plan = cyclometer_plan::plan(events, &self.machine, intent).ok()?;
        let mut slots = plan.passes.first()?.of(self.rung);
        for slot in &mut slots {
            // On a hybrid the thread is bound to one core type.
            slot.parts.retain(|part| part.core().is_none_or(|core| core.pmu == self.pmu));
        }
        (!slots.is_empty()).then_some(slots)
    }

    /// A counter of instructions that no code is placed on: a fixed one, or one that the kernel finds.
    fn witness(&self) -> Option<Slot> {
        let slot = self.slots_of("instructions:u")?.pop()?;
        let is_beside = |part: &Part| match part {
            Part::Registers(event) => {
                event.assignments.iter().all(|assignment| matches!(assignment.counter, CounterId::Fixed(_)))
            }
            _ => self.chip.counters.known().fixed_bits() != 0,
        };
        slot.parts.iter().all(is_beside).then_some(slot)
    }
}

/// The type of raw events where the kernel names no device.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `PERF_TYPE_RAW`.
const PERF_TYPE_RAW: u32 = 4;

/// The slots of a code.
#[derive(Clone, Debug)]
struct CodeSlots {
    rung: Rung,
    pmu: String,
    chip: Chip,
    /// The type of the PMU's events for perf.
    perf: u32,
}

impl CodeSlots {
    /// The counters that a code is placed on; `None` where the kernel chooses.
    fn counters(&self) -> Vec<Option<CounterId>> {
        match self.rung {
            Rung::Perf => vec![None],
            _ => self.general().map(Some).collect(),
        }
    }

    fn general(&self) -> impl Iterator<Item = CounterId> + use<> {
        self.chip.counters.known().iter().filter(|counter| matches!(counter, CounterId::General(_)))
    }

    /// One slot for each counter.
    fn of(&self, code: u32) -> Result<Vec<Slot>> {
        let (select, umask) = self.chip.event_select(code);
        let event = EventCode { select, umask, ..EventCode::default() };
        let name = format!("event {code:#x}");
        let slot = |(id, part): (usize, Part)| Slot {
            filter: Some(Modes::USER),
            ..Slot::new(SlotId(id), name.clone(), self.rung, vec![part])
        };
        let parts: Vec<Part> = match self.rung {
            Rung::Perf => vec![Part::Perf(self.perf_event(event)?)],
            _ => self.general().map(|counter| Part::Registers(self.register_event(event, counter))).collect(),
        };
        Ok(parts.into_iter().enumerate().map(slot).collect())
    }

    fn perf_event(&self, code: EventCode) -> Result<PerfEvent> {
        let words = perf_words(&self.chip, &Coded::new(code))?;
        Ok(PerfEvent { words, ..PerfEvent::new(self.pmu.clone(), self.perf, 0, PerfClass::Core) })
    }

    fn register_event(&self, code: EventCode, counter: CounterId) -> RegisterEvent {
        RegisterEvent {
            pmu: self.pmu.clone(),
            cpus: CpuSet::default(),
            codes: vec![RegisterCode { code, counters: CounterMask::from_iter([counter]) }],
            wide: false,
            assignments: vec![RegisterAssignment { rotation_group: None, counter, code }],
        }
    }
}

/// An executor of kernels.
trait RunsKernels {
    fn run(&mut self, kernel: usize, iterations: u64) -> Result<()>;
}

impl RunsKernels for KernelRunner {
    fn run(&mut self, kernel: usize, iterations: u64) -> Result<()> {
        KernelRunner::run(self, kernel, iterations)
    }
}

/// Programs made of the user's files.
struct AssembledRunner(Vec<AssembledKernel>);

impl RunsKernels for AssembledRunner {
    fn run(&mut self, kernel: usize, iterations: u64) -> Result<()> {
        self.0[kernel].run(iterations)?;
        executed_elsewhere(self.0[kernel].name(), iterations)
    }
}

/// Counters of this machine.
struct HardwareTarget {
    source: Box<dyn Source>,
    on: Target,
    codes: CodeSlots,
    witness: Option<Slot>,
    runner: Box<dyn RunsKernels>,
    open: Option<OpenCode>,
}

/// Counters that count a code, and the witness.
struct OpenCode {
    counting: Box<dyn Counting>,
    /// How many slots the code has; the witness is behind them.
    slots: usize,
    has_witness: bool,
}

impl HardwareTarget {
    /// Opens slots, with the witness behind them, and starts them.
    fn start(
        &mut self,
        mut slots: Vec<Slot>,
        witness: Option<&Slot>,
    ) -> std::result::Result<(), OpenFailure> {
        // The registers of the last code are restored before they are saved again.
        self.open = None;
        let number = slots.len();
        slots.extend(witness.map(|slot| Slot { id: SlotId(number), ..slot.clone() }));
        let mut counting = self.source.open(&slots, &self.on).map_err(OpenFailure::Refused)?;
        counting.start().map_err(OpenFailure::Failed)?;
        self.open = Some(OpenCode { counting, slots: number, has_witness: witness.is_some() });
        Ok(())
    }

    /// Gives each kernel the cycles of its iterations.
    fn measure_cycles(
        &mut self,
        kernels: &mut [SweepKernel],
        cycles: Vec<Slot>,
        settings: &SweepSettings,
        pulse: &Pulse,
    ) -> Result<()> {
        self.start(cycles, None).map_err(OpenFailure::into_error)?;
        let [small, .., large] = settings.sizes();
        for (index, kernel) in kernels.iter_mut().enumerate() {
            let mut slopes = Vec::new();
            for _ in 0..CYCLE_REPEATS {
                pulse.beat();
                let few = self.count(KernelIndex(index), small)?.counts[0];
                let many = self.count(KernelIndex(index), large)?.counts[0];
                slopes.push((many as f64 - few as f64) / (large - small) as f64);
            }
            slopes.sort_by(f64::total_cmp);
            kernel.durations = vec![(Concept::Cycles, slopes[slopes.len() / 2].max(0.0))];
        }
        self.open = None;
        Ok(())
    }
}

/// How often the cycles of a kernel are counted; the median is taken.
const CYCLE_REPEATS: usize = 3;

/// Why slots are not open.
enum OpenFailure {
    Refused(Refusal),
    Failed(Error),
}

impl OpenFailure {
    fn into_error(self) -> Error {
        match self {
            OpenFailure::Failed(error) => error,
            OpenFailure::Refused(Refusal { kind, reason, .. }) => {
                let kind = match kind {
                    RefusalKind::NoPermission => ErrorKind::PermissionDenied,
                    RefusalKind::Busy => ErrorKind::CounterBusy,
                    RefusalKind::NoSuchTarget => ErrorKind::NoSuchTarget,
                    RefusalKind::NotSupported | RefusalKind::Invalid => ErrorKind::EventUnsupported,
                    _ => ErrorKind::Os,
                };
                Error::new(kind, reason.to_string())
            }
        }
    }
}

impl SweepTarget for HardwareTarget {
    fn counters(&self) -> Vec<Option<CounterId>> {
        self.codes.counters()
    }

    fn place(&mut self, code: u32) -> Result<CodePlacement> {
        let slots = match self.codes.of(code) {
            Ok(slots) => slots,
            Err(why) => return Ok(CodePlacement::Refused(why.to_string())),
        };
        let witness = self.witness.clone();
        match self.start(slots, witness.as_ref()) {
            Ok(()) => Ok(CodePlacement::Placed),
            Err(OpenFailure::Refused(Refusal {
                kind: RefusalKind::NotSupported | RefusalKind::Invalid,
                reason,
                ..
            })) => Ok(CodePlacement::Refused(reason.to_string())),
            Err(failure) => Err(failure.into_error()),
        }
    }

    fn clear(&mut self) -> Result<bool> {
        let Some(witness) = self.witness.clone() else { return Ok(false) };
        match self.start(Vec::new(), Some(&witness)) {
            Ok(()) => Ok(true),
            Err(failure) => Err(failure.into_error()),
        }
    }

    fn count(&mut self, kernel: KernelIndex, iterations: u64) -> Result<SweepCounts> {
        let nothing = || Error::new(ErrorKind::InvalidInput, "no code is placed");
        let open = self.open.as_mut().ok_or_else(nothing)?;
        let before = open.values()?;
        self.runner.run(kernel.0, iterations)?;
        let after = open.values()?;
        let mut counts: Vec<u64> =
            after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before)).collect();
        let instructions = if open.has_witness { counts.pop() } else { None };
        Ok(SweepCounts { counts, instructions })
    }
}

impl OpenCode {
    /// The value of each slot.
    fn values(&mut self) -> Result<Vec<u64>> {
        let mut reading = Reading::default();
        self.counting.read(&mut reading)?;
        let mut values = vec![None; self.slots + usize::from(self.has_witness)];
        for cell in reading.cells {
            if let Some(reason) = cell.lost {
                return Err(Error::new(ErrorKind::StateLost, reason.to_string()));
            }
            if cell.time_running_ns < cell.time_enabled_ns {
                let text = "another user's events shared the counter, so that its counts are not whole";
                return Err(Error::new(ErrorKind::CounterBusy, text));
            }
            if let Some(value) = values.get_mut(cell.slot.0) {
                *value = Some(value.unwrap_or(0) + cell.raw);
            }
        }
        let missing = || Error::new(ErrorKind::StateLost, "a counter could not be read");
        values.into_iter().map(|value| value.ok_or_else(missing)).collect()
    }
}

#[cfg(test)]
mod tests;
