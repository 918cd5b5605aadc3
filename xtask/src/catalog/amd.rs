//! Placeholder.
use std::path::Path;

use anyhow::{Result, bail};
use cyclometer_catalog::table::CpuTable;

pub(super) fn tables(_from: &Path) -> Result<Vec<CpuTable>> {
    bail!("not yet")
}
