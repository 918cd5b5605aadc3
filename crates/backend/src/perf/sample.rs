//! Raw values of open events, read in the fastest way. That is an instruction where the kernel shares a page,
//! else `read(2)`, a group at once.

use cyclometer_core::Target;
use cyclometer_core::exec::{CounterAt, Raw, ReadWay};
use cyclometer_sys::perf::{GroupValues, Values};
use cyclometer_sys::user_read::{Mapping, Page, PageValues, Serialisation, serialise};

use super::program::OpenedEvent;

/// The pages of events, and room to read into.
#[derive(Debug)]
pub(super) struct PageSampler {
    /// For each event its page, or why it has none.
    pages: Vec<Result<Mapping, String>>,
    serialisation: Serialisation,
    /// One for each event that has a page.
    values: Vec<PageValues>,
    /// Room for the largest group.
    room: Vec<u64>,
}

impl PageSampler {
    /// Maps the pages of events that may be read in user space.
    pub(super) fn of(
        events: &[OpenedEvent],
        on: &Target,
        user_reads: &Result<Serialisation, String>,
    ) -> PageSampler {
        let of_this_thread = matches!(on, Target::ThisThread);
        let pages: Vec<_> = events.iter().map(|opened| page(opened, of_this_thread, user_reads)).collect();
        let mapped = pages.iter().flatten().count();
        let serialisation = user_reads.as_ref().copied().unwrap_or_default();
        let largest = events.iter().map(|opened| opened.reads).max().unwrap_or(1);
        let (values, room) = (vec![PageValues::default(); mapped], vec![0; GroupValues::words(largest)]);
        PageSampler { pages, serialisation, values, room }
    }

    /// Drops the pages that do not allow reads now that the events count; before the start, a page may not
    /// allow them yet. Also drops pages of groups that need a system call anyway, which reads the whole
    /// group.
    ///
    /// # Source
    ///
    /// Linux `drivers/perf/riscv_pmu.c`, `arch_perf_update_userpage`: an event without a counter has no
    /// capability to read it.
    pub(super) fn settle(&mut self, events: &[OpenedEvent]) {
        for page in &mut self.pages {
            if page.as_ref().is_ok_and(|mapping| !mapping.page().is_some_and(Page::permits_reads)) {
                *page = Err("the kernel does not allow it for this event".to_owned());
            }
        }
        for (i, opened) in events.iter().enumerate().filter(|(_, opened)| opened.reads > 1) {
            let group = &mut self.pages[i..i + opened.reads];
            if group.iter().any(Result::is_err) {
                group
                    .iter_mut()
                    .filter(|page| page.is_ok())
                    .for_each(|page| *page = Err(WITH_GROUP.to_owned()));
            }
        }
        self.values.truncate(self.pages.iter().flatten().count());
    }

    /// The counters, and how each is read.
    pub(super) fn counters(&self, events: &[OpenedEvent]) -> Vec<CounterAt> {
        let counter = |(opened, page): (&OpenedEvent, &Result<Mapping, String>)| CounterAt {
            slot: opened.slot,
            at: opened.at.clone(),
            way: page.as_ref().map_or_else(|why| ReadWay::Kernel(Some(why.clone())), way),
            partial: opened.partial.clone(),
        };
        events.iter().zip(&self.pages).map(counter).collect()
    }

    /// The value of one event alone.
    pub(super) fn value(&self, counter: usize, opened: &OpenedEvent) -> Option<u64> {
        if let Some(Ok(page)) = self.pages.get(counter) {
            serialise(self.serialisation);
            let value = page.value();
            serialise(self.serialisation);
            if value.is_some() {
                return value;
            }
        }
        opened.read().ok().flatten().map(|read| read.value)
    }

    /// Appends the value of each event.
    pub(super) fn sample(&mut self, events: &[OpenedEvent], out: &mut Vec<Raw>) {
        let together = self.read_pages();
        let (mut i, mut page) = (0, 0);
        while let Some(opened) = events.get(i) {
            let pages = &self.pages[i..i + opened.reads];
            let all = together && pages.iter().all(Result::is_ok);
            match self.values.get(page..page + opened.reads).filter(|_| all) {
                Some(values) => out.extend(values.iter().map(raw)),
                None if opened.reads > 1 => ask_group(opened, &mut self.room, out),
                None => {
                    let again = pages[0].as_ref().ok().and_then(Mapping::read);
                    out.push(again.map_or_else(|| asked(opened), |values| raw(&values)));
                }
            }
            page += pages.iter().flatten().count();
            i += opened.reads;
        }
    }

    /// Reads every page without losing the CPU in between; false where that is impossible.
    fn read_pages(&mut self) -> bool {
        if self.values.is_empty() {
            return false;
        }
        serialise(self.serialisation);
        let together = Mapping::read_all(self.pages.iter().flatten(), &mut self.values);
        serialise(self.serialisation);
        together
    }
}

/// Why an event that could be read in user space is read through the kernel.
const WITH_GROUP: &str = "it is read with the others of its group, not all of which can be";

/// The page of an event, or why it is read through the kernel.
fn page(
    opened: &OpenedEvent,
    of_this_thread: bool,
    user_reads: &Result<Serialisation, String>,
) -> Result<Mapping, String> {
    user_reads.as_ref().map_err(Clone::clone)?;
    if !of_this_thread {
        return Err("only counters of the calling thread can be read in user space".to_owned());
    }
    if !opened.is_core {
        return Err("the kernel counts it".to_owned());
    }
    Mapping::of(&opened.event).map_err(|e| format!("the kernel does not share its page: {e}"))
}

/// How an event with a page is read. With user access disabled, Arm's pages grant reads but never name a
/// counter.
///
/// # Source
///
/// Linux `drivers/perf/arm_pmuv3.c`, `armv8pmu_user_event_idx`.
fn way(mapping: &Mapping) -> ReadWay {
    match mapping.page().is_some_and(Page::is_on_counter) {
        true => ReadWay::UserSpace,
        false => ReadWay::Kernel(Some("the kernel named no counter when the event was started".to_owned())),
    }
}

fn raw(values: &PageValues) -> Raw {
    Raw {
        value: values.value,
        time_enabled_ns: values.time_enabled_ns,
        time_running_ns: values.time_running_ns,
        is_lost: false,
    }
}

/// The value that the kernel returns.
fn asked(opened: &OpenedEvent) -> Raw {
    opened.read().ok().flatten().map_or(Raw::LOST, |values| told(&values))
}

/// The values that the kernel returns for a leader and those that follow it.
fn ask_group(leader: &OpenedEvent, room: &mut [u64], out: &mut Vec<Raw>) {
    let group = leader.event.read_group(room).ok().flatten();
    let value = |member| group.and_then(|group| group.of(member));
    out.extend((0..leader.reads).map(|member| value(member).map_or(Raw::LOST, |values| told(&values))));
}

fn told(values: &Values) -> Raw {
    Raw {
        value: values.value,
        time_enabled_ns: values.time_enabled_ns,
        time_running_ns: values.time_running_ns,
        is_lost: false,
    }
}
