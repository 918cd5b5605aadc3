//! Layout of the memory that a translated program shares with the tracer.
//!
//! Each thread has a *slot* at `%gs`, which Linux programs on x86-64 do not use. It holds saved registers,
//! the return-address table, and counters. The lookup table of indirect branches is at an absolute address
//! below 2 GB, so that an instruction can contain it.

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 24 << 20;

/// Slots of one translation: processes and threads that can share it at a time.
pub const SLOTS: usize = 256;

/// Slots of a translation where address space is limited.
pub const FEW_SLOTS: usize = 64;

/// Offset in a slot: the program's rax, while the translated code uses the register.
pub const RAX: u32 = 0;
/// Offset in a slot: the program's rcx.
pub const RCX: u32 = 8;
/// Offset in a slot: the program's r11, because the translator uses the register.
pub const R11: u32 = 16;

/// Offset in a slot: the number of instructions that the thread may still execute, for translations with a
/// budget. Each block is subtracted as a whole before its first instruction.
pub const BUDGET: u32 = 24;

/// Offset in a slot: zero, so that upper bytes of the budget can be loaded as a number.
const BEHIND_BUDGET: u32 = BUDGET + 8;

/// Offset in a slot: the rounds for which a loop of one block was entered.
pub const ROUNDS: u32 = BEHIND_BUDGET + 8;

/// Offset in a slot: the value of that loop's counter behind these rounds. Its counter is this, plus r11.
pub const BASE: u32 = ROUNDS + 8;

/// Offset in a slot: the end of the log of calls, for translations that log them.
pub const CALL_LOG_END: u32 = 0x80;

/// Offset in a slot: 32 bytes that the host uses.
pub const HOST_SCRATCH: u32 = 64;

/// Offset in a slot: the return-address table. Its index is the lower 16 bits of the stack pointer; an entry
/// is the address in translated code to which the call returns. With a misaligned stack the last entry
/// reaches over the end.
pub const RETURN_TABLE: u32 = 0x1_0000;

/// Entries of the return-address table that are initialised when a process starts.
pub const RETURN_ENTRIES: usize = 0x1_0000 / 8 + 1;

/// Offset in a slot: the log of calls and returns. The target of a branch may be written behind a full log.
pub const CALL_LOG: u32 = 0x2_1000;

/// Bytes of the log.
pub const CALL_LOG_BYTES: u32 = 0x8_0000;

/// Offset in a slot: the counters, 8 bytes each. Counters of the flow graph grow up from here, unit counters
/// down from the end.
pub const COUNTERS: u32 = CALL_LOG + CALL_LOG_BYTES + 0x1000;

/// The capacity of a slot, in counters.
pub const MAX_COUNTERS: u32 = (SLOT_BYTES as u32 - COUNTERS) / 8;

/// Entries of the table of indirect targets: one for each value of an address's lower 16 bits.
pub const TABLE_ENTRIES: usize = 0x1_0000;

/// Offset from the lookup table: the system call filter. Each byte tells whether the call with these lower 16
/// bits of its number is watched.
pub const FILTER: u64 = 8 * TABLE_ENTRIES as u64;

/// Bytes of the table with the filter.
pub const TABLE_BYTES: u64 = FILTER + 0x1_0000;

/// The offset of a counter of the flow graph.
pub fn counter(index: usize) -> u32 {
    COUNTERS + 8 * index as u32
}

/// The offset of another counter.
pub fn unit_counter(index: u32) -> u32 {
    SLOT_BYTES as u32 - 8 * (index + 1)
}
