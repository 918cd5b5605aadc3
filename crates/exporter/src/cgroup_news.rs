//! The news of control groups, from the thread that watches them to the reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The news of a watch; copies share them.
#[derive(Clone, Debug, Default)]
pub struct CgroupNews(Arc<NewsFlags>);

#[derive(Debug, Default)]
struct NewsFlags {
    has_changed: AtomicBool,
    is_complete: AtomicBool,
}

impl CgroupNews {
    /// Whether groups have come or gone since the last call.
    pub fn take(&self) -> bool {
        self.0.has_changed.swap(false, Ordering::AcqRel)
    }

    /// Whether every group is watched.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete.load(Ordering::Acquire)
    }

    /// Notes that groups have come or gone.
    pub fn change(&self) {
        self.0.has_changed.store(true, Ordering::Release);
    }

    /// Notes whether every group is watched.
    pub fn set_complete(&self, is_complete: bool) {
        self.0.is_complete.store(is_complete, Ordering::Release);
    }
}
