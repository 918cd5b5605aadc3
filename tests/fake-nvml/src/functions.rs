//! The functions of NVML, with their names and signatures.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::scenario::FaultEffect;
use crate::{OPENED, SCENARIO, Scenario};

const NOT_SUPPORTED: c_int = 3;
const INVALID_ARGUMENT: c_int = 2;
const UNINITIALIZED: c_int = 1;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;

/// The driver behind this copy of the library.
struct Driver {
    scenario: Scenario,
    is_open: bool,
    /// Number of calls so far, by function.
    calls: BTreeMap<String, u64>,
    /// Number of reads so far, by device and quantity.
    reads: BTreeMap<(usize, String), u64>,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let text = beside(SCENARIO).and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{SCENARIO}: {error}"));
    Mutex::new(Driver { scenario, is_open: false, calls: BTreeMap::new(), reads: BTreeMap::new() })
});

fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file beside this copy of the library.
fn beside(name: &str) -> Option<PathBuf> {
    let here: extern "C" fn() -> c_int = nvmlShutdown;
    cyclometer_fake_library::beside(here as usize, name)
}

impl Driver {
    /// The effect of a call on a device, if it fails.
    fn fault(&mut self, call: &str, device: Option<usize>) -> Option<FaultEffect> {
        let count = self.calls.entry(call.to_owned()).or_default();
        *count += 1;
        let nth = *count;
        let index = device.and_then(|device| self.scenario.whole_devices().position(|whole| whole == device));
        let fits = |fault: &&crate::Fault| {
            let is_device = fault.device.is_none() || fault.device == index;
            fault.call == call && is_device && fault.nth.is_none_or(|number| number == nth)
        };
        self.scenario.faults.iter().find(fits).map(|fault| fault.effect)
    }

    /// The value of a quantity at its next read.
    fn value(&mut self, device: usize, quantity: &str) -> Result<u64, c_int> {
        let known = self.scenario.devices.get(device).ok_or(INVALID_ARGUMENT)?.quantities.get(quantity);
        let (value, step) = *known.ok_or(NOT_SUPPORTED)?;
        let reads = self.reads.entry((device, quantity.to_owned())).or_default();
        *reads += 1;
        Ok(value + step * (*reads - 1))
    }
}

/// A handle of a device is its index, plus 1 so that it is not null.
fn handle(device: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(device + 1)
}

fn device_of(handle: *mut c_void) -> usize {
    handle.addr().wrapping_sub(1)
}

/// Makes a call: fails as the scenario says, else does the work.
fn call(name: &str, device: Option<usize>, work: impl FnOnce(&mut Driver) -> Result<(), c_int>) -> c_int {
    let mut driver = driver();
    match driver.fault(name, device) {
        Some(FaultEffect::Code(code)) => return code,
        Some(FaultEffect::Hang) => {
            drop(driver);
            loop {
                std::thread::park();
            }
        }
        None => {}
    }
    if !driver.is_open && name != "nvmlInit_v2" {
        return UNINITIALIZED;
    }
    work(&mut driver).err().unwrap_or(0)
}

/// Writes a result where the caller has it.
fn put<T>(place: *mut T, value: T) -> Result<(), c_int> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller of the library has the place for a value of this type.
    unsafe { place.write(value) };
    Ok(())
}

/// The number that the caller has at a place.
fn number_at(place: *mut c_uint) -> c_uint {
    // SAFETY: the caller of the library has a number here.
    unsafe { place.read() }
}

/// Writes one of several results; the caller has room for it.
fn put_at<T>(places: *mut T, index: usize, value: T) -> Result<(), c_int> {
    // SAFETY: the caller has room for as many as it says, and this is one of them.
    put(unsafe { places.add(index) }, value)
}

fn put_text(place: *mut c_char, length: c_uint, text: &str) -> Result<(), c_int> {
    let bytes = [text.as_bytes(), b"\0"].concat();
    if bytes.len() > length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller has room for `length` bytes, and as many at most are copied.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), place, bytes.len()) };
    Ok(())
}

/// A quantity of 32 bits.
fn number(name: &str, device: *mut c_void, quantity: &str, place: *mut c_uint) -> c_int {
    let device = device_of(device);
    call(name, Some(device), |driver| put(place, driver.value(device, quantity)? as c_uint))
}

/// Initialises the library.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    if let Some(file) = beside(OPENED) {
        let _ = std::fs::write(file, "");
    }
    call("nvmlInit_v2", None, |driver| {
        driver.is_open = true;
        Ok(())
    })
}

/// Shuts the library down.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    call("nvmlShutdown", None, |driver| {
        driver.is_open = false;
        Ok(())
    })
}

/// The version of the driver.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) -> c_int {
    call("nvmlSystemGetDriverVersion", None, |driver| put_text(text, length, &driver.scenario.driver))
}

/// The number of devices.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    let whole = |driver: &mut Driver| driver.scenario.whole_devices().count() as c_uint;
    call("nvmlDeviceGetCount_v2", None, |driver| put(count, whole(driver)))
}

/// The handle of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, place: *mut *mut c_void) -> c_int {
    call("nvmlDeviceGetHandleByIndex_v2", None, |driver| {
        let device = driver.scenario.whole_devices().nth(index as usize).ok_or(INVALID_ARGUMENT)?;
        put(place, handle(device))
    })
}

/// The model of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(device: *mut c_void, text: *mut c_char, length: c_uint) -> c_int {
    let device = device_of(device);
    call("nvmlDeviceGetName", Some(device), |driver| {
        put_text(text, length, &driver.scenario.devices.get(device).ok_or(INVALID_ARGUMENT)?.model)
    })
}

/// Whether a device is divided, now and after a reset.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(
    device: *mut c_void,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_int {
    let device = device_of(device);
    call("nvmlDeviceGetMigMode", Some(device), |driver| {
        let is_own =
            |other: &crate::FakeDevice| other.instance_of.is_some_and(|(parent, _)| parent == device);
        if !driver.scenario.devices.iter().any(is_own) {
            return Err(NOT_SUPPORTED);
        }
        put(current, 1)?;
        put(pending, 1)
    })
}

/// The most instances of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: *mut c_void, count: *mut c_uint) -> c_int {
    call("nvmlDeviceGetMaxMigDeviceCount", Some(device_of(device)), |_| put(count, 7))
}

/// An instance of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: *mut c_void,
    index: c_uint,
    place: *mut *mut c_void,
) -> c_int {
    let device = device_of(device);
    call("nvmlDeviceGetMigDeviceHandleByIndex", Some(device), |driver| {
        let is_it = |other: &crate::FakeDevice| other.instance_of == Some((device, index));
        let found = driver.scenario.devices.iter().position(is_it).ok_or(NOT_FOUND)?;
        put(place, handle(found))
    })
}

/// Shares of the last sampling period, in percent.
#[repr(C)]
pub struct Utilisation {
    device: c_uint,
    memory: c_uint,
}

/// The shares of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(device: *mut c_void, place: *mut Utilisation) -> c_int {
    let of = device_of(device);
    call("nvmlDeviceGetUtilizationRates", Some(of), |driver| {
        let device = driver.value(of, "utilisation")? as c_uint;
        let memory = driver.value(of, "memory-utilisation").unwrap_or_default() as c_uint;
        put(place, Utilisation { device, memory })
    })
}

/// A clock.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetClockInfo(device: *mut c_void, clock: c_uint, place: *mut c_uint) -> c_int {
    let quantity = if clock == 1 { "sm-clock" } else { "memory-clock" };
    number("nvmlDeviceGetClockInfo", device, quantity, place)
}

/// The power of the board.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(device: *mut c_void, place: *mut c_uint) -> c_int {
    number("nvmlDeviceGetPowerUsage", device, "power", place)
}

/// The energy of the board.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: *mut c_void, place: *mut u64) -> c_int {
    let device = device_of(device);
    call("nvmlDeviceGetTotalEnergyConsumption", Some(device), |driver| {
        put(place, driver.value(device, "energy")?)
    })
}

/// Memory in bytes.
#[repr(C)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// The memory of a device; the scenario has it in MiB.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(device: *mut c_void, place: *mut Memory) -> c_int {
    let device = device_of(device);
    call("nvmlDeviceGetMemoryInfo", Some(device), |driver| {
        let (total, used) = (80 << 30, driver.value(device, "memory-used")? << 20);
        put(place, Memory { total, free: total - used, used })
    })
}

/// A process with memory on a device.
#[repr(C)]
pub struct Process {
    pid: c_uint,
    used_bytes: u64,
    device_instance: c_uint,
    compute_instance: c_uint,
}

/// Ids of the processes of a name.
fn processes_named(name: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_named = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    pids.filter(is_named).collect()
}

/// The processes that compute on a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: *mut c_void,
    count: *mut c_uint,
    places: *mut Process,
) -> c_int {
    let device = device_of(device);
    call("nvmlDeviceGetComputeRunningProcesses_v3", Some(device), |driver| {
        let named = &driver.scenario.devices.get(device).ok_or(INVALID_ARGUMENT)?.processes;
        let mut all = Vec::new();
        for (name, mib) in named {
            all.extend(processes_named(name).into_iter().map(|pid| (pid, mib << 20)));
        }
        let room = number_at(count) as usize;
        for (i, (pid, used_bytes)) in all.iter().take(room).enumerate() {
            let process =
                Process { pid: *pid, used_bytes: *used_bytes, device_instance: 0, compute_instance: 0 };
            put_at(places, i, process)?;
        }
        put(count, all.len() as c_uint)
    })
}

/// PCIe transfers.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPcieThroughput(
    device: *mut c_void,
    direction: c_uint,
    place: *mut c_uint,
) -> c_int {
    let quantity = if direction == 0 { "pcie-tx" } else { "pcie-rx" };
    number("nvmlDeviceGetPcieThroughput", device, quantity, place)
}

/// The temperature of the chip.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(
    device: *mut c_void,
    _sensor: c_uint,
    place: *mut c_uint,
) -> c_int {
    number("nvmlDeviceGetTemperature", device, "temperature", place)
}

/// The reasons why clocks are held down, by the older name of the function.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: *mut c_void, place: *mut u64) -> c_int {
    let device = device_of(device);
    let name = "nvmlDeviceGetCurrentClocksThrottleReasons";
    call(name, Some(device), |driver| put(place, driver.value(device, "reasons")?))
}
