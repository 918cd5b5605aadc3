//! Systems and programs without the software PMU.

use std::path::PathBuf;

use cyclometer_core::code::{CodeObject, ProcessMemory};
use cyclometer_core::{CpuBaseline, Launch, Source};

use crate::Launcher;
use crate::soft_settings::SoftwareSettings;

/// The software PMU, which does not exist here.
#[derive(Debug)]
pub enum Software {}

/// The feature of a baseline that this machine's processor lacks. Always `None`, as nothing is translated
/// here.
pub fn baseline_lacks(_wanted: CpuBaseline) -> Option<&'static str> {
    None
}

/// The path of the file whose code was counted: `None`, as no code is.
pub fn counted_file(_object: &CodeObject) -> Option<PathBuf> {
    None
}

/// The files that name code which a process made: none, as no code is counted.
pub fn name_files(_memory: ProcessMemory) -> Vec<(PathBuf, Result<Vec<u8>, String>)> {
    Vec::new()
}

/// The software PMU; always `None`, as it requires Linux on x86-64 and the feature `software-pmu`.
pub fn software(_settings: SoftwareSettings) -> Option<Software> {
    None
}

impl Software {
    /// Starts commands under translation.
    pub fn launcher<'a>(&'a self, _native: &'a Launcher) -> Box<dyn Launch + 'a> {
        match *self {}
    }

    /// Counts these commands.
    pub fn source(&self) -> Box<dyn Source> {
        match *self {}
    }
}
