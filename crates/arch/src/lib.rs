//! Register numbers and bit layouts of PMUs, as pure functions: event codes to words and registers, and back.
//!
//! - [`perf_words`] makes the config words of `perf_event_open`, [`perf_words_by_format`] as the kernel's
//!   format files say; [`registers`] the register writes that count an event on a counter, [`combine`] the
//!   writes of several.
//! - [`decode`] explains a register's value bit by bit and names the codes in it; [`decode_words`] reads
//!   perf's words together. [`Register::parse`] finds a register by name or address, [`layout`] lists its
//!   fields; [`register_table`] and [`family_table`] have all registers of a chip or of a family as rows for
//!   a page.
//! - [`register_program`] makes of events on counters what a driver does: writes and barriers to set up,
//!   start, stop and tear down, and what to read. [`PmuReg`] is the list of registers that a driver may use,
//!   [`Registers`] the seam behind which they are.
//!
//! Differences between the generations of a family are in [`Chip`], which comes from a table's header.
//! Nothing here executes anything. Every constant names its source in the module of its family.
//!
//! ```
//! use cyclometer_arch::{Chip, ChipCounters, Coded, CounterOptions, decode, perf_words, registers};
//! use cyclometer_core::{CounterMask, CounterWidth, EventCode, Modes, pmu::Family};
//!
//! let skylake = Chip {
//!     family: Family::Intel,
//!     pmu_version: Some(4),
//!     selector_bits: Some(8),
//!     counter_width: Some(CounterWidth::carrying(48)),
//!     counters: ChipCounters::of(CounterMask::first(4, 3)),
//! };
//! let misses = Coded::new(EventCode { select: 0x2e, umask: 0x41, ..EventCode::default() });
//! assert_eq!(perf_words(&skylake, &misses)?.config, 0x412e);
//! let writes = registers(&skylake, &misses, None, CounterOptions::counting(Modes::USER_KERNEL))?;
//! assert_eq!((writes[0].name(), writes[0].value), ("IA32_PERFEVTSEL0".to_owned(), 0x43_412e));
//! assert_eq!(decode(&skylake, writes[0].register, writes[0].value).events[0].code, misses.code);
//! # Ok::<(), cyclometer_arch::EncodeError>(())
//! ```
#![forbid(unsafe_code)]

mod access;
pub mod amd;
pub mod apple;
pub mod arm;
mod chip;
mod decode;
mod decoded_event;
mod error;
mod field;
#[cfg(test)]
mod golden;
pub mod intel;
mod kernel_constraint;
mod perf;
mod presence;
mod program;
mod reference;
mod register;
mod register_access;
mod register_name;
mod register_program;
pub mod riscv;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod testing;
mod x86;

pub use access::{Fault, PmuReg, Registers};
pub use chip::{Chip, ChipCounters, Coded, CounterOptions, x86_event_number};
pub use decode::{Decoded, Field, decode, decode_words, layout};
pub use decoded_event::DecodedEvent;
pub use error::{EncodeError, NotListed, UnknownRegister};
pub use field::{FieldKind, FieldSpec};
pub use kernel_constraint::{FixedGeneric, is_large_increment, kernel_constraint};
pub use perf::{perf_words, perf_words_by_format};
pub use presence::Presence;
pub use program::{combine, place, rdpmc_index, registers, takes_two_counters};
pub use reference::{FieldRow, RegisterRow, access_text, family_table, register_row, register_table};
pub use register::{Register, RegisterAddress, RegisterWrite};
pub use register_access::Access;
pub use register_name::RegisterName;
pub use register_program::{
    CounterRead, Placed, ProgramOptions, RegisterBits, RegisterProgram, SlotShare, Step, carry_out,
    register_program, restore,
};
