//! The formats of event files that users give.

/// A format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileFormat {
    Ours,
    Intel,
    Linux,
    ArmData,
    ArmTelemetry,
    Kpep,
}

impl FileFormat {
    /// The name of the format in messages.
    pub fn word(self) -> &'static str {
        match self {
            FileFormat::Ours => "cyclometer's own table",
            FileFormat::Intel => "Intel perfmon JSON",
            FileFormat::Linux => "Linux pmu-events JSON",
            FileFormat::ArmData => "ARM-software/data JSON",
            FileFormat::ArmTelemetry => "Arm telemetry JSON",
            FileFormat::Kpep => "Apple kpep property list",
        }
    }
}
