//! Reversing: a sweep and inference find out which concepts unknown events count.
//!
//! A sweep counts codes on every counter of a [`SweepMachine`] while kernels of known work run; inference
//! says what each code counts, as far as that is certain. The machine is a simulated chip, or this one: then
//! the kernels run on a thread that is bound to a CPU, and a source of counts (`perf`, `msr`, `sysreg`)
//! counts there.

mod assembled;
mod hardware;
#[cfg(feature = "fake-devices")]
#[path = "reverse/fake_kernels.rs"]
mod kernels_here;
#[cfg(not(feature = "fake-devices"))]
#[path = "reverse/host_kernels.rs"]
mod kernels_here;
mod machine;
mod verdicts;
mod watched;

pub use assembled::{AssemblyFile, MAX_ASSEMBLY_BYTES};
pub use cyclometer_kernels::{Geometry, InstructionSet};
pub use machine::{MOST_CODES, SweepMachine, SweepTime, ThresholdKernels};
pub use verdicts::{DocumentedEvent, Reversed, ReversedEvent};
pub use watched::{ReverseObserver, STEP_LIMIT, SweepOptions};
