//! Executed instructions of stepped processes, for the model of caches of given sizes.

use std::collections::HashMap;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Registers};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, UsedMemory,
};

use super::{BranchKind, access, is_access, kind_of};
use crate::host::maps::MemoryMaps;
use crate::memory::is_repeated;
use crate::model::BranchOutcome;
use crate::model::misses::{FetchedInstruction, MissCounts, MissModel, ModelSizes};

/// The counts of an instruction of the program, by its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteMisses {
    /// The path of the file of code; `None`: code of no file.
    pub path: Option<String>,
    /// The offset in the file; of code of no file, the address.
    pub offset: u64,
    /// Its counts.
    pub counts: MissCounts,
}

/// The models of stepped processes. The threads of a process share its caches.
pub struct MissObserver {
    sizes: ModelSizes,
    models: HashMap<u32, MissModel>,
    code: HashMap<(u32, u64), Rc<ObservedCode>>,
    maps: HashMap<u32, MemoryMaps>,
    info: InstructionInfoFactory,
    sites: Vec<SiteMisses>,
    site_of: HashMap<(Option<String>, u64), usize>,
    windows: Vec<MissCounts>,
}

impl std::fmt::Debug for MissObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MissObserver").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

/// A decoded instruction.
struct ObservedCode {
    length: u64,
    kind: BranchKind,
    repeated: bool,
    /// Bytes of an element of a string instruction.
    element_bytes: u64,
    enters_kernel: bool,
    memory: Vec<UsedMemory>,
    /// The index of its counts.
    site: usize,
}

/// System calls that change which code is at an address.
///
/// # Source
///
/// Linux `arch/x86/entry/syscalls/syscall_64.tbl`: `mmap`, `mprotect`, `munmap`, `mremap`, `shmat`, `shmdt`,
/// `pkey_mprotect`.
const MAPPING_CALLS: [u64; 7] = [9, 10, 11, 25, 30, 67, 329];

impl MissObserver {
    /// For caches of instructions, of data, and the last level, or with TLBs too.
    pub fn new(sizes: impl Into<ModelSizes>) -> MissObserver {
        MissObserver {
            sizes: sizes.into(),
            models: HashMap::new(),
            code: HashMap::new(),
            maps: HashMap::new(),
            info: InstructionInfoFactory::new(),
            sites: Vec::new(),
            site_of: HashMap::new(),
            windows: Vec::new(),
        }
    }

    /// The counts of each window.
    pub fn windows(&self) -> &[MissCounts] {
        &self.windows
    }

    /// The counts of each instruction of the program.
    pub fn sites(&self) -> &[SiteMisses] {
        &self.sites
    }

    /// Begins a window of a process that has run unobserved.
    pub(super) fn begin_window(&mut self, pid: u32) {
        self.forget_code(pid);
        self.model(pid).begin_window();
        self.windows.push(MissCounts::default());
    }

    /// Begins a process at its first instruction.
    pub(super) fn begin_process(&mut self, pid: u32) {
        self.forget_code(pid);
        self.models.insert(pid, MissModel::empty(self.sizes));
        if self.windows.is_empty() {
            self.windows.push(MissCounts::default());
        }
    }

    /// Whether the instruction at an address enters the kernel, where it may wait; an address without code
    /// does.
    pub(super) fn enters_kernel(&mut self, pid: u32, tid: u32, pc: u64) -> bool {
        self.code_at(pid, tid, pc).is_none_or(|code| code.enters_kernel)
    }

    /// A thread has executed an instruction, and the next one is at `next`.
    pub(super) fn executed(&mut self, pid: u32, tid: u32, before: &Registers, next: u64) {
        let pc = before.rip;
        let Some(code) = self.code_at(pid, tid, pc) else { return };
        let is_idle = code.repeated && before.rcx == 0;
        let data: Vec<(u64, u64)> = match is_idle {
            true => Vec::new(),
            false => code
                .memory
                .iter()
                .filter_map(|used| access(used, before))
                .map(|access| {
                    let bytes = if access.bytes == 0 { code.element_bytes } else { access.bytes };
                    (access.address, bytes)
                })
                .collect(),
        };
        // All iterations of a repeated instruction are one instruction, which the last one ends.
        let length = if code.repeated && next == pc { 0 } else { code.length };
        let branch = match code.kind {
            BranchKind::None => None,
            BranchKind::Conditional => Some(BranchOutcome::Conditional { taken: next != pc + code.length }),
            BranchKind::Indirect => Some(BranchOutcome::Indirect { target: next }),
        };
        let counts = self.model(pid).execute(&FetchedInstruction { pc, length, data: &data, branch });
        self.windows.last_mut().into_iter().for_each(|window| window.add(&counts));
        self.sites[code.site].counts.add(&counts);
        if code.enters_kernel && MAPPING_CALLS.contains(&before.rax) {
            self.forget_code(pid);
        }
    }

    fn model(&mut self, pid: u32) -> &mut MissModel {
        let sizes = self.sizes;
        self.models.entry(pid).or_insert_with(|| MissModel::empty(sizes))
    }

    fn forget_code(&mut self, pid: u32) {
        self.code.retain(|(of, _), _| *of != pid);
        self.maps.remove(&pid);
    }

    fn code_at(&mut self, pid: u32, tid: u32, pc: u64) -> Option<Rc<ObservedCode>> {
        if let Some(code) = self.code.get(&(pid, pc)) {
            return Some(Rc::clone(code));
        }
        let (site, is_of_file) = self.site(pid, pc);
        let code = Rc::new(self.decode(tid, pc, site)?);
        // A program changes code of no file as it likes.
        if is_of_file {
            self.code.insert((pid, pc), Rc::clone(&code));
        }
        Some(code)
    }

    fn decode(&mut self, tid: u32, pc: u64, site: usize) -> Option<ObservedCode> {
        let mut bytes = [0; 15];
        let length = trace::read_memory(tid, pc, &mut bytes).ok()?;
        let instruction = Decoder::with_ip(64, &bytes[..length], pc, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return None;
        }
        let info = self.info.info(&instruction);
        Some(observed(&instruction, info, site))
    }

    /// The index of the counts of an instruction, and whether a file that nobody writes has it.
    fn site(&mut self, pid: u32, pc: u64) -> (usize, bool) {
        let maps = self
            .maps
            .entry(pid)
            .or_insert_with(|| MemoryMaps::read(pid).unwrap_or_else(|_| MemoryMaps::none()));
        let is_of_file = maps.at(pc).is_some_and(|at| !at.writable && at.name.starts_with('/'));
        let (path, offset) = match maps.file_offset(pc) {
            Some((path, offset)) => (Some(path.to_owned()), offset),
            None => (None, pc),
        };
        let sites = &mut self.sites;
        let index = *self.site_of.entry((path.clone(), offset)).or_insert_with(|| {
            sites.push(SiteMisses { path, offset, counts: MissCounts::default() });
            sites.len() - 1
        });
        (index, is_of_file)
    }
}

fn observed(instruction: &Instruction, info: &InstructionInfo, site: usize) -> ObservedCode {
    ObservedCode {
        length: instruction.len() as u64,
        kind: kind_of(instruction),
        repeated: is_repeated(instruction),
        element_bytes: instruction.memory_size().size() as u64,
        enters_kernel: matches!(
            instruction.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int
        ),
        memory: info.used_memory().iter().filter(|used| is_access(used.access())).copied().collect(),
        site,
    }
}
