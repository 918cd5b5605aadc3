//! Systems without the software PMU.

use super::TranslationSample;

pub(super) fn execution_profile(_: &[u8]) {}

pub(super) fn stored_translation(_: &[u8]) {}

pub(super) fn translation_sample() -> Option<TranslationSample> {
    None
}

pub(super) fn tracer_report(_: &[u8]) {}

pub(super) fn window_lines(_: &[u8]) {}
