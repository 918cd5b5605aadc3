//! The thread that makes all calls of one driver.

use std::cell::Cell as Flag;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cyclometer_core::exec::Cell;
use cyclometer_core::reason::GpuObstacle;

use super::meter::GpuMeter;
use super::reader::{ANSWER_LIMIT, GpuReader, WantedPart};

/// The time between two samples. Drivers average utilisation over 100 ms to 1 s themselves.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// One measurement among those that share a sampler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct JobId(u64);

type SamplerRequest = Box<dyn FnOnce(&mut SamplerDesk) + Send>;

/// The handle of the thread. Dropping it ends the thread, which closes the driver.
pub(super) struct DriverSampler {
    requests: Option<Sender<SamplerRequest>>,
    ended: Receiver<()>,
    /// The name of what is asked, for messages.
    name: &'static str,
    next_job: Flag<u64>,
    /// A call did not return: the thread is blocked in it, and is not asked again.
    is_silent: Flag<bool>,
}

impl fmt::Debug for DriverSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverSampler").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The state on the thread.
pub(super) struct SamplerDesk {
    reader: Box<dyn GpuReader>,
    jobs: BTreeMap<JobId, SamplingJob>,
}

#[derive(Default)]
struct SamplingJob {
    meters: Vec<GpuMeter>,
    is_running: bool,
}

impl DriverSampler {
    /// Starts the thread, which opens the driver.
    pub(super) fn start<R: GpuReader + 'static>(
        name: &'static str,
        limit: Duration,
        open: impl FnOnce() -> Result<R, GpuObstacle> + Send + 'static,
    ) -> Result<DriverSampler, GpuObstacle> {
        let (requests, incoming) = mpsc::channel::<SamplerRequest>();
        let (opens, opened) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let work = move || {
            match open() {
                Ok(reader) => {
                    let _ = opens.send(Ok(()));
                    let desk = SamplerDesk { reader: Box::new(reader), jobs: BTreeMap::new() };
                    desk.work(&incoming);
                }
                Err(obstacle) => drop(opens.send(Err(obstacle))),
            }
            let _ = ends.send(());
        };
        let started = thread::Builder::new().name("gpu".to_owned()).spawn(work);
        if let Err(error) = started {
            return Err(GpuObstacle::NoThread { error: error.to_string() });
        }
        opened.recv_timeout(limit).unwrap_or_else(|_| Err(silence(name, limit)))?;
        Ok(DriverSampler {
            requests: Some(requests),
            ended,
            name,
            next_job: Flag::new(0),
            is_silent: Flag::new(false),
        })
    }

    /// The id of a new measurement.
    pub(super) fn new_job(&self) -> JobId {
        self.next_job.set(self.next_job.get() + 1);
        JobId(self.next_job.get())
    }

    /// Has the thread do something, and waits for the result for a limited time.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut SamplerDesk) -> T + Send + 'static,
    ) -> Result<T, GpuObstacle> {
        if self.is_silent.get() {
            return Err(silence(self.name, ANSWER_LIMIT));
        }
        let (answers, answer) = mpsc::channel();
        self.tell(move |desk| drop(answers.send(question(desk))));
        answer.recv_timeout(ANSWER_LIMIT).map_err(|_| {
            self.is_silent.set(true);
            silence(self.name, ANSWER_LIMIT)
        })
    }

    /// Has the thread do something, without waiting.
    pub(super) fn tell(&self, order: impl FnOnce(&mut SamplerDesk) + Send + 'static) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(Box::new(order));
        }
    }
}

#[cfg(test)]
impl DriverSampler {
    /// As after a call that did not return.
    pub(super) fn fall_silent(&self) {
        self.is_silent.set(true);
    }
}

impl Drop for DriverSampler {
    fn drop(&mut self) {
        self.requests = None;
        if !self.is_silent.get() {
            // The process must not end while the driver's library shuts down on another thread.
            let _ = self.ended.recv_timeout(ANSWER_LIMIT);
        }
    }
}

fn silence(driver: &'static str, limit: Duration) -> GpuObstacle {
    GpuObstacle::NoAnswer { driver, limit }
}

impl SamplerDesk {
    /// Answers requests, and samples in between, until no one can ask any more.
    fn work(mut self, requests: &Receiver<SamplerRequest>) {
        let mut next = Instant::now() + SAMPLE_EVERY;
        loop {
            match requests.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(request) => request(&mut self),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.sample_all();
                    next = Instant::now() + SAMPLE_EVERY;
                }
            }
        }
    }

    fn sample_all(&mut self) {
        let SamplerDesk { reader, jobs } = self;
        for job in jobs.values_mut().filter(|job| job.is_running) {
            job.meters.iter_mut().for_each(|meter| meter.sample(reader.as_mut()));
        }
    }

    /// Adds a part to a job; returns its cells, one for each device. Devices that do not report it are lost
    /// if others do.
    pub(super) fn add(&mut self, job: JobId, wanted: WantedPart) -> Result<Vec<Cell>, GpuObstacle> {
        let probes = self.reader.probes(&wanted)?;
        let (mut meters, mut first_obstacle) = (Vec::new(), None);
        let mut is_reported = false;
        for probe in probes {
            match GpuMeter::open(&wanted, probe, self.reader.as_mut()) {
                (meter, None) => {
                    is_reported = true;
                    meters.push(meter);
                }
                (meter, Some(obstacle)) => {
                    meters.push(meter);
                    first_obstacle.get_or_insert(obstacle);
                }
            }
        }
        match first_obstacle {
            Some(obstacle) if !is_reported => Err(obstacle),
            _ => {
                let cells = meters.iter().map(GpuMeter::cell).collect();
                self.jobs.entry(job).or_default().meters.extend(meters);
                Ok(cells)
            }
        }
    }

    /// The cells of a job, as they stand.
    fn cells(&self, job: JobId) -> Vec<Cell> {
        self.jobs.get(&job).map(|job| job.meters.iter().map(GpuMeter::cell).collect()).unwrap_or_default()
    }

    /// Starts a job anew, with a first sample.
    pub(super) fn start(&mut self, job: JobId) -> Vec<Cell> {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.is_running = true;
            job.meters.iter_mut().for_each(GpuMeter::restart);
        }
        self.sample(job)
    }

    /// Samples a job now.
    pub(super) fn sample(&mut self, job: JobId) -> Vec<Cell> {
        let SamplerDesk { reader, jobs } = self;
        if let Some(job) = jobs.get_mut(&job) {
            job.meters.iter_mut().for_each(|meter| meter.sample(reader.as_mut()));
        }
        self.cells(job)
    }

    /// Stops sampling a job.
    pub(super) fn stop(&mut self, job: JobId) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.is_running = false;
        }
    }

    /// Forgets a job.
    pub(super) fn close(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }
}
