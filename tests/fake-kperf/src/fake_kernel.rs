//! The rules of xnu for counters: who may do what, and what configuration words mean.

use std::collections::HashMap;

use cyclometer_arch::apple::{KPC_EL0, KPC_EL1};
use cyclometer_core::Modes;

use crate::accounting::Accounts;
use crate::machine::CountingMachine;
use crate::sampling::{CpuAtSlice, SLICE_NS, Sampling};
use crate::scenario::{Clock, Scenario};

/// An error of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted.
    pub const EPERM: Errno = Errno(libc::EPERM);
    /// An argument is invalid.
    pub const EINVAL: Errno = Errno(libc::EINVAL);
    /// Not permitted, as another task has it.
    pub const EACCES: Errno = Errno(libc::EACCES);
    /// In use.
    pub const EBUSY: Errno = Errno(libc::EBUSY);

    /// The error of that name.
    pub fn parse(name: &str) -> Option<Errno> {
        match name {
            "EPERM" => Some(Errno::EPERM),
            "EINVAL" => Some(Errno::EINVAL),
            "EACCES" => Some(Errno::EACCES),
            "EBUSY" => Some(Errno::EBUSY),
            _ => None,
        }
    }
}

/// The class of fixed counters.
pub const FIXED: u32 = 1;
/// The class of configurable counters.
pub const CONFIGURABLE: u32 = 2;
/// The class of the power manager's counters.
pub const POWER: u32 = 4;

/// PMC5 to PMC7, which belong to the power manager.
///
/// # Source
///
/// kpep `power_counters`, 224.
pub(crate) const POWER_COUNTERS: u32 = 0xe0;
/// PMC2 to PMC9.
const CONFIGURABLE_COUNTERS: u32 = 0x3fc;

/// The state of the kernel.
#[derive(Debug)]
pub struct FakeKernel {
    scenario: Scenario,
    machine: CountingMachine,
    calls: HashMap<&'static str, u64>,
    accounts: Accounts,
    sampling: Sampling,
    /// The counters of each CPU when threads began to be counted.
    threads_from: Vec<Vec<u64>>,
    forced: bool,
    counting: u32,
    thread_counting: u32,
    /// The configuration word of each PMC, from PMC2 on.
    words: [u64; 8],
    /// The old values that a read gives until all CPUs are read, if the first sample is stale.
    stale: Option<Vec<Vec<u64>>>,
}

impl FakeKernel {
    /// A kernel that has just started.
    pub fn new(scenario: Scenario) -> FakeKernel {
        FakeKernel {
            machine: CountingMachine::new(&scenario),
            sampling: Sampling::new(scenario.cpus, scenario.not_ready),
            scenario,
            calls: HashMap::new(),
            accounts: Accounts::default(),
            threads_from: Vec::new(),
            forced: false,
            counting: 0,
            thread_counting: 0,
            words: [0; 8],
            stale: None,
        }
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The settings of sampling.
    pub fn sampling(&mut self) -> &mut Sampling {
        &mut self.sampling
    }

    /// The chip's time.
    pub fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }

    /// Lets the time that is due pass in slices, and notes what is to be sampled.
    pub fn sample_until_now(&mut self) {
        let mut left = self.machine.due_ns(self.scenario.clock);
        if !self.sampling.is_active() || self.thread_counting == 0 || self.counting == 0 {
            return self.machine.pass(Clock::Step(left));
        }
        if self.counting & CONFIGURABLE != 0 {
            self.machine.work(&self.scenario.workloads, self.scenario.clock);
        }
        // Short slices take longer than the time that they simulate.
        let longest = if self.scenario.clock == Clock::Real { 10 * SLICE_NS } else { SLICE_NS };
        let mut before = self.machine.read();
        while left > 0 {
            let slice = left.min(longest);
            left -= slice;
            // Work may begin and end within a slice.
            let mut busy = self.busy();
            self.machine.pass(Clock::Step(slice));
            busy.iter_mut().zip(self.busy()).for_each(|(busy, now)| *busy |= now);
            let now = self.machine.read();
            let cpus = (0u32..).zip(&busy).filter(|(_, busy)| **busy);
            let cpus: Vec<CpuAtSlice> = cpus.map(|(cpu, _)| self.at_slice(cpu, &before, &now)).collect();
            self.sampling.at_slice(self.machine.now_ns(), &cpus);
            before = now;
        }
    }

    fn busy(&self) -> Vec<bool> {
        (0..self.scenario.cpus).map(|cpu| self.machine.has_work(cpu)).collect()
    }

    fn at_slice(&self, cpu: u32, before: &[Vec<u64>], now: &[Vec<u64>]) -> CpuAtSlice {
        let (before, now) = (&before[cpu as usize], &now[cpu as usize]);
        let from = &self.threads_from[cpu as usize];
        let values = pmcs(self.available(self.thread_counting)).map(|pmc| now[pmc] - from[pmc]).collect();
        let passed = |(counter, pmc): (usize, usize)| {
            let period = self.sampling.counters[counter].period;
            let rounds = |counts: &[u64]| (counts[pmc] - from[pmc]).checked_div(period).unwrap_or(0);
            (rounds(now) > rounds(before)).then_some(counter)
        };
        let overflowed = pmcs(self.available(FIXED | CONFIGURABLE)).enumerate().filter_map(passed).collect();
        CpuAtSlice { cpu, values, overflowed }
    }

    /// The accounts of processes.
    pub fn accounts(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// Whether any counter is forced, configured or counting.
    pub fn is_at_rest(&self) -> bool {
        let counts = self.forced || self.counting != 0 || self.thread_counting != 0;
        !counts && self.sampling.is_at_rest()
    }

    /// Begins a call: the injected fault, if there is one for this call.
    ///
    /// # Errors
    ///
    /// The fault.
    pub fn enter(&mut self, call: &'static str) -> Result<(), Errno> {
        let number = self.calls.entry(call).or_default();
        *number += 1;
        let hits = |fault: &&crate::Fault| fault.call == call && fault.nth.is_none_or(|nth| nth == *number);
        self.scenario.faults.iter().find(hits).map_or(Ok(()), |fault| Err(fault.errno))
    }

    /// Begins a call that only root may make.
    ///
    /// # Errors
    ///
    /// The fault; `EPERM` without root.
    pub fn enter_as_root(&mut self, call: &'static str) -> Result<(), Errno> {
        self.enter(call)?;
        if self.scenario.root { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// The PMCs of classes that are available now, as a mask.
    fn available(&self, classes: u32) -> u32 {
        let mut mask = if classes & FIXED != 0 { 0b11 } else { 0 };
        let power = if self.scenario.vm || self.has_all() { 0 } else { self.scenario.power_counters };
        if classes & CONFIGURABLE != 0 && !self.scenario.vm {
            mask |= CONFIGURABLE_COUNTERS & !power;
        }
        if classes & POWER != 0 {
            mask |= power;
        }
        mask
    }

    fn has_all(&self) -> bool {
        self.forced && !self.scenario.power_manager_keeps
    }

    /// The number of counters of classes.
    pub fn counter_count(&self, classes: u32) -> u32 {
        self.available(classes).count_ones()
    }

    /// The number of configuration words of classes: fixed counters have none.
    pub fn config_count(&self, classes: u32) -> u32 {
        self.available(classes & !FIXED).count_ones()
    }

    /// The configuration words of classes.
    pub fn config(&self, classes: u32) -> Vec<u64> {
        pmcs(self.available(classes & !FIXED)).map(|pmc| self.words[pmc - 2]).collect()
    }

    /// Sets the configuration words of classes: word n is that of the n-th available counter.
    ///
    /// # Errors
    ///
    /// `EPERM` for a selector that the kernel does not allow; then nothing is configured.
    pub fn set_config(&mut self, classes: u32, words: &[u64]) -> Result<(), Errno> {
        let allowed = |word: &u64| self.allows(*word as u16);
        if self.scenario.macos >= (14, 4) && !words.iter().all(allowed) {
            return Err(Errno::EPERM);
        }
        let old = self.machine.read();
        for (pmc, word) in pmcs(self.available(classes & !FIXED)).zip(words) {
            self.words[pmc - 2] = *word;
        }
        // From macOS 26 on a configuration acts from the next start on.
        if self.scenario.macos < (26, 0) {
            self.program();
        }
        if self.scenario.stale {
            self.stale = Some(old);
        }
        Ok(())
    }

    fn allows(&self, selector: u16) -> bool {
        let known = self.scenario.chip.events.iter().any(|event| event.code == u32::from(selector));
        selector == 0 || known && !self.scenario.refused.contains(&selector)
    }

    /// The classes that count.
    pub fn counting(&self) -> u32 {
        self.counting
    }

    /// Lets classes count.
    pub fn set_counting(&mut self, classes: u32) {
        let same = self.counting == classes;
        self.counting = classes;
        // Counters that count already are not programmed anew.
        if !same {
            self.program();
        }
    }

    /// The classes that the kernel accumulates for each thread.
    pub fn thread_counting(&self) -> u32 {
        self.thread_counting
    }

    /// Lets the kernel accumulate classes for each thread.
    pub fn set_thread_counting(&mut self, classes: u32) {
        if self.thread_counting == 0 {
            self.threads_from = self.machine.read();
        }
        self.thread_counting = classes;
    }

    /// Takes all counters from the power manager, or gives them back.
    pub fn force(&mut self, force: bool) {
        if self.forced != force {
            self.forced = force;
            // Words of counters that went back are not in force any more.
            self.program();
        }
    }

    /// Whether all counters are forced.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// The counters of classes of each CPU.
    pub fn cpu_counters(&mut self, classes: u32) -> Vec<Vec<u64>> {
        self.pass();
        let values = self.stale.take().unwrap_or_else(|| self.machine.read());
        let available = self.available(classes);
        values.iter().map(|cpu| pmcs(available).map(|pmc| cpu[pmc]).collect()).collect()
    }

    /// The counters of the calling thread, which has CPU 0 for itself.
    ///
    /// # Errors
    ///
    /// `EINVAL` while the kernel accumulates nothing for threads.
    pub fn thread_counters(&mut self) -> Result<Vec<u64>, Errno> {
        if self.thread_counting == 0 {
            return Err(Errno::EINVAL);
        }
        self.pass();
        let values = self.stale.clone().unwrap_or_else(|| self.machine.read());
        let available = self.available(self.thread_counting);
        Ok(values.first().map_or_else(Vec::new, |cpu| pmcs(available).map(|pmc| cpu[pmc]).collect()))
    }

    /// Lets time pass before a read. CPUs work while configurable counters count.
    fn pass(&mut self) {
        if self.counting & CONFIGURABLE != 0 {
            self.machine.work(&self.scenario.workloads, self.scenario.clock);
        }
        self.machine.pass(self.scenario.clock);
    }

    /// Programs the counters that count, as the words say.
    fn program(&mut self) {
        let available = if self.counting & CONFIGURABLE != 0 { self.available(CONFIGURABLE) } else { 0 };
        let programmed = pmcs(available).filter_map(|pmc| {
            let word = self.words[pmc - 2];
            Some((pmc as u8, word as u16, self.modes(word)?))
        });
        self.machine.program(&programmed.collect::<Vec<_>>());
    }

    /// The modes of a word; `None` where it counts in none.
    ///
    /// # Source
    ///
    /// xnu `osfmk/arm64/kpc.c`, `set_modes`: since macOS 15 configurable counters count at EL0 alone.
    fn modes(&self, word: u64) -> Option<Modes> {
        let (user, kernel) = (word & KPC_EL0 != 0, word & KPC_EL1 != 0);
        let is_unsaid = !user && !kernel;
        let may_count_kernel = self.scenario.macos < (15, 0);
        let modes = Modes {
            user: user || is_unsaid,
            kernel: may_count_kernel && (kernel || is_unsaid),
            ..Modes::USER
        };
        (word as u16 != 0 && (modes.user || modes.kernel)).then_some(modes)
    }
}

/// The PMCs of a mask, lowest first.
fn pmcs(mask: u32) -> impl Iterator<Item = usize> {
    (0..32usize).filter(move |pmc| mask >> pmc & 1 == 1)
}
