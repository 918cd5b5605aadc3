//! On Linux: a core's id from sysfs, and a thread bound to it.

use std::io;

use super::NoAccess;
use crate::affinity::Affinity;

/// MIDR_EL1's implementer of Apple's cores.
///
/// # Source
///
/// Linux `arch/arm64/include/asm/cputype.h`, `ARM_CPU_IMP_APPLE`.
const APPLE: u64 = 0x61;

/// The scope of the counted switches: the calling thread.
pub(super) const WHOSE_USAGE: libc::c_int = libc::RUSAGE_THREAD;

/// The calling thread, bound to a core of Apple's; unbound when dropped.
#[derive(Debug)]
pub(super) struct AppleThread {
    cpu: u32,
    before: Affinity,
}

impl AppleThread {
    /// Binds the calling thread to a CPU if that is one of Apple's; by default the CPU that it is on.
    pub(super) fn take(cpu: Option<u32>) -> Result<AppleThread, NoAccess> {
        let cpu = cpu.unwrap_or_else(cpu_now);
        is_apple(cpu)?;
        let unbindable = |error| NoAccess::Unbindable { cpu, error };
        let before = Affinity::of(0).map_err(unbindable)?;
        Affinity::only(cpu).give(0).map_err(unbindable)?;
        Ok(AppleThread { cpu, before })
    }

    pub(super) fn bound_to(&self) -> Option<u32> {
        Some(self.cpu)
    }
}

impl Drop for AppleThread {
    fn drop(&mut self) {
        // If all CPUs from before are offline by now, the thread remains bound.
        let _ = self.before.give(0);
    }
}

/// Binds a thread and its future children to a CPU.
pub(super) fn bind(tid: u32, cpu: u32) -> io::Result<()> {
    match tid {
        // The kernel takes 0 for the caller.
        0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        tid => Affinity::only(cpu).give(tid),
    }
}

/// The CPU that the thread is on.
pub(super) fn cpu_now() -> u32 {
    // SAFETY: takes nothing and touches no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    // It fails only where the kernel has no such call; the fallback is a number that no CPU has.
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

/// Whether the kernel identifies a CPU as one of Apple's.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`, `regs/identification/midr_el1`.
fn is_apple(cpu: u32) -> Result<(), NoAccess> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
    let text = std::fs::read_to_string(&path);
    let unknown = |error: io::Error| NoAccess::NotApple { found: format!("{path}: {error}") };
    judge(text.map_err(unknown)?.trim())
}

fn judge(midr: &str) -> Result<(), NoAccess> {
    let implementer = |value: u64| value >> 24 & 0xff;
    let value = midr.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match value.map(implementer) {
        Some(APPLE) => Ok(()),
        _ => Err(NoAccess::NotApple { found: format!("MIDR {midr}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_implementer_decides() {
        assert!(judge("0x00000000611f0221").is_ok());
        assert!(judge("0x00000000611f0531").is_ok());
        for other in ["0x00000000413fd0c1", "0x0000006100000000", "611f0221", "", "0xzz"] {
            assert!(judge(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_none_of_apples() {
        let error = AppleThread::take(Some(8000)).unwrap_err();
        assert!(matches!(error, NoAccess::NotApple { .. }) && error.to_string().contains("cpu8000"));
    }
}
