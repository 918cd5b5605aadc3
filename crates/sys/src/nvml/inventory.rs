//! The devices that NVML lists.

use super::{Nvml, NvmlError, NvmlHandle};

/// The driver and the devices that NVML lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NvmlInventory {
    /// The version of the driver.
    pub driver: String,
    /// Name and model of each device, MIG instances behind their device.
    pub devices: Vec<NvmlName>,
}

/// Name and model of a device.
type NvmlName = (String, String);

/// A device or a MIG instance.
#[derive(Clone, Debug)]
pub struct NvmlDevice {
    /// The name in events: `nvidia0`, `nvidia0-mig1`.
    pub name: String,
    /// The model.
    pub model: String,
    /// Whether it is a MIG instance, thus a part of another device.
    pub is_instance: bool,
    /// NVML's handle.
    pub handle: NvmlHandle,
}

impl Nvml {
    /// Every device, in NVML's order, each with its MIG instances behind it.
    ///
    /// # Errors
    ///
    /// The code of the first function that fails.
    pub fn devices(&self) -> Result<Vec<NvmlDevice>, NvmlError> {
        let mut all = Vec::new();
        for index in 0..self.device_count()? {
            let (handle, name) = (self.device(index)?, format!("nvidia{index}"));
            let instances = self.instances(handle, &name)?;
            let model = self.name(handle)?;
            all.push(NvmlDevice { name, model, is_instance: false, handle });
            all.extend(instances);
        }
        Ok(all)
    }

    fn instances(&self, of: NvmlHandle, name: &str) -> Result<Vec<NvmlDevice>, NvmlError> {
        match self.is_divided(of) {
            Ok(true) => {}
            Ok(false) | Err(NvmlError::NOT_SUPPORTED | NvmlError::FUNCTION_NOT_FOUND) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        }
        // Indices without an instance are left out.
        let instance = |index: u32| {
            let handle = self.instance(of, index).ok()?;
            let model = self.name(handle).ok()?;
            Some(NvmlDevice { name: format!("{name}-mig{index}"), model, is_instance: true, handle })
        };
        Ok((0..self.most_instances(of)?).filter_map(instance).collect())
    }

    /// The driver and the devices, by name and model.
    ///
    /// # Errors
    ///
    /// As [`Nvml::devices`].
    pub fn inventory(&self) -> Result<NvmlInventory, NvmlError> {
        let devices = self.devices()?.into_iter().map(|device| (device.name, device.model)).collect();
        Ok(NvmlInventory { driver: self.driver_version()?, devices })
    }
}
