//! Which thread runs on which CPU.

use std::collections::VecDeque;

use cyclometer_core::Random;

/// A thread that waits for a CPU, and those that it may run on.
#[derive(Clone, Debug)]
pub(crate) struct WaitingThread {
    pub thread: usize,
    pub allowed: Vec<u32>,
}

/// The threads that wait, for each CPU.
#[derive(Debug)]
pub(crate) struct Queues(Vec<VecDeque<WaitingThread>>);

impl Queues {
    pub(crate) fn new(cpus: usize) -> Queues {
        Queues(vec![VecDeque::new(); cpus])
    }

    pub(crate) fn push(&mut self, cpu: u32, waiting: WaitingThread) {
        if let Some(queue) = self.0.get_mut(cpu as usize) {
            queue.push_back(waiting);
        }
    }

    /// The next thread for a CPU: the first of its own, or the first of another's that may run there.
    pub(crate) fn next(&mut self, cpu: u32) -> Option<WaitingThread> {
        if let Some(waiting) = self.0.get_mut(cpu as usize).and_then(VecDeque::pop_front) {
            return Some(waiting);
        }
        self.0.iter_mut().find_map(|queue| {
            let place = queue.iter().position(|waiting| waiting.allowed.contains(&cpu))?;
            queue.remove(place)
        })
    }

    /// Whether a CPU would find a thread.
    pub(crate) fn has_any(&self, cpu: u32) -> bool {
        let own = self.0.get(cpu as usize).is_some_and(|queue| !queue.is_empty());
        own || self.0.iter().flatten().any(|waiting| waiting.allowed.contains(&cpu))
    }
}

/// The CPU for which a thread waits whose time on `cpu` is over: another one in `percent` of a hundred cases.
pub(crate) fn home(cpu: u32, allowed: &[u32], percent: u32, random: &mut Random) -> u32 {
    let others: Vec<u32> = allowed.iter().copied().filter(|other| *other != cpu).collect();
    let moves = random.below(100) < percent as usize;
    if moves && !others.is_empty() { others[random.below(others.len())] } else { cpu }
}
