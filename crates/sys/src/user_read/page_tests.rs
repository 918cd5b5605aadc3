//! The protocol on pages of our own, in every state in which a kernel may leave them.

use std::cell::Cell;

use super::capabilities::{READ, SHORT_TIME, TIME};
use super::*;

/// A page whose counter counts from `offset`, on a 48-bit counter, and whose time stamp is in ns.
fn content() -> Content {
    Content {
        lock: 2,
        index: 1,
        offset: 1000,
        time_enabled_ns: 500,
        time_running_ns: 400,
        capabilities: READ | TIME,
        pmc_width: 48,
        time_mult: 1,
        time_shift: 0,
        time_offset_ns: 0,
        ..Content::default()
    }
}

/// Counters with preset values, and a callback that runs while they are read.
struct Fake<'a> {
    counter: u64,
    stamp: u64,
    reads: Cell<u32>,
    meanwhile: Box<dyn Fn(u32) + 'a>,
}

impl<'a> Fake<'a> {
    fn new(counter: u64, stamp: u64) -> Fake<'a> {
        Fake { counter, stamp, reads: Cell::new(0), meanwhile: Box::new(|_| {}) }
    }

    fn while_reading(mut self, what: impl Fn(u32) + 'a) -> Fake<'a> {
        self.meanwhile = Box::new(what);
        self
    }
}

impl Counters for Fake<'_> {
    fn counter(&self, permit: Permit) -> u64 {
        self.reads.set(self.reads.get() + 1);
        (self.meanwhile)(self.reads.get());
        self.counter + u64::from(permit.number()) * 100
    }

    fn time_stamp(&self) -> u64 {
        self.stamp
    }
}

fn read(content: Content, counter: u64) -> Option<u64> {
    Page::new(&content).read(&Fake::new(counter, 0)).map(|values| values.value)
}

#[test]
fn the_layout_is_the_kernels() {
    use std::mem::offset_of;
    for (ours, kernels) in [
        (offset_of!(Page, lock), 8),
        (offset_of!(Page, index), 12),
        (offset_of!(Page, offset), 16),
        (offset_of!(Page, time_enabled), 24),
        (offset_of!(Page, time_running), 32),
        (offset_of!(Page, capabilities), 40),
        (offset_of!(Page, pmc_width), 48),
        (offset_of!(Page, time_shift), 50),
        (offset_of!(Page, time_mult), 52),
        (offset_of!(Page, time_offset), 56),
        (offset_of!(Page, time_zero), 64),
        (offset_of!(Page, size), 72),
        (offset_of!(Page, time_cycles), 80),
        (offset_of!(Page, time_mask), 88),
        (size_of::<Page>(), 96),
    ] {
        assert_eq!(ours, kernels);
    }
}

#[test]
fn a_count_is_the_counter_and_the_offset() {
    assert_eq!(read(content(), 7), Some(1007));
    assert_eq!(
        read(Content { index: 4, ..content() }, 7),
        Some(1307),
        "the index is one more than the number"
    );
    assert_eq!(read(Content { index: 0x4000_0002, ..content() }, 0), Some(1000 + 100 * 0x4000_0001), "fixed");
}

#[test]
fn a_counter_that_was_preset_below_zero_is_signed() {
    for width in [32, 40, 48, 64] {
        let preset = u64::MAX >> (64 - width) << 31 & u64::MAX >> (64 - width);
        let content = Content { pmc_width: width, offset: 1 << 31, ..content() };
        assert_eq!(read(content, preset), Some(0), "{width} bits: preset to minus 2^31, and nothing counted");
        assert_eq!(read(content, preset + 5), Some(5), "{width} bits");
    }
    assert_eq!(read(Content { pmc_width: 32, ..content() }, 0x7fff_ffff), Some(1000 + 0x7fff_ffff));
}

#[test]
fn bits_above_the_width_do_not_count() {
    assert_eq!(read(Content { pmc_width: 8, ..content() }, 0xff05), Some(1005));
    assert_eq!(read(Content { pmc_width: 1, ..content() }, 2), Some(1000));
}

#[test]
fn a_sum_may_pass_through_zero() {
    assert_eq!(read(Content { offset: -3, ..content() }, 5), Some(2));
}

#[test]
fn no_instruction_is_executed_that_the_page_does_not_permit() {
    for refused in [
        Content { index: 0, ..content() },
        Content { capabilities: TIME, ..content() },
        Content { capabilities: READ, ..content() },
        Content { capabilities: 0, ..content() },
        Content { pmc_width: 0, ..content() },
        Content { pmc_width: 65, ..content() },
        Content { pmc_width: u16::MAX, ..content() },
    ] {
        let fake = Fake::new(1, 1);
        assert_eq!(Page::new(&refused).read(&fake), None, "{refused:?}");
        assert_eq!(fake.reads.get(), 0, "{refused:?}");
    }
}

#[test]
fn a_page_that_changes_while_it_is_read_is_read_again() {
    let page = Page::new(&content());
    let moved = Content { lock: 4, index: 2, offset: 50, ..content() };
    let fake = Fake::new(7, 0).while_reading(|read| {
        if read == 1 {
            page.set(&moved);
        }
    });
    assert_eq!(page.read(&fake).map(|values| values.value), Some(157));
    assert_eq!(fake.reads.get(), 2);
}

#[test]
fn an_event_that_loses_its_counter_while_it_is_read_is_the_kernels_to_tell() {
    let page = Page::new(&content());
    let fake = Fake::new(7, 0).while_reading(|_| page.set(&Content { lock: 4, index: 0, ..content() }));
    assert_eq!(page.read(&fake), None);
}

#[test]
fn a_page_that_never_stays_the_same_is_given_up() {
    let page = Page::new(&content());
    let fake = Fake::new(7, 0).while_reading(|read| {
        page.set(&Content { lock: content().lock.wrapping_add(2 * read), ..content() })
    });
    assert_eq!(page.read(&fake), None);
    assert_eq!(fake.reads.get() as usize, ATTEMPTS);
}

#[test]
fn a_page_that_is_being_written_is_not_believed() {
    assert_eq!(read(Content { lock: 3, ..content() }, 7), None);
    assert_eq!(read(Content { lock: u32::MAX, ..content() }, 7), None);
    assert_eq!(read(Content { lock: u32::MAX - 1, ..content() }, 7), Some(1007), "the lock may wrap");
}

#[test]
fn a_value_alone_is_read_by_the_same_rules() {
    let value = |content: Content| Page::new(&content).value(&Fake::new(7, 0));
    assert_eq!(value(content()), Some(1007));
    assert_eq!(value(Content { time_shift: 200, ..content() }), Some(1007), "no time is needed");
    assert_eq!(value(Content { index: 0, ..content() }), None);
    assert_eq!(value(Content { lock: 1, ..content() }), None);
    assert_eq!(value(Content { capabilities: TIME, ..content() }), None);
}

fn times(content: Content, stamp: u64) -> Option<(u64, u64)> {
    let values = Page::new(&content).read(&Fake::new(0, stamp))?;
    Some((values.time_enabled_ns, values.time_running_ns))
}

#[test]
fn times_go_on_by_the_time_stamp() {
    assert_eq!(times(content(), 30), Some((530, 430)));
    let scaled = Content { time_mult: 3, time_shift: 2, time_offset_ns: 5, ..content() };
    assert_eq!(times(scaled, 40), Some((535, 435)));
    let back = Content { time_offset_ns: 0u64.wrapping_sub(1_000_000), ..content() };
    assert_eq!(times(back, 1_000_010), Some((510, 410)), "the offset is minus the time when it was written");
}

#[test]
fn a_time_stamp_of_years_does_not_overflow() {
    let scaled = Content { time_mult: 1 << 31, time_shift: 31, ..content() };
    let stamp = u64::MAX / 4;
    assert_eq!(times(scaled, stamp), Some((stamp + 500, stamp + 400)));
    for shift in [64, 200] {
        assert_eq!(times(Content { time_shift: shift, ..content() }, 1), None, "no clock has that");
    }
}

#[test]
fn a_narrow_time_stamp_wraps() {
    let narrow = Content {
        capabilities: READ | TIME | SHORT_TIME,
        time_mask: 0xff,
        time_cycles: 0x1_00f0,
        time_offset_ns: 0u64.wrapping_sub(0x1_00f0),
        ..content()
    };
    assert_eq!(times(narrow, 0xf5), Some((505, 405)));
    assert_eq!(times(narrow, 0x05), Some((521, 421)), "it has wrapped once");
}

fn together(pages: &[Page], fake: &Fake<'_>) -> Option<Vec<u64>> {
    let mut out = vec![PageValues::default(); pages.len()];
    read_together(pages.iter(), fake, &mut out).then(|| out.iter().map(|values| values.value).collect())
}

#[test]
fn several_pages_are_read_as_of_one_stay_on_the_cpu() {
    let pages = [0, 1, 2].map(|i| Page::new(&Content { index: i + 1, ..content() }));
    assert_eq!(together(&pages, &Fake::new(1, 0)), Some(vec![1001, 1101, 1201]));
    // The thread is moved after the first page was read, so all pages are read again.
    let moved = Content { lock: 8, offset: 2000, ..content() };
    let fake = Fake::new(1, 0).while_reading(|read| {
        if read == 2 {
            pages[0].set(&moved);
        }
    });
    assert_eq!(together(&pages, &fake), Some(vec![2001, 1101, 1201]));
    assert_eq!(fake.reads.get(), 6);
}

/// A thread is descheduled after the time stamp of 400. The page then has the enabled time up to 600, when
/// the thread continued.
#[test]
fn times_of_before_a_page_was_written_are_not_added_to_those_of_after() {
    let pages = [1, 2].map(|index| Page::new(&Content { index, ..content() }));
    let times = |values: &PageValues| (values.time_enabled_ns, values.time_running_ns);
    for page in &pages {
        let written = || {
            for page in &pages {
                page.set(&Content { time_offset_ns: 0u64.wrapping_sub(600), lock: 4, ..content() });
            }
        };
        let counters = || Late { stamps: Cell::new(0), behind_the_first: Box::new(written) };
        let mut out = [PageValues::default(); 2];
        assert!(read_together(pages.iter(), &counters(), &mut out));
        assert_eq!(out.each_ref().map(times), [(600, 500); 2]);
        pages.iter().for_each(|page| page.set(&content()));
        assert_eq!(page.read(&counters()).as_ref().map(times), Some((600, 500)), "alone as well");
        pages.iter().for_each(|page| page.set(&content()));
    }
}

/// Time stamps of 400 and then of 700, with a callback between the two.
struct Late<'a> {
    stamps: Cell<u32>,
    behind_the_first: Box<dyn Fn() + 'a>,
}

impl Counters for Late<'_> {
    fn counter(&self, _: Permit) -> u64 {
        7
    }

    fn time_stamp(&self) -> u64 {
        if self.stamps.replace(1) == 0 {
            (self.behind_the_first)();
            return 400;
        }
        700
    }
}

#[test]
fn one_page_without_a_counter_spoils_the_group() {
    let pages = [1, 0, 2].map(|index| Page::new(&Content { index, ..content() }));
    assert_eq!(together(&pages, &Fake::new(1, 0)), None);
    assert_eq!(together(&[], &Fake::new(1, 0)), Some(vec![]));
}

#[test]
fn there_is_room_for_every_page_or_nothing_is_read() {
    let pages = [1, 2].map(|index| Page::new(&Content { index, ..content() }));
    assert!(!read_together(pages.iter(), &Fake::new(1, 0), &mut [PageValues::default()]));
}
