//! A branch predictor: for each site the best of three.

use std::collections::HashMap;

use super::BranchOutcome;

/// Executions of a site that train only.
const TRAINING: u64 = 16;

/// Bits of history of a site, and of a thread.
const LOCAL_BITS: u32 = 10;
const GLOBAL_BITS: u32 = 12;

/// The predictors, with their histories.
#[derive(Debug, Default)]
pub(super) struct BranchPredictors {
    sites: HashMap<u64, SiteState>,
    /// Two-bit counters by site and the site's own history.
    local: HashMap<(u64, u32), u8>,
    /// The same by site and the thread's history.
    global: HashMap<(u64, u32), u8>,
    histories: HashMap<u32, u32>,
    /// Targets of indirect branches by site and the thread's history.
    targets: HashMap<(u64, u32), u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteState {
    executed: u64,
    bimodal: u8,
    history: u32,
    last_target: u64,
    /// Errors of each predictor.
    wrong: [u64; 3],
}

/// Whether a two-bit counter predicts "taken"; it moves towards the outcome.
fn predict(counter: &mut u8, taken: bool) -> bool {
    let predicted = *counter >= 2;
    *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
    predicted
}

impl BranchPredictors {
    /// Executes a branch; whether it is mispredicted.
    pub(super) fn mispredicts(&mut self, thread: u32, pc: u64, outcome: BranchOutcome) -> bool {
        let global = *self.histories.entry(thread).or_default() & ((1 << GLOBAL_BITS) - 1);
        let site = self.sites.entry(pc).or_default();
        let errors = match outcome {
            BranchOutcome::Conditional { taken } => {
                let local = self.local.entry((pc, site.history)).or_insert(1);
                let by_local = predict(local, taken);
                let by_global = predict(self.global.entry((pc, global)).or_insert(1), taken);
                let by_site = predict(&mut site.bimodal, taken);
                site.history = (site.history << 1 | u32::from(taken)) & ((1 << LOCAL_BITS) - 1);
                self.histories.insert(thread, global << 1 | u32::from(taken));
                [by_site != taken, by_local != taken, by_global != taken]
            }
            BranchOutcome::Indirect { target } => {
                let by_global = self.targets.insert((pc, global), target).unwrap_or(target);
                let by_local = self.targets.insert((pc, site.history | 1 << 31), target).unwrap_or(target);
                let by_site = std::mem::replace(&mut site.last_target, target);
                let folded = u32::try_from((target >> 4 ^ target >> 10) & 0xf).unwrap_or(0);
                site.history = (site.history << 4 | folded) & 0xffff;
                self.histories.insert(thread, global << 4 | folded);
                [by_site != target, by_local != target, by_global != target]
            }
        };
        site.judge(errors)
    }
}

impl SiteState {
    /// Counts errors; the predictor with the fewest so far decides.
    fn judge(&mut self, errors: [bool; 3]) -> bool {
        let best = (0..errors.len()).min_by_key(|n| self.wrong[*n]).unwrap_or(0);
        for (wrong, is_error) in self.wrong.iter_mut().zip(errors) {
            *wrong += u64::from(is_error);
        }
        self.executed += 1;
        self.executed > TRAINING && errors[best]
    }
}
