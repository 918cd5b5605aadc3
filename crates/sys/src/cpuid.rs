//! The `CPUID` instruction, on the current CPU and on a chosen one.

use std::arch::x86_64::__cpuid_count;

/// Executes `CPUID` on the CPU that the thread is on: EAX, EBX, ECX, EDX.
///
/// A leaf that the CPU does not have returns the highest basic leaf (Intel) or zeros (AMD): compare with leaf
/// 0 and leaf 0x8000_0000 first.
///
/// # Source
///
/// Intel SDM volume 2A, `CPUID`; AMD APM volume 3, `CPUID`.
#[allow(unused_unsafe, reason = "the intrinsic became a safe function after the oldest Rust that we support")]
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    // SAFETY: every 64-bit x86 CPU has the instruction; it reads and writes registers only.
    let result = unsafe { __cpuid_count(leaf, subleaf) };
    [result.eax, result.ebx, result.ecx, result.edx]
}

/// Executes `CPUID` on CPU number `cpu`, in a short-lived thread that is bound to it.
///
/// `None` when the CPU is offline or not permitted to this process, or when the system cannot bind threads.
/// The affinity of the calling thread is not changed.
pub fn cpuid_on(cpu: u32, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let read = move || pin::bind_this_thread(cpu).then(|| cpuid(leaf, subleaf));
    std::thread::Builder::new().spawn(read).ok()?.join().ok()?
}

#[cfg(target_os = "linux")]
mod pin {
    /// Words of the CPU mask: room for 65536 CPUs, more than any kernel allows.
    const MASK_WORDS: usize = 1024;

    /// Binds the calling thread to one CPU; `false` when the kernel refuses.
    pub(super) fn bind_this_thread(cpu: u32) -> bool {
        let mut mask = [0u64; MASK_WORDS];
        let Some(word) = mask.get_mut(cpu as usize / 64) else { return false };
        *word = 1 << (cpu % 64);
        // SAFETY: `mask` is a live array of exactly the length passed; the kernel only reads it. Bits are
        // numbered as in `cpu_set_t`: CPU n is bit n % 64 of word n / 64 on every 64-bit target.
        unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod pin {
    /// Threads cannot be bound to a CPU on this operating system.
    pub(super) fn bind_this_thread(_cpu: u32) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_zero_names_a_vendor_in_printable_letters() {
        let [highest, b, c, d] = cpuid(0, 0);
        let vendor: Vec<u8> = [b, d, c].into_iter().flat_map(u32::to_le_bytes).collect();
        assert!(highest >= 1);
        assert!(vendor.iter().all(|byte| (0x20..0x7f).contains(byte)), "{vendor:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_bound_read_agrees_on_the_vendor_and_a_missing_cpu_is_none() {
        let allowed = (0..64).find_map(|cpu| cpuid_on(cpu, 0, 0));
        assert_eq!(allowed.map(|registers| registers[1..].to_vec()), Some(cpuid(0, 0)[1..].to_vec()));
        assert_eq!(cpuid_on(65_535, 0, 0), None);
        assert_eq!(cpuid_on(u32::MAX, 0, 0), None);
    }
}
