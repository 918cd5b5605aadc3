//! The origin of facts in builds with fake devices: a recording beside the devices, if there is one.

use std::path::Path;

use cyclometer_backend::{gpu, kperf};
use cyclometer_core::machine::{Architecture, Os};
use cyclometer_core::nvml::NvmlObstacle;
use cyclometer_detect::{
    AccountFacts, FactSource, HostFacts, KpcCounters, NvmlFacts, PerfProbe, RecordedFacts, TraceRefusal,
};

/// From the file `machine` in the folder that the environment names; without that variable or file from the
/// host. With a library `kperf` or `nvml` in the folder, kperf or NVML is asked through that.
///
/// # Panics
///
/// On a recording that cannot be read: a test must not take the host for the machine that it made up.
pub(super) fn here() -> Box<dyn FactSource> {
    let Some(folder) = std::env::var_os("CYCLOMETER_FAKE_DEVICES") else { return Box::new(HostFacts) };
    let file = Path::new(&folder).join("machine");
    if !file.exists() {
        return Box::new(HostFacts);
    }
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let facts = RecordedFacts::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    match kperf::library().is_some() || gpu::library().exists() {
        true => Box::new(FakeMachine(facts)),
        false => Box::new(facts),
    }
}

/// Recorded facts of a machine whose kperf or NVML is a library of the tests.
struct FakeMachine(RecordedFacts);

impl FactSource for FakeMachine {
    fn os(&self) -> Os {
        self.0.os()
    }

    fn architecture(&self) -> Architecture {
        self.0.architecture()
    }

    fn kernel_release(&self) -> Option<String> {
        self.0.kernel_release()
    }

    fn euid(&self) -> Option<u32> {
        self.0.euid()
    }

    fn online_cpu_count(&self) -> u32 {
        self.0.online_cpu_count()
    }

    fn read(&self, path: &str) -> Option<String> {
        self.0.read(path)
    }

    fn read_bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.0.read_bytes(path)
    }

    fn list(&self, dir: &str) -> Vec<String> {
        self.0.list(dir)
    }

    fn cpuid(&self, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        self.0.cpuid(cpu, leaf, subleaf)
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        self.0.sysctl(name)
    }

    fn perf_probe(&self, probe: &PerfProbe) -> Result<(), i32> {
        self.0.perf_probe(probe)
    }

    fn trace_probe(&self) -> Result<(), TraceRefusal> {
        self.0.trace_probe()
    }

    fn is_counted_by_software(&self) -> bool {
        self.0.is_counted_by_software()
    }

    fn sysreg_probe(&self) -> Result<(), i32> {
        self.0.sysreg_probe()
    }

    fn counter_accounts(&self) -> Option<AccountFacts> {
        self.0.counter_accounts()
    }

    fn kpc_probe(&self) -> Result<KpcCounters, i32> {
        kperf::probe()
    }

    fn nvml_probe(&self) -> Result<NvmlFacts, NvmlObstacle> {
        let found = gpu::probe()?;
        Ok(NvmlFacts { driver: found.driver, devices: found.devices })
    }
}
