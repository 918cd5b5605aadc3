//! An instruction set without kernels.

use crate::memory::{CacheLine, PointerChain};

pub(crate) const HERE: bool = false;

pub(crate) fn additions(_: u64) {}

pub(crate) fn jumps(_: u64) {}

pub(crate) fn not_taken(_: u64) {}

pub(crate) fn random(_: u64, _: u64) {}

pub(crate) fn calls(_: u64) {}

pub(crate) fn indirect_calls(_: u64) {}

pub(crate) fn indirect_jumps(_: u64) {}

pub(crate) fn loads(_: u64, _: &CacheLine) {}

pub(crate) fn stores(_: u64, _: &mut CacheLine) {}

pub(crate) fn copies(_: u64, _: &mut CacheLine) {}

pub(crate) fn chase(_: u64, _: &PointerChain) {}
