//! The memory that `cyclometer stat -m` shares with the program that it runs: the events to count, and their
//! counts.
//!
//! Version 1, words of 64 bits in the byte order of the machine:
//!
//! | words | |
//! |---|---|
//! | 0 | the letters `CYCLOMRK` |
//! | 1 | the version; in all versions the words 0 to 3 mean the same |
//! | 2 | set by a library that has another version, to its own |
//! | 3 | how many processes have attached |
//! | 4 | how many counters there are, at most 64 |
//! | 5 | how many rows are taken |
//! | 6 | how many bytes of names are taken |
//! | 7 | calls that had no room, or came where nothing could be noted |
//! | 8 | names that were cut |
//! | 64 … | 64 counters of 8 words: who counts (1 perf, 2 the software PMU), type, config, config1, config2, flags, whether the program may read it by an instruction, 0; for the software PMU config is the number of the event |
//! | 1024 … | 65536 rows of 336 words, then 8 MiB of names |
//!
//! A row belongs to a thread of a process and a name, and only one thread at a time writes to it. An odd word
//! 0 means that it is being written. The next words identify the row: process, thread (0: several, one after
//! the other), offset and length of the name. The counts of calls follow: begun, ended, ends without a begin,
//! time in ns, threads. Then: ends in another order than the begins, regions from before a fork, calls that
//! the counts cover, outermost regions with unmatched marks inside.
//!
//! Each counter has five words, from word 16 on: value, time enabled, time running (ns), calls without a
//! value, and the reason. The reason is an error number of the operating system, or a [`Loss`]. Counts are
//! those of outermost regions of the name; calls are all.

use std::io;

use crate::memory::{self, Memory, Own};

/// The environment variable with the location of the memory.
pub const VARIABLE: &str = "CYCLOMETER_MARKERS";

/// The version of the format.
pub const VERSION: u64 = 1;

/// The largest number of events.
pub const MOST_COUNTERS: usize = 64;

/// The largest number of pairs of a thread and a name at a time.
pub const ROWS: usize = 1 << 16;

/// The greatest length of a name, in bytes; longer ones are cut.
pub const LONGEST_LABEL: usize = 4096;

/// The most bytes of all names, each rounded up to a multiple of 8. Each program and process stores its own
/// copies of names.
pub const LABEL_BYTES: usize = 8 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"CYCLOMRK");

/// Bytes of a word.
const WORD: usize = 8;

const COUNTERS_AT: usize = 64 * WORD;
const COUNTER_BYTES: usize = 8 * WORD;
const ROWS_AT: usize = 1024 * WORD;
const ROW_HEAD: usize = 16;
const ROW_COUNTER: usize = 5;
const ROW_BYTES: usize = (ROW_HEAD + ROW_COUNTER * MOST_COUNTERS) * WORD;
const LABELS_AT: usize = ROWS_AT + ROWS * ROW_BYTES;
const LEN: usize = LABELS_AT + LABEL_BYTES;

/// Words of the head.
mod head {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const OTHER_VERSION: usize = 2;
    pub(super) const ATTACHED: usize = 3;
    pub(super) const COUNTERS: usize = 4;
    pub(super) const ROWS: usize = 5;
    pub(super) const LABELS: usize = 6;
    pub(super) const DROPPED: usize = 7;
    pub(super) const CUT: usize = 8;
}

/// Words of a row that are added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Word {
    Begun = 5,
    Ended = 6,
    Unmatched = 7,
    Time = 8,
    Threads = 9,
    Crossed = 10,
    Forked = 11,
    Counted = 12,
    Disordered = 13,
}

/// Words of a row before those.
mod row {
    pub(super) const WRITING: usize = 0;
    pub(super) const PID: usize = 1;
    pub(super) const TID: usize = 2;
    pub(super) const LABEL_AT: usize = 3;
    pub(super) const LABEL_LEN: usize = 4;
}

/// The counter of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// `perf_event_open(2)`.
    Perf {
        /// The PMU.
        pmu_type: u32,
        /// The event: `config`, `config1`, `config2`.
        config: [u64; 3],
        /// The bits of `perf_event_attr`.
        flags: u64,
        /// Whether it may be read by an instruction where the kernel permits it; false where cores differ.
        user_reads: bool,
    },
    /// The software PMU that runs the program, with its number of the event.
    Software(u64),
}

impl Counts {
    fn words(self) -> [u64; 8] {
        match self {
            Counts::Perf { pmu_type, config: [config, config1, config2], flags, user_reads } => {
                [1, u64::from(pmu_type), config, config1, config2, flags, u64::from(user_reads), 0]
            }
            Counts::Software(event) => [2, 0, event, 0, 0, 0, 0, 0],
        }
    }

    fn of_words([who, pmu_type, config, config1, config2, flags, user_reads, _]: [u64; 8]) -> Option<Counts> {
        match who {
            1 => {
                let pmu_type = u32::try_from(pmu_type).ok()?;
                let config = [config, config1, config2];
                Some(Counts::Perf { pmu_type, config, flags, user_reads: user_reads != 0 })
            }
            2 => Some(Counts::Software(config)),
            _ => None,
        }
    }
}

/// The reason why a region has no value of an event, where it is no error of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Loss {
    /// It could not be read, or went backwards.
    Unread = 5001,
    /// The software PMU does not run this process, or stopped running it.
    NotTranslated = 5002,
    /// The software PMU does not count this event for single threads.
    NotOfThreads = 5003,
    /// The bias of marking is unknown. It was disturbed during its measurement, or exceeds the count; or
    /// another language ended the region, or made its first mark inside.
    BiasUnknown = 5004,
}

impl Loss {
    /// The word that encodes it.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// The loss that a word encodes; `None` where the word is an error number.
    pub fn of_code(code: u64) -> Option<Loss> {
        let all = [Loss::Unread, Loss::NotTranslated, Loss::NotOfThreads, Loss::BiasUnknown];
        all.into_iter().find(|loss| loss.code() == code)
    }
}

/// A value of a counter, or of all regions of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// The raw value.
    pub value: u64,
    /// How long the event was enabled, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
    /// Number of regions without a value.
    pub lost: u64,
    /// The reason for the last of them: an error number, or a [`Loss`].
    pub reason: u64,
}

impl Sum {
    /// A missing value, with this reason.
    pub(crate) fn lost(reason: u64) -> Sum {
        Sum { lost: 1, reason, ..Sum::default() }
    }
}

/// The counts of the regions of one name in one thread, or in several of a process one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoardRow {
    /// The process.
    pub pid: u32,
    /// The thread; `None`: several.
    pub tid: Option<u32>,
    /// The name.
    pub label: String,
    /// Number of regions that began.
    pub begun: u64,
    /// Number of them that ended.
    pub ended: u64,
    /// Ends without a begin.
    pub unmatched: u64,
    /// Duration of outermost regions, in ns.
    pub time_ns: u64,
    /// Number of threads of the row.
    pub threads: u64,
    /// Number of regions that ended before a region that began inside them.
    pub crossed: u64,
    /// Number of regions that began before a fork and ended in the child, where their counts are unknown.
    pub forked: u64,
    /// Number of calls that the counts cover: outermost regions that ended, with the calls inside.
    pub counted: u64,
    /// Number of ended outermost regions with unmatched marks inside.
    pub disordered: u64,
    /// Whether the process ended while it was recording an end here.
    pub is_torn: bool,
    /// One for each counter.
    pub sums: Vec<Sum>,
}

/// The memory, as seen by the process that created it.
#[derive(Debug)]
pub struct Board {
    own: Own,
    memory: Memory,
}

impl Board {
    /// Creates the memory without counters.
    ///
    /// # Errors
    ///
    /// The operating system's; `Unsupported` where memory cannot be shared.
    pub fn make() -> io::Result<Board> {
        let (own, memory) = Own::make(LEN)?;
        memory.store(WORD * head::VERSION, VERSION);
        memory.store(WORD * head::MAGIC, MAGIC);
        Ok(Board { own, memory })
    }

    /// The variable for a program's environment, as `NAME=VALUE`. It is valid for the lifetime of this board.
    pub fn variable(&self) -> String {
        format!("{VARIABLE}={}", self.own.place())
    }

    /// Adds a counter and returns its number; `None` where the board has no room. Programs that have already
    /// attached do not see it.
    pub fn add_counter(&self, counter: Counts) -> Option<usize> {
        let number = self.counters();
        if number >= MOST_COUNTERS {
            return None;
        }
        let at = COUNTERS_AT + number * COUNTER_BYTES;
        (at..).step_by(WORD).zip(counter.words()).for_each(|(at, word)| self.memory.store(at, word));
        self.memory.store(WORD * head::COUNTERS, number as u64 + 1);
        Some(number)
    }

    /// Number of counters.
    pub fn counters(&self) -> usize {
        counters(&self.memory)
    }

    /// Number of processes that have attached.
    pub fn attached(&self) -> u64 {
        self.memory.load(WORD * head::ATTACHED)
    }

    /// The version of a program's library that did not attach because its version is not ours.
    pub fn other_version(&self) -> Option<u64> {
        Some(self.memory.load(WORD * head::OTHER_VERSION)).filter(|version| *version != 0)
    }

    /// Begins and ends that could not be recorded.
    pub fn dropped(&self) -> u64 {
        self.memory.load(WORD * head::DROPPED)
    }

    /// Whether more than [`ROWS`] rows were requested.
    pub fn is_out_of_rows(&self) -> bool {
        self.memory.load(WORD * head::ROWS) > ROWS as u64
    }

    /// Whether names needed more than [`LABEL_BYTES`].
    pub fn is_out_of_names(&self) -> bool {
        self.memory.load(WORD * head::LABELS) > LABEL_BYTES as u64
    }

    /// Names that were longer than [`LONGEST_LABEL`].
    pub fn cut(&self) -> u64 {
        self.memory.load(WORD * head::CUT)
    }

    /// The counts, in the order in which names first appeared.
    pub fn rows(&self) -> Vec<BoardRow> {
        let taken = usize::try_from(self.memory.load(WORD * head::ROWS)).unwrap_or(ROWS).min(ROWS);
        (0..taken).filter_map(|row| self.row(row)).collect()
    }

    fn row(&self, row: usize) -> Option<BoardRow> {
        let word = |word: usize| self.memory.load(row_at(row) + WORD * word);
        let sum = |counter: usize| {
            let [value, time_enabled_ns, time_running_ns, lost, reason] =
                std::array::from_fn(|i| word(ROW_HEAD + ROW_COUNTER * counter + i));
            Sum { value, time_enabled_ns, time_running_ns, lost, reason }
        };
        // A process that was killed before it gave the row a name has counted nothing in it.
        let label =
            self.label(word(row::LABEL_AT), word(row::LABEL_LEN)).filter(|label| !label.is_empty())?;
        Some(BoardRow {
            pid: u32::try_from(word(row::PID)).ok()?,
            tid: Some(u32::try_from(word(row::TID)).ok()?).filter(|tid| *tid != 0),
            label,
            begun: word(Word::Begun as usize),
            ended: word(Word::Ended as usize),
            unmatched: word(Word::Unmatched as usize),
            time_ns: word(Word::Time as usize),
            threads: word(Word::Threads as usize),
            crossed: word(Word::Crossed as usize),
            forked: word(Word::Forked as usize),
            counted: word(Word::Counted as usize),
            disordered: word(Word::Disordered as usize),
            is_torn: !word(row::WRITING).is_multiple_of(2),
            sums: (0..self.counters()).map(sum).collect(),
        })
    }

    fn label(&self, at: u64, len: u64) -> Option<String> {
        let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
        if len > LONGEST_LABEL || at.checked_add(len)? > LABEL_BYTES {
            return None;
        }
        let mut bytes = vec![0; len];
        self.memory.read(LABELS_AT + at, &mut bytes);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn counters(memory: &Memory) -> usize {
    usize::try_from(memory.load(WORD * head::COUNTERS)).unwrap_or(MOST_COUNTERS).min(MOST_COUNTERS)
}

fn row_at(row: usize) -> usize {
    ROWS_AT + row * ROW_BYTES
}

/// The memory, as seen by a program under the tool.
#[derive(Debug)]
pub(crate) struct AttachedBoard {
    memory: Memory,
    /// The counters, which are fixed once the program runs.
    pub(crate) counters: Vec<Counts>,
}

/// A name on the board.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LabelAt {
    at: usize,
    len: usize,
}

impl AttachedBoard {
    /// Attaches to the memory at a place that [`Board::variable`] names. `None` where no memory is there, or
    /// memory of another version, in which our version is then recorded.
    pub(crate) fn open(place: &str) -> Option<AttachedBoard> {
        let memory = memory::open(place, LEN).or_else(|_| memory::open(place, WORD * 4)).ok()?;
        if memory.load(WORD * head::MAGIC) != MAGIC {
            return None;
        }
        if memory.load(WORD * head::VERSION) != VERSION {
            memory.store(WORD * head::OTHER_VERSION, VERSION);
            return None;
        }
        let memory = memory::open(place, LEN).ok()?;
        let counter = |number: usize| {
            let at = COUNTERS_AT + number * COUNTER_BYTES;
            Counts::of_words(std::array::from_fn(|i| memory.load(at + WORD * i)))
        };
        let counters: Option<Vec<Counts>> = (0..counters(&memory)).map(counter).collect();
        let attached = AttachedBoard { counters: counters?, memory };
        attached.memory.fetch_add(WORD * head::ATTACHED, 1);
        Some(attached)
    }

    /// Counts a begin or an end that cannot be recorded.
    pub(crate) fn drop_one(&self) {
        self.memory.fetch_add(WORD * head::DROPPED, 1);
    }

    /// Stores a name on the board; `None` where there is no room.
    pub(crate) fn put_label(&self, label: &str) -> Option<LabelAt> {
        let cut = &label[..label.floor_boundary(LONGEST_LABEL)];
        if cut.len() < label.len() {
            self.memory.fetch_add(WORD * head::CUT, 1);
        }
        let room = cut.len().next_multiple_of(WORD);
        let at = usize::try_from(self.memory.fetch_add(WORD * head::LABELS, room as u64)).ok()?;
        if at.checked_add(room)? > LABEL_BYTES {
            return None;
        }
        self.memory.write(LABELS_AT + at, cut.as_bytes());
        Some(LabelAt { at, len: cut.len() })
    }

    /// Whether half of the rows are in use; rows of threads that have ended are then reused.
    pub(crate) fn is_crowded(&self) -> bool {
        self.memory.load(WORD * head::ROWS) >= ROWS as u64 / 2
    }

    /// Allocates a row for a thread of this process; `None` where none is free.
    pub(crate) fn take_row(&self, pid: u32, tid: u32, label: LabelAt) -> Option<usize> {
        let row =
            usize::try_from(self.memory.fetch_add(WORD * head::ROWS, 1)).ok().filter(|row| *row < ROWS)?;
        let words = [
            (row::PID, u64::from(pid)),
            (row::TID, u64::from(tid)),
            (Word::Threads as usize, 1),
            (row::LABEL_AT, label.at as u64),
            (row::LABEL_LEN, label.len as u64),
        ];
        words.into_iter().for_each(|(word, value)| self.memory.store(row_at(row) + WORD * word, value));
        Some(row)
    }

    /// Reuses the row of a thread that has ended.
    pub(crate) fn take_over(&self, row: usize) {
        self.memory.store(row_at(row) + WORD * row::TID, 0);
        self.add(row, Word::Threads, 1);
    }

    /// Adds to a word of a row that belongs to this thread.
    pub(crate) fn add(&self, row: usize, word: Word, add: u64) {
        self.add_at(row_at(row) + WORD * word as usize, add);
    }

    /// Records the end of an outermost region of `calls` calls, and adds its counts. A process that is killed
    /// meanwhile leaves the row marked as being written.
    pub(crate) fn add_sums(&self, row: usize, calls: u64, time_ns: u64, sums: &[Sum]) {
        self.add_at(row_at(row) + WORD * row::WRITING, 1);
        self.add(row, Word::Ended, 1);
        self.add(row, Word::Time, time_ns);
        let first = row_at(row) + WORD * ROW_HEAD;
        for (at, sum) in (first..).step_by(WORD * ROW_COUNTER).zip(sums.iter().take(MOST_COUNTERS)) {
            let words = [sum.value, sum.time_enabled_ns, sum.time_running_ns, sum.lost];
            (at..).step_by(WORD).zip(words).for_each(|(at, add)| self.add_at(at, add));
            if sum.lost > 0 {
                self.memory.store(at + WORD * 4, sum.reason);
            }
        }
        self.add(row, Word::Counted, calls);
        self.add_at(row_at(row) + WORD * row::WRITING, 1);
    }

    /// Adds to a word that only this thread writes.
    fn add_at(&self, at: usize, add: u64) {
        if add > 0 {
            self.memory.store(at, self.memory.load(at).saturating_add(add));
        }
    }
}

/// Finds a position at which a text may be cut.
trait Boundary {
    fn floor_boundary(&self, most: usize) -> usize;
}

impl Boundary for str {
    fn floor_boundary(&self, most: usize) -> usize {
        (0..=most.min(self.len())).rev().find(|at| self.is_char_boundary(*at)).unwrap_or(0)
    }
}
