//! The scenario file: which Mac the library is, and what fails on it.
//!
//! A line is a word and its arguments; `#` begins a comment. All lines are optional.
//!
//! | line | meaning |
//! |---|---|
//! | `chip apple-m4` | the simulated chip; without it `apple-m1` |
//! | `cpus 10` | its CPUs; without it 8 |
//! | `macos 15.0` | the version whose rules hold; without it 26.0 |
//! | `user` | the process is not root |
//! | `vm` | a virtual machine: no configurable counters |
//! | `power-manager keeps` | PMC5 to PMC7 stay with the power manager, also when counters are forced |
//! | `power-counters 0x1c` | the counters of the power manager are PMC2 to PMC4, and not PMC5 to PMC7 |
//! | `stale` | the first thread sample after a new configuration is old, until all CPUs are read |
//! | `not-ready 3` | the first 3 samples of each thread are zeros: the kernel has no sums yet |
//! | `refuse 0xbf` | the kernel's list of allowed selectors lacks this one; several lines are possible |
//! | `workload 0 loop:10` | CPU 0 does this for 10 ms while configurable counters count |
//! | `process loop 75` | each process and thread does this as long as it uses a CPU, 75 % of it on performance cores |
//! | `process loop:591 75` | each process has done this for 591 ms when it ends, whatever it did |
//! | `clock real` | simulated time passes as real time does, which is the default; work begins once |
//! | `clock step 1000000` | time passes before each read of counters alone, 1,000,000 ns; work begins anew there |
//! | `fail kpc_set_config 2 EBUSY` | the second call fails; `always` in place of a number: each call |

use cyclometer_fake_library::{ScenarioError, nth_call};
use cyclometer_sim::{Model, Workload};

use crate::fake_kernel::{Errno, POWER_COUNTERS};

/// A Mac, and what fails on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The simulated chip.
    pub chip: &'static Model,
    /// Its CPUs.
    pub cpus: u32,
    /// The version of macOS: major and minor.
    pub macos: (u32, u32),
    /// Whether the process is root.
    pub root: bool,
    /// Whether it is a virtual machine.
    pub vm: bool,
    /// Whether PMC5 to PMC7 stay with the power manager.
    pub power_manager_keeps: bool,
    /// The counters of the power manager.
    pub power_counters: u32,
    /// Whether the first thread sample after a new configuration is old.
    pub stale: bool,
    /// How many samples of each thread are zeros, as the kernel has no sums of its counters yet.
    pub not_ready: u32,
    /// Selectors that the kernel does not allow although the chip has them.
    pub refused: Vec<u16>,
    /// The work of CPUs.
    pub workloads: Vec<(u32, Workload)>,
    /// The work of processes and threads in their accounts.
    pub process: ProcessWork,
    /// How time passes.
    pub clock: Clock,
    /// Calls that fail.
    pub faults: Vec<Fault>,
}

/// The work of each process and thread.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcessWork {
    /// The work, which does not end.
    pub workload: Workload,
    /// How long a process has done it at its end, in ns; `None`: as long as it used a CPU.
    pub lasts_ns: Option<u64>,
    /// The share of performance cores, in percent.
    pub performance_percent: u64,
}

/// How simulated time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// As real time does.
    Real,
    /// By so many ns before each read of counters.
    Step(u64),
}

/// A call that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The function.
    pub call: String,
    /// The number of the call, from 1 on; `None`: each call.
    pub nth: Option<u64>,
    /// The error.
    pub errno: Errno,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            chip: &Model::ALL[0],
            cpus: 8,
            macos: (26, 0),
            root: true,
            vm: false,
            power_manager_keeps: false,
            power_counters: POWER_COUNTERS,
            stale: false,
            not_ready: 0,
            refused: Vec::new(),
            workloads: Vec::new(),
            process: ProcessWork {
                workload: Workload::named("loop").unwrap_or_default(),
                lasts_ns: None,
                performance_percent: 75,
            },
            clock: Clock::Real,
            faults: Vec::new(),
        }
    }
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// The first line that is none.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        cyclometer_fake_library::read(text, Scenario::add)
    }

    fn add(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["chip", id] => self.chip = Model::find(id)?,
            ["cpus", number] => self.cpus = number.parse().ok()?,
            ["macos", version] => {
                let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
                self.macos = (major.parse().ok()?, minor.parse().ok()?);
            }
            ["user"] => self.root = false,
            ["vm"] => self.vm = true,
            ["power-manager", "keeps"] => self.power_manager_keeps = true,
            ["power-counters", mask] => self.power_counters = number(mask)?.into(),
            ["stale"] => self.stale = true,
            ["not-ready", samples] => self.not_ready = samples.parse().ok()?,
            ["refuse", selector] => self.refused.push(number(selector)?),
            ["workload", cpu, text] => self.workloads.push((cpu.parse().ok()?, self.workload(text)?)),
            ["process", text, percent] => {
                let (name, ms) = text.split_once(':').map_or((*text, None), |(name, ms)| (name, Some(ms)));
                let lasts_ns = match ms {
                    Some(ms) => Some(ms.parse::<u64>().ok()?.checked_mul(1_000_000)?),
                    None => None,
                };
                let performance_percent = percent.parse().ok().filter(|percent| *percent <= 100)?;
                self.process =
                    ProcessWork { workload: Workload::named(name)?, lasts_ns, performance_percent };
            }
            ["clock", "real"] => self.clock = Clock::Real,
            ["clock", "step", ns] => self.clock = Clock::Step(ns.parse().ok()?),
            ["fail", call, nth, errno] => {
                let nth = nth_call(nth)?;
                let fault = Fault { call: (*call).to_owned(), nth, errno: Errno::parse(errno)? };
                self.faults.push(fault);
            }
            _ => return None,
        }
        Some(())
    }

    /// A workload such as `loop` (without end) or `loop:10` (about 10 ms, in whole rounds).
    fn workload(&self, text: &str) -> Option<Workload> {
        let Some((name, ms)) = text.split_once(':') else { return Workload::named(text) };
        let workload = Workload::named(name)?;
        let round: u64 = workload.phases.iter().map(|phase| phase.cycles).sum();
        let cycles = ms.parse::<u64>().ok()?.checked_mul(1000 * self.chip.mhz)?;
        Some(workload.for_rounds(cycles.div_ceil(round.max(1))))
    }
}

/// A selector, in decimal or with `0x` before it.
fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_line_by_line() {
        let text = "# an M4\nchip apple-m4\ncpus 10\nmacos 15.4\nuser\nvm\nstale # yes\nnot-ready 3\nrefuse 0xbf\nrefuse 17\n\
                    power-manager keeps\nworkload 0 loop:10\nclock step 1000\nfail kpc_set_config 2 EBUSY\n\
                    fail kpc_force_all_ctrs_set always EACCES\n";
        let scenario = Scenario::parse(text).unwrap();
        assert_eq!((scenario.chip.id, scenario.cpus, scenario.macos), ("apple-m4", 10, (15, 4)));
        assert!(!scenario.root && scenario.vm && scenario.stale && scenario.power_manager_keeps);
        assert_eq!(scenario.not_ready, 3);
        assert_eq!((scenario.refused, scenario.clock), (vec![0xbf, 17], Clock::Step(1000)));
        let nth: Vec<Option<u64>> = scenario.faults.iter().map(|fault| fault.nth).collect();
        assert_eq!(nth, [Some(2), None]);
        assert_eq!(scenario.workloads[0].0, 0);
    }

    #[test]
    fn a_line_that_is_none_is_named_with_its_number() {
        for line in
            ["chip apple-m99", "cpus many", "fail kpc_set_config 1 EWHAT", "fly", "workload 0 sleep:1"]
        {
            let error = Scenario::parse(&format!("vm\n{line}\n")).unwrap_err();
            assert_eq!(error.to_string(), format!("line 2 is none of a scenario: {line}"));
        }
    }
}
