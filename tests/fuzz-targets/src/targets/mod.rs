//! The list of targets.

mod events;
mod http;
mod machines;
mod recordings;
mod run_time_code;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod software;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "software_other.rs"]
mod software;
mod sweeps;

use crate::FuzzTarget;

const fn named(name: &'static str, reads: &'static str, run: fn(&[u8])) -> FuzzTarget {
    FuzzTarget { name, reads, run }
}

/// Every parser of foreign bytes in a library. Those of the command-line tool are run as commands.
pub const TARGETS: &[FuzzTarget] = &[
    named("events", "event lists, which are encoded on a CPU of each layout", events::event_list),
    named("table", "tables of events as text", events::table),
    named("perfmon", "event files of Intel", events::perfmon),
    named("pmu_events", "event files of the kernel, for AMD, Arm, RISC-V and Intel", events::pmu_events),
    named("kpep", "event databases of Apple", events::kpep),
    named("formula", "formulas of metrics", events::formula),
    named("semantics", "tables of what events count", events::semantics),
    named("claims", "tables of what labels claim", events::claims),
    named("machine", "recordings of a machine, which is detected again", machines::machine),
    named("journal", "journals of registers that are to be restored", machines::journal),
    named("kdebug", "trace records of macOS", machines::kdebug),
    named(
        "configuration",
        "configuration files of programs that measure themselves",
        machines::configuration,
    ),
    named("exporter", "configuration files of the exporter", machines::exporter_configuration),
    named("http", "requests to the exporter", http::requests),
    named("records", "rings of samples", recordings::records),
    named("recording", "recordings of windows", recordings::recording),
    named(
        "object_file",
        "files of code, for their functions, lines and inlined functions",
        recordings::object_file,
    ),
    named("perf_map", "maps in which programs name code that they made at run time", run_time_code::perf_map),
    named("jitdump", "dumps of code that compilers made at run time", run_time_code::jitdump),
    named("marker_board", "memory that a marked program writes", recordings::marker_board),
    named("execution_profile", "execution profiles of earlier runs", software::execution_profile),
    named("stored_translation", "translations of earlier runs", software::stored_translation),
    named(
        "tracer_report",
        "reports of the tracer, with code profiles and call paths",
        software::tracer_report,
    ),
    named("windows", "rows of windows from the tracer", software::window_lines),
    named("sweep_journal", "journals of sweeps", sweeps::journal),
];

/// A target that breaks its promise: it panics at an `!` and does not end at a `?`. It tests what runs the
/// others.
pub const SELF_TEST: FuzzTarget = named("self_test", "nothing: a test of this program", |bytes| {
    assert!(!bytes.contains(&b'!'), "the file has an exclamation mark");
    while bytes.contains(&b'?') {
        std::hint::spin_loop();
    }
});

/// A stored translation, and the function that says whether one is read from bytes.
pub type TranslationSample = (Vec<u8>, fn(&[u8]) -> bool);

/// A stored translation of this version, as the file of its corpus, and whether one is read. `None` without
/// the software PMU.
pub fn translation_sample() -> Option<TranslationSample> {
    software::translation_sample()
}

/// The target with a name.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.iter().chain([&SELF_TEST]).copied().find(|target| target.name == name)
}

/// The first byte, and the others.
fn choice(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    Some((usize::from(*first), rest))
}
