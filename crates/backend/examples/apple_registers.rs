//! Counts a loop of known length with Apple's registers, from user mode, in short windows that are checked.
//!
//! Linux needs the module of `kernel/apple-pmu` and root; macOS needs a patched kernel. Other systems get a
//! message. The example prints instructions and cycles of 100,000 rounds. On hardware and on an emulator,
//! every window counts the same instructions.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to who started it")]

use std::num::NonZeroU32;
use std::process::ExitCode;

use cyclometer_arch::{Chip, ChipCounters, Coded, Placed, ProgramOptions, register_program};
use cyclometer_backend::SysregAccess;
use cyclometer_backend::registers::{OnCpu, ShortCounts, ShortLimits, count_short};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, CounterWidth, EventCode, Modes, Result};

/// The properties that M1 to M5 share for the fixed counters. Fixed counters need no event, and counts of
/// short windows need no width.
const CHIP: Chip = Chip {
    family: Family::Apple,
    pmu_version: None,
    selector_bits: Some(8),
    counter_width: Some(CounterWidth { bits: 48, overflow_bit: 47 }),
    counters: ChipCounters::of(CounterMask::from_bits(0x3fc, 0b11)),
};

const ROUNDS: u64 = 100_000;

fn main() -> ExitCode {
    match count() {
        Ok(counted) => {
            for window in &counted.windows {
                println!(
                    "attempt {}: CPU {}, {} ns, {} cycles, {} instructions",
                    window.attempt, window.cpu, window.took_ns, window.counts[0], window.counts[1]
                );
            }
            println!("{counted}; ended: {:?}; not restored: {:?}", counted.ended, counted.not_restored);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}\nhelp: {}", error.recovery());
            ExitCode::FAILURE
        }
    }
}

fn count() -> Result<ShortCounts> {
    let access = SysregAccess::open()?;
    let mut bus = access.bus(None)?;
    println!("on CPU {}, bound to {:?}", bus.cpu_now(), bus.bound_to());
    let fixed = |n| Placed {
        coded: Coded::new(EventCode::default()).on(CounterMask::from_bits(0, 1u64 << n)),
        counter: CounterId::Fixed(n),
        modes: Modes::USER,
        period: None,
    };
    let program = register_program(&CHIP, &[fixed(0), fixed(1)], ProgramOptions::default())?;
    let limits = ShortLimits {
        windows: NonZeroU32::new(10).unwrap_or(NonZeroU32::MIN),
        attempts: NonZeroU32::new(1000).unwrap_or(NonZeroU32::MIN),
    };
    let counted = count_short(&mut bus, &program, limits, |_| work())?;
    println!("disturbed: {:?}", access.was_disturbed()?);
    Ok(counted)
}

/// Executes rounds of a few instructions that no compiler removes.
fn work() {
    let mut sum = 0u64;
    for round in 0..ROUNDS {
        sum = std::hint::black_box(sum.wrapping_add(round));
    }
}
