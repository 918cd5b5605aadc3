//! Simulated chips: what a driver of a PMU meets on silicon, on any machine.
//!
//! A [`SimMachine`] has CPUs of one [`Model`], with the registers, reserved bits, widths, constraint masks,
//! overflow flags and interrupts of that chip; it is reached by [`Registers`](cyclometer_arch::Registers), as
//! silicon is. Threads run [`Workload`]s on its CPUs: streams of events that the CPUs' counters count,
//! exactly and repeatably for a seed. The meaning of an event is a row of [`Semantics`]: those of the model,
//! or others ([`SimMachine::with_semantics`]). [`InjectedFault`] is what kernels, hypervisors and other users
//! of the PMU do to a driver.
//!
//! Time passes only in [`SimMachine::next`] and [`SimMachine::run`]; what a driver does in between takes
//! none. Nothing here says how a real program behaves: every number is one of a simulation.
//!
//! ```
//! use cyclometer_arch::{Coded, Placed, ProgramOptions, Registers, carry_out, register_program};
//! use cyclometer_core::{Concept, CounterId, EventCode, Modes};
//! use cyclometer_sim::{SimMachine, Model, Settings, Workload};
//!
//! let model = Model::find("skylake").expect("it is one of the models");
//! let mut machine = SimMachine::new(model, Settings::default());
//! let thread = machine.spawn(Workload::named("loop").expect("it is one of the workloads"), &[0])?;
//! let branches = Coded::new(EventCode { select: 0xc4, ..EventCode::default() });
//! let placed =
//!     Placed { coded: branches, counter: CounterId::General(0), modes: Modes::USER, period: None };
//! let program = register_program(&model.chip, &[placed], ProgramOptions::default())?;
//! carry_out(&program.set_up, &mut machine, 0)?;
//! carry_out(&program.start, &mut machine, 0)?;
//! machine.run(50_000, |_, _| {});
//! let counted = machine.read(0, program.reads[0].register)?;
//! assert_eq!(counted, machine.truth(thread, Concept::Branches));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod cpu;
mod family;
mod fault_injection;
mod machine;
mod model;
mod schedule;
mod workload;

pub use cyclometer_core::Concept;
pub use cyclometer_semantics::{Activity, EventSemantics, Meaning, Semantics};
pub use fault_injection::InjectedFault;
pub use machine::{Happening, NoSuchCpu, Settings, SimMachine, ThreadId, Tick};
pub use model::Model;
pub use workload::{Phase, Workload};
