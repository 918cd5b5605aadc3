//! Limits that programs set on their addresses: a shell's `ulimit -v`, for example. They mean their own memory, and not that
//! of a translation.
//!
//! So the kernel is given a limit that is higher by what a translation takes, and the program is told the one that it has asked for.
//! What it is told it keeps over `execve`, and its children inherit it, as those limits themselves. A limit that was there before the
//! command began cannot be raised: there a translation takes half of it at most, and a program with less is left.

use std::io;

use cyclometer_sys::process::address_limits;
use cyclometer_sys::trace::{self, Registers};

use super::calls::EFAULT;
use super::engine::{Engine, Outcome};
use super::process::Mode;
use super::remote::{Remote, number};
use super::space::MOST_ADDRESSES;

/// A soft limit and a hard one, in bytes; [`UNLIMITED`].
pub(super) type Limits = [u64; 2];

/// # Source
///
/// Linux `include/uapi/linux/resource.h`, `RLIM64_INFINITY`.
const UNLIMITED: u64 = u64::MAX;

/// A system call that asks for the limits on addresses, or sets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// Of this process; 0 for its own.
    of: u32,
    /// Where the new ones are.
    new: Option<u64>,
    /// Where the old ones go.
    old: Option<u64>,
}

/// The limit on addresses.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/resource.h`.
const RLIMIT_AS: u32 = 9;

/// What a system call with these arguments asks about limits on addresses, if it does.
///
/// # Source
///
/// `getrlimit(2)`.
pub(super) fn asked(number: u64, arguments: [u64; 4]) -> Option<Asked> {
    let [first, second, third, fourth] = arguments;
    let some = |address: u64| (address != 0).then_some(address);
    let (of, resource, new, old) = match number {
        number::SETRLIMIT => (0, first, Some(second), None),
        number::GETRLIMIT => (0, first, None, Some(second)),
        number::PRLIMIT64 => (first as u32, second, some(third), some(fourth)),
        _ => return None,
    };
    (resource as u32 == RLIMIT_AS).then_some(Asked { of, new, old })
}

/// What the kernel is given instead of limits that a program asks for, where it has the real ones and believes in others.
fn widened(asked: Limits, real: Limits, believed: Limits) -> Limits {
    let wide = asked.map(|limit| limit.saturating_add(MOST_ADDRESSES));
    // Who keeps its hard limit or lowers it may do so; who raises it may be refused.
    let hard = if asked[1] <= believed[1] { wide[1].min(real[1]) } else { wide[1] };
    // Where the soft one is above the hard one, that is refused.
    let soft = if asked[0] <= asked[1] { wide[0].min(hard) } else { wide[0] };
    [soft, hard]
}

impl Engine {
    /// How many addresses a translation may take of a program's: all that it does not know of, or half of those that there are.
    /// Natively it might need as many.
    pub(super) fn allowance(&self, tid: u32) -> u64 {
        let process = self.tasks.get(&tid).map(|task| &self.processes[task.process]);
        let believed = process.and_then(|process| process.limits);
        match address_limits(tid) {
            Ok([UNLIMITED, _]) | Err(_) => u64::MAX,
            Ok([real, _]) => believed.map_or(0, |[soft, _]| real.saturating_sub(soft)).max(real / 2),
        }
    }

    /// A program asks for the limits on its addresses, or sets them.
    pub(super) fn limits(&mut self, tid: u32, registers: Registers, asked: Asked) -> Outcome {
        let filtered = self.task(tid)?.filtered;
        let Some(process) = self.process(tid) else { return self.go(tid) };
        let believed = process.limits;
        let own = asked.of == 0 || asked.of == process.pid;
        // Where nothing can be called in its name, it has what it asks for, and less of it.
        if !own || filtered || (asked.new.is_none() && believed.is_none()) {
            return self.go(tid);
        }
        let Ok(real) = address_limits(tid) else { return self.go(tid) };
        let old = believed.unwrap_or(real);
        let answer = match self.set_limits(tid, asked, real, old) {
            Err(error) if error.raw_os_error().is_some() => super::listing::refusal(&error),
            Err(_) => -EFAULT as u64,
            Ok(()) if asked.old.is_some_and(|address| write_limits(tid, address, old).is_err()) => {
                -EFAULT as u64
            }
            Ok(()) => 0,
        };
        self.answer_call(tid, registers, answer)
    }

    /// Sets limits, if that is asked for.
    fn set_limits(&mut self, tid: u32, asked: Asked, real: Limits, believed: Limits) -> io::Result<()> {
        let Some(address) = asked.new else { return Ok(()) };
        let new = read_limits(tid, address)?;
        let wide = widened(new, real, believed);
        let Some(Mode::Translated(seat)) = self.tasks.get(&tid).map(|task| &task.mode) else { return Ok(()) };
        let space = seat.space.borrow();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&wide[0].to_ne_bytes());
        bytes[8..16].copy_from_slice(&wide[1].to_ne_bytes());
        space.put_aside(seat.slot, &bytes);
        let (remote, aside) = (Remote::new(tid, space.gadget()), space.aside(seat.slot));
        drop(space);
        remote.call(number::PRLIMIT64, [0, RLIMIT_AS.into(), aside, 0, 0, 0])?;
        if let Some(process) = self.process(tid) {
            process.limits = (wide != new).then_some(new);
        }
        Ok(())
    }
}

/// # Source
///
/// `prlimit(2)`, `struct rlimit`: the soft limit and the hard one.
fn read_limits(tid: u32, address: u64) -> io::Result<Limits> {
    let mut bytes = [0; 16];
    let read = trace::read_memory(tid, address, &mut bytes).unwrap_or(0);
    let words = bytes.as_chunks::<8>().0;
    let whole = || [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])];
    (read == bytes.len()).then(whole).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn write_limits(tid: u32, address: u64, limits: Limits) -> io::Result<()> {
    let bytes: Vec<u8> = limits.into_iter().flat_map(u64::to_ne_bytes).collect();
    match trace::write_memory(tid, address, &bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Limits = [UNLIMITED; 2];

    #[test]
    fn limits_are_higher_by_a_translation_for_the_kernel() {
        let wide = |limit: u64| limit + MOST_ADDRESSES;
        assert_eq!(widened([100, 200], FREE, FREE), [wide(100), wide(200)]);
        assert_eq!(widened([100, UNLIMITED], FREE, FREE), [wide(100), UNLIMITED]);
        assert_eq!(widened(FREE, FREE, FREE), FREE);
        // Lower than before, and back to the hard one.
        let (real, believed) = ([wide(100), wide(200)], [100, 200]);
        assert_eq!(widened([50, 150], real, believed), [wide(50), wide(150)]);
        assert_eq!(widened([200, 200], real, believed), [wide(200), wide(200)]);
    }

    #[test]
    fn a_hard_limit_that_was_there_before_is_not_raised() {
        let real = [1000, 1000];
        assert_eq!(widened([500, 1000], real, real), [1000, 1000]);
        assert_eq!(widened([500, 600], real, real), [1000, 1000]);
        assert_eq!(widened([500, 1001], real, real)[1], 1001 + MOST_ADDRESSES, "which is refused");
    }

    #[test]
    fn a_soft_limit_above_the_hard_one_stays_so() {
        let [soft, hard] = widened([300, 200], FREE, FREE);
        assert!(soft > hard);
        let [soft, hard] = widened([UNLIMITED, 200], FREE, FREE);
        assert!(soft > hard);
    }

    #[test]
    fn calls_about_other_limits_are_none_of_these() {
        let call = |number, first, second| asked(number, [first, second, 3, 4]);
        assert_eq!(call(number::SETRLIMIT, 9, 7), Some(Asked { of: 0, new: Some(7), old: None }));
        assert_eq!(call(number::GETRLIMIT, 9, 7), Some(Asked { of: 0, new: None, old: Some(7) }));
        assert_eq!(call(number::PRLIMIT64, 5, 9), Some(Asked { of: 5, new: Some(3), old: Some(4) }));
        assert_eq!(call(number::PRLIMIT64, 5, 7), None);
        assert_eq!(call(number::GETRLIMIT, 3, 7), None);
        assert_eq!(call(number::PRCTL, 9, 7), None);
    }
}
