//! A program that goes on for long in a translation of which little was known beforehand gets another one, made of what it has
//! executed itself.
//!
//! ```text
//! it has run for as long as another translation is worth ──> it is interrupted
//! it stops in translated code                            ──> it halts in its own code, as for a change of that
//! its counts are added up                                ──> hints, for the new translation, as from an earlier run
//! ```
//!
//! So the first run of a program goes on as the second one would. What is counted is the same: each execution is in one translation or the
//! other.

use std::time::{Duration, Instant};

use cyclometer_sys::trace;

use super::engine::{Engine, Trouble};
use super::process::Mode;
use super::reading::{Asleep, ran_ns};
use super::space::Space;

/// How often it is looked whether a program has run for long enough.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The same where every program is to have another translation again and again, and how long it runs in each, in CPU time.
const LOOK_OFTEN: Duration = Duration::from_millis(1);
const RUN_SHORTLY: Duration = Duration::from_millis(3);

/// The least that a program runs before it gets another translation, in CPU time.
const LEAST: Duration = Duration::from_millis(100);

/// How long it runs before for each block, in CPU time: some five times of what translating it takes.
const FOR_A_BLOCK: Duration = Duration::from_micros(8);

/// It does not get another one as long as in so much CPU time more than one block of so many is new: most of what it will execute may be
/// still to come.
const CALM: Duration = Duration::from_millis(50);
const NEW_OF: u32 = 100;

/// Of so many blocks one at least was not known to be executed, or the translation is as good as another would be.
const UNKNOWN_OF: usize = 2;

/// How often a program gets another translation; each time it has to run four times as long as the time before.
const MOST: u32 = 4;

/// Which programs get another translation for what they have executed themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hindsight {
    /// Those for which it takes little of the time that they have run for.
    #[default]
    Worthwhile,
    /// None.
    Never,
    /// All, again and again: for tests.
    Always,
}

/// How long a program has run in a translation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Age {
    /// How long it had run when that began, in CPU time; `None` until it is looked at for the first time.
    since_ns: Option<u64>,
    /// How long it had run when it was last looked at how many blocks there are, and how many.
    seen: (u64, u32),
    /// How often it has got another translation.
    times: u32,
    /// It was interrupted for another one.
    asked: bool,
}

impl Age {
    /// It goes on in another translation.
    pub(super) fn renew(&mut self) {
        *self = Age { times: self.times + 1, ..Age::default() };
    }
}

impl Age {
    /// Whether hardly any block is new since some time ago; `None` where that is too short a time.
    fn is_calm(&mut self, now: u64, blocks: u32) -> Option<bool> {
        let (then, known) = self.seen;
        if u128::from(now.saturating_sub(then)) < CALM.as_nanos() {
            return None;
        }
        self.seen = (now, blocks);
        Some(blocks.saturating_sub(known) * NEW_OF <= blocks)
    }
}

impl Engine {
    /// How soon it is to be looked at programs that could get another translation; `None` where there is none.
    pub(super) fn soonest_look_back(&self) -> Option<Duration> {
        let every = self.look_back_every()?;
        let waits = |task: &super::process::Task| {
            matches!(task.mode, Mode::Translated(_)) && self.has_turns(task.age)
        };
        self.tasks.values().any(waits).then_some(every)
    }

    fn look_back_every(&self) -> Option<Duration> {
        match self.settings.hindsight {
            Hindsight::Worthwhile => Some(LOOK_EVERY),
            Hindsight::Always => Some(LOOK_OFTEN),
            Hindsight::Never => None,
        }
    }

    fn has_turns(&self, age: Age) -> bool {
        age.times < MOST || self.settings.hindsight == Hindsight::Always
    }

    /// Interrupts programs that are to get another translation.
    pub(super) fn look_back(&mut self) {
        let Some(every) = self.look_back_every() else { return };
        if self.looked_back.elapsed() < every {
            return;
        }
        self.looked_back = Instant::now();
        let always = self.settings.hindsight == Hindsight::Always;
        let tasks: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tasks {
            // Who waits would only be woken up.
            let busy = || always || Asleep::look(tid).is_none();
            if self.can_begin_anew(tid) && self.is_worth_it(tid) && busy() {
                let asked = trace::interrupt(tid).is_ok();
                self.tasks.entry(tid).and_modify(|task| task.age.asked = asked);
            }
        }
    }

    /// Whether nothing forbids that a task goes on in another translation: it is the only thread of its process, and nobody else has to do
    /// anything for it.
    fn can_begin_anew(&self, tid: u32) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        let calm = !task.ended && task.departs.is_none() && task.dismissed.is_none() && !task.halted;
        let free = !task.filtered && task.suspended.is_none() && !task.summoned;
        let process = &self.processes[task.process];
        let may = self.probe.is_none() && !self.finishing && !self.is_held(tid) && self.has_turns(task.age);
        let counts = process.lost.is_none() && process.renewal.is_none();
        let lent = self.tasks.values().any(|other| other.is_suspended_by(tid));
        // Who is told of its child, but not by that, has what that needs.
        let bears = self
            .born
            .values()
            .any(|birth| matches!(&task.mode, Mode::Translated(seat) if birth.uses(&seat.space)));
        calm && free && may && counts && !lent && !bears
            && matches!(task.mode, Mode::Translated(_))
            && !self.has_companions(tid)
            // Below a limit there is no room for two translations at a time.
            && self.allowance(tid) == u64::MAX
    }

    /// Whether another translation of a program takes little of the time that it has run for, and will be a better one.
    fn is_worth_it(&mut self, tid: u32) -> bool {
        let always = self.settings.hindsight == Hindsight::Always;
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let Mode::Translated(seat) = &task.mode else { return false };
        let Some(now) = ran_ns(tid) else { return false };
        let since = *task.age.since_ns.get_or_insert(now);
        let space = seat.space.borrow();
        let blocks = space.translation.blocks();
        let ran = Duration::from_nanos(now.saturating_sub(since));
        if always {
            task.age.since_ns = Some(now).filter(|_| ran >= RUN_SHORTLY).or(Some(since));
            return ran >= RUN_SHORTLY;
        }
        let wait = LEAST.max(FOR_A_BLOCK * blocks) * 4u32.pow(task.age.times.min(MOST));
        if task.age.is_calm(now, blocks) != Some(true) || ran < wait {
            return false;
        }
        // Where others have joined each of them would need one.
        let worth = !space.common.is_joint() && is_little_known(&space);
        if !worth {
            task.age.since_ns = Some(now);
        }
        worth
    }

    /// Whether a task that we have interrupted is to go on in another translation: not from a system call, which may have to be made again,
    /// as what is called in its name meanwhile would be in the way.
    pub(super) fn begins_anew(&mut self, tid: u32) -> Result<bool, Trouble> {
        let asked = std::mem::take(&mut self.task(tid)?.age.asked);
        if !asked || !self.can_begin_anew(tid) || self.is_about_to_stop(tid)? {
            return Ok(false);
        }
        Ok(trace::registers(tid)?.orig_rax.cast_signed() < 0)
    }
}

/// Whether too many blocks of files were translated that nobody had known to be executed.
fn is_little_known(space: &Space) -> bool {
    let of_files: usize = space.translation.pages_of_files().map(|(_, blocks)| blocks.len()).sum();
    let known = space.kept.read().map_or_else(|| space.translation.hinted(), |read| read as usize);
    of_files.saturating_sub(known) * UNKNOWN_OF >= of_files.max(1)
}
