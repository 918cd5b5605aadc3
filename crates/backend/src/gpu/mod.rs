//! GPUs: what their drivers report, sampled while a target runs.
//!
//! A driver reports most quantities as the value of a moment. A thread samples them every 100 ms and at each
//! read, and integrates over time; `stats` makes means of the integrals. All calls of a driver are made on
//! that thread: one that never returns does not stop the measurement, which goes on without it.
//!
//! NVML is opened when the first event needs it, and stays open as long as the source exists.

mod files;
mod meter;
mod nvml;
#[cfg(not(feature = "fake-devices"))]
mod place;
#[cfg(feature = "fake-devices")]
#[path = "place_fake.rs"]
mod place;
mod processes;
mod reader;
mod sampler;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use cyclometer_core::exec::{At, Cell, Exit, Reading};
use cyclometer_core::gpu::{GpuPart, GpuPlace};
use cyclometer_core::reason::{EventFamily, GpuObstacle, RefusalReason};
use cyclometer_core::{Counting, Part, Refusal, RefusalKind, Result, Rung, Slot, SlotId, Source, Target};

use files::FileReader;
use nvml::NvmlReader;
use processes::MeasuredProcesses;
use reader::{ANSWER_LIMIT, WantedPart};
use sampler::{DriverSampler, JobId, SamplerDesk};

pub use nvml::probe;
pub use place::library;

/// Reads what drivers of GPUs report.
#[derive(Debug)]
pub struct GpuSource {
    library: PathBuf,
    /// The samplers, once they are needed; an obstacle is met once and not again.
    nvml: RefCell<Option<std::result::Result<Rc<DriverSampler>, GpuObstacle>>>,
    files: RefCell<Option<std::result::Result<Rc<DriverSampler>, GpuObstacle>>>,
}

impl Default for GpuSource {
    fn default() -> GpuSource {
        GpuSource::new()
    }
}

impl GpuSource {
    /// The source of this system. Nothing is opened before an event needs it.
    pub fn new() -> GpuSource {
        GpuSource::with_library(library())
    }

    /// The source over a library that behaves as NVML does.
    pub fn with_library(library: PathBuf) -> GpuSource {
        GpuSource { library, nvml: RefCell::default(), files: RefCell::default() }
    }

    /// The sampler of a place, started if it is not.
    fn sampler(&self, place: &GpuPlace) -> std::result::Result<Rc<DriverSampler>, GpuObstacle> {
        match place {
            GpuPlace::Nvml(_) => {
                let library = self.library.clone();
                let start =
                    || DriverSampler::start("NVML", place::OPEN_LIMIT, move || NvmlReader::open(&library));
                self.nvml.borrow_mut().get_or_insert_with(|| start().map(Rc::new)).clone()
            }
            GpuPlace::File { .. } => {
                let start = || DriverSampler::start("the driver", ANSWER_LIMIT, || Ok(FileReader));
                self.files.borrow_mut().get_or_insert_with(|| start().map(Rc::new)).clone()
            }
        }
    }

    /// Adds a slot to the jobs of its samplers.
    fn add(
        &self,
        slot: &Slot,
        processes: &MeasuredProcesses,
        jobs: &mut OpenJobs,
    ) -> std::result::Result<(), Refusal> {
        let mut obstacles = Vec::new();
        let mut is_open = false;
        for (index, part) in slot.parts.iter().enumerate() {
            let Part::Gpu(part) = part else {
                let reason = RefusalReason::NotAmongEvents { event: slot.name.clone(), of: EventFamily::Gpu };
                return Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, reason));
            };
            let wanted =
                WantedPart { slot: slot.id, index, part: part.clone(), processes: processes.clone() };
            match self.sampler(&part.place).and_then(|sampler| jobs.add(sampler, wanted)) {
                Ok(()) => is_open = true,
                Err(obstacle) => obstacles.push((index, part, obstacle)),
            }
        }
        if let (false, Some((_, _, obstacle))) = (is_open, obstacles.first()) {
            return Err(Refusal::of_slot(slot.id, obstacle.refusal_kind(), obstacle.clone()));
        }
        jobs.lost.extend(
            obstacles.into_iter().map(|(index, part, obstacle)| lost(slot.id, index, part, obstacle)),
        );
        Ok(())
    }
}

/// The cell of a part that its driver does not report, while another part of the event has a value.
fn lost(slot: SlotId, part: usize, of: &GpuPart, obstacle: GpuObstacle) -> Cell {
    let device = match &of.place {
        GpuPlace::Nvml(device) => device.clone().unwrap_or_else(|| "nvidia".to_owned()),
        GpuPlace::File { device, .. } => device.clone(),
    };
    Cell {
        at: At { part, pmu: Some(device), ..At::default() },
        lost: Some(obstacle.to_string().into()),
        ..Cell::new(slot, 0, 0, 0)
    }
}

impl Source for GpuSource {
    fn rung(&self) -> Rung {
        Rung::Gpu
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        if let (Target::Cgroup { .. }, Some(slot)) = (on, slots.first()) {
            let kind = RefusalKind::TargetNotSupported;
            return Err(Refusal::of_slot(slot.id, kind, GpuObstacle::NotOfControlGroups));
        }
        let processes = MeasuredProcesses::of(on);
        let mut jobs = OpenJobs::default();
        for slot in slots {
            self.add(slot, &processes, &mut jobs)?;
        }
        Ok(Box::new(GpuCounting::new(jobs)))
    }
}

/// The jobs of one measurement; dropping them ends the sampling.
#[derive(Default)]
struct OpenJobs {
    jobs: Vec<OpenJob>,
    /// The cells of parts that cannot be read.
    lost: Vec<Cell>,
}

/// A job of one sampler.
struct OpenJob {
    sampler: Rc<DriverSampler>,
    id: JobId,
    /// Its cells when it was opened: a driver that does not answer any more loses them, and none is missing.
    opened: Vec<Cell>,
}

impl OpenJobs {
    /// Adds a part to the job of its sampler, with a new job if there is none yet.
    fn add(
        &mut self,
        sampler: Rc<DriverSampler>,
        wanted: WantedPart,
    ) -> std::result::Result<(), GpuObstacle> {
        let index = match self.jobs.iter().position(|job| Rc::ptr_eq(&job.sampler, &sampler)) {
            Some(index) => index,
            None => {
                self.jobs.push(OpenJob { id: sampler.new_job(), sampler, opened: Vec::new() });
                self.jobs.len() - 1
            }
        };
        let job = &mut self.jobs[index];
        let id = job.id;
        job.opened.extend(job.sampler.ask(move |desk| desk.add(id, wanted))??);
        Ok(())
    }
}

impl OpenJob {
    /// The cells after a request for them; lost if the driver does not answer.
    fn cells_by(&self, request: fn(&mut SamplerDesk, JobId) -> Vec<Cell>) -> Vec<Cell> {
        let id = self.id;
        self.sampler.ask(move |desk| request(desk, id)).unwrap_or_else(|obstacle| {
            let mut cells = self.opened.clone();
            cells.iter_mut().for_each(|cell| lose(cell, &obstacle));
            cells
        })
    }
}

impl Drop for OpenJobs {
    fn drop(&mut self) {
        for OpenJob { sampler, id, .. } in &self.jobs {
            let id = *id;
            sampler.tell(move |desk| desk.close(id));
        }
    }
}

struct GpuCounting {
    jobs: OpenJobs,
    /// The cells of the last reading of each job, by the job's index.
    last: Vec<Vec<Cell>>,
    is_running: bool,
}

impl GpuCounting {
    fn new(jobs: OpenJobs) -> GpuCounting {
        GpuCounting { jobs, last: Vec::new(), is_running: false }
    }

    /// Samples every job now. A job whose driver does not answer keeps its cells, and their values are lost.
    fn refresh(&mut self) {
        if !self.is_running {
            return;
        }
        self.last = self.jobs.jobs.iter().map(|job| job.cells_by(SamplerDesk::sample)).collect();
    }
}

fn lose(cell: &mut Cell, obstacle: &GpuObstacle) {
    cell.lost = Some(obstacle.to_string().into());
    (cell.time_enabled_ns, cell.time_running_ns) = (0, 0);
}

impl Counting for GpuCounting {
    fn start(&mut self) -> Result<()> {
        self.last = self.jobs.jobs.iter().map(|job| job.cells_by(SamplerDesk::start)).collect();
        self.is_running = true;
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.refresh();
        self.is_running = false;
        for OpenJob { sampler, id, .. } in &self.jobs.jobs {
            let id = *id;
            sampler.tell(move |desk| desk.stop(id));
        }
        Ok(())
    }

    fn exited(&mut self, _: &Exit) {
        // The devices' work after the end is not the command's.
        let _ = self.stop();
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.refresh();
        out.cells.extend(self.last.iter().flatten().cloned());
        out.cells.extend(self.jobs.lost.iter().cloned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::MissingReason;
    use cyclometer_core::gpu::GpuQuantity;
    use reader::{DeviceProbe, GpuReader, GpuSample, ProbePlace};

    /// Two devices that report a value.
    struct TwoDevices;

    impl GpuReader for TwoDevices {
        fn probes(&mut self, wanted: &WantedPart) -> std::result::Result<Vec<DeviceProbe>, GpuObstacle> {
            let quantity = wanted.part.quantity;
            let probe =
                |n| DeviceProbe { device: format!("nvidia{n}"), quantity, place: ProbePlace::Nvml(n) };
            Ok(vec![probe(0), probe(1)])
        }

        fn read(
            &mut self,
            _: &DeviceProbe,
            _: &MeasuredProcesses,
        ) -> std::result::Result<GpuSample, GpuObstacle> {
            Ok(GpuSample { value: 7, reasons: 0 })
        }
    }

    fn read(counting: &mut GpuCounting) -> Vec<Option<MissingReason>> {
        let mut reading = Reading::default();
        counting.read(&mut reading).unwrap();
        reading.cells.into_iter().map(|cell| cell.lost).collect()
    }

    #[test]
    fn a_driver_that_does_not_answer_after_the_opening_loses_every_value_and_none_is_missing() {
        for is_started in [false, true] {
            let sampler = Rc::new(DriverSampler::start("NVML", ANSWER_LIMIT, || Ok(TwoDevices)).unwrap());
            let part = GpuPart { quantity: GpuQuantity::Power, place: GpuPlace::Nvml(None) };
            let wanted = WantedPart { slot: SlotId(0), index: 0, part, processes: MeasuredProcesses::All };
            let mut jobs = OpenJobs::default();
            jobs.add(Rc::clone(&sampler), wanted).unwrap();
            let mut counting = GpuCounting::new(jobs);
            if is_started {
                counting.start().unwrap();
                assert_eq!(read(&mut counting), [None, None]);
            }
            sampler.fall_silent();
            if !is_started {
                counting.start().unwrap();
            }
            let silence = Some("NVML did not answer within 5 s".into());
            assert_eq!(read(&mut counting), [silence.clone(), silence], "started before: {is_started}");
            counting.stop().unwrap();
        }
    }
}
