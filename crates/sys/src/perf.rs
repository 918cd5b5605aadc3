//! `perf_event_open`: attributes, events, their control and their values.
//!
//! # Source
//!
//! `perf_event_open(2)`; Linux `include/uapi/linux/perf_event.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_ulong};

use crate::ring::{Format, Read};

/// Bits of [`Attr::flags`], in the order of the kernel's bit fields (little-endian machines).
pub mod flags {
    /// Disabled until it is enabled.
    pub const DISABLED: u64 = 1 << 0;
    /// New threads and children are counted too.
    pub const INHERIT: u64 = 1 << 1;
    /// Always on the PMU, or in error.
    pub const PINNED: u64 = 1 << 2;
    /// Alone on the PMU.
    pub const EXCLUSIVE: u64 = 1 << 3;
    /// Not in user mode.
    pub const EXCLUDE_USER: u64 = 1 << 4;
    /// Not in kernel mode.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Not in hypervisor mode.
    pub const EXCLUDE_HV: u64 = 1 << 6;
    /// Not when idle.
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    /// Records of executable mappings; with [`MMAP2`], of more about them.
    pub const MMAP: u64 = 1 << 8;
    /// Records of programs that are executed.
    pub const COMM: u64 = 1 << 9;
    /// Enabled by the next exec.
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// Records of forks and ends.
    pub const TASK: u64 = 1 << 13;
    /// Identifying fields at the end of records that are no samples.
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// Not in the host.
    pub const EXCLUDE_HOST: u64 = 1 << 19;
    /// Not in guests.
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    /// Records of mappings have the file's identity and the protection.
    pub const MMAP2: u64 = 1 << 23;
    /// Records of programs that are executed differ from those of threads that change their name.
    pub const COMM_EXEC: u64 = 1 << 24;
    /// Times are those of the clock `clockid`.
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// Records of context switches.
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
}

/// `read_format`: value, time enabled, time running.
const READ_TIMES: u64 = 1 << 0 | 1 << 1;

/// The clock of `std::time::Instant`, for [`Attr::clockid`]. It can be read in interrupts of any kind.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_event_set_clock`.
pub const CLOCK_MONOTONIC: i32 = libc::CLOCK_MONOTONIC;

/// The time of that clock, in ns; 0 if the clock cannot be read.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid, and the kernel writes one `timespec`.
    let failed = unsafe { libc::clock_gettime(CLOCK_MONOTONIC, &raw mut time) } != 0;
    let (seconds, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    if failed { 0 } else { seconds * 1_000_000_000 + nanos }
}

/// `PERF_FORMAT_GROUP`: reading a leader returns the values of all members.
const READ_GROUP: u64 = 1 << 3;

/// `PERF_FLAG_FD_CLOEXEC`.
const FLAG_FD_CLOEXEC: c_ulong = 1 << 3;
/// `PERF_FLAG_PID_CGROUP`.
const FLAG_PID_CGROUP: c_ulong = 1 << 2;

/// `perf_event_attr` up to version 8 of its layout.
///
/// The kernel reads `size` bytes; [`Attr::new`] and [`open`] keep `size` correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[doc(alias = "perf_event_attr")]
pub struct Attr {
    /// The PMU.
    #[doc(alias = "type")]
    pub pmu_type: u32,
    size: u32,
    /// The event.
    pub config: u64,
    /// Events between samples; 0 counts without sampling.
    pub sample_period: u64,
    /// The fields of a sample.
    pub sample_type: u64,
    read_format: u64,
    /// Bits of [`flags`].
    pub flags: u64,
    /// Number of samples after which readers are woken.
    pub wakeup_events: u32,
    /// Kind of breakpoint.
    pub bp_type: u32,
    /// Second config word.
    pub config1: u64,
    /// Third config word.
    pub config2: u64,
    /// The branches to record.
    pub branch_sample_type: u64,
    /// User registers in a sample.
    pub sample_regs_user: u64,
    /// Bytes of user stack in a sample.
    pub sample_stack_user: u32,
    /// Clock of timestamps.
    pub clockid: i32,
    /// Registers at the interrupt in a sample.
    pub sample_regs_intr: u64,
    /// Amount of trace data after which readers are woken.
    pub aux_watermark: u32,
    /// Longest call chain.
    pub sample_max_stack: u16,
    reserved_2: u16,
    /// Bytes of trace data in a sample.
    pub aux_sample_size: u32,
    reserved_3: u32,
    /// The data that a `SIGTRAP` carries.
    pub sig_data: u64,
    /// Fourth config word.
    pub config3: u64,
}

/// Size of version 5, which every kernel since 4.1 knows. Source: `PERF_ATTR_SIZE_VER5`.
const SIZE_VERSION_5: u32 = 112;

impl Attr {
    /// An event that counts without sampling, and is disabled.
    pub fn new(pmu_type: u32, config: u64) -> Attr {
        Attr {
            pmu_type,
            size: SIZE_VERSION_5,
            config,
            read_format: READ_TIMES,
            flags: flags::DISABLED,
            ..Attr::default()
        }
    }

    /// The same event, sampled after every `period_events` events, with samples and readings of this format.
    #[must_use]
    pub fn sampling(self, period_events: u64, format: Format) -> Attr {
        Attr { sample_period: period_events, sample_type: format.sample_type(), ..self }.reading(format)
    }

    /// The same event with readings of this format, which [`OpenEvent::read_as`] reads.
    #[must_use]
    pub fn reading(self, format: Format) -> Attr {
        Attr { read_format: format.read_format(), ..self }
    }

    /// For a leader: it is read with all of its members, by [`OpenEvent::read_group`] only. It cannot be
    /// combined with [`flags::INHERIT`], which kernels before 6.12 refuse.
    ///
    /// # Source
    ///
    /// `perf_event_open(2)`, `PERF_FORMAT_GROUP`; Linux `kernel/events/core.c`, `perf_event_alloc`.
    #[must_use]
    pub fn read_as_group(mut self) -> Attr {
        self.read_format |= READ_GROUP;
        self
    }

    /// The same attributes with the smallest sufficient size, because old kernels know small sizes only.
    fn sized(mut self) -> Attr {
        let beyond_version_5 = self.aux_sample_size != 0 || self.sig_data != 0 || self.config3 != 0;
        self.size = if beyond_version_5 { size_of::<Attr>() as u32 } else { SIZE_VERSION_5 };
        self
    }
}

/// The tasks or CPUs that an event counts.
#[derive(Clone, Copy, Debug)]
pub enum Whom<'a> {
    /// The calling thread.
    ThisThread,
    /// A thread, by its id; a process's first thread has the process's id.
    Task(u32),
    /// All tasks on a CPU.
    Everyone,
    /// The processes of a control group on a CPU; its folder, open.
    Cgroup(BorrowedFd<'a>),
}

/// An open event; closed when dropped.
#[derive(Debug)]
pub struct OpenEvent(OwnedFd);

/// The counts of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values {
    /// The raw value.
    pub value: u64,
    /// How long it was enabled, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns.
    pub time_running_ns: u64,
}

/// The counts of the events of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupValues<'a> {
    /// How long the leader was enabled, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns, and its members with it.
    pub time_running_ns: u64,
    /// The raw values, the leader's first, in the order in which they were opened.
    pub values: &'a [u64],
}

impl GroupValues<'_> {
    /// Number of words that a read of this many events needs.
    pub const fn words(events: usize) -> usize {
        3 + events
    }

    /// The values of one event; the leader is number 0.
    pub fn of(&self, member: usize) -> Option<Values> {
        let (time_enabled_ns, time_running_ns) = (self.time_enabled_ns, self.time_running_ns);
        Some(Values { value: *self.values.get(member)?, time_enabled_ns, time_running_ns })
    }
}

/// Whether a control reaches one event or its whole group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// This event; for a leader also its members, as members run only with their leader.
    Event,
    /// Every event of the group.
    Group,
}

/// Opens an event; `cpu: None` is any CPU, `leader` the first event of its group.
///
/// # Errors
///
/// The operating system's.
pub fn open(
    attr: &Attr,
    whom: Whom<'_>,
    cpu: Option<u32>,
    leader: Option<&OpenEvent>,
) -> io::Result<OpenEvent> {
    let number = |n: u32| c_int::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let (pid, more) = match whom {
        Whom::ThisThread => (0, 0),
        Whom::Task(0) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        Whom::Task(tid) => (number(tid)?, 0),
        Whom::Everyone => (-1, 0),
        Whom::Cgroup(folder) => (folder.as_raw_fd(), FLAG_PID_CGROUP),
    };
    let cpu = cpu.map_or(Ok(-1), number)?;
    let leader = leader.map_or(-1, |event| event.0.as_raw_fd());
    open_raw(&attr.sized(), OpenArguments { pid, cpu, leader }, FLAG_FD_CLOEXEC | more).map(OpenEvent)
}

struct OpenArguments {
    pid: c_int,
    cpu: c_int,
    leader: c_int,
}

fn open_raw(attr: &Attr, at: OpenArguments, flags: c_ulong) -> io::Result<OwnedFd> {
    let (pid, cpu, leader) = (c_long::from(at.pid), c_long::from(at.cpu), c_long::from(at.leader));
    let mut attr = *attr;
    // SAFETY: the kernel reads `attr.size` bytes, which the struct has; where the size does not suit
    // it, it writes back the field `size`, into our copy.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, pid, cpu, leader, flags) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made `fd` for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `PERF_EVENT_IOC_ENABLE`, `_IO('$', 0)`.
const IOC_ENABLE: u32 = 0x2400;
/// `PERF_EVENT_IOC_DISABLE`, `_IO('$', 1)`.
const IOC_DISABLE: u32 = 0x2401;
/// `PERF_EVENT_IOC_RESET`, `_IO('$', 3)`.
const IOC_RESET: u32 = 0x2403;
/// `PERF_EVENT_IOC_SET_OUTPUT`, `_IO('$', 5)`.
const IOC_SET_OUTPUT: u32 = 0x2405;
/// `PERF_EVENT_IOC_ID`, `_IOR('$', 7, __u64 *)`.
const IOC_ID: u32 = 0x8008_2407;

impl OpenEvent {
    /// Starts counting.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn enable(&self, reach: Reach) -> io::Result<()> {
        self.control(IOC_ENABLE, reach)
    }

    /// Stops counting.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn disable(&self, reach: Reach) -> io::Result<()> {
        self.control(IOC_DISABLE, reach)
    }

    /// Sets the value to zero; the times continue.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn reset(&self, reach: Reach) -> io::Result<()> {
        self.control(IOC_RESET, reach)
    }

    fn control(&self, request: u32, reach: Reach) -> io::Result<()> {
        let argument = c_ulong::from(reach == Reach::Group);
        // SAFETY: these requests take a number and touch no memory of ours.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Has the samples of this event written to the ring of another one, which must be of the same CPU, or of
    /// the same thread, and use the same clock.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn write_to_ring_of(&self, other: &OpenEvent) -> io::Result<()> {
        let (ours, theirs) = (self.0.as_raw_fd(), other.0.as_raw_fd());
        // SAFETY: the request takes a descriptor and touches no memory of ours.
        match unsafe { libc::ioctl(ours, IOC_SET_OUTPUT as _, c_ulong::from(theirs.unsigned_abs())) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The id of the event in samples and group reads.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: writes eight bytes to `id`.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_ID as _, &raw mut id) } {
            0 => Ok(id),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads the value and the times; `None` when a pinned event has lost its counter.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn read(&self) -> io::Result<Option<Values>> {
        let mut words = [0u64; 3];
        loop {
            // SAFETY: writes at most the 24 bytes of `words`.
            let got =
                unsafe { libc::read(self.0.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
            match got {
                24 => break,
                0 => return Ok(None),
                -1 => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let [value, time_enabled_ns, time_running_ns] = words;
        Ok(Some(Values { value, time_enabled_ns, time_running_ns }))
    }
}

/// The largest number of words in a reading of a group with all fields: no PMU has as many counters.
const MOST_WORDS: usize = 3 + 3 * 256;

impl OpenEvent {
    /// Reads the counts of the event, or of its whole group. The format is the one of [`Attr::reading`] or
    /// [`Attr::sampling`] when it was opened. `None` when a pinned event has lost its counter.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` where the format differs.
    pub fn read_as(&self, format: Format) -> io::Result<Option<Read>> {
        let mut bytes = [0u8; 8 * MOST_WORDS];
        match self.read_into(&mut bytes)? {
            0 => Ok(None),
            got => {
                let read = bytes.get(..got).and_then(|bytes| Read::parse(bytes, format));
                read.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Reads a leader that was opened with [`Attr::read_as_group`], and its members, at one moment and by one
    /// system call. `None` when a pinned group has lost its counters. `room` has at least
    /// [`GroupValues::words`] words. Allocates no memory.
    ///
    /// # Errors
    ///
    /// The operating system's; [`io::ErrorKind::UnexpectedEof`] where the event is no such leader.
    pub fn read_group<'a>(&self, room: &'a mut [u64]) -> io::Result<Option<GroupValues<'a>>> {
        let got = self.read_into(room)?;
        if got == 0 {
            return Ok(None);
        }
        match &room[..got / size_of::<u64>()] {
            [members, time_enabled_ns, time_running_ns, values @ ..] if *members == values.len() as u64 => {
                let (time_enabled_ns, time_running_ns) = (*time_enabled_ns, *time_running_ns);
                Ok(Some(GroupValues { time_enabled_ns, time_running_ns, values }))
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads into `room` with `read(2)`, and returns the number of bytes.
    fn read_into<T: Plain>(&self, room: &mut [T]) -> io::Result<usize> {
        let bytes = size_of_val(room);
        loop {
            // SAFETY: writes at most the bytes of `room`, of which every pattern is a value.
            let got = unsafe { libc::read(self.0.as_raw_fd(), room.as_mut_ptr().cast(), bytes) };
            match usize::try_from(got) {
                Ok(got) => return Ok(got),
                Err(_) => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
            }
        }
    }
}

/// Types that are valid for any bytes.
trait Plain {}
impl Plain for u8 {}
impl Plain for u64 {}

impl AsFd for OpenEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::ops::Range;

    /// `PERF_TYPE_SOFTWARE`.
    const SOFTWARE: u32 = 1;
    /// `PERF_COUNT_SW_TASK_CLOCK`.
    const TASK_CLOCK: u64 = 1;
    /// `PERF_COUNT_SW_PAGE_FAULTS`.
    const PAGE_FAULTS: u64 = 2;

    /// A user-mode software event on this thread, or the reason to skip the test.
    fn opened(config: u64) -> Option<OpenEvent> {
        let mut attr = Attr::new(SOFTWARE, config);
        attr.flags |= flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        match open(&attr, Whom::ThisThread, None, None) {
            Ok(event) => Some(event),
            Err(e) => {
                skipped(&e);
                None
            }
        }
    }

    #[expect(clippy::print_stderr, reason = "a test that cannot run says why")]
    fn skipped(why: &io::Error) {
        eprintln!("skipped: perf_event_open: {why}");
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<Attr>(), 136);
        let offsets = [
            (offset_of!(Attr, pmu_type), 0),
            (offset_of!(Attr, size), 4),
            (offset_of!(Attr, config), 8),
            (offset_of!(Attr, sample_period), 16),
            (offset_of!(Attr, sample_type), 24),
            (offset_of!(Attr, read_format), 32),
            (offset_of!(Attr, flags), 40),
            (offset_of!(Attr, wakeup_events), 48),
            (offset_of!(Attr, bp_type), 52),
            (offset_of!(Attr, config1), 56),
            (offset_of!(Attr, config2), 64),
            (offset_of!(Attr, branch_sample_type), 72),
            (offset_of!(Attr, sample_regs_user), 80),
            (offset_of!(Attr, sample_stack_user), 88),
            (offset_of!(Attr, clockid), 92),
            (offset_of!(Attr, sample_regs_intr), 96),
            (offset_of!(Attr, aux_watermark), 104),
            (offset_of!(Attr, sample_max_stack), 108),
            (offset_of!(Attr, aux_sample_size), 112),
            (offset_of!(Attr, sig_data), 120),
            (offset_of!(Attr, config3), 128),
        ];
        for (ours, kernels) in offsets {
            assert_eq!(ours, kernels);
        }
    }

    #[test]
    fn the_size_is_the_shortest_that_holds_the_attributes() {
        assert_eq!(Attr::new(4, 1).sized().size, 112);
        assert_eq!(Attr { config3: 1, ..Attr::new(4, 1) }.sized().size, 136);
    }

    #[test]
    fn a_software_event_counts_between_enable_and_disable() {
        let Some(faults) = opened(PAGE_FAULTS) else { return };
        assert_eq!(faults.read().unwrap().unwrap().value, 0);
        faults.enable(Reach::Event).unwrap();
        touch_pages(64);
        faults.disable(Reach::Event).unwrap();
        let counted = faults.read().unwrap().unwrap();
        assert!(counted.value >= 64, "{counted:?}");
        assert_eq!(counted.time_enabled_ns, counted.time_running_ns);
        touch_pages(64);
        assert_eq!(faults.read().unwrap().unwrap(), counted);
        faults.reset(Reach::Event).unwrap();
        assert_eq!(faults.read().unwrap().unwrap().value, 0);
    }

    /// Causes at least `pages` page faults by touching each page of new memory, and returns the address
    /// range.
    pub(crate) fn touch_pages(pages: usize) -> Range<u64> {
        let length = pages * 4096;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping, of nobody else's memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: our own mapping; small pages, so that each touch is a fault.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        // SAFETY: the mapping is that long, writable and ours alone.
        let memory = unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), length) };
        for page in memory.chunks_mut(4096) {
            page[0] = std::hint::black_box(1);
        }
        // SAFETY: our own mapping, not used after this.
        unsafe { libc::munmap(start, length) };
        start as u64..start as u64 + length as u64
    }

    #[test]
    fn events_have_ids_of_their_own_and_members_follow_their_leader() {
        let Some(leader) = opened(TASK_CLOCK) else { return };
        let mut attr = Attr::new(SOFTWARE, PAGE_FAULTS);
        attr.flags = flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        let member = open(&attr, Whom::ThisThread, None, Some(&leader)).unwrap();
        assert_ne!(leader.id().unwrap(), member.id().unwrap());
        touch_pages(8);
        assert_eq!(member.read().unwrap().unwrap().value, 0);
        leader.enable(Reach::Event).unwrap();
        touch_pages(8);
        leader.disable(Reach::Group).unwrap();
        assert!(member.read().unwrap().unwrap().value >= 8);
    }

    #[test]
    fn a_leader_is_read_with_its_members_at_once() {
        let mut attr = Attr::new(SOFTWARE, PAGE_FAULTS);
        attr.flags |= flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        let leader = match open(&attr.read_as_group(), Whom::ThisThread, None, None) {
            Ok(leader) => leader,
            Err(e) => return skipped(&e),
        };
        attr.flags &= !flags::DISABLED;
        let member = open(&attr, Whom::ThisThread, None, Some(&leader)).unwrap();
        leader.enable(Reach::Event).unwrap();
        touch_pages(16);
        leader.disable(Reach::Event).unwrap();
        let mut room = [0; GroupValues::words(2)];
        let read = leader.read_group(&mut room).unwrap().unwrap();
        assert!(
            read.values.len() == 2 && read.values[0] >= 16 && read.values[0] == read.values[1],
            "{read:?}"
        );
        assert_eq!(read.of(1), member.read().unwrap(), "a member is read by itself as well");
        assert_eq!(read.of(2), None);
        assert!(leader.read().is_err(), "there is no room for all of them");
        assert!(leader.read_group(&mut [0; 3]).is_err());
    }

    #[test]
    fn refusals_are_error_numbers() {
        let mut attr = Attr::new(0xffff_fff0, 0);
        attr.flags = flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        let impossible = open(&attr, Whom::ThisThread, None, None).unwrap_err().raw_os_error().unwrap();
        assert!([libc::ENOENT, libc::EACCES, libc::ENOSYS].contains(&impossible), "{impossible}");
        let nobody = open(&Attr::new(SOFTWARE, TASK_CLOCK), Whom::Task(0), None, None);
        assert_eq!(nobody.unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
