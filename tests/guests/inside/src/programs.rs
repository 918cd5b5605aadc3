//! The programs of known length, and the tool under test.

/// Rounds of the loop in [`LOOP`], [`FORK`] and [`WAITING`], as `cargo xtask guests` assembles them.
pub(crate) const ROUNDS: u64 = 0x10_0000;

/// Rounds of the loop in [`LONG`].
pub(crate) const LONG_ROUNDS: u64 = 0x200_0000;

/// One loop.
pub(crate) const LOOP: Program = Program { path: "/loop", instructions: 2 * ROUNDS + 4 };

/// One loop that lasts long enough for a rotation of events.
pub(crate) const LONG: Program = Program { path: "/long", instructions: 2 * LONG_ROUNDS + 4 };

/// A loop in each of two processes.
pub(crate) const FORK: Program = Program { path: "/fork", instructions: 4 * ROUNDS + 25 };

/// One loop after the end of its standard input; the number counts the instructions after it.
pub(crate) const WAITING: Program = Program { path: "/waiting", instructions: 2 * ROUNDS + 4 };

/// The command-line tool.
pub(crate) const TOOL: &str = "/cyclometer";

/// A program, and its number of instructions in user mode: computed by hand from its source, and confirmed by
/// the software PMU.
pub(crate) struct Program {
    pub(crate) path: &'static str,
    pub(crate) instructions: u64,
}
