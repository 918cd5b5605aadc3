//! Marks regions of a program for `cyclometer stat -m`.
//!
//! ```
//! use cyclometer_marker as marker;
//!
//! fn solve() -> u64 {
//!     let _region = marker::region("solve");
//!     (0..1000).sum()
//! }
//! # assert_eq!(solve(), 499_500);
//! ```
//!
//! A program that is not run by `cyclometer stat -m` loses a call, a load and a branch at each end of a region. One that is
//! counts each region with the events that were asked for there, thread by thread, into memory that it shares with
//! the tool: what has been counted is known however the program ends.
//!
//! Regions nest, and those of one name may be nested in one another: the inner ones are calls, and their counts are part of the
//! outermost. Ends that nothing began, and regions that never end, are told by name.
//!
//! Marks are not for handlers of signals: they may allocate memory, which waits for ever in a handler that interrupted an allocation.
//!
//! This crate knows no events and needs nothing but `libc`. The format of the shared memory is [`board`].
#![forbid(unsafe_code)]

pub mod board;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(not(target_os = "linux"))]
#[path = "memory_other.rs"]
mod memory;
#[cfg(target_os = "linux")]
mod meter;
#[cfg(not(target_os = "linux"))]
#[path = "meter_other.rs"]
mod meter;
mod rows;
mod session;
mod thread;

use std::marker::PhantomData;

use session::{Session, is_detached};
use thread::Edge;

/// Begins a region of this thread. Does nothing where no tool listens.
#[inline(never)]
pub fn begin(label: &str) {
    if is_detached() {
        return;
    }
    mark(Edge::Begin, label, &EMPTY);
}

/// Ends the last region of this name that this thread began. Does nothing where no tool listens.
#[inline(never)]
pub fn end(label: &str) {
    if is_detached() {
        return;
    }
    mark(Edge::End, label, &EMPTY);
}

/// A region of this thread, from now until it is dropped.
///
/// It cannot be sent to another thread: the counters belong to this one.
#[must_use = "a region ends when it is dropped: bind it to a name"]
#[derive(Debug)]
pub struct Region<'a> {
    label: &'a str,
    of_this_thread: PhantomData<*const ()>,
}

/// Begins a region that ends when what is handed back is dropped, also when its work panics.
pub fn region(label: &str) -> Region<'_> {
    begin(label);
    Region { label, of_this_thread: PhantomData }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        end(self.label);
    }
}

/// Whether a tool listens: regions are counted.
pub fn is_attached() -> bool {
    Session::find().is_some()
}

/// The same two functions for other languages, whose names have to be read first, and which are called in other ways.
pub mod foreign {
    use super::{Edge, Empty, is_detached, mark};

    /// Begins a region. `label` is called only where a tool listens; `empty` marks regions by the way of
    /// that language, which tells what that adds to every region.
    #[inline]
    pub fn begin<L: AsRef<str>>(label: impl FnOnce() -> L, empty: &'static Empty) {
        if !is_detached() {
            mark(Edge::Begin, LazyLabel(label), empty);
        }
    }

    /// Ends a region; as [`begin`].
    #[inline]
    pub fn end<L: AsRef<str>>(label: impl FnOnce() -> L, empty: &'static Empty) {
        if !is_detached() {
            mark(Edge::End, LazyLabel(label), empty);
        }
    }

    /// A name that has not been read yet.
    struct LazyLabel<F>(F);

    impl<L: AsRef<str>, F: FnOnce() -> L> super::Label for LazyLabel<F> {
        fn with(self, work: &mut dyn FnMut(&str)) {
            work((self.0)().as_ref());
        }
    }
}

/// The name of a region.
trait Label {
    /// Hands the name over. What it takes to read it is no part of any region.
    fn with(self, work: &mut dyn FnMut(&str));
}

impl Label for &str {
    fn with(self, work: &mut dyn FnMut(&str)) {
        work(self);
    }
}

/// One end of a region. What is executed up to the first read of counters and from the second on must be the same every time: it
/// is what an empty region has.
#[inline(never)]
fn mark(edge: Edge, label: impl Label, empty: &'static Empty) {
    if let Some(session) = Session::find() {
        thread::mark(session, edge, label, empty);
    }
}

/// Empty regions, marked as a program does it: what they count is what marking adds to others. They have the name `""`.
#[derive(Clone, Copy, Debug)]
pub struct Empty {
    /// Marks one.
    pub flat: fn(),
    /// Marks one in another one.
    pub nested: fn(),
}

/// Those of Rust.
static EMPTY: Empty = Empty { flat, nested };

fn flat() {
    begin("");
    end("");
}

fn nested() {
    begin("");
    begin("");
    end("");
    end("");
}
