//! Where things are in the memory that a translated program shares with the translator.
//!
//! Each process has a *slot*, which `%gs` points to (nothing else uses it on Linux x86-64): room for registers,
//! the shadow of its return addresses, its counters. The table of indirect targets is at an absolute address below
//! 2 GB, so that an instruction can name it.

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 24 << 20;

/// Slots of one translation: processes and threads that can share it at a time.
pub const SLOTS: usize = 256;

/// The same where there is not so much room.
pub const FEW_SLOTS: usize = 64;

/// Offset in a slot: where rax is kept while the translator uses it.
pub const RAX: u32 = 0;
/// The same for rcx.
pub const RCX: u32 = 8;
/// Where r11 is, which the translator has for itself.
pub const R11: u32 = 16;

/// Offset in a slot: 32 bytes that the host uses.
pub const HOST_SCRATCH: u32 = 64;

/// Offset in a slot: for each value of the stack pointer's lower 16 bits, where the call that pushed its return address
/// there goes on in translated code. A misaligned stack makes the last entry reach over the end.
pub const RETURN_TABLE: u32 = 0x1_0000;

/// Entries of the shadow that are written when a process starts.
pub const RETURN_ENTRIES: usize = 0x1_0000 / 8 + 1;

/// Offset in a slot: the counters, 8 bytes each. Those of the flow graph count up from here, the others down from the end.
pub const COUNTERS: u32 = 0x2_1000;

/// How many counters a slot has room for.
pub const MAX_COUNTERS: u32 = (SLOT_BYTES as u32 - COUNTERS) / 8;

/// Entries of the table of indirect targets: one for each value of an address's lower 16 bits.
pub const TABLE_ENTRIES: usize = 0x1_0000;

/// Offset from the table: for each value of the lower 16 bits of a system call's number, whether it is looked at.
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
