//! Information on the machine, on the sources that were tried, and on the last error.

use std::ffi::{c_char, c_int};

use cyclometer_toolkit::Machine;
use cyclometer_toolkit::core::machine::{Architecture, Vendor};

use crate::monitor::{cyclometer_t, with_monitor};
use crate::pointers::{borrow, copy_text, put_sized};
use crate::status::{guarded_or, text};

/// Kinds of CPU.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cyclometer_arch_t {
    /// Another one, or not known.
    CYCLOMETER_ARCH_UNKNOWN = 0,
    /// Intel, x86.
    CYCLOMETER_ARCH_X86_INTEL = 1,
    /// AMD (and Hygon), x86.
    CYCLOMETER_ARCH_X86_AMD = 2,
    /// Apple M1.
    CYCLOMETER_ARCH_ARM_APPLE_M1 = 3,
    /// Apple M2.
    CYCLOMETER_ARCH_ARM_APPLE_M2 = 4,
    /// Apple M3.
    CYCLOMETER_ARCH_ARM_APPLE_M3 = 5,
    /// Apple M4.
    CYCLOMETER_ARCH_ARM_APPLE_M4 = 6,
    /// Apple M5.
    CYCLOMETER_ARCH_ARM_APPLE_M5 = 7,
    /// Another Arm CPU, 64-bit.
    CYCLOMETER_ARCH_ARM = 8,
    /// RISC-V, 64-bit.
    CYCLOMETER_ARCH_RISCV = 9,
}

/// Capabilities of the CPU, and those that may be used.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cyclometer_capabilities_t {
    /// A `cyclometer_arch_t`.
    pub arch: i32,
    /// Number of general counters of the first core type; 0 where there are none or the number is unknown.
    pub pmc_count: u32,
    /// Number of fixed counters, each of which counts one event.
    pub fixed_counters: u32,
    /// Width of counters in bits; 0 where it is unknown.
    pub counter_width: u32,
    /// Whether counters can be read without a system call.
    pub user_mode_access: bool,
    /// Whether access to the registers needs a changed kernel.
    pub needs_kernel_patch: bool,
    /// The CPU in words (`intel sapphirerapids`), cut to what fits.
    pub name: [c_char; 64],
}

impl cyclometer_capabilities_t {
    fn of(machine: &Machine) -> cyclometer_capabilities_t {
        let capabilities = &machine.capabilities;
        let mut name = [0; 64];
        let room = name.len() - 1;
        for (to, from) in name.iter_mut().take(room).zip(capabilities.architecture.bytes()) {
            *to = from as c_char;
        }
        cyclometer_capabilities_t {
            arch: arch(machine) as i32,
            pmc_count: capabilities.counter_count,
            fixed_counters: capabilities.fixed_counters,
            counter_width: capabilities.counter_width_bits.unwrap_or(0),
            user_mode_access: capabilities.user_mode_access,
            needs_kernel_patch: capabilities.needs_kernel_patch,
            name,
        }
    }
}

fn arch(machine: &Machine) -> cyclometer_arch_t {
    use cyclometer_arch_t as A;
    let generation =
        machine.core_types.iter().find_map(|core| core.cpu_id.as_deref()?.strip_prefix("apple-"));
    match (&machine.cpu.vendor, machine.architecture) {
        (Vendor::Intel, _) => A::CYCLOMETER_ARCH_X86_INTEL,
        (Vendor::Amd | Vendor::Hygon, _) => A::CYCLOMETER_ARCH_X86_AMD,
        (Vendor::Apple, _) => apple(generation.unwrap_or_default()),
        (_, Architecture::Aarch64) => A::CYCLOMETER_ARCH_ARM,
        (_, Architecture::Riscv64) => A::CYCLOMETER_ARCH_RISCV,
        _ => A::CYCLOMETER_ARCH_UNKNOWN,
    }
}

fn apple(generation: &str) -> cyclometer_arch_t {
    use cyclometer_arch_t as A;
    match generation.get(..2) {
        Some("m1") => A::CYCLOMETER_ARCH_ARM_APPLE_M1,
        Some("m2") => A::CYCLOMETER_ARCH_ARM_APPLE_M2,
        Some("m3") => A::CYCLOMETER_ARCH_ARM_APPLE_M3,
        Some("m4") => A::CYCLOMETER_ARCH_ARM_APPLE_M4,
        Some("m5") => A::CYCLOMETER_ARCH_ARM_APPLE_M5,
        _ => A::CYCLOMETER_ARCH_ARM,
    }
}

/// Reads the capabilities of the machine. `size` is `sizeof(cyclometer_capabilities_t)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_capabilities(
    monitor: *mut cyclometer_t,
    capabilities: *mut cyclometer_capabilities_t,
    size: usize,
) -> c_int {
    let body = |monitor: &cyclometer_t| {
        let built = monitor.state().built().cloned();
        let of_machine = built.map_or_else(
            || cyclometer_capabilities_t::of(&cyclometer_toolkit::machine_for_regions()),
            |built| cyclometer_capabilities_t::of(built.machine()),
        );
        // SAFETY: the caller promises room for `size` bytes.
        unsafe { put_sized(capabilities, size, of_machine, "the capabilities") }?;
        Ok(0)
    };
    // SAFETY: the caller's promise is that of `with_monitor`.
    unsafe { with_monitor(monitor, body) }
}

/// Copies a text of a monitor; 0 where there is none.
///
/// # Safety
///
/// As [`borrow`] and [`copy_text`].
unsafe fn text_of(
    monitor: *const cyclometer_t,
    (buffer, size): (*mut c_char, usize),
    which: impl FnOnce(&cyclometer_t) -> cyclometer_toolkit::Result<String>,
) -> usize {
    guarded_or(0, || {
        // SAFETY: the caller's promise is that of `borrow`.
        let text = which(unsafe { borrow(monitor, "the monitor") }?)?;
        // SAFETY: the caller's promise is that of `copy_text`.
        Ok(unsafe { copy_text(&text, buffer, size) })
    })
}

/// Copies the message of the last error of a monitor and its regions, cut to `size` bytes with the zero byte.
/// The result is the length of the whole text in bytes, without the zero byte; 0 where there was no error, or
/// for a null monitor. `buffer` may be null to read the length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_message(
    monitor: *const cyclometer_t,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's promise is that of `text_of`.
    unsafe { text_of(monitor, (buffer, size), |monitor| Ok(monitor.messages.last().0)) }
}

/// As `cyclometer_message`, for the remedy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_remedy(
    monitor: *const cyclometer_t,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's promise is that of `text_of`.
    unsafe { text_of(monitor, (buffer, size), |monitor| Ok(monitor.messages.last().1)) }
}

/// As `cyclometer_message`, for the sources that were tried for each event: one line for each step, with the
/// reason of each refusal and the next step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cyclometer_ladder(
    monitor: *const cyclometer_t,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    let ladder = |monitor: &cyclometer_t| {
        let built = monitor.state().monitor()?;
        let lines: Vec<String> = built.ladder().iter().map(ToString::to_string).collect();
        Ok(lines.join("\n"))
    };
    // SAFETY: the caller's promise is that of `text_of`.
    unsafe { text_of(monitor, (buffer, size), ladder) }
}

/// The meaning of a status in words; never null, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cyclometer_status_text(status: c_int) -> *const c_char {
    text(status).as_ptr()
}

/// The version of the library; never null, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cyclometer_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_of_the_machine() {
        let machine = cyclometer_toolkit::machine();
        let capabilities = cyclometer_capabilities_t::of(&machine);
        assert_eq!(capabilities.pmc_count, machine.capabilities.counter_count);
        let name: Vec<u8> = capabilities.name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        assert_eq!(name, machine.capabilities.architecture.as_bytes());
    }

    #[test]
    fn apples_generations_are_told_apart() {
        for (generation, expected) in [
            ("m1", cyclometer_arch_t::CYCLOMETER_ARCH_ARM_APPLE_M1),
            ("m4", cyclometer_arch_t::CYCLOMETER_ARCH_ARM_APPLE_M4),
            ("m9", cyclometer_arch_t::CYCLOMETER_ARCH_ARM),
            ("", cyclometer_arch_t::CYCLOMETER_ARCH_ARM),
        ] {
            assert_eq!(apple(generation), expected, "{generation}");
        }
    }
}
