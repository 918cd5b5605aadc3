//! Regions of a program.

use std::sync::Arc;

use crate::here::here;
use crate::report::Measured;
use crate::shared::Shared;
use crate::thread::{Here, RegionFrame, lock};

/// A part of a program that is being counted, in the thread that began it. It lasts from its creation until
/// it is dropped or stopped.
///
/// It is not `Send`, because a counter belongs to a thread. Regions nest, and an outer one includes the
/// counts of inner ones. The type system excludes stopping twice or reading after the end: [`Region::stop`]
/// consumes the region.
///
/// ```compile_fail
/// fn sends(region: cyclometer_monitor::Region) {
///     std::thread::spawn(move || drop(region));
/// }
/// ```
#[must_use = "a region ends when it is dropped: bind it to a name"]
pub struct Region {
    shared: Arc<Shared>,
    open: Option<(Here, RegionFrame)>,
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("counts", &self.open.is_some()).finish()
    }
}

impl Region {
    pub(crate) fn begin(shared: &Arc<Shared>, label: &str) -> Region {
        let open = here(shared).and_then(|here| {
            let frame = {
                // Only a region that begins during the start of another, as in a signal handler, finds the
                // state borrowed.
                let mut state = here.try_borrow_mut().ok()?;
                let label = state.label(label);
                state.begin(label)
            };
            Some((here, frame))
        });
        if open.is_none() {
            shared.missed(label);
        }
        Region { shared: Arc::clone(shared), open }
    }

    /// Ends the region and returns its counts.
    ///
    /// The counts are added to those of its label, too.
    pub fn stop(mut self) -> Measured {
        let Some((here, frame)) = self.open.take() else { return self.shared.unmeasured() };
        let Ok(mut state) = here.try_borrow_mut() else { return self.shared.unmeasured() };
        let ended = state.end(frame, true);
        let totals = Arc::clone(&state.totals);
        drop(state);
        let totals = lock(&totals);
        let (sums, inner) = ended.map(|ended| (ended.sums, ended.inner)).unwrap_or_default();
        self.shared.measured_once(&totals, frame.label, &sums, inner)
    }

    /// The counts of all regions of this label so far, in all threads: those that ended, and this one up to
    /// now.
    pub fn so_far(&self) -> Measured {
        let Some((here, frame)) = &self.open else { return self.shared.unmeasured() };
        let Ok(mut state) = here.try_borrow_mut() else { return self.shared.unmeasured() };
        let counted = state.so_far(*frame);
        let totals = Arc::clone(&state.totals);
        drop(state);
        self.shared.total_with(&totals, frame.label, &counted)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Some((here, frame)) = self.open.take() else { return };
        if let Ok(mut state) = here.try_borrow_mut() {
            state.end(frame, false);
        }
    }
}
