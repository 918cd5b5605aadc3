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
//! Without `cyclometer stat -m`, each end of a region costs a program a call, a load and a branch. With it,
//! each region is counted with the requested events, thread by thread. The counts go to memory shared with
//! the tool, so that they are known however the program ends.
//!
//! Regions nest, also regions of one name: the inner ones are calls, and their counts are part of the
//! outermost. Ends without a begin, and regions that never end, are reported by name.
//!
//! Signal handlers must not use marks. Marks may allocate memory, which deadlocks in a handler that
//! interrupted an allocation.
//!
//! This crate knows no events and depends on `libc` alone. The format of the shared memory is [`board`].
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
use thread::RegionEdge;

/// Begins a region of this thread. Does nothing where no tool is attached.
#[inline(never)]
pub fn begin(label: &str) {
    if is_detached() {
        return;
    }
    mark(RegionEdge::Begin, label, &EMPTY);
}

/// Ends the last region of this name that this thread began. Does nothing where no tool is attached.
#[inline(never)]
pub fn end(label: &str) {
    if is_detached() {
        return;
    }
    mark(RegionEdge::End, label, &EMPTY);
}

/// A region of this thread, from now until it is dropped.
///
/// It cannot be sent to another thread, because its counters belong to this one.
#[must_use = "a region ends when it is dropped: bind it to a name"]
#[derive(Debug)]
pub struct Region<'a> {
    label: &'a str,
    of_this_thread: PhantomData<*const ()>,
}

/// Begins a region that ends when the returned guard is dropped, also when its work panics.
pub fn region(label: &str) -> Region<'_> {
    begin(label);
    Region { label, of_this_thread: PhantomData }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        end(self.label);
    }
}

/// Whether a tool is attached, so that regions are counted.
pub fn is_attached() -> bool {
    Session::find().is_some()
}

/// The same two functions for other languages. Their names have to be read first, and their calls differ.
pub mod foreign {
    use super::{Empty, RegionEdge, is_detached, mark};

    /// Begins a region. `label` is called only where a tool is attached. `empty` marks empty regions in the
    /// calling language, to measure the bias that its marks add to every region.
    #[inline]
    pub fn begin<L: AsRef<str>>(label: impl FnOnce() -> L, empty: &'static Empty) {
        if !is_detached() {
            mark(RegionEdge::Begin, LazyLabel(label), empty);
        }
    }

    /// Ends a region; see [`begin`].
    #[inline]
    pub fn end<L: AsRef<str>>(label: impl FnOnce() -> L, empty: &'static Empty) {
        if !is_detached() {
            mark(RegionEdge::End, LazyLabel(label), empty);
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
    /// Passes the name to `work`. The work of reading it belongs to no region.
    fn with(self, work: &mut dyn FnMut(&str));
}

impl Label for &str {
    fn with(self, work: &mut dyn FnMut(&str)) {
        work(self);
    }
}

/// One end of a region. The code up to the first read of counters, and from the second one on, must be the
/// same every time, because an empty region measures its bias.
#[inline(never)]
fn mark(edge: RegionEdge, label: impl Label, empty: &'static Empty) {
    if let Some(session) = Session::find() {
        thread::mark(session, edge, label, empty);
    }
}

/// Empty regions, marked as a program does it: their counts are the bias that marking adds to others. They
/// have the name `""`.
#[derive(Clone, Copy, Debug)]
pub struct Empty {
    /// Marks one region.
    pub flat: fn(),
    /// Marks one region inside another one.
    pub nested: fn(),
}

/// The empty regions of Rust.
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
