//! Program points: the state of the program when it is stopped at a translated instruction.
//!
//! Every emitted instruction has a PC-map entry. So at any stop the host knows the program's own state: the
//! address of the next instruction, the values of the registers, and the part of the execution that was
//! counted.

/// The state before an instruction of translated code: one entry of the PC map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PcEntry {
    /// Offset in the region.
    pub(crate) at: u32,
    /// The block, or the number of the stub's address.
    pub(crate) subject: u32,
    /// The number of executed instructions of the block.
    pub(crate) done: u16,
    pub(crate) bits: PcBits,
}

/// The flags of a PC-map entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PcBits(pub(crate) u32);

impl PcBits {
    /// The program's stack and registers, except r11, are in place.
    pub(crate) const CLEAN: PcBits = PcBits(0);
    /// rax is in the slot.
    pub(crate) const RAX: PcBits = PcBits(1);
    /// rcx is in the slot.
    pub(crate) const RCX: PcBits = PcBits(2);
    /// r11 is the program's, and the slot has it or is still to get it. Everywhere else it is in the slot.
    pub(crate) const OWN_R11: PcBits = PcBits(4);
    /// Eight bytes too many are on the stack.
    pub(crate) const PUSHED: PcBits = PcBits(8);
    /// The block's counter was increased; without a counter never set.
    pub(crate) const COUNTED: PcBits = PcBits(0x10);
    /// The edge from the block to the outside was counted.
    pub(crate) const OUTSIDE: PcBits = PcBits(0x20);
    /// The edge to the successor was counted: the execution has reached it.
    pub(crate) const ARRIVED: PcBits = PcBits(0x40);
    /// On the exit to the next instruction.
    pub(crate) const NEXT: PcBits = PcBits(0x80);
    /// On the exit to the branch target.
    pub(crate) const TAKEN: PcBits = PcBits(0x100);
    /// On the path to the address in rcx.
    pub(crate) const TO_RCX: PcBits = PcBits(0x200);
    /// The subject is a stub, and rcx is the distance of the target from its address; with
    /// [`PcBits::TO_RCX`] one more than that.
    pub(crate) const TO_STUB_AND_RCX: PcBits = PcBits(0x400);
    /// The subject is a stub, and its address is the target.
    pub(crate) const TO_STUB: PcBits = PcBits(0x800);
    /// The counter of iterations includes those that remain in rcx.
    pub(crate) const ITERATIONS: PcBits = PcBits(0x1000);
    /// rcx must get the address of the next instruction, as behind a system call.
    pub(crate) const RCX_IS_NEXT: PcBits = PcBits(0x2000);

    /// Eight bytes that belong there were taken from the stack.
    pub(crate) const POPPED: PcBits = PcBits(0x4000);

    /// The subject is a stub.
    pub(crate) const IN_STUB: PcBits = PcBits(0x8000);

    /// The status flags are in ah, as `lahf` stores them, and the overflow flag in al.
    pub(crate) const FLAGS: PcBits = PcBits(0x1_0000);
    /// Masked elements were counted for an instruction that is not done, or the reverse.
    pub(crate) const UNSURE: PcBits = PcBits(0x2_0000);
    /// The repeated instruction that [`PcBits::ITERATIONS`] speaks of is the one before.
    pub(crate) const DONE: PcBits = PcBits(0x4_0000);
    /// r11 has the block's counter, and memory an older value of it.
    pub(crate) const COUNTING: PcBits = PcBits(0x8_0000);
    /// The log has a record of the branch, which is not done; where blocks are logged, one of this block.
    pub(crate) const LOGGED: PcBits = PcBits(0x10_0000);

    pub(crate) const fn with(self, other: PcBits) -> PcBits {
        PcBits(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: PcBits) -> PcBits {
        PcBits(self.0 & !other.0)
    }

    pub(crate) fn has(self, other: PcBits) -> bool {
        self.0 & other.0 != 0
    }
}

/// A point in the original program, with the state of the registers and counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramPoint {
    /// The address of its next instruction.
    pub next: NextAddress,
    /// Registers that are not the program's now.
    pub repair: RegisterRepair,
    /// The state of the flow of executions.
    pub flow: FlowState,
    /// The counter that includes the iterations that remain in rcx.
    pub iterations: Option<u32>,
    /// Whether the count of masked elements is wrong if the program detaches here.
    pub unsure: bool,
    /// The counter, by its offset in the slot, whose value is in r11; the slot has an older value.
    pub counter: Option<u32>,
    /// Whether r11 has the rounds of a loop instead: the value is r11 plus [`BASE`](super::BASE).
    pub counts_rounds: bool,
}

/// The address of the program's next instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextAddress {
    /// This.
    Known(u64),
    /// The value of rcx, before it is repaired, and this.
    Rcx(u64),
}

/// The steps that restore the program's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegisterRepair {
    /// Take rax from the slot.
    pub rax: bool,
    /// Take rcx from the slot.
    pub rcx: bool,
    /// Take r11 from the slot.
    pub r11: bool,
    /// Add 8 to rsp.
    pub pushed: bool,
    /// Subtract 8 from rsp.
    pub popped: bool,
    /// Give rcx the address of the next instruction.
    pub rcx_is_next: bool,
    /// Take the status flags from ax as it is now: [`flags_in`].
    pub flags: bool,
}

/// The flags with the status flags that `lahf` and `seto` stored in ax.
///
/// # Source
///
/// Intel SDM volume 2, `LAHF`, `SETcc`; volume 1, figure 3-8.
pub fn flags_in(ax: u64, flags: u64) -> u64 {
    const IN_AH: u64 = 0xd5;
    const OVERFLOW: u64 = 0x800;
    // Behind `add al, 0x7f` the overflow flag is the former al.
    let overflow = matches!(ax & 0xff, 1 | 0x80);
    let kept = flags & !(IN_AH | OVERFLOW);
    kept | (ax >> 8 & IN_AH) | if overflow { OVERFLOW } else { 0 }
}

/// The state of the flow of executions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// Outside of every block.
    Outside,
    /// In a block, or behind its last instruction.
    In {
        /// The block.
        block: u32,
        /// The part of the execution that was counted.
        phase: CountPhase,
        /// The number of its instructions that were executed.
        done: u16,
        /// The exit that was taken, if any.
        exit: Option<BlockExit>,
    },
}

impl FlowState {
    pub(crate) fn start_of(block: u32) -> FlowState {
        FlowState::In { block, phase: CountPhase::Entered, done: 0, exit: None }
    }
}

/// The part of a block's execution that the counters include.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountPhase {
    /// No counter includes it.
    Entered,
    /// The block was counted.
    Counted,
    /// The edge to the outside was counted.
    LeftToOutside,
}

/// An exit of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockExit {
    /// It falls through.
    Next,
    /// Its branch is taken.
    Taken,
}
