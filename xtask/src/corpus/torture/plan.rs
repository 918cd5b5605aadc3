//! The disturbances of a run, and their times: from a seed, so that they can be repeated.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most pauses of a run.
const PAUSES: u64 = 4;
/// Longest pause, in microseconds.
const LONGEST_PAUSE_US: u64 = 60_000;

/// Numbers that look random and come again with the same seed.
///
/// # Source
///
/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (`SplitMix64`), 2014.
#[derive(Debug)]
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    pub(super) fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    /// A seed for who names none; short, as it is to be typed.
    pub(super) fn seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) % 1_000_000
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Whom a pause is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Victim {
    /// The tool's own process.
    Tool,
    /// The process that traces the command.
    Tracer,
    /// The process that starts commands for the tool.
    Helper,
    /// One of the command's processes; the number chooses.
    Program(u64),
    /// All of these at a time.
    All,
}

/// The kind of disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Assault {
    /// SIGSTOP, and SIGCONT after a time.
    Pause(Victim, Duration),
    /// SIGINT to the tool's process group, as the terminal does it.
    CtrlC,
    /// SIGINT to the tool alone.
    Interrupt,
    /// SIGKILL to the tool alone.
    Kill,
    /// SIGTERM to the tool alone.
    Terminate,
    /// SIGKILL to the process that traces the command, with which the kernel kills what it traces.
    KillTracer,
    /// SIGTERM to that process.
    TerminateTracer,
    /// SIGKILL to the process that starts commands.
    KillHelper,
    /// SIGTERM to that process.
    TerminateHelper,
}

/// The disturbances of one run, each after a time from its start, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AssaultPlan(pub(super) Vec<(Duration, Assault)>);

impl AssaultPlan {
    /// For a run that takes so long when nobody disturbs it. Some points come after its end. `interrupts`: it
    /// may be made to end early.
    pub(super) fn new(random: &mut SeededRandom, usual: Duration, interrupts: bool) -> AssaultPlan {
        let mut plan = Vec::new();
        for _ in 0..random.below(PAUSES + 1) {
            let victim = victim(random);
            let pause = Duration::from_micros(random.below(LONGEST_PAUSE_US));
            plan.push((moment(random, usual), Assault::Pause(victim, pause)));
        }
        let last = match random.below(9) {
            0 if interrupts => Some(Assault::Interrupt),
            1 if interrupts => Some(Assault::CtrlC),
            2 => Some(Assault::Kill),
            3 if interrupts => Some(Assault::KillTracer),
            4 if interrupts => Some(Assault::Terminate),
            5 if interrupts => Some(Assault::TerminateTracer),
            6 if interrupts => Some(Assault::KillHelper),
            7 if interrupts => Some(Assault::TerminateHelper),
            _ => None,
        };
        plan.extend(last.map(|assault| (moment(random, usual), assault)));
        plan.sort_by_key(|(at, _)| *at);
        AssaultPlan(plan)
    }
}

fn victim(random: &mut SeededRandom) -> Victim {
    match random.below(7) {
        0 => Victim::Tool,
        1 => Victim::Tracer,
        2 => Victim::All,
        3 => Victim::Helper,
        _ => Victim::Program(random.next()),
    }
}

/// A quarter of all points lies in the first tenth of the run: much happens there.
fn moment(random: &mut SeededRandom, usual: Duration) -> Duration {
    let range = if random.below(4) == 0 { usual / 10 } else { usual * 11 / 10 };
    let range = u64::try_from(range.as_micros()).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(random.below(range))
}

impl fmt::Display for AssaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, assault) in &self.0 {
            write!(f, " {:.1} ms: {assault:?};", at.as_secs_f64() * 1e3)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(seed: u64) -> Vec<AssaultPlan> {
        plans_with(seed, true)
    }

    fn plans_with(seed: u64, interrupts: bool) -> Vec<AssaultPlan> {
        let mut random = SeededRandom::new(seed);
        (0..200).map(|_| AssaultPlan::new(&mut random, Duration::from_millis(100), interrupts)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_plans_each_time() {
        assert_eq!(plans(7), plans(7));
        assert_ne!(plans(7), plans(8));
    }

    #[test]
    fn every_kind_of_assault_comes_up() {
        let all: Vec<Assault> = plans(1).iter().flat_map(|plan| plan.0.iter().map(|step| step.1)).collect();
        for kind in [
            Assault::CtrlC,
            Assault::Interrupt,
            Assault::Kill,
            Assault::Terminate,
            Assault::KillTracer,
            Assault::TerminateTracer,
            Assault::KillHelper,
            Assault::TerminateHelper,
        ] {
            assert!(all.contains(&kind), "{kind:?}");
        }
        for victim in [Victim::Tool, Victim::Tracer, Victim::Helper, Victim::All] {
            assert!(all.iter().any(|a| matches!(a, Assault::Pause(v, _) if *v == victim)), "{victim:?}");
        }
        assert!(all.iter().any(|assault| matches!(assault, Assault::Pause(Victim::Program(_), _))));
        assert!(plans(1).iter().any(|plan| plan.0.is_empty()), "some runs are left alone");
    }

    #[test]
    fn who_is_not_to_be_interrupted_is_not() {
        let is_interrupt = |step: &(Duration, Assault)| {
            matches!(step.1, Assault::CtrlC | Assault::Interrupt | Assault::KillTracer)
        };
        assert!(plans_with(1, false).iter().all(|plan| !plan.0.iter().any(is_interrupt)));
    }

    #[test]
    fn assaults_come_in_the_order_of_time() {
        for plan in plans(3) {
            assert!(plan.0.is_sorted_by_key(|(at, _)| *at), "{plan}");
        }
    }
}
