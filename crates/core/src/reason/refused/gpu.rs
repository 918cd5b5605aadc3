//! Drivers of GPUs that do not report a quantity.

use std::fmt;
use std::time::Duration;

use crate::nvml::NvmlObstacle;
use crate::refusal::RefusalKind;

/// Why the driver of a GPU does not report a quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GpuObstacle {
    /// NVIDIA's management library gives no answer.
    Nvml(NvmlObstacle),
    /// NVML has quantities by process, and names processes by ids that a container does not see.
    ProcessIdsOfHost,
    /// NVML lists no device.
    NoNvmlDevice,
    /// NVML has no device of this name.
    UnknownDevice {
        /// The name.
        name: String,
        /// The devices that it has.
        known: Vec<String>,
    },
    /// NVML has instances of devices only, and no whole device.
    OnlyInstances {
        /// The instances.
        known: Vec<String>,
    },
    /// Drivers report for whole devices.
    NotOfControlGroups,
    /// A file of the driver cannot be read.
    Unreadable {
        /// Its path.
        path: String,
        /// The kind of error.
        kind: std::io::ErrorKind,
        /// The kernel's words.
        error: String,
    },
    /// A file of the driver has no number.
    NoNumber {
        /// Its path.
        path: String,
    },
    /// The thread that reads the driver cannot be started.
    NoThread {
        /// The kernel's words.
        error: String,
    },
    /// The driver did not answer in time.
    NoAnswer {
        /// The driver.
        driver: &'static str,
        /// The time that it had.
        limit: Duration,
    },
    /// The obstacle of one device.
    OfDevice {
        /// The device.
        device: String,
        /// The obstacle.
        obstacle: Box<GpuObstacle>,
    },
}

impl GpuObstacle {
    /// The kind of refusal of an event.
    pub fn refusal_kind(&self) -> RefusalKind {
        use std::io::ErrorKind as Io;
        match self {
            GpuObstacle::Nvml(obstacle) => obstacle.refusal_kind(),
            GpuObstacle::ProcessIdsOfHost
            | GpuObstacle::NoNvmlDevice
            | GpuObstacle::UnknownDevice { .. }
            | GpuObstacle::OnlyInstances { .. }
            | GpuObstacle::Unreadable { kind: Io::NotFound, .. } => RefusalKind::NotSupported,
            GpuObstacle::NotOfControlGroups => RefusalKind::TargetNotSupported,
            GpuObstacle::Unreadable { kind: Io::PermissionDenied, .. } => RefusalKind::NoPermission,
            GpuObstacle::Unreadable { .. }
            | GpuObstacle::NoNumber { .. }
            | GpuObstacle::NoThread { .. }
            | GpuObstacle::NoAnswer { .. } => RefusalKind::Unavailable,
            GpuObstacle::OfDevice { obstacle, .. } => obstacle.refusal_kind(),
        }
    }
}

impl fmt::Display for GpuObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GpuObstacle::Nvml(obstacle) => {
                obstacle.fmt(f)?;
                let command = obstacle.cause().mend;
                command.map_or(Ok(()), |command| write!(f, "; to look into it: {command}"))
            }
            GpuObstacle::ProcessIdsOfHost => f.write_str(
                "NVML names processes by their ids on the host, which a container does not see: measure on the \
                 host",
            ),
            GpuObstacle::NoNvmlDevice => f.write_str("NVML lists no device"),
            GpuObstacle::UnknownDevice { name, known } => {
                write!(f, "NVML has no device {name}; it has {}", known.join(", "))
            }
            GpuObstacle::OnlyInstances { known } => {
                write!(f, "NVML has instances only, no whole device: name one of {}", known.join(", "))
            }
            GpuObstacle::NotOfControlGroups => f.write_str(
                "a GPU reports for whole devices, not for control groups: count the machine (-a)",
            ),
            GpuObstacle::Unreadable { path, kind, error } => {
                write!(f, "{path} cannot be read: {error}")?;
                match kind {
                    std::io::ErrorKind::PermissionDenied => {
                        write!(f, "; to permit it: sudo chmod a+r {path}")
                    }
                    _ => Ok(()),
                }
            }
            GpuObstacle::NoNumber { path } => write!(f, "{path} holds no number"),
            GpuObstacle::NoThread { error } => {
                write!(f, "no thread can be started to read GPUs: {error}")
            }
            GpuObstacle::NoAnswer { driver, limit } => {
                write!(f, "{driver} did not answer within {} s", limit.as_secs_f64())
            }
            GpuObstacle::OfDevice { device, obstacle } => write!(f, "{device}: {obstacle}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvml::NvmlReturn;

    #[test]
    fn the_obstacle_of_a_device_has_its_kind_and_its_name() {
        let lost = GpuObstacle::Nvml(NvmlObstacle::Returned(NvmlReturn::NOT_SUPPORTED));
        let of_device = GpuObstacle::OfDevice { device: "nvidia0".to_owned(), obstacle: Box::new(lost) };
        assert_eq!(of_device.refusal_kind(), RefusalKind::NotSupported);
        assert_eq!(
            of_device.to_string(),
            "nvidia0: the device does not report it (NVML_ERROR_NOT_SUPPORTED)"
        );
    }

    #[test]
    fn a_file_that_only_root_reads_has_the_remedy() {
        let of_kind = |kind| GpuObstacle::Unreadable {
            path: "/sys/f".to_owned(),
            kind,
            error: "the kernel's words".to_owned(),
        };
        let denied = of_kind(std::io::ErrorKind::PermissionDenied);
        assert_eq!(denied.refusal_kind(), RefusalKind::NoPermission);
        assert!(denied.to_string().ends_with("to permit it: sudo chmod a+r /sys/f"), "{denied}");
        let absent = of_kind(std::io::ErrorKind::NotFound);
        assert_eq!(absent.refusal_kind(), RefusalKind::NotSupported);
        assert!(!absent.to_string().contains("chmod"), "{absent}");
        assert_eq!(of_kind(std::io::ErrorKind::Other).refusal_kind(), RefusalKind::Unavailable);
    }

    #[test]
    fn an_obstacle_of_nvml_that_can_be_lifted_has_the_command() {
        let of = |code| GpuObstacle::Nvml(NvmlObstacle::Returned(NvmlReturn(code))).to_string();
        assert!(of(9).ends_with("(NVML_ERROR_DRIVER_NOT_LOADED); to look into it: sudo modprobe nvidia"));
        assert!(!of(3).contains("to look into it"));
    }
}
