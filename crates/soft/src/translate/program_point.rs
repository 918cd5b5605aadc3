//! Where the program is when it is stopped at an instruction of the translated code.
//!
//! Every instruction that is emitted has a mark, so that at any stop the program's own state can be told:
//! which of its instructions comes next, what its registers hold, what was counted of what it executed.

/// What is true before an instruction of translated code is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PcEntry {
    /// Offset in the region.
    pub(crate) at: u32,
    /// The block, or the number of the stub's address.
    pub(crate) subject: u32,
    /// How many instructions of the block were executed.
    pub(crate) done: u16,
    pub(crate) bits: PcBits,
}

/// The rest of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PcBits(pub(crate) u32);

impl PcBits {
    /// The program's registers, but for r11, and its stack are as they should be.
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
    /// The flow has left the block: an edge to the outside was counted.
    pub(crate) const OUTSIDE: PcBits = PcBits(0x20);
    /// The flow has reached the block that the branch goes to: the edge was counted.
    pub(crate) const ARRIVED: PcBits = PcBits(0x40);
    /// On the way to where the block falls through.
    pub(crate) const NEXT: PcBits = PcBits(0x80);
    /// On the way to where the block's branch goes.
    pub(crate) const TAKEN: PcBits = PcBits(0x100);
    /// On the way to what rcx says.
    pub(crate) const TO_RCX: PcBits = PcBits(0x200);
    /// The subject is a stub, and rcx says how far beyond its address the way goes.
    pub(crate) const TO_STUB_AND_RCX: PcBits = PcBits(0x400);
    /// The subject is a stub, and the way goes to its address.
    pub(crate) const TO_STUB: PcBits = PcBits(0x800);
    /// The count of iterations holds those that rcx has left.
    pub(crate) const ITERATIONS: PcBits = PcBits(0x1000);
    /// rcx is to hold where the block goes on: a system call leaves it there.
    pub(crate) const RCX_IS_NEXT: PcBits = PcBits(0x2000);

    /// Eight bytes that belong there were taken from the stack.
    pub(crate) const POPPED: PcBits = PcBits(0x4000);

    /// The subject is a stub.
    pub(crate) const IN_STUB: PcBits = PcBits(0x8000);

    /// The status flags are in ah, as `lahf` leaves them, and the overflow in al.
    pub(crate) const FLAGS: PcBits = PcBits(0x1_0000);
    /// Elements under a mask were counted of an instruction that is not done, or the other way round.
    pub(crate) const UNSURE: PcBits = PcBits(0x2_0000);
    /// The repeated instruction that [`PcBits::ITERATIONS`] speaks of is the one before.
    pub(crate) const DONE: PcBits = PcBits(0x4_0000);
    /// r11 has the block's counter, and memory an older value of it.
    pub(crate) const COUNTING: PcBits = PcBits(0x8_0000);

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

/// Where the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramPoint {
    /// The address of its next instruction.
    pub next: NextAddress,
    /// Registers that are not the program's now.
    pub repair: RegisterRepair,
    /// Where the flow of executions stands.
    pub flow: FlowState,
    /// The counter that was given the iterations that rcx has left.
    pub iterations: Option<u32>,
    /// Whether the count of elements under masks is wrong if the program leaves from here.
    pub unsure: bool,
    /// The counter, by its offset in the slot, whose value is in r11: what the slot has is older.
    pub counter: Option<u32>,
}

/// The address of the program's next instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextAddress {
    /// This.
    Known(u64),
    /// The value of rcx, before it is repaired, and this.
    Rcx(u64),
}

/// What to do to get the program's registers.
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

/// The status flags that `lahf` and `seto` left in ax, in place of those of `flags`.
///
/// # Source
///
/// Intel SDM volume 2, `LAHF`, `SETcc`; volume 1, figure 3-8.
pub fn flags_in(ax: u64, flags: u64) -> u64 {
    const IN_AH: u64 = 0xd5;
    const OVERFLOW: u64 = 0x800;
    // Behind `add al, 0x7f` the overflow is what al was.
    let overflow = matches!(ax & 0xff, 1 | 0x80);
    let kept = flags & !(IN_AH | OVERFLOW);
    kept | (ax >> 8 & IN_AH) | if overflow { OVERFLOW } else { 0 }
}

/// Where the flow of executions stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// Outside of every block.
    Outside,
    /// In a block, or behind its last instruction.
    In {
        /// The block.
        block: u32,
        /// What was counted of it.
        phase: CountPhase,
        /// How many of its instructions were executed.
        done: u16,
        /// How the block was left, if it was.
        exit: Option<BlockExit>,
    },
}

impl FlowState {
    pub(crate) fn start_of(block: u32) -> FlowState {
        FlowState::In { block, phase: CountPhase::Entered, done: 0, exit: None }
    }
}

/// What the counters know of an execution of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountPhase {
    /// Nothing yet.
    Entered,
    /// The block was counted.
    Counted,
    /// The way to the outside was counted.
    LeftToOutside,
}

/// How a block is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockExit {
    /// It falls through.
    Next,
    /// Its branch is taken.
    Taken,
}
