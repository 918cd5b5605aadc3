//! Events of perf as words, for programs that count their own threads.

/// An event in the form of `perf_event_open(2)`, for the thread that opens it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadEvent {
    /// Index of the slot's part.
    pub part: usize,
    /// The PMU's name.
    pub pmu: String,
    /// `perf_event_attr.type`.
    pub pmu_type: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// The bit fields of `perf_event_attr`.
    pub flags: u64,
    /// Whether the thread may read it by an instruction, where the kernel's page permits that.
    pub user_reads: bool,
}
