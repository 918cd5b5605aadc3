//! Detection on facts that make no sense: no panic, nothing unfit to be shown.

use std::hash::{DefaultHasher, Hash, Hasher};

use cyclometer_core::Rung;
use cyclometer_core::machine::{Architecture, Os};
use cyclometer_core::nvml::{NvmlObstacle, NvmlReturn};
use cyclometer_detect::{
    AccountFacts, FactRecorder, FactSource, KpcCounters, NvmlFacts, PerfProbe, ProcessAccounts,
    RecordedFacts, TraceRefusal, TracerCall, detect,
};
use proptest::prelude::*;

use crate::support;

/// Answers every question with something from a pool, the same question always alike.
#[derive(Debug)]
struct Garbage {
    seed: u64,
    os: Os,
    architecture: Architecture,
    texts: Vec<String>,
    numbers: Vec<u32>,
}

impl Garbage {
    fn pick<'a, T>(&self, question: impl Hash, pool: &'a [T]) -> &'a T {
        let mut hasher = DefaultHasher::new();
        (self.seed, question).hash(&mut hasher);
        &pool[hasher.finish() as usize % pool.len()]
    }

    fn number(&self, question: impl Hash) -> u32 {
        *self.pick(question, &self.numbers)
    }
}

impl FactSource for Garbage {
    fn os(&self) -> Os {
        self.os
    }

    fn architecture(&self) -> Architecture {
        self.architecture
    }

    fn kernel_release(&self) -> Option<String> {
        Some(self.pick("release", &self.texts).clone())
    }

    fn euid(&self) -> Option<u32> {
        Some(self.number("euid"))
    }

    fn online_cpu_count(&self) -> u32 {
        self.number("cpus") % 100
    }

    fn read(&self, path: &str) -> Option<String> {
        (!self.number(path).is_multiple_of(4))
            .then(|| self.pick(path, &self.texts).trim_end_matches('\n').to_owned())
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let names = (0..self.number(dir) % 4).map(|i| self.pick((dir, i), &self.texts).clone());
        let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        names.sort();
        names
    }

    fn cpuid(&self, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        if leaf == 0 && self.number("vendor").is_multiple_of(2) {
            return Some([0x30, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]);
        }
        Some([0, 1, 2, 3].map(|register| self.number((cpu, leaf, subleaf, register))))
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        Some(self.pick(name, &self.texts).clone())
    }

    fn perf_probe(&self, probe: &PerfProbe) -> Result<(), i32> {
        match self.number(probe) % 40 {
            0 => Ok(()),
            errno => Err(errno as i32),
        }
    }

    fn trace_probe(&self) -> Result<(), TraceRefusal> {
        match self.number("trace") % 40 {
            0 => Ok(()),
            1 => Err(TraceRefusal::Traced { by: self.number("tracer") }),
            errno => {
                Err(TraceRefusal::Call { call: *self.pick("call", &TracerCall::ALL), errno: errno as i32 })
            }
        }
    }

    fn is_counted_by_software(&self) -> bool {
        self.number("counted").is_multiple_of(2)
    }

    fn sysreg_probe(&self) -> Result<(), i32> {
        match self.number("sysreg") % 3 {
            0 => Ok(()),
            errno => Err(errno as i32),
        }
    }

    fn nvml_probe(&self) -> Result<NvmlFacts, NvmlObstacle> {
        match self.number("nvml") % 3 {
            0 => Err(NvmlObstacle::Returned(NvmlReturn(self.number("code")))),
            1 => Err(NvmlObstacle::NoLibrary(self.pick("library", &self.texts).clone())),
            _ => Ok(NvmlFacts {
                driver: self.pick("driver", &self.texts).clone(),
                devices: vec![(
                    self.pick("device", &self.texts).clone(),
                    self.pick("model", &self.texts).clone(),
                )],
            }),
        }
    }

    fn counter_accounts(&self) -> Option<AccountFacts> {
        let process = match self.number("accounts") % 4 {
            0 => return None,
            1 => None,
            2 => Some(ProcessAccounts::Totals),
            _ => Some(ProcessAccounts::ByCoreType),
        };
        let flag = |name| self.number(name).is_multiple_of(2);
        Some(AccountFacts { process, thread: flag("thread"), counts: flag("counts") })
    }

    fn kpc_probe(&self) -> Result<KpcCounters, i32> {
        match self.number("kpc") % 40 {
            errno @ 1..30 => Err(errno as i32),
            counters => Ok(KpcCounters { configurable: counters % 13, forced: counters > 35 }),
        }
    }
}

/// Texts: noise, and what comes near to the real thing.
fn text() -> impl Strategy<Value = String> {
    let near = [
        "0-3",
        "0-3,9",
        "5-1",
        "0",
        "1",
        "2",
        "-1",
        "4",
        "cpu",
        "cpu_core",
        "cpu_atom",
        "config:0-7",
        "config:9-1",
        "event=0x3c",
        "0x410fd034",
        "0x611f0221",
        "0xffffffffffffffff",
        "1e999",
        "CapEff:\tffffffffffffffff",
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03",
        "processor: 1\nmvendorid: 0x489\nmarchid: 0x7\nmimpid: 0x1",
        "processor: 0\nvendor_id: AuthenticAMD\ncpu family: 25\nmodel: 97\nstepping: 99",
        "458787763",
        "card0",
        "hwmon1",
        "nvidiactl",
        "DRIVER=amdgpu\nPCI_ID=1002:744C",
    ];
    prop_oneof![prop::sample::select(near.to_vec()).prop_map(str::to_owned), "(?s).{0,12}"]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0..64u32,
        Just(0x4000_0001),
        Just(0x8000_0022),
        Just(0x0009_0672),
        Just(0x0730_0404)
    ]
}

fn garbage() -> impl Strategy<Value = Garbage> {
    let systems = prop::sample::select(vec![Os::Linux, Os::Linux, Os::MacOs, Os::Other]);
    let architectures = prop::sample::select(vec![
        Architecture::X86_64,
        Architecture::Aarch64,
        Architecture::Riscv64,
        Architecture::Other,
    ]);
    let texts = prop::collection::vec(text(), 1..24);
    let numbers = prop::collection::vec(number(), 1..24);
    (any::<u64>(), systems, architectures, texts, numbers).prop_map(
        |(seed, os, architecture, texts, numbers)| Garbage { seed, os, architecture, texts, numbers },
    )
}

proptest! {
    #[test]
    fn detection_survives_any_answers_and_replays_them(facts in garbage()) {
        let recorder = FactRecorder::new(&facts);
        let machine = detect(&recorder);
        prop_assert!(!machine.core_types.is_empty());
        prop_assert_eq!(machine.ladder.rungs.len(), Rung::ALL.len());
        let shown = support::describe(&machine);
        let unfit = shown.chars().find(|c| c.is_control() && *c != '\n');
        prop_assert_eq!(unfit, None, "{}", shown);
        let replayed = RecordedFacts::parse(&recorder.to_text("synthetic: garbage")).unwrap();
        prop_assert_eq!(support::describe(&detect(&replayed)), shown);
    }
}

#[test]
fn no_prefix_of_a_recording_breaks_detection() {
    for name in support::names(&support::fixtures()) {
        let text = support::recording(&name);
        let lines: Vec<&str> = text.lines().collect();
        for kept in 1..lines.len() {
            detect(&RecordedFacts::parse(&lines[..kept].join("\n")).unwrap());
        }
    }
}
