//! Machines without Apple's registers.

use cyclometer_core::{Error, ErrorKind, Result};

use super::bus::SysregBus;

/// Access to Apple's registers, which this machine does not have.
#[derive(Clone, Debug)]
pub struct SysregAccess(std::convert::Infallible);

impl SysregAccess {
    /// Fails, as there are no registers.
    ///
    /// # Errors
    ///
    /// Always [`ErrorKind::ArchUnsupported`].
    pub fn open() -> Result<SysregAccess> {
        let text = "Apple's PMU registers are on Apple's CPUs, with Linux or macOS for arm64 only";
        Err(Error::new(ErrorKind::ArchUnsupported, text))
    }

    /// No registers.
    ///
    /// # Errors
    ///
    /// Unreachable, as no value of this type exists.
    pub fn bus(&self, _cpu: Option<u32>) -> Result<SysregBus> {
        match self.0 {}
    }

    /// Never reports a disturbance.
    ///
    /// # Errors
    ///
    /// Unreachable, as no value of this type exists.
    pub fn was_disturbed(&self) -> Result<Option<bool>> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_named() {
        let error = SysregAccess::open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ArchUnsupported);
        assert!(error.to_string().contains("Apple"));
    }
}
