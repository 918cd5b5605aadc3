//! Translation of a program's code: translated blocks with counters, made as they are needed.
//!
//! # Problem
//!
//! Every basic block of a program is copied into the code cache, with instructions between that count it. The
//! program must not notice: its registers, stack, signals and addresses are those of a native run.
//!
//! A [`Translation`] is pure. Its input is the program's code and the memory that translated code can use.
//! Its output is a list of writes. The host (module `host` of this crate) maps memory and starts the program
//! in translated code. It asks again when the program stops at code that is not translated yet.
//!
//! # Terms
//!
//! - *Batch*: blocks that are translated together (`batch`). A block of a batch is *pending* until it is
//!   emitted.
//! - *Region*: 64 MB of code cache, within reach of the original code.
//! - *Slot*: memory of one thread, at `%gs`: saved registers, the return-address table, counters.
//! - *Exit stub*: a stop at an exit whose target is not translated. A *direct link* replaces it by a jump.
//! - *Lookup table*: the targets of indirect branches, by the lower 16 bits of the address. Each entry leads
//!   to a chain of *lookup stubs*, which compare the whole address.
//! - *Return-address table*: the translated return address of each call, by the lower 16 bits of the stack
//!   pointer.
//! - *PC map*: for each translated instruction the *program point*, that is, the original address and the
//!   state.
//!
//! ```text
//!          batch                    instrumentation                 host
//! entry ──> reachable blocks ──────> counters, blocks, stubs ──────> writes to the code cache
//!           live flags, loops         │  PC-map entries
//!                                     └──────────────────────────> program points, at any stop
//! ```
//!
//! # Invariants
//!
//! - Translated code lies within 2 GB of its original: only displacements to the instruction pointer change.
//! - A call pushes the program's return address. The translated call is a real one, so that the processor
//!   predicts the return. A *thunk* moves the address that it pushed to the return-address table, and pushes
//!   the program's. The thunk of the most frequent caller is right before the called block.
//! - A return takes its target from the return-address table; the return site compares it with the program's
//!   return address. So a wrong entry of the table costs time only.
//! - The translator changes no stack memory but the 8 bytes below the stack pointer that a return has just
//!   freed.
//! - Every counter starts at zero and belongs to a graph ([`crate::flow`]) whose equations are checked at the
//!   end.

mod access_log;
mod batch;
mod budget;
mod call_log;
mod emit;
mod instruction;
mod instrumentation;
mod packed;
mod pages;
mod pc_map;
mod pending_links;
mod program_point;
mod region;
mod slot_layout;
#[cfg(test)]
mod tests;
mod versions;

pub(crate) use access_log::{
    AccessPlan, EMPTY_ACCESS_LOG, LoggedValue, PlannedAccess, PlannedBranch, PlannedRepeat, PlannedStep,
    RecordState,
};
pub use call_log::{CallRecord, EMPTY_LOG, RECORD_BYTES, RecordKind};
pub(crate) use pages::StoredPages;
pub use pages::{CodeSource, CodeStability, FilePage, ObjectPage, PAGE, PageContent};
pub use program_point::{
    BlockExit, CountPhase, FlowState, NextAddress, ProgramPoint, RegisterRepair, flags_in,
};
pub use region::REGION;
pub(crate) use region::is_region_near;
pub use slot_layout::{
    BASE, BUDGET, CALL_LOG, CALL_LOG_END, COUNTERS, FEW_SLOTS, FILTER, HOST_SCRATCH, MAX_COUNTERS, R11, RAX,
    RCX, RETURN_ENTRIES, RETURN_TABLE, ROUNDS, SLOT_BYTES, SLOTS, TABLE_BYTES, TABLE_ENTRIES, counter,
    unit_counter,
};

use std::num::{NonZeroU32, NonZeroU64};
use std::rc::Rc;

use crate::addend::{AddendKind, AddendKinds};
use crate::baseline::CpuQuery;
use crate::block::{Block, BlockDecoder, BlockLimits, CodeBytes, DetachReason, Terminator};
use crate::chunks::ChunkedVec;
use crate::code_profile::InstructionPlace;
use crate::flow::{ArcId, BlockId, FlowGraph, FlowPoint, Redundancy};
use crate::hash::AddressMap;

use batch::{BlockBatch, return_to, successors};
use budget::BudgetCharge;
pub(crate) use budget::{BudgetState, RoundState};
use emit::{CodeEmitter, EmitState, JumpField};
use instruction::DecodedInstruction;
use pages::CodePages;
use pending_links::PendingLinks;
use program_point::{PcBits, PcEntry};
use region::CodeRegion;
use versions::CodeVersions;

/// A write to translated code or to the table, in the program's addresses.
///
/// A write of at most 8 bytes within an aligned word must be made by one store: another process may execute
/// there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeWrite {
    /// Where.
    pub address: u64,
    /// The bytes to write.
    pub bytes: WriteBytes,
}

/// The bytes of a [`CodeWrite`]. Most are a word or less, and need no memory of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteBytes {
    /// The first `len` of these: 8 at most.
    Few {
        /// The bytes, padded with zeros.
        bytes: [u8; 8],
        /// The number of bytes.
        len: u8,
    },
    /// Any number.
    Many(Vec<u8>),
}

impl WriteBytes {
    /// Keeps up to 8 bytes inline.
    fn of(bytes: &[u8]) -> WriteBytes {
        let mut few = [0; 8];
        match few.get_mut(..bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => return WriteBytes::Many(bytes.to_vec()),
        }
        WriteBytes::Few { bytes: few, len: bytes.len() as u8 }
    }
}

impl std::ops::Deref for WriteBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            WriteBytes::Few { bytes, len } => &bytes[..usize::from(*len)],
            WriteBytes::Many(bytes) => bytes,
        }
    }
}

/// A request that only the host can meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TranslationNeed {
    /// Memory for code near this address: [`Translation::add_region`], then the same again.
    Region(u64),
    /// A new start: the translation is full.
    NewTranslation,
}

/// The reason of a stop at an instruction of the translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// An exit that was not taken before: see [`Translation::link`].
    DirectLink,
    /// An indirect branch to an address without a stub, which is in rcx: [`Translation::indirect`].
    IndirectBranch,
    /// Before a system call that the filter names. The instruction after the stop makes it.
    SystemCall,
    /// Stopped before `cpuid` or `xgetbv`. The program continues [`ANSWERED`] bytes behind the stop, with the
    /// answer in its registers.
    CpuQuery(CpuQuery),
    /// Before an instruction that the processor executes at its own address ([`Terminator::FarTransfer`]).
    FarTransfer,
    /// Before an instruction that cannot be followed.
    Detach(DetachReason),
    /// Before a block that has more instructions than the budget of the thread ([`BUDGET`]). The program
    /// continues behind the stop; the block is subtracted already.
    Budget,
    /// Before a call or return for which the log has no room ([`CALL_LOG_END`]), or before a block where
    /// blocks are logged. The program continues behind the stop.
    CallLog,
    /// Behind an instruction of the program that raises SIGTRAP.
    Breakpoint,
}

/// Distance in bytes from the stop of a [`StopReason::CpuQuery`] to the next translated instruction.
pub const ANSWERED: u64 = 1;

/// A block that was translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TranslatedBlock {
    /// Its address in the program.
    pub(crate) address: u64,
    /// The address of its translation.
    body: u64,
    /// Bytes of its instructions in the program.
    len: u16,
    /// Whether it is a version of code that changes.
    is_version: bool,
    instructions: u16,
    live_in: u8,
    end: BlockEnd,
    /// Distance from the end of the block to the target of its branch.
    distance: u32,
    pub(crate) block: BlockId,
    /// The edges to where it falls through, and where its branch goes.
    pub(crate) edges: [Option<ArcId>; 2],
    /// The edge from the outside to it.
    pub(crate) from_outside: Option<ArcId>,
    /// One more than the number of its first unit counter. Each repeated or masked instruction has one.
    units: Option<NonZeroU32>,
}

/// The end of a block, as far as the translation needs it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockEnd {
    /// Execution continues with the next instruction.
    Next,
    /// Execution continues with the next instruction or at the branch target.
    Conditional,
    /// Elsewhere.
    Branch,
    Return,
    /// The target is not in the instruction.
    Other,
}

impl BlockEnd {
    /// The kind of a terminator, and the target of its branch.
    fn of(terminator: Terminator) -> (BlockEnd, Option<u64>) {
        match terminator {
            Terminator::FallThrough { .. } | Terminator::SystemCall { .. } => (BlockEnd::Next, None),
            Terminator::Conditional { taken, .. } => (BlockEnd::Conditional, Some(taken)),
            Terminator::Jump { target } | Terminator::Call { target, .. } => (BlockEnd::Branch, Some(target)),
            Terminator::Return { .. } => (BlockEnd::Return, None),
            _ => (BlockEnd::Other, None),
        }
    }
}

impl TranslatedBlock {
    /// The address behind its last instruction.
    pub(crate) fn end(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.len))
    }

    /// The addresses where execution continues, in the order of [`successors`].
    fn successors(&self) -> [Option<u64>; 2] {
        let target = self.end().wrapping_add_signed(self.distance.cast_signed().into());
        match self.end {
            BlockEnd::Next => [Some(self.end()), None],
            BlockEnd::Conditional => [Some(self.end()), Some(target)],
            BlockEnd::Branch => [None, Some(target)],
            BlockEnd::Return | BlockEnd::Other => [None, None],
        }
    }

    /// The number of the first of its counters of units.
    pub(crate) fn units(&self) -> Option<u32> {
        self.units.map(|units| units.get() - 1)
    }
}

/// A stop in translated code, with the data that is needed to continue.
#[derive(Clone, Copy, Debug)]
enum ExitStub {
    /// An exit that was not taken before. The displacement at `jump` leads to this stub.
    DirectLink {
        from: u32,
        exit: BlockExit,
        target: u64,
        jump: u64,
    },
    /// A return site whose block is not translated.
    ReturnSite {
        stub: u32,
        target: u64,
        jump: u64,
    },
    /// A link that was made: where it leads.
    Linked(u64),
    /// The bytes at an address are none of those that were translated.
    Versions(u64),
    IndirectBranch,
    SystemCall,
    CpuQuery(CpuQuery),
    FarTransfer,
    Detach(DetachReason),
    Budget,
    CallLog,
    Breakpoint,
}

/// Settings of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TranslationSettings {
    /// The counters that serve as a check only.
    pub redundancy: Redundancy,
    /// Whether programs stop before `cpuid` and `xgetbv` ([`StopReason::CpuQuery`]); else the processor
    /// answers.
    pub stop_at_cpu_queries: bool,
    /// The units that are counted beside executions, a subset of [`AddendKinds::OF_UNITS`]. Events that need
    /// other units are unknown once such an instruction was executed
    /// ([`EventTotals::total`](crate::EventTotals::total)).
    pub counted: AddendKinds,
    /// The instructions after which each thread stops, again and again ([`StopReason::Budget`]).
    pub budget: Option<NonZeroU64>,
    /// Whether calls and returns are logged ([`CallRecord`]). They need a budget.
    pub logs_calls: bool,
    /// Whether blocks and data accesses are logged, for a model of caches. Then calls are not.
    pub logs_accesses: bool,
    /// The test of lookup stubs and of checks of changing code; `None`: the one for the processor of the
    /// tracer, or the default.
    pub rcx_test: Option<RcxTest>,
}

/// The instruction by which translated code tests a difference in rcx. Neither changes flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RcxTest {
    /// `jrcxz`, a taken branch in the usual case.
    #[default]
    Jrcxz,
    /// `loop`, not taken in the usual case. AMD's processors execute it as one operation, Intel's as many.
    Loop,
}

impl RcxTest {
    /// The faster one for a processor, by the registers EBX, EDX and ECX of leaf 0 of `cpuid`.
    ///
    /// # Source
    ///
    /// Measured on Zen 3 (`docs/internals/software-pmu-experiments.md`). Intel SDM volume 2, `CPUID`, and AMD
    /// APM volume 3, `CPUID`: the names of vendors.
    pub fn of_processor(vendor: [u32; 3]) -> RcxTest {
        let name = vendor.map(u32::to_le_bytes).concat();
        let is_amd = [b"AuthenticAMD", b"HygonGenuine"].iter().any(|amd| name == *amd);
        if is_amd { RcxTest::Loop } else { RcxTest::Jrcxz }
    }
}

impl Default for TranslationSettings {
    fn default() -> TranslationSettings {
        TranslationSettings {
            redundancy: Redundancy::OneIn(100),
            stop_at_cpu_queries: false,
            counted: AddendKinds::OF_UNITS,
            budget: None,
            logs_calls: false,
            logs_accesses: false,
            rcx_test: None,
        }
    }
}

/// Initial capacity: the blocks of a small program.
const ROOM: usize = 1000;

/// The translation of one program; the module documentation explains the parts.
pub struct Translation {
    /// Address of the table in the program, below 2 GB.
    table: u64,
    /// The first stub of each entry of the table that has one.
    table_heads: AddressMap<u32, u64>,
    pages: CodePages,
    regions: Vec<CodeRegion>,
    /// Pages and PC maps that an earlier run has stored; they are read on demand.
    stored_pages: Option<Rc<dyn StoredPages>>,
    blocks: ChunkedVec<TranslatedBlock>,
    /// The instructions of blocks that are on more than one page, or whose pages can change.
    straddling: AddressMap<u32, Box<[u8]>>,
    flow: FlowGraph,
    stop_at_cpu_queries: bool,
    counted: AddendKinds,
    budget: Option<NonZeroU64>,
    logs_calls: bool,
    logs_accesses: bool,
    rcx_test: RcxTest,
    /// The records of blocks, where accesses are logged.
    access_plans: AddressMap<u32, Box<AccessPlan>>,
    /// Loops that compare their counter with a limit, ascending.
    budget_loops: Vec<u32>,
    exit_stubs: AddressMap<u64, ExitStub>,
    /// Stops that wait for a block, by its address.
    waiting: PendingLinks,
    /// Addresses that stubs check for.
    lookup_targets: Vec<u64>,
    /// For each address in the lookup table, the address in its stub behind the check, where registers are
    /// restored.
    indirect_entries: AddressMap<u64, u64>,
    /// Blocks of code that changes.
    versions: CodeVersions,
    lookup_missed: u64,
    return_missed: u64,
    unit_counters: u32,
    writes: Vec<CodeWrite>,
    /// Buffers that every batch uses again.
    scratch: batch::BatchScratch,
    buffers: emit::EmitterBuffers,
}

impl Translation {
    /// Nothing translated yet.
    ///
    /// `table` is where [`TABLE_BYTES`] bytes are in the program's memory, below 2 GB.
    pub fn new(table: u64, settings: TranslationSettings) -> Translation {
        Translation {
            table,
            table_heads: AddressMap::default(),
            pages: CodePages::default(),
            regions: Vec::new(),
            stored_pages: None,
            blocks: ChunkedVec::new(),
            straddling: AddressMap::default(),
            flow: FlowGraph::new(settings.redundancy),
            stop_at_cpu_queries: settings.stop_at_cpu_queries,
            counted: settings.counted,
            budget: settings.budget,
            logs_calls: settings.logs_calls && !settings.logs_accesses,
            logs_accesses: settings.logs_accesses,
            rcx_test: settings.rcx_test.unwrap_or_default(),
            access_plans: AddressMap::default(),
            budget_loops: Vec::new(),
            exit_stubs: AddressMap::with_capacity_and_hasher(ROOM, Default::default()),
            waiting: PendingLinks::with_capacity(ROOM),
            lookup_targets: Vec::new(),
            indirect_entries: AddressMap::default(),
            versions: CodeVersions::default(),
            lookup_missed: 0,
            return_missed: 0,
            unit_counters: 0,
            writes: Vec::new(),
            scratch: batch::BatchScratch::default(),
            buffers: emit::EmitterBuffers::default(),
        }
    }

    /// Gives it [`REGION`] bytes of the program's memory, executable there, of which the first `used` are
    /// taken.
    pub fn add_region(&mut self, base: u64, used: u32) {
        self.regions.push(CodeRegion::new(base, used));
        if self.lookup_missed == 0 {
            let mut out = CodeEmitter::new(base, used, std::mem::take(&mut self.buffers));
            self.lookup_missed = out.bare_stop();
            out.align(16);
            self.return_missed = out.here();
            out.bare_dispatch(self.table);
            self.exit_stubs.insert(self.lookup_missed, ExitStub::IndirectBranch);
            self.publish(self.regions.len() - 1, out);
        }
    }

    /// Whether there is a region with room near this address.
    pub fn has_region_near(&self, address: u64) -> bool {
        self.region_with_room(address).is_some()
    }

    /// Whether there is no room for the counters of another batch.
    pub fn is_full(&self) -> bool {
        let counters = self.flow.counters().len() as u32 + self.unit_counters;
        counters + region::COUNTER_RESERVE > MAX_COUNTERS
    }

    /// Whether half of the counters are taken.
    fn is_half_full(&self) -> bool {
        self.flow.counters().len() as u32 + self.unit_counters > MAX_COUNTERS / 2
    }

    /// The initial value of every entry of the lookup table.
    pub fn first_table_entry(&self) -> u64 {
        self.lookup_missed
    }

    /// The initial value of every entry of the return-address table.
    pub fn first_return_entry(&self) -> u64 {
        self.return_missed
    }

    /// The writes to make before the program continues, in this order.
    pub fn take_writes(&mut self) -> Vec<CodeWrite> {
        std::mem::take(&mut self.writes)
    }

    /// Returns the writes of [`Translation::take_writes`], so that their memory is used again.
    pub fn give_back(&mut self, mut writes: Vec<CodeWrite>) {
        let largest = writes.drain(..).filter_map(|write| match write.bytes {
            WriteBytes::Many(bytes) => Some(bytes),
            WriteBytes::Few { .. } => None,
        });
        if let Some(mut bytes) = largest.max_by_key(Vec::capacity) {
            bytes.clear();
            self.buffers.bytes = bytes;
        }
        if self.writes.is_empty() {
            self.writes = writes;
        }
    }

    /// Translates the block at an address of the program and returns the address of its translation. The
    /// translation expects the program's registers, and its r11 in the slot.
    ///
    /// # Errors
    ///
    /// [`TranslationNeed`].
    pub fn enter(&mut self, code: &mut dyn CodeSource, address: u64) -> Result<u64, TranslationNeed> {
        let translated = self.ensure(code, address)?;
        Ok(self.blocks[translated as usize].body)
    }

    /// The block at an address of the program, if it was translated.
    pub fn block_at(&self, address: u64) -> Option<u32> {
        self.pages.block(address)
    }

    /// The reason of a stop, by the address of the stopping instruction.
    pub fn stop_at(&self, address: u64) -> Option<StopReason> {
        Some(match self.exit_stubs.get(&address)? {
            ExitStub::DirectLink { .. }
            | ExitStub::ReturnSite { .. }
            | ExitStub::Linked(_)
            | ExitStub::Versions(_) => StopReason::DirectLink,
            ExitStub::IndirectBranch => StopReason::IndirectBranch,
            ExitStub::SystemCall => StopReason::SystemCall,
            ExitStub::CpuQuery(question) => StopReason::CpuQuery(*question),
            ExitStub::FarTransfer => StopReason::FarTransfer,
            ExitStub::Detach(reason) => StopReason::Detach(*reason),
            ExitStub::Budget => StopReason::Budget,
            ExitStub::CallLog => StopReason::CallLog,
            ExitStub::Breakpoint => StopReason::Breakpoint,
        })
    }

    /// Whether the translation depends on code of the range: it becomes invalid when that changes.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        self.pages.touches(start, end)
    }

    /// The pages of a range that were read, ascending, with their content at that time. `None` where no code
    /// was taken from them.
    pub fn pages_in(&self, start: u64, end: u64) -> Vec<(u64, Option<PageContent<'_>>)> {
        self.pages.pages_in(start, end)
    }

    /// The program point of an instruction pointer in translated code.
    pub fn point_at(&self, pc: u64) -> Option<ProgramPoint> {
        let region = self.regions.iter().find(|region| region.contains(pc))?;
        self.resolve(&region.pc_entry(pc, self.stored_pages.as_deref())?)
    }

    /// Whether its code subtracts each block from a budget.
    pub(crate) fn has_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// The state of the budget at an instruction pointer in translated code.
    pub(crate) fn budget_at(&self, pc: u64) -> BudgetState {
        let region = self.regions.iter().find(|region| region.contains(pc));
        let entry = region.and_then(|region| region.pc_entry(pc, self.stored_pages.as_deref()));
        let settled = BudgetState::Charged(0);
        let Some(PcEntry { subject, done, bits, .. }) = entry.filter(|_| self.budget.is_some()) else {
            return settled;
        };
        let elsewhere = [PcBits::IN_STUB, PcBits::TO_STUB, PcBits::TO_STUB_AND_RCX, PcBits::ARRIVED];
        let Some(block) = self.blocks.get(subject as usize) else { return settled };
        let rest = block.instructions.saturating_sub(done);
        match () {
            () if elsewhere.into_iter().any(|bit| bits.has(bit)) => settled,
            () if !self.is_budget_loop(subject) => {
                let before = block.body..block.body + self.charge(block).len();
                BudgetState::Charged(if before.contains(&pc) { 0 } else { rest })
            }
            () if self.stop_at(pc) == Some(StopReason::Budget) => settled,
            () if bits.has(PcBits::COUNTING) => {
                let (size, counted) = (block.instructions, bits.has(PcBits::COUNTED));
                BudgetState::InLoop(RoundState { size, rest, counted })
            }
            () if bits.has(PcBits::RCX) => BudgetState::Settling,
            () => settled,
        }
    }

    /// Whether a record of the log is of a branch that is not done, at an instruction pointer in translated
    /// code.
    pub(crate) fn is_logged_early(&self, pc: u64) -> bool {
        let region = self.regions.iter().find(|region| region.contains(pc));
        let entry = region.and_then(|region| region.pc_entry(pc, self.stored_pages.as_deref()));
        entry.is_some_and(|entry| entry.bits.has(PcBits::LOGGED))
    }

    /// The target of the branch of a block, if it is in the instruction.
    pub(crate) fn branch_target(&self, block: u32) -> Option<u64> {
        self.blocks.get(block as usize)?.successors()[BlockExit::Taken as usize]
    }

    /// Whether a block is a loop that is not subtracted from the budget in each round.
    fn is_budget_loop(&self, block: u32) -> bool {
        self.budget_loops.binary_search(&block).is_ok()
    }

    fn charge(&self, block: &TranslatedBlock) -> BudgetCharge {
        BudgetCharge { instructions: block.instructions, live: block.live_in }
    }

    /// Whether the program is at a return, at an address in translated code, with the return address in rcx.
    /// The value is [`RegisterRepair::pushed`]: whether the address from the return-address table is on the
    /// stack already.
    pub fn is_returning(&self, pc: u64) -> Option<bool> {
        let point = self.point_at(pc).filter(|point| point.next == NextAddress::Rcx(0))?;
        let FlowState::In { block, .. } = point.flow else { return None };
        let returns = self.blocks[block as usize].end == BlockEnd::Return;
        returns.then_some(point.repair.pushed)
    }

    /// The graph of everything that was translated; its counters are in the slots, from [`COUNTERS`] on.
    pub fn flow(&self) -> &FlowGraph {
        &self.flow
    }

    /// The number of unit counters, from [`unit_counter`] 0 on.
    pub fn unit_counters(&self) -> u32 {
        self.unit_counters
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Decodes a block, or its first instructions, for counting.
    pub(crate) fn decode(&self, decoder: &mut BlockDecoder, block: u32, instructions: u16) -> Block {
        let limits = BlockLimits { max_instructions: usize::from(instructions.max(1)), stop_at: u64::MAX };
        decoder.decode(self.code(block), limits)
    }

    /// The instructions of a block.
    pub(crate) fn code(&self, block: u32) -> CodeBytes<'_> {
        let translated = &self.blocks[block as usize];
        // Other pages do not change during the life of a translation.
        let bytes = match self.straddling.get(&block) {
            Some(bytes) => bytes,
            None => self.pages.within(translated.address, translated.len.into()),
        };
        CodeBytes { address: translated.address, bytes }
    }

    /// Whether units of a kind are counted.
    pub(crate) fn counts(&self, kind: AddendKind) -> bool {
        self.counted.contains(kind)
    }

    pub(crate) fn block(&self, block: u32) -> &TranslatedBlock {
        &self.blocks[block as usize]
    }

    /// The number of instructions of a block.
    pub(crate) fn instructions(&self, block: u32) -> u16 {
        self.blocks[block as usize].instructions
    }

    /// Whether a block ends with a conditional branch.
    pub(crate) fn is_conditional(&self, block: u32) -> bool {
        self.blocks[block as usize].end == BlockEnd::Conditional
    }

    /// An edge that the host counts: from outside to a block, or from a block to the outside.
    pub(crate) fn observed(&mut self, from: FlowPoint, to: FlowPoint) -> ArcId {
        let arc = self.flow.observed(from, to);
        self.flow.close_epoch();
        arc
    }

    fn ensure(&mut self, code: &mut dyn CodeSource, address: u64) -> Result<u32, TranslationNeed> {
        if let Some(version) = self.ensure_version(code, address)? {
            return Ok(version);
        }
        if let Some(translated) = self.block_at(address) {
            return Ok(translated);
        }
        let region = self.region_near(address)?;
        self.translate(code, address, region);
        self.translate_page(code, address);
        self.block_at(address).ok_or(TranslationNeed::NewTranslation)
    }

    /// Translates the blocks of a page that are in the execution profile.
    fn translate_page(&mut self, code: &mut dyn CodeSource, address: u64) {
        let Some(profile) = self.pages.profile(address).filter(|_| self.pages.was_executed(address)) else {
            return;
        };
        let profile = profile.clone();
        let blocks = profile.blocks().map(|offset| (address & !(PAGE - 1)) + u64::from(offset));
        for block in blocks {
            if self.block_at(block).is_none() {
                // The block is not needed yet: with little room it is translated on demand.
                let Ok(region) = self.region_near(block) else { return };
                if !self.regions[region].is_half_empty() || self.is_half_full() {
                    return;
                }
                self.translate(code, block, region);
            }
        }
    }

    /// The place of an instruction of a page that was read.
    pub(crate) fn place(&self, address: u64) -> InstructionPlace {
        match self.pages.object(address) {
            Some(ObjectPage { object, offset }) => {
                InstructionPlace { object: Some(object), offset: offset + address % PAGE, owner: None }
            }
            None => InstructionPlace { object: None, offset: address, owner: None },
        }
    }

    /// Every page of a file, with its blocks.
    pub(crate) fn pages_of_files(&self) -> impl Iterator<Item = (&FilePage, &[u32])> {
        self.pages.of_files()
    }

    /// Whether the table leads to an address.
    pub(crate) fn is_indirect_entry(&self, address: u64) -> bool {
        self.indirect_entries.contains_key(&address)
    }

    fn region_near(&self, address: u64) -> Result<usize, TranslationNeed> {
        if self.is_full() {
            return Err(TranslationNeed::NewTranslation);
        }
        self.region_with_room(address).ok_or(TranslationNeed::Region(address))
    }

    fn region_with_room(&self, address: u64) -> Option<usize> {
        self.regions.iter().rposition(|region| region.is_near(address) && region.has_room())
    }

    fn publish(&mut self, region: usize, out: CodeEmitter) {
        let (address, bytes, pc_map, buffers) = out.finish();
        self.buffers = buffers;
        self.regions[region].append(bytes.len() as u32, pc_map);
        self.writes.push(CodeWrite { address, bytes: WriteBytes::Many(bytes) });
    }

    fn emitter(&mut self, region: usize) -> CodeEmitter {
        let buffers = std::mem::take(&mut self.buffers);
        CodeEmitter::new(self.regions[region].base(), self.regions[region].used(), buffers)
    }

    fn resolve(&self, entry: &PcEntry) -> Option<ProgramPoint> {
        let bits = entry.bits;
        let repair = RegisterRepair {
            rax: bits.has(PcBits::RAX),
            rcx: bits.has(PcBits::RCX),
            r11: !bits.has(PcBits::OWN_R11),
            pushed: bits.has(PcBits::PUSHED),
            popped: bits.has(PcBits::POPPED),
            rcx_is_next: bits.has(PcBits::RCX_IS_NEXT),
            flags: bits.has(PcBits::FLAGS),
        };
        let stub = |subject: u32| self.lookup_targets.get(subject as usize).copied();
        let at = |next, flow| {
            Some(ProgramPoint {
                next,
                repair,
                flow,
                iterations: None,
                unsure: false,
                counter: None,
                counts_rounds: false,
            })
        };
        let elsewhere = |next| at(next, FlowState::Outside);
        if bits.has(PcBits::TO_STUB) {
            let address = stub(entry.subject)?;
            let arrived = bits.has(PcBits::ARRIVED).then(|| self.block_at(address)).flatten();
            return at(NextAddress::Known(address), arrived.map_or(FlowState::Outside, FlowState::start_of));
        }
        if bits.has(PcBits::TO_STUB_AND_RCX) {
            let more = u64::from(bits.has(PcBits::TO_RCX));
            return elsewhere(NextAddress::Rcx(stub(entry.subject)?.wrapping_sub(more)));
        }
        match self.blocks.get(entry.subject as usize) {
            _ if bits.has(PcBits::IN_STUB) => elsewhere(NextAddress::Rcx(0)),
            None => elsewhere(NextAddress::Rcx(0)),
            Some(translated) => self.resolve_in(entry, translated, repair),
        }
    }

    fn resolve_in(
        &self,
        entry: &PcEntry,
        translated: &TranslatedBlock,
        repair: RegisterRepair,
    ) -> Option<ProgramPoint> {
        let bits = entry.bits;
        let exit = if bits.has(PcBits::NEXT) {
            Some(BlockExit::Next)
        } else {
            bits.has(PcBits::TAKEN).then_some(BlockExit::Taken)
        };
        let [next, taken] = translated.successors();
        let next = match exit {
            _ if bits.has(PcBits::TO_RCX) => NextAddress::Rcx(0),
            Some(BlockExit::Next) => {
                NextAddress::Known(next.unwrap_or(translated.address + u64::from(translated.len)))
            }
            Some(BlockExit::Taken) => NextAddress::Known(taken?),
            None => NextAddress::Known(self.instruction(translated, entry.done)?),
        };
        let phase = if bits.has(PcBits::OUTSIDE) {
            CountPhase::LeftToOutside
        } else if bits.has(PcBits::COUNTED) {
            CountPhase::Counted
        } else {
            CountPhase::Entered
        };
        let mut flow = FlowState::In { block: entry.subject, phase, done: entry.done, exit };
        if let (true, NextAddress::Known(address)) = (bits.has(PcBits::ARRIVED), next) {
            let block = self.block_at(address)?;
            flow = FlowState::start_of(block);
        }
        let iterations = bits.has(PcBits::ITERATIONS).then(|| self.iterations_at(entry)).flatten();
        let counter = bits.has(PcBits::COUNTING).then(|| self.block_counter(entry.subject)).flatten();
        debug_assert_eq!(counter.is_some(), bits.has(PcBits::COUNTING));
        let counts_rounds = counter.is_some() && self.is_budget_loop(entry.subject);
        let unsure = bits.has(PcBits::UNSURE);
        Some(ProgramPoint { next, repair, flow, iterations, unsure, counter, counts_rounds })
    }

    /// The address of an instruction of a block.
    fn instruction(&self, translated: &TranslatedBlock, step: u16) -> Option<u64> {
        if step == translated.instructions {
            return Some(translated.address + u64::from(translated.len));
        }
        self.decoded(translated).nth(usize::from(step)).map(|instruction| instruction.address)
    }

    /// The instructions of a block, decoded again.
    fn decoded(&self, translated: &TranslatedBlock) -> impl Iterator<Item = DecodedInstruction> {
        let mut bytes = self.code(translated.block.0).bytes;
        let mut address = translated.address;
        std::iter::from_fn(move || {
            let instruction = DecodedInstruction::decode(bytes, address).ok()?;
            bytes = &bytes[usize::from(instruction.len)..];
            address = instruction.next();
            Some(instruction)
        })
    }

    /// The counter of iterations that the PC-map entry of a repeated instruction refers to.
    fn iterations_at(&self, entry: &PcEntry) -> Option<u32> {
        let first = self.blocks[entry.subject as usize].units()?;
        let before = self.with_units(entry.subject, entry.done);
        // Before the correction of a comparison the instruction is done already.
        let own = if !entry.bits.has(PcBits::DONE) { before } else { before.checked_sub(1)? };
        Some(first + own)
    }
}
