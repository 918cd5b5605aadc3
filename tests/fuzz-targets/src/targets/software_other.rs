//! Systems without the software PMU.

pub(super) fn execution_profile(_: &[u8]) {}

pub(super) fn tracer_report(_: &[u8]) {}

pub(super) fn window_lines(_: &[u8]) {}
