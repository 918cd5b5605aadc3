//! The functions of NVML, found at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use super::NvmlError;
use crate::macos::Library;

/// A device or a MIG instance, as NVML names it. It is valid as long as the library is initialised.
#[derive(Clone, Copy, Debug)]
pub struct NvmlHandle(*mut c_void);

/// Shares of the last sampling period, in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct NvmlUtilisation {
    /// Time in which a kernel executed.
    pub device: c_uint,
    /// Time in which the memory was accessed.
    pub memory: c_uint,
}

/// A process with memory on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct NvmlProcess {
    /// Its process id.
    pub pid: c_uint,
    /// The memory that it uses, in bytes; all bits set where the driver does not know.
    pub used_bytes: u64,
    /// The instance of the device, where it is divided.
    pub device_instance: c_uint,
    /// The compute instance.
    pub compute_instance: c_uint,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MemoryInfo {
    total: u64,
    free: u64,
    used: u64,
}

/// A clock of a device.
///
/// # Source
///
/// NVML API Reference Guide, `nvmlClockType_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NvmlClock {
    /// That of the shader cores.
    Sm = 1,
    /// That of the memory.
    Memory = 2,
}

/// A direction of PCIe transfers, as seen from the device.
///
/// # Source
///
/// NVML API Reference Guide, `nvmlPcieUtilCounter_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NvmlDirection {
    /// The device sends.
    Transmit = 0,
    /// The device receives.
    Receive = 1,
}

type PlainFunction = extern "C" fn() -> c_int;
type DeviceCountFunction = unsafe extern "C" fn(*mut c_uint) -> c_int;
type TextFunction = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
type HandleFunction = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int;
type InstanceFunction = unsafe extern "C" fn(*mut c_void, c_uint, *mut *mut c_void) -> c_int;
type DeviceTextFunction = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_int;
type DeviceNumberFunction = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> c_int;
type DevicePairFunction = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> c_int;
type DeviceWordFunction = unsafe extern "C" fn(*mut c_void, *mut u64) -> c_int;
type DeviceChoiceFunction = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int;
type UtilisationFunction = unsafe extern "C" fn(*mut c_void, *mut NvmlUtilisation) -> c_int;
type MemoryFunction = unsafe extern "C" fn(*mut c_void, *mut MemoryInfo) -> c_int;
type ProcessesFunction = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut NvmlProcess) -> c_int;

/// The initialised library; dropping it shuts the library down.
///
/// # Source
///
/// Signatures: NVML API Reference Guide.
#[derive(Debug)]
pub struct Nvml {
    shutdown: PlainFunction,
    driver_version: Option<TextFunction>,
    device_count: Option<DeviceCountFunction>,
    device: Option<HandleFunction>,
    name: Option<DeviceTextFunction>,
    mig_mode: Option<DevicePairFunction>,
    most_instances: Option<DeviceNumberFunction>,
    instance: Option<InstanceFunction>,
    utilisation: Option<UtilisationFunction>,
    clock: Option<DeviceChoiceFunction>,
    power: Option<DeviceNumberFunction>,
    energy: Option<DeviceWordFunction>,
    memory: Option<MemoryFunction>,
    compute_processes: Option<ProcessesFunction>,
    graphics_processes: Option<ProcessesFunction>,
    pcie: Option<DeviceChoiceFunction>,
    temperature: Option<DeviceChoiceFunction>,
    clock_reasons: Option<DeviceWordFunction>,
}

/// The longest text that is read: a device's name has at most 96 bytes.
const TEXT_BYTES: usize = 128;

/// The most processes of a device that are read.
const MOST_PROCESSES: usize = 1024;

/// The first of several functions that the library has, by name; each field has the signature of its
/// function.
macro_rules! optional {
    ($library:expr, $($name:literal),+) => {
        // SAFETY: the signature of the field is that which the source above gives for these names.
        None $(.or_else(|| unsafe { $library.function($name) }.ok()))+
    };
}

impl Nvml {
    /// Opens the library, finds its functions and initialises it, which may wake devices.
    ///
    /// # Errors
    ///
    /// The dynamic linker's reason; the code of the initialisation.
    pub fn open(path: &Path) -> Result<Nvml, NvmlError> {
        let missing = |error: crate::macos::LibraryError| NvmlError::NoLibrary(error.to_string());
        let library = Library::open(path).map_err(missing)?;
        // SAFETY: this function takes nothing and returns a code.
        let start = unsafe { library.function::<PlainFunction>(c"nvmlInit_v2") }.map_err(missing)?;
        // SAFETY: this function takes nothing and returns a code.
        let shutdown = unsafe { library.function::<PlainFunction>(c"nvmlShutdown") }.map_err(missing)?;
        let nvml = Nvml::find(&library, shutdown);
        match start() {
            0 => Ok(nvml),
            code => {
                // A library that was not initialised is not shut down.
                std::mem::forget(nvml);
                Err(error(code))
            }
        }
    }

    fn find(library: &Library, shutdown: PlainFunction) -> Nvml {
        Nvml {
            shutdown,
            driver_version: optional!(library, c"nvmlSystemGetDriverVersion"),
            device_count: optional!(library, c"nvmlDeviceGetCount_v2"),
            device: optional!(library, c"nvmlDeviceGetHandleByIndex_v2"),
            name: optional!(library, c"nvmlDeviceGetName"),
            mig_mode: optional!(library, c"nvmlDeviceGetMigMode"),
            most_instances: optional!(library, c"nvmlDeviceGetMaxMigDeviceCount"),
            instance: optional!(library, c"nvmlDeviceGetMigDeviceHandleByIndex"),
            utilisation: optional!(library, c"nvmlDeviceGetUtilizationRates"),
            clock: optional!(library, c"nvmlDeviceGetClockInfo"),
            power: optional!(library, c"nvmlDeviceGetPowerUsage"),
            energy: optional!(library, c"nvmlDeviceGetTotalEnergyConsumption"),
            memory: optional!(library, c"nvmlDeviceGetMemoryInfo"),
            // Version 1 has smaller entries.
            compute_processes: optional!(
                library,
                c"nvmlDeviceGetComputeRunningProcesses_v3",
                c"nvmlDeviceGetComputeRunningProcesses_v2"
            ),
            graphics_processes: optional!(
                library,
                c"nvmlDeviceGetGraphicsRunningProcesses_v3",
                c"nvmlDeviceGetGraphicsRunningProcesses_v2"
            ),
            pcie: optional!(library, c"nvmlDeviceGetPcieThroughput"),
            temperature: optional!(library, c"nvmlDeviceGetTemperature"),
            // The newer name of the same function.
            clock_reasons: optional!(
                library,
                c"nvmlDeviceGetCurrentClocksEventReasons",
                c"nvmlDeviceGetCurrentClocksThrottleReasons"
            ),
        }
    }

    /// The version of the driver.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn driver_version(&self) -> Result<String, NvmlError> {
        let call = found(self.driver_version)?;
        // SAFETY: writes at most as many bytes as the buffer has.
        text(|buffer, length| unsafe { call(buffer, length) })
    }

    /// The number of devices.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn device_count(&self) -> Result<u32, NvmlError> {
        let (call, mut count) = (found(self.device_count)?, 0);
        // SAFETY: writes a number to a live integer.
        checked(unsafe { call(&raw mut count) })?;
        Ok(count)
    }

    /// The device of this index.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn device(&self, index: u32) -> Result<NvmlHandle, NvmlError> {
        let (call, mut handle) = (found(self.device)?, ptr::null_mut());
        // SAFETY: writes a handle to a live pointer.
        checked(unsafe { call(index, &raw mut handle) })?;
        Ok(NvmlHandle(handle))
    }

    /// The model of a device.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn name(&self, of: NvmlHandle) -> Result<String, NvmlError> {
        let call = found(self.name)?;
        // SAFETY: the handle is NVML's own, and at most as many bytes are written as the buffer has.
        text(|buffer, length| unsafe { call(of.0, buffer, length) })
    }

    /// Whether a device is divided into MIG instances.
    ///
    /// # Errors
    ///
    /// The code of the function; a device without MIG does not support it.
    pub fn is_divided(&self, of: NvmlHandle) -> Result<bool, NvmlError> {
        let (call, mut current, mut pending) = (found(self.mig_mode)?, 0, 0);
        // SAFETY: the handle is NVML's own, and two numbers are written to live integers.
        checked(unsafe { call(of.0, &raw mut current, &raw mut pending) })?;
        Ok(current == 1)
    }

    /// The most MIG instances of a device.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn most_instances(&self, of: NvmlHandle) -> Result<u32, NvmlError> {
        number(self.most_instances, of)
    }

    /// A MIG instance of a device.
    ///
    /// # Errors
    ///
    /// The code of the function: not every index up to the most has an instance.
    pub fn instance(&self, of: NvmlHandle, index: u32) -> Result<NvmlHandle, NvmlError> {
        let (call, mut handle) = (found(self.instance)?, ptr::null_mut());
        // SAFETY: the handle is NVML's own, and another is written to a live pointer.
        checked(unsafe { call(of.0, index, &raw mut handle) })?;
        Ok(NvmlHandle(handle))
    }

    /// The shares of the last sampling period.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn utilisation(&self, of: NvmlHandle) -> Result<NvmlUtilisation, NvmlError> {
        let (call, mut shares) = (found(self.utilisation)?, NvmlUtilisation::default());
        // SAFETY: the handle is NVML's own, and the struct has the layout of the library's.
        checked(unsafe { call(of.0, &raw mut shares) })?;
        Ok(shares)
    }

    /// A clock, in MHz.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn clock_mhz(&self, of: NvmlHandle, clock: NvmlClock) -> Result<u32, NvmlError> {
        choice(self.clock, of, clock as c_uint)
    }

    /// The power of the board, in mW.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn power_mw(&self, of: NvmlHandle) -> Result<u32, NvmlError> {
        number(self.power, of)
    }

    /// The energy of the board since the driver was loaded, in mJ.
    ///
    /// # Errors
    ///
    /// The code of the function; devices before Volta do not support it.
    pub fn energy_mj(&self, of: NvmlHandle) -> Result<u64, NvmlError> {
        word(self.energy, of)
    }

    /// The memory in use, in bytes.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn used_memory_bytes(&self, of: NvmlHandle) -> Result<u64, NvmlError> {
        let (call, mut memory) = (found(self.memory)?, MemoryInfo::default());
        // SAFETY: the handle is NVML's own, and the struct has the layout of the library's.
        checked(unsafe { call(of.0, &raw mut memory) })?;
        Ok(memory.used)
    }

    /// The processes with a compute context on a device, then those with a graphics context; a process with
    /// both stands twice.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn processes(&self, of: NvmlHandle) -> Result<Vec<NvmlProcess>, NvmlError> {
        let mut all = processes(self.compute_processes, of)?;
        match processes(self.graphics_processes, of) {
            Ok(more) => all.extend(more),
            // A MIG instance has no graphics.
            Err(NvmlError::NOT_SUPPORTED | NvmlError::FUNCTION_NOT_FOUND) => {}
            Err(error) => return Err(error),
        }
        Ok(all)
    }

    /// The data that a device transfers over PCIe, in KB/s. The library measures for 20 ms.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn pcie_kb_per_s(&self, of: NvmlHandle, direction: NvmlDirection) -> Result<u32, NvmlError> {
        choice(self.pcie, of, direction as c_uint)
    }

    /// The temperature of the chip, in degrees Celsius.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn temperature_celsius(&self, of: NvmlHandle) -> Result<u32, NvmlError> {
        choice(self.temperature, of, 0)
    }

    /// The reasons why clocks are not at their highest, as a set of bits.
    ///
    /// # Errors
    ///
    /// The code of the function.
    pub fn clock_reasons(&self, of: NvmlHandle) -> Result<u64, NvmlError> {
        word(self.clock_reasons, of)
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        (self.shutdown)();
    }
}

fn error(code: c_int) -> NvmlError {
    NvmlError::Code(code.unsigned_abs())
}

fn checked(code: c_int) -> Result<(), NvmlError> {
    if code == 0 { Ok(()) } else { Err(error(code)) }
}

/// The function, if the library has it.
fn found<F>(function: Option<F>) -> Result<F, NvmlError> {
    function.ok_or(NvmlError::FUNCTION_NOT_FOUND)
}

fn text(call: impl FnOnce(*mut c_char, c_uint) -> c_int) -> Result<String, NvmlError> {
    let mut buffer = [0_u8; TEXT_BYTES];
    checked(call(buffer.as_mut_ptr().cast(), TEXT_BYTES as c_uint))?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

fn number(function: Option<DeviceNumberFunction>, of: NvmlHandle) -> Result<u32, NvmlError> {
    let (call, mut value) = (found(function)?, 0);
    // SAFETY: the handle is NVML's own, and a number is written to a live integer.
    checked(unsafe { call(of.0, &raw mut value) })?;
    Ok(value)
}

fn word(function: Option<DeviceWordFunction>, of: NvmlHandle) -> Result<u64, NvmlError> {
    let (call, mut value) = (found(function)?, 0);
    // SAFETY: the handle is NVML's own, and a number is written to a live integer.
    checked(unsafe { call(of.0, &raw mut value) })?;
    Ok(value)
}

fn choice(function: Option<DeviceChoiceFunction>, of: NvmlHandle, which: c_uint) -> Result<u32, NvmlError> {
    let (call, mut value) = (found(function)?, 0);
    // SAFETY: the handle is NVML's own, and a number is written to a live integer.
    checked(unsafe { call(of.0, which, &raw mut value) })?;
    Ok(value)
}

fn processes(function: Option<ProcessesFunction>, of: NvmlHandle) -> Result<Vec<NvmlProcess>, NvmlError> {
    let call = found(function)?;
    let mut all = vec![NvmlProcess::default(); MOST_PROCESSES];
    let mut count = MOST_PROCESSES as c_uint;
    // SAFETY: the handle is NVML's own, the struct has the layout of the library's, and at most as many are
    // written as `count` says.
    checked(unsafe { call(of.0, &raw mut count, all.as_mut_ptr()) })?;
    all.truncate(count as usize);
    Ok(all)
}
