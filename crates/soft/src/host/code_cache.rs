//! The code cache: a translation and the memory that it shares with programs.
//!
//! ```text
//! memory file:  lookup table, filter │ slots │ regions 0..3        further regions: a file each
//! tracer:       read and write       │ rw    │ rw
//! program:      read                 │ rw    │ read and execute
//! ```
//!
//! The memory is a sealed file, so that no process can shorten it. The first region starts with the *gadget*,
//! by which system calls are made on behalf of a tracee. All processes of a translation map it at the same
//! addresses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

use cyclometer_sys::identity::FileIdentity;
use cyclometer_sys::shared::{self, SharedMemory};
use cyclometer_sys::trace::{self, Registers};
use cyclometer_sys::tracer_call::MEMORY_FILE_BYTES;

use super::branched_functions::BranchedFunctions;
use super::cache_addresses::{ROOM_FOR_REGIONS, addresses_for, last_region_addresses_near};
use super::cache_record::CacheRecord;
use super::equivalent_blocks::EquivalentBlocks;
use super::heat_map::HeatMap;
use super::mapping_changes::ChangeHistory;
use super::maps::{MemoryMapping, MemoryMaps};
use super::maps_listing::of_listings;
use super::memory_limit::MemoryLimit;
use super::modelled_blocks::ModelledBlocks;
use super::proc;
use super::readout::EventReadout;
use super::remote_syscalls::{GADGET, RemoteSyscalls, number};
use super::restore_guard::RestoreGuard;
use super::shared_code::SharedCode;
use super::syscalls::{ONLY_X32, WATCHED};
use super::writers;
use crate::flow::{ArcId, FlowPoint, SolvingOrder};
use crate::pack::{ChunkReader, ChunkWriter};
use crate::translate::{
    COUNTERS, CodeWrite, FEW_SLOTS, FILTER, REGION, RETURN_ENTRIES, RETURN_TABLE, SLOT_BYTES, SLOTS,
    TABLE_BYTES, TABLE_ENTRIES, Translation, TranslationNeed, TranslationSettings,
};

const READ: u64 = 1;
const WRITE: u64 = 2;
const EXECUTE: u64 = 4;

/// The offset of the gadget of [`RemoteSyscalls`] in the first region, and the bytes that are reserved for
/// it.
const GADGET_ROOM: u32 = 16;

/// Addresses of the slots, if they are free.
const AREAS: [u64; 3] = [0x2000_0000_0000, 0x3000_0000_0000, 0x1000_0000_0000];

/// Bytes of code that are copied at once.
const COPIED_AT_ONCE: usize = 1 << 18;

/// Number of entries of the system call filter.
const NUMBERS: usize = (TABLE_BYTES - FILTER) as usize;

/// The distance below the initial stack pointer of a program of a text that a system call needs.
const BELOW: u64 = 512;

/// A translation and its memory. Processes that were forked from one another share it, and those that execute
/// the same program.
pub(crate) struct CodeCacheMapping {
    pub(crate) translation: Translation,
    /// The code that the processes have in common.
    pub(super) shared_code: SharedCode,
    /// The event counts of its blocks.
    pub(super) equivalent_blocks: RefCell<EquivalentBlocks>,
    /// The functions that branches lead to, where call paths are requested.
    pub(super) functions: RefCell<BranchedFunctions>,
    /// Its blocks for the model of caches, where accesses are logged.
    pub(super) modelled_blocks: RefCell<ModelledBlocks>,
    /// The weights of its counters.
    pub(super) readout: RefCell<EventReadout>,
    /// The order in which counts follow from its counters.
    pub(super) solving_order: RefCell<SolvingOrder>,
    /// Approximate executions of each block and edge.
    pub(super) heats: RefCell<HeatMap>,
    /// The state that decides whether it is stored for later runs.
    pub(super) record: CacheRecord,
    /// The changes of mappings by which translations became invalid.
    pub(super) change_history: ChangeHistory,
    table_at: u64,
    table: SharedMemory,
    area_at: u64,
    area: SharedMemory,
    /// The file of the table and the slots, and of the first regions.
    memory: File,
    regions: Vec<MappedRegion>,
    gadget: u64,
    /// The number of processes that read the list of their mappings.
    pub(super) listings: u32,
    free: Vec<usize>,
    /// Whether the return-address table of a slot was initialised.
    prepared: Vec<bool>,
    observed: HashMap<(FlowPoint, FlowPoint), ArcId>,
}

/// Memory for translated code.
struct MappedRegion {
    at: u64,
    mapped: SharedMemory,
    part: RegionMemory,
}

/// The memory of a region.
enum RegionMemory {
    /// The offset in the memory file.
    Within(u64),
    /// A file of its own.
    Own(File),
}

impl CodeCacheMapping {
    /// Maps the memory of a translation into a program that has just been started: stopped at its first
    /// instruction.
    ///
    /// # Errors
    ///
    /// The operating system's, of the tracer or of the program's system calls.
    pub(crate) fn new(
        tid: u32,
        registers: &Registers,
        maps: &MemoryMaps,
        allowance: MemoryLimit,
        settings: TranslationSettings,
    ) -> io::Result<CodeCacheMapping> {
        let name = auxiliary(tid, AT_PLATFORM)?;
        let entry = registers.rip;
        at_first_instruction(tid, entry, |remote| {
            CodeCacheMapping::map(remote, name, (maps, allowance), entry, settings)
        })
    }

    /// Maps the memory of this translation into another program that has just been started: stopped at its
    /// first instruction.
    ///
    /// # Errors
    ///
    /// The operating system's; `AlreadyExists` where the program has other memory there, `OutOfMemory` where
    /// its address space is limited too much. Nothing stays mapped.
    pub(crate) fn enter_program(
        &self,
        tid: u32,
        registers: &Registers,
        maps: &MemoryMaps,
        allowance: MemoryLimit,
    ) -> io::Result<()> {
        if !self.ranges().all(|(start, len)| maps.is_free(start, len)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !allowance.permits(addresses_for(self.prepared.len())) {
            return Err(too_narrow());
        }
        let text = registers.rsp.wrapping_sub(BELOW);
        at_first_instruction(tid, registers.rip, |remote| {
            // A mapping that failed left its range free, so no memory of the program is unmapped.
            self.map_all(remote, text).inspect_err(|_| drop(self.unmap(remote)))
        })
    }

    fn map_all(&self, remote: RemoteSyscalls, text: u64) -> io::Result<()> {
        let shared = lend(remote, text, &self.memory)?;
        let lent = RestoreGuard::new(|| remote.close(shared));
        let mapped = map_shared(remote, shared, self.table_at, self.area_at, self.area.len() as u64);
        let mapped =
            mapped.and_then(|()| self.regions.iter().try_for_each(|region| region.map(remote, shared, text)));
        lent.restore()?;
        mapped
    }

    /// The address and length of each mapping in the program's memory.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let regions = self.regions.iter().map(|region| (region.at, REGION));
        regions.chain([(self.table_at, TABLE_BYTES), (self.area_at, self.area.len() as u64)])
    }

    /// Unmaps the table and the slots.
    fn unmap_shared(&self, remote: RemoteSyscalls) -> io::Result<()> {
        let ranges = [(self.table_at, TABLE_BYTES), (self.area_at, self.area.len() as u64)];
        let unmap = |(start, len)| remote.call(number::MUNMAP, [start, len, 0, 0, 0, 0]).map(drop);
        ranges.into_iter().try_for_each(unmap)
    }

    fn unmap(&self, remote: RemoteSyscalls) -> io::Result<()> {
        self.ranges()
            .try_for_each(|(start, len)| remote.call(number::MUNMAP, [start, len, 0, 0, 0, 0]).map(drop))
    }

    /// Unmaps the code cache from a program that is detached, except for the page that contains the gadget.
    pub(super) fn clear(&self, tid: u32) -> io::Result<()> {
        const PAGE: u64 = 0x1000;
        let but_gadget =
            |(start, len)| if start == self.gadget { (start + PAGE, len - PAGE) } else { (start, len) };
        let unmap = |remote: RemoteSyscalls, (start, len)| {
            remote.call(number::MUNMAP, [start, len, 0, 0, 0, 0]).map(drop)
        };
        RemoteSyscalls::new(tid, self.gadget)
            .series(|remote| self.ranges().map(but_gadget).try_for_each(|range| unmap(remote, range)))
    }

    /// Maps the memory of a new translation instead of an old one that the program, which is in its own code
    /// now, used.
    ///
    /// # Errors
    ///
    /// As [`CodeCacheMapping::new`].
    pub(crate) fn after(
        old: &CodeCacheMapping,
        tid: u32,
        near: u64,
        allowance: MemoryLimit,
        settings: TranslationSettings,
    ) -> io::Result<CodeCacheMapping> {
        let (name, maps) = (auxiliary(tid, AT_PLATFORM)?, MemoryMaps::read(tid)?);
        let map = |remote: RemoteSyscalls| {
            // With a limit on addresses there is no room for both. The tracer reads the counters in its own
            // mapping.
            if allowance != MemoryLimit::Unlimited {
                old.unmap_shared(remote)?;
            }
            CodeCacheMapping::map(remote, name, (&maps, allowance), near, settings)
        };
        let mut cache = RemoteSyscalls::new(tid, old.gadget).series(map)?;
        cache.change_history = old.change_history.next();
        old.unmap(RemoteSyscalls::new(tid, cache.gadget))?;
        Ok(cache)
    }

    fn map(
        remote: RemoteSyscalls,
        name: u64,
        (maps, allowance): (&MemoryMaps, MemoryLimit),
        near: u64,
        settings: TranslationSettings,
    ) -> io::Result<CodeCacheMapping> {
        let (slots, shared) = TableMapping::largest(remote, name, (maps, allowance), None)?;
        let translation = Translation::new(shared.table_at, settings);
        let (mut cache, theirs) = CodeCacheMapping::with(translation, slots, shared);
        let opened = RestoreGuard::new(|| remote.close(theirs));
        let added = cache.add_first_regions(remote, theirs, (name, near), maps);
        opened.restore()?;
        added.inspect_err(|_| drop(cache.unmap(remote)))?;
        cache.prepare_table();
        Ok(cache)
    }

    /// Maps the memory of a stored translation at its former addresses, into a program that is stopped at its
    /// first instruction. Only the code is missing: [`CodeCacheMapping::unpack_code`].
    ///
    /// # Errors
    ///
    /// As [`CodeCacheMapping::enter_program`].
    pub(super) fn again(
        (tid, registers): (u32, &Registers),
        maps: &MemoryMaps,
        allowance: MemoryLimit,
        translation: Translation,
    ) -> io::Result<CodeCacheMapping> {
        let name = auxiliary(tid, AT_PLATFORM)?;
        at_first_instruction(tid, registers.rip, |remote| {
            let table_at = Some(translation.table());
            let (slots, shared) = TableMapping::largest(remote, name, (maps, allowance), table_at)?;
            let ranges: Vec<u64> = translation.used_regions().map(|(at, _)| at).collect();
            let (mut cache, theirs) = CodeCacheMapping::with(translation, slots, shared);
            let opened = RestoreGuard::new(|| remote.close(theirs));
            let mapped = ranges.into_iter().try_for_each(|at| {
                if !maps.is_free(at, REGION) || cache.overlaps(at, at + REGION) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                cache.map_region(remote, (name, Some(theirs)), at)
            });
            opened.restore()?;
            mapped.inspect_err(|_| drop(cache.unmap(remote)))?;
            cache.prepare_table();
            Ok(cache)
        })
    }

    /// Takes its memory away from a program that has just been started.
    pub(super) fn unmap_from_program(&self, tid: u32, registers: &Registers) -> io::Result<()> {
        at_first_instruction(tid, registers.rip, |remote| self.unmap(remote))
    }

    /// Without regions; and the program's descriptor of its file.
    fn with(translation: Translation, slots: usize, shared: TableMapping) -> (CodeCacheMapping, u64) {
        let TableMapping { table_at, table, area_at, area, memory } = shared;
        let MemoryFile { file: memory, theirs } = memory;
        let cache = CodeCacheMapping {
            translation,
            shared_code: SharedCode::default(),
            equivalent_blocks: RefCell::default(),
            functions: RefCell::default(),
            modelled_blocks: RefCell::default(),
            readout: RefCell::default(),
            solving_order: RefCell::default(),
            heats: RefCell::default(),
            record: CacheRecord::default(),
            change_history: ChangeHistory::default(),
            table_at,
            table,
            area_at,
            area,
            memory,
            regions: Vec::new(),
            gadget: 0,
            listings: 0,
            free: (0..slots).rev().collect(),
            prepared: vec![false; slots],
            observed: HashMap::new(),
        };
        (cache, theirs)
    }

    fn prepare_table(&mut self) {
        self.table.fill(0, TABLE_ENTRIES, self.translation.first_table_entry());
        for (entry, head) in self.translation.table_entries() {
            self.table.store(8 * entry as usize, head);
        }
        let watched = WATCHED.into_iter().chain(ONLY_X32);
        watched.for_each(|number| self.watch(number, true));
        self.apply_writes();
    }

    /// Writes the code of all regions.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn pack_code(&self, to: &mut ChunkWriter<'_>) -> io::Result<()> {
        let mut room = vec![0; COPIED_AT_ONCE];
        for (file, ranges) in self.used_code() {
            for (at, len) in ranges {
                file.read_exact_at(&mut room[..len], at)?;
                to.bytes(&room[..len]);
            }
        }
        Ok(())
    }

    /// Reads it. `None` where it is damaged, or cannot be put where it belongs.
    pub(super) fn unpack_code(&self, from: &mut ChunkReader<'_>) -> Option<()> {
        let mut room = vec![0; COPIED_AT_ONCE];
        for (file, ranges) in self.used_code() {
            for (at, len) in ranges {
                from.fill(&mut room[..len])?;
                // Written to the file and not to the tracer's mapping, so that it takes no memory of the
                // tracer.
                file.write_all_at(&room[..len], at).ok()?;
            }
        }
        Some(())
    }

    /// For each region its file, and the offsets and lengths of its code there.
    fn used_code(&self) -> impl Iterator<Item = (&File, impl Iterator<Item = (u64, usize)>)> {
        self.regions.iter().zip(self.translation.used_regions()).map(|(region, (_, used))| {
            let (file, start) = match &region.part {
                RegionMemory::Within(offset) => (&self.memory, *offset),
                RegionMemory::Own(file) => (file, 0),
            };
            let part = move |at: usize| (start + at as u64, (used as usize - at).min(COPIED_AT_ONCE));
            (file, (0..used as usize).step_by(COPIED_AT_ONCE).map(part))
        })
    }

    /// Sets whether a system call is watched.
    pub(super) fn watch(&mut self, number: u64, watched: bool) {
        self.table.write((FILTER + number) as usize, &[u8::from(watched)]);
    }

    /// Watches every system call.
    pub(super) fn watch_all(&mut self) {
        self.table.write(FILTER as usize, &[1; NUMBERS]);
    }

    /// Restores the usual filter: calls that matter to the tracer, and a few that may matter. No call is
    /// missed meanwhile.
    pub(super) fn watch_usual(&mut self) {
        let mut watched = [0; NUMBERS];
        let usual = WATCHED.into_iter().chain(ONLY_X32).chain([number::EXIT_GROUP]);
        let of_listings = of_listings().filter(|_| self.listings > 0);
        usual.chain(of_listings).for_each(|number| watched[number as usize] = 1);
        self.table.write(FILTER as usize, &watched);
    }

    /// The address of the gadget in the program's memory.
    pub(super) fn gadget(&self) -> u64 {
        self.gadget
    }

    /// Whether an instruction pointer is where a system call is made for the program.
    /// Watches calls with descriptors while a process has its list open.
    pub(crate) fn watch_listing(&mut self, opened: bool) {
        self.watch_listings(if opened { self.listings + 1 } else { self.listings.saturating_sub(1) });
    }

    /// Watches these calls while this number of lists is open.
    pub(super) fn watch_listings(&mut self, listings: u32) {
        self.listings = listings;
        of_listings().for_each(|number| self.watch(number, listings > 0));
    }

    pub(super) fn is_calling(&self, pc: u64) -> bool {
        (self.gadget..=self.gadget + GADGET.len() as u64).contains(&pc)
    }

    /// Maps memory for code near an address, and near all other code of the program. No region is added once
    /// other processes execute the translation. A failure of the second part is not an error. `file` is the
    /// program's descriptor of the memory file.
    fn add_first_regions(
        &mut self,
        remote: RemoteSyscalls,
        file: u64,
        (name, near): (u64, u64),
        maps: &MemoryMaps,
    ) -> io::Result<()> {
        self.add_region(remote, (name, Some(file)), near, maps)?;
        for code in maps.code().filter(|code| code.file.is_some()) {
            if !self.translation.has_region_near(code.start) {
                let _ = self.add_region(remote, (name, Some(file)), code.start, maps);
            }
        }
        Ok(())
    }

    /// Maps memory for code near an address: a part of the memory file, as long as the program has it open,
    /// or a new file.
    fn add_region(
        &mut self,
        remote: RemoteSyscalls,
        (name, file): (u64, Option<u64>),
        near: u64,
        maps: &MemoryMaps,
    ) -> io::Result<()> {
        // Others may have code where this one has nothing.
        let is_free = |at: &u64| {
            let end = at + REGION;
            maps.is_free(*at, REGION) && !self.overlaps(*at, end) && !self.shared_code.claims(*at, end)
        };
        let last = || last_region_addresses_near(near, maps, proc::stack_limit(remote.tid));
        let at = region_addresses_near(near).find(is_free).or_else(|| last().find(is_free));
        let at = at.ok_or(io::ErrorKind::OutOfMemory)?;
        self.map_region(remote, (name, file), at)?;
        self.translation.add_region(at, if self.regions.len() == 1 { GADGET_ROOM } else { 0 });
        Ok(())
    }

    /// Maps the memory of the next region, at a free address.
    fn map_region(
        &mut self,
        remote: RemoteSyscalls,
        (name, file): (u64, Option<u64>),
        at: u64,
    ) -> io::Result<()> {
        let number = self.regions.len() as u64;
        let (mapped, part) = match file.filter(|_| number < ROOM_FOR_REGIONS) {
            Some(file) => {
                let offset = TABLE_BYTES + self.area.len() as u64 + number * REGION;
                remote.map(file, at, REGION, offset, READ | EXECUTE)?;
                let mapped = SharedMemory::map(self.memory.as_fd(), offset, REGION as usize);
                (mapped, RegionMemory::Within(offset))
            }
            None => {
                let memory = MemoryFile::make(remote, name, REGION)?;
                let there = memory.map(remote, at, REGION, 0, READ | EXECUTE);
                let file = memory.close(remote)?;
                there?;
                (SharedMemory::map(file.as_fd(), 0, REGION as usize), RegionMemory::Own(file))
            }
        };
        let mapped = mapped.inspect_err(|_| drop(remote.call(number::MUNMAP, [at, REGION, 0, 0, 0, 0])))?;
        let first = self.regions.is_empty();
        if first {
            mapped.write(0, &GADGET);
        }
        self.regions.push(MappedRegion { at, mapped, part });
        if first {
            self.gadget = at;
        }
        Ok(())
    }

    /// Answers a need of the translation, in the name of a stopped program.
    ///
    /// # Errors
    ///
    /// The operating system's; `StorageFull` when only a new translation helps.
    pub(crate) fn satisfy(&mut self, tid: u32, need: TranslationNeed) -> io::Result<()> {
        match need {
            TranslationNeed::Region(near) => {
                let name = auxiliary(tid, AT_PLATFORM)?;
                self.add_region(
                    RemoteSyscalls::new(tid, self.gadget),
                    (name, None),
                    near,
                    &MemoryMaps::read(tid)?,
                )
            }
            TranslationNeed::NewTranslation => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    /// The edge to or from the outside that the tracer counts itself.
    pub(crate) fn observed(&mut self, from: FlowPoint, to: FlowPoint) -> ArcId {
        let translation = &mut self.translation;
        *self.observed.entry((from, to)).or_insert_with(|| translation.observed(from, to))
    }

    /// Makes the writes of the translation.
    pub(crate) fn apply_writes(&mut self) {
        let writes = self.translation.take_writes();
        for CodeWrite { address, bytes } in &writes {
            let address = *address;
            let in_table = (self.table_at..self.table_at + TABLE_BYTES).contains(&address);
            let (memory, offset) = match self.region(address) {
                Some(region) => (&region.mapped, address - region.at),
                None if in_table => (&self.table, address - self.table_at),
                None => continue,
            };
            write_at_once(memory, offset as usize, bytes);
        }
        self.translation.give_back(writes);
    }

    fn region(&self, address: u64) -> Option<&MappedRegion> {
        self.regions.iter().find(|region| (region.at..region.at + REGION).contains(&address))
    }

    /// Whether an address is in translated code.
    pub(crate) fn contains_code(&self, address: u64) -> bool {
        self.region(address).is_some()
    }

    /// Whether a range of addresses overlaps the code cache.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.ranges().any(|(from, len)| from < end && from + len > start)
    }

    /// Whether a process has all regions mapped: not one that was forked while another thread was given more.
    pub(super) fn is_whole_in(&self, maps: &MemoryMaps) -> bool {
        let is_at = |region: &MappedRegion, code: &MemoryMapping| {
            code.shared && code.start <= region.at && code.end >= region.at + REGION
        };
        self.regions.iter().all(|region| maps.code().any(|code| is_at(region, code)))
    }

    /// Whether a mapping is one of the regions.
    pub(super) fn is_region(&self, mapping: &MemoryMapping) -> bool {
        let own = |region: &MappedRegion| {
            let file = if let RegionMemory::Own(file) = &region.part { file } else { &self.memory };
            file.metadata().ok().map(|data| writers::FileId::of(&data))
        };
        let regions = self.regions.iter().filter(|region| region.at == mapping.start);
        mapping.file.is_some() && regions.into_iter().any(|region| own(region) == mapping.file)
    }

    /// Whether a process can still get a slot.
    pub(super) fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a slot for a process or a thread. Old entries of its return-address table do no harm: they lead
    /// to return sites of this translation, which compare the address.
    pub(crate) fn take_slot(&mut self) -> Option<usize> {
        let slot = self.free.pop()?;
        if !std::mem::replace(&mut self.prepared[slot], true) {
            let return_table = slot * SLOT_BYTES as usize + RETURN_TABLE as usize;
            self.area.fill(return_table, RETURN_ENTRIES, self.translation.first_return_entry());
        }
        Some(slot)
    }

    /// Gives a slot back, and makes its counters zero.
    pub(crate) fn give_slot(&mut self, slot: usize) {
        let (start, len) = (SLOT_BYTES * slot as u64 + u64::from(COUNTERS), SLOT_BYTES - u64::from(COUNTERS));
        if shared::clear(self.memory.as_fd(), TABLE_BYTES + start, len).is_err() {
            self.area.fill(start as usize, len as usize / 8, 0);
        }
        self.free.push(slot);
    }

    /// The counters of a slot: those of the flow graph, and the unit counters.
    pub(crate) fn counts(&self, slot: usize) -> (Vec<u64>, Vec<u64>) {
        let (counters, unit_counters) =
            (self.translation.flow().counters().len(), self.translation.unit_counters() as usize);
        let mut last = self.words(slot, SLOT_BYTES - 8 * unit_counters as u64, unit_counters);
        last.reverse();
        (self.words(slot, COUNTERS.into(), counters), last)
    }

    /// Words of a slot. They are read from the file, so that pages that were never written take no memory of
    /// the tracer.
    fn words(&self, slot: usize, offset: u64, count: usize) -> Vec<u64> {
        let start = SLOT_BYTES * slot as u64 + offset;
        let mut words = Vec::with_capacity(count);
        let mut room = vec![0; COPIED_AT_ONCE.min(8 * count)];
        while words.len() < count {
            let behind = start + 8 * words.len() as u64;
            let bytes = &mut room[..COPIED_AT_ONCE.min(8 * (count - words.len()))];
            if self.memory.read_exact_at(bytes, TABLE_BYTES + behind).is_err() {
                self.area.read(behind as usize, bytes);
            }
            words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        words
    }

    /// Reads words of a slot.
    pub(crate) fn read_slot(&self, slot: usize, offset: u32, words: &mut [u64]) {
        self.area.read_words(slot * SLOT_BYTES as usize + offset as usize, words);
    }

    /// The base of %gs for a slot.
    pub(crate) fn base_of(&self, slot: usize) -> u64 {
        self.area_at + SLOT_BYTES * slot as u64
    }

    /// Writes bytes to the slot's scratch memory, for a system call on behalf of the program.
    pub(crate) fn write_scratch(&self, slot: usize, bytes: &[u8; 32]) {
        self.area.write(slot * SLOT_BYTES as usize + crate::translate::HOST_SCRATCH as usize, bytes);
    }

    /// The address of the scratch memory in the program.
    pub(crate) fn scratch_address(&self, slot: usize) -> u64 {
        self.base_of(slot) + u64::from(crate::translate::HOST_SCRATCH)
    }

    pub(crate) fn load(&self, slot: usize, offset: u32) -> u64 {
        self.area.load(slot * SLOT_BYTES as usize + offset as usize)
    }

    pub(crate) fn store(&self, slot: usize, offset: u32, value: u64) {
        self.area.store(slot * SLOT_BYTES as usize + offset as usize, value);
    }
}

/// The table and the slots, mapped in the tracer and in a program.
struct TableMapping {
    table_at: u64,
    table: SharedMemory,
    area_at: u64,
    area: SharedMemory,
    memory: MemoryFile,
}

impl TableMapping {
    /// Maps as many slots as possible, because addresses or the length of files may be limited. `table_at` is
    /// the address of the table, if the translation has one.
    fn largest(
        remote: RemoteSyscalls,
        name: u64,
        (maps, allowance): (&MemoryMaps, MemoryLimit),
        table_at: Option<u64>,
    ) -> io::Result<(usize, TableMapping)> {
        let mut made = Err(too_narrow());
        for slots in [SLOTS, FEW_SLOTS].into_iter().filter(|slots| allowance.permits(addresses_for(*slots))) {
            made = TableMapping::map(remote, name, (maps, table_at), slots).map(|shared| (slots, shared));
            if made.is_ok() {
                break;
            }
        }
        made
    }

    /// Maps the table and the slots. On failure nothing stays mapped in the program; on success the file
    /// stays open there.
    fn map(
        remote: RemoteSyscalls,
        name: u64,
        (maps, table_at): (&MemoryMaps, Option<u64>),
        slots: usize,
    ) -> io::Result<TableMapping> {
        let len = SLOT_BYTES * slots as u64;
        let fits = |at: &u64| table_at.is_none_or(|before| *at == before) && maps.is_free(*at, TABLE_BYTES);
        let table_at = low_addresses().find(fits);
        let area_at = AREAS.into_iter().find(|at| maps.is_free(*at, len));
        let (Some(table_at), Some(area_at)) = (table_at, area_at) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let memory = MemoryFile::make(remote, name, TABLE_BYTES + len + ROOM_FOR_REGIONS * REGION)?;
        let made = map_shared(remote, memory.theirs, table_at, area_at, len).and_then(|()| {
            let table = SharedMemory::map(memory.file.as_fd(), 0, TABLE_BYTES as usize);
            let area = SharedMemory::map(memory.file.as_fd(), TABLE_BYTES, len as usize);
            table.and_then(|table| Ok((table, area?))).inspect_err(|_| {
                for (start, len) in [(table_at, TABLE_BYTES), (area_at, len)] {
                    let _ = remote.call(number::MUNMAP, [start, len, 0, 0, 0, 0]);
                }
            })
        });
        match made {
            Ok((table, area)) => Ok(TableMapping { table_at, table, area_at, area, memory }),
            Err(error) => {
                memory.close(remote)?;
                Err(error)
            }
        }
    }
}

// `doctor` tries to make a file of the length that is needed.
const _: () = assert!(addresses_for(FEW_SLOTS) == MEMORY_FILE_BYTES);

/// The error for a limit on addresses that is too low.
fn too_narrow() -> io::Error {
    let text = format!(
        "its address space is limited (RLIMIT_AS) to less than twice the {} MiB that this takes",
        addresses_for(FEW_SLOTS) >> 20
    );
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

/// Maps the table and the slots into a program; both or nothing.
fn map_shared(remote: RemoteSyscalls, file: u64, table_at: u64, area_at: u64, len: u64) -> io::Result<()> {
    remote.map(file, table_at, TABLE_BYTES, 0, READ)?;
    remote.map(file, area_at, len, TABLE_BYTES, READ | WRITE).inspect_err(|_| {
        let _ = remote.call(number::MUNMAP, [table_at, TABLE_BYTES, 0, 0, 0, 0]);
    })
}

impl MappedRegion {
    /// Maps a region into a program. `shared` is its descriptor of the memory file; `text` is the address of
    /// memory for a short text.
    fn map(&self, remote: RemoteSyscalls, shared: u64, text: u64) -> io::Result<()> {
        let file = match &self.part {
            RegionMemory::Within(offset) => {
                return remote.map(shared, self.at, REGION, *offset, READ | EXECUTE);
            }
            RegionMemory::Own(file) => lend(remote, text, file)?,
        };
        let lent = RestoreGuard::new(|| remote.close(file));
        let mapped = remote.map(file, self.at, REGION, 0, READ | EXECUTE);
        lent.restore()?;
        mapped
    }
}

/// Lets a program open a file that the tracer has open, and returns the descriptor there. The paths are in
/// the program's memory at `text` meanwhile.
///
/// The path names the tracer by its process id. Where the program's `/proc` belongs to another PID namespace,
/// that is a file of an unrelated process. So the program opens the path with `O_PATH`, which opens nothing
/// yet, and opens the file itself only where both are the same one.
///
/// # Errors
///
/// The operating system's; `NotFound` where the path is another file in the program.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/fd`; `open(2)`, `O_PATH`; Linux `include/uapi/asm-generic/fcntl.h`.
fn lend(remote: RemoteSyscalls, text: u64, file: &File) -> io::Result<u64> {
    const O_RDWR: u64 = 2;
    const O_CLOEXEC: u64 = 0o2_000_000;
    const O_PATH: u64 = 0o10_000_000;
    let identity = FileIdentity::of(file)?;
    let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd());
    remote.borrow_memory(text, |remote| {
        let named = remote.open_path(text, &path, O_PATH | O_CLOEXEC)?;
        let found = RestoreGuard::new(|| remote.close(named));
        let opened = remote.expect(named, identity, text).and_then(|()| {
            let theirs = remote.open_path(text, &format!("/proc/self/fd/{named}\0"), O_RDWR | O_CLOEXEC)?;
            match remote.expect(theirs, identity, text) {
                Ok(()) => Ok(theirs),
                Err(error) => remote.close(theirs).and(Err(error)),
            }
        });
        found.restore()?;
        opened
    })
}

/// Makes system calls on behalf of a program that has just been started: at its first instruction, which is
/// restored on every way out.
fn at_first_instruction<T>(
    tid: u32,
    entry: u64,
    work: impl FnOnce(RemoteSyscalls) -> io::Result<T>,
) -> io::Result<T> {
    let saved = trace::peek(tid, entry)?;
    let mut patched = saved.to_le_bytes();
    patched[..GADGET.len()].copy_from_slice(&GADGET);
    let first = RestoreGuard::new(|| trace::poke(tid, entry, saved));
    trace::poke(tid, entry, u64::from_le_bytes(patched))?;
    let done = RemoteSyscalls::new(tid, entry).series(work);
    first.restore()?;
    done
}

/// A memory file that the tracer and a program have open.
struct MemoryFile {
    file: File,
    theirs: u64,
}

impl MemoryFile {
    fn make(remote: RemoteSyscalls, name: u64, len: u64) -> io::Result<MemoryFile> {
        let theirs = remote.memory_file(name)?;
        let file = remote.open_same(theirs).and_then(|file| {
            shared::set_len(file.as_fd(), len)?;
            // A process that shortened the file would kill the tracer (SIGBUS).
            shared::seal_size(file.as_fd())?;
            Ok(file)
        });
        let close = |_: &io::Error| drop(remote.close(theirs));
        Ok(MemoryFile { file: file.inspect_err(close)?, theirs })
    }

    fn map(&self, remote: RemoteSyscalls, at: u64, len: u64, offset: u64, protection: u64) -> io::Result<()> {
        remote.map(self.theirs, at, len, offset, protection)
    }

    /// Closes it in the program.
    fn close(self, remote: RemoteSyscalls) -> io::Result<File> {
        remote.close(self.theirs).map(|()| self.file)
    }
}

/// Writes within an aligned word in one store, because another process may execute it.
fn write_at_once(memory: &SharedMemory, offset: usize, bytes: &[u8]) {
    let within = offset % 8 + bytes.len() <= 8;
    if !within {
        return memory.write(offset, bytes);
    }
    let word = offset & !7;
    // A fetch-and-add counts as a write: for a read the kernel would map the pages around, too.
    let mut value = memory.fetch_add(word, 0).to_le_bytes();
    value[offset % 8..offset % 8 + bytes.len()].copy_from_slice(bytes);
    memory.store(word, u64::from_le_bytes(value));
}

/// Addresses for the table: below 2 GB, downwards.
fn low_addresses() -> impl Iterator<Item = u64> {
    (1..120).map(|i| 0x8000_0000 - i * 0x100_0000)
}

/// Addresses for a region, in reach of the targets of the code near an address. Those that leave room for the
/// program's own mappings come first.
fn region_addresses_near(address: u64) -> impl Iterator<Item = u64> {
    let base = address & !0xff_ffff;
    let below = (0..8).map(move |i| base.wrapping_sub(0x3000_0000 + i * REGION));
    let above = (0..8).map(move |i| base.wrapping_add(0x3000_0000 + i * REGION));
    let closer = (0..12).map(move |i| base.wrapping_sub(0x1000_0000 + i * 0x200_0000));
    below.chain(above).chain(closer).filter(|at| (0x10_0000..0x7fff_ffff_f000 - REGION).contains(at))
}

/// The address of the platform's name.
pub(crate) const AT_PLATFORM: u64 = 15;

/// The address of 16 random bytes.
pub(crate) const AT_RANDOM: u64 = 25;

/// The address of the first instruction, behind the loader.
pub(crate) const AT_ENTRY: u64 = 9;

/// An entry of the auxiliary vector of a program.
///
/// # Errors
///
/// `NotFound`, or the operating system's.
///
/// # Source
///
/// `getauxval(3)`, `proc(5)`.
pub(crate) fn auxiliary(pid: u32, key: u64) -> io::Result<u64> {
    let bytes = proc::bytes(format!("/proc/{pid}/auxv"))?;
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let found = words.as_chunks::<2>().0.iter().find(|pair| pair[0] == key);
    found.map(|pair| pair[1]).ok_or_else(|| io::ErrorKind::NotFound.into())
}
