//! The host as a source of facts.

use std::io::Read;

use cyclometer_core::machine::{Architecture, Os};
use cyclometer_core::nvml::NvmlObstacle;

use crate::facts::{
    AccountFacts, FactSource, KpcCounters, MAX_ENTRIES, MAX_FILE_BYTES, NvmlFacts, PerfProbe, TraceRefusal,
};

#[cfg(target_os = "macos")]
#[path = "host_accounts.rs"]
mod accounts;
#[cfg(not(target_os = "macos"))]
#[path = "host_no_accounts.rs"]
mod accounts;
#[cfg(target_arch = "x86_64")]
#[path = "host_cpuid.rs"]
mod cpuid;
#[cfg(not(target_arch = "x86_64"))]
#[path = "host_no_cpuid.rs"]
mod cpuid;
#[cfg(target_os = "macos")]
#[path = "host_kpc.rs"]
mod kpc;
#[cfg(not(target_os = "macos"))]
#[path = "host_no_kpc.rs"]
mod kpc;
#[cfg(not(target_os = "linux"))]
#[path = "host_no_nvml.rs"]
mod nvml;
#[cfg(target_os = "linux")]
#[path = "host_nvml.rs"]
mod nvml;
#[cfg(not(target_os = "linux"))]
#[path = "host_no_perf.rs"]
mod perf;
#[cfg(target_os = "linux")]
#[path = "host_perf.rs"]
mod perf;
#[cfg(not(target_os = "macos"))]
#[path = "host_no_sysctl.rs"]
mod sysctl;
#[cfg(target_os = "macos")]
#[path = "host_sysctl.rs"]
mod sysctl;
#[cfg(not(all(target_arch = "aarch64", any(target_os = "linux", target_os = "macos"))))]
#[path = "host_no_sysreg.rs"]
mod sysreg;
#[cfg(all(target_arch = "aarch64", any(target_os = "linux", target_os = "macos")))]
#[path = "host_sysreg.rs"]
mod sysreg;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "host_no_trace.rs"]
mod trace;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "host_trace.rs"]
mod trace;
#[cfg(not(unix))]
#[path = "host_no_user.rs"]
mod user;
#[cfg(unix)]
#[path = "host_user.rs"]
mod user;

/// The machine that we run on.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFacts;

impl FactSource for HostFacts {
    fn os(&self) -> Os {
        match std::env::consts::OS {
            "linux" => Os::Linux,
            "macos" => Os::MacOs,
            _ => Os::Other,
        }
    }

    fn architecture(&self) -> Architecture {
        match std::env::consts::ARCH {
            "x86_64" => Architecture::X86_64,
            "aarch64" => Architecture::Aarch64,
            "riscv64" => Architecture::Riscv64,
            _ => Architecture::Other,
        }
    }

    fn kernel_release(&self) -> Option<String> {
        user::kernel_release()
    }

    fn euid(&self) -> Option<u32> {
        user::euid()
    }

    fn online_cpu_count(&self) -> u32 {
        cyclometer_sys::host::online_cpu_count()
    }

    fn read(&self, path: &str) -> Option<String> {
        first_bytes(path).map(bounded_text)
    }

    fn read_bytes(&self, path: &str) -> Option<Vec<u8>> {
        first_bytes(path).filter(|bytes| bytes.len() <= MAX_FILE_BYTES)
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(MAX_ENTRIES).collect();
        names.sort();
        names
    }

    fn cpuid(&self, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        cpuid::read(cpu, leaf, subleaf)
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        sysctl::read(name)
    }

    fn perf_probe(&self, probe: &PerfProbe) -> Result<(), i32> {
        perf::probe(probe)
    }

    fn trace_probe(&self) -> Result<(), TraceRefusal> {
        trace::probe()
    }

    fn is_counted_by_software(&self) -> bool {
        trace::is_counted_by_software()
    }

    fn sysreg_probe(&self) -> Result<(), i32> {
        sysreg::probe()
    }

    fn counter_accounts(&self) -> Option<AccountFacts> {
        accounts::find()
    }

    fn kpc_probe(&self) -> Result<KpcCounters, i32> {
        kpc::probe()
    }

    fn nvml_probe(&self) -> Result<NvmlFacts, NvmlObstacle> {
        nvml::probe()
    }
}

/// The first bytes of a file, one more than [`MAX_FILE_BYTES`] at most.
fn first_bytes(path: &str) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    // A device or a pipe could block or never end: only files are facts.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Text of at most [`MAX_FILE_BYTES`], cut at a line's end, without line breaks behind it.
fn bounded_text(mut bytes: Vec<u8>) -> String {
    if bytes.len() > MAX_FILE_BYTES {
        bytes.truncate(MAX_FILE_BYTES);
        let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        bytes.truncate(end);
    }
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_cut_at_a_line() {
        let line = b"0123456789abcde\n";
        let bytes: Vec<u8> = line.iter().copied().cycle().take(MAX_FILE_BYTES + 7).collect();
        let text = bounded_text(bytes);
        assert!(text.len() < MAX_FILE_BYTES);
        assert!(text.ends_with("abcde"));
    }

    #[test]
    fn what_is_missing_or_no_file_is_none() {
        assert_eq!(HostFacts.read("/no/such/file"), None);
        assert_eq!(HostFacts.read("/"), None);
        assert!(HostFacts.list("/no/such/dir").is_empty());
    }
}
