//! Systems without the software PMU.

pub(super) fn execution_profile(_: &[u8]) {}

pub(super) fn stored_translation(_: &[u8]) {}

pub(super) fn translation_sample() -> Option<(Vec<u8>, fn(&[u8]) -> bool)> {
    None
}

pub(super) fn tracer_report(_: &[u8]) {}

pub(super) fn window_lines(_: &[u8]) {}
