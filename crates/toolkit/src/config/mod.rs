//! Settings of monitors from files and the environment.
//!
//! A setting closer to the program wins: a call of the builder, then the environment, then the file. Nothing
//! is read unasked: a program that wants files and the environment calls [`Config::load`].

mod environment;
mod keys;
#[cfg(feature = "yaml")]
mod yaml;

use std::path::Path;

use cyclometer_backend::Serialisation;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_monitor::LadderStep;

pub use keys::{CONFIG_KEYS, ConfigKey};

/// Settings of a monitor, each of which may be missing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    /// A thread reads all counters this often, in ms: 1 to 3600000.
    pub sampling_interval_ms: Option<u32>,
    /// How many samples are kept until they are fetched: 1 to 1048576.
    pub buffer_size: Option<u32>,
    /// How many events may need a hardware counter: 1 to 1024.
    pub max_counters: Option<u32>,
    /// How reads in user space are kept apart from the instructions around them.
    pub serialisation: Option<Serialisation>,
    /// Settings for Apple's CPUs.
    pub apple_silicon: AppleConfig,
    /// Settings for x86.
    pub x86: X86Config,
    /// Settings that were ignored when the configuration was read, as steps for the monitor's ladder.
    pub steps: Vec<LadderStep>,
}

/// Settings for Apple's CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct AppleConfig {
    /// Registers are used only if the kernel gives access to them; if it does not, a step says so, and the
    /// next source is used.
    pub kernel_patch_required: Option<bool>,
    /// Regions that are counted by registers are lost when they last longer, in µs: 1 to 1000000.
    pub max_monitor_duration_us: Option<u32>,
    /// Hardware is used on these chips only: `M1`, `M1 Pro/Max/Ultra`.
    pub supported_chips: Option<Vec<String>>,
}

/// Settings for x86.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct X86Config {
    /// A monitor is not built without root's rights.
    pub require_root: Option<bool>,
    /// The kernel's setting is asked before counters are read in user space.
    pub pce_flag_check: Option<bool>,
    /// Hardware is used on CPUs of these vendors only.
    pub supported_vendors: Option<Vec<String>>,
}

impl Config {
    /// Reads `file`, and then the environment, which overrides it: variables such as
    /// `CYCLOMETER_BUFFER_SIZE`, for each of [`CONFIG_KEYS`]. Without a file that of the variable
    /// `CYCLOMETER_CONFIG` is taken, if it is set.
    ///
    /// Root and programs with more rights than their caller ignore the environment; [`Config::steps`] lists
    /// the ignored settings.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io` for a file that cannot be read. `ErrorKind::InvalidInput` for an invalid setting, with
    /// line and column, or with the variable. `ErrorKind::EventUnsupported` for any file if this crate was
    /// built without its feature `yaml`.
    pub fn load(file: Option<&Path>) -> Result<Config> {
        environment::load(file, |name| std::env::var_os(name), environment::is_trusted())
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn from_file(path: &Path) -> Result<Config> {
        let name = path.display().to_string().escape_debug().to_string();
        let failed = |e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot read the configuration '{name}': {e}")).with_source(e)
        };
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > LONGEST {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("the configuration '{name}' has {length} bytes; {LONGEST} is the most"),
            ));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Config::from_yaml(&text).map_err(|e| {
            let recovery = e.recovery().clone();
            Error::new(e.kind(), format!("{name}: {e}")).with_recovery(recovery)
        })
    }

    /// Reads YAML: a mapping `performance_monitoring` with [`CONFIG_KEYS`].
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` with line and column for invalid YAML, an unknown key, or a value of the
    /// wrong type or range.
    pub fn from_yaml(text: &str) -> Result<Config> {
        from_yaml(text)
    }

    /// These settings, and where one is missing that of `other`.
    #[must_use]
    pub fn or(self, other: Config) -> Config {
        let mut steps = other.steps;
        steps.extend(self.steps);
        let (apple, x86) = (self.apple_silicon, self.x86);
        Config {
            sampling_interval_ms: self.sampling_interval_ms.or(other.sampling_interval_ms),
            buffer_size: self.buffer_size.or(other.buffer_size),
            max_counters: self.max_counters.or(other.max_counters),
            serialisation: self.serialisation.or(other.serialisation),
            apple_silicon: AppleConfig {
                kernel_patch_required: apple
                    .kernel_patch_required
                    .or(other.apple_silicon.kernel_patch_required),
                max_monitor_duration_us: apple
                    .max_monitor_duration_us
                    .or(other.apple_silicon.max_monitor_duration_us),
                supported_chips: apple.supported_chips.or(other.apple_silicon.supported_chips),
            },
            x86: X86Config {
                require_root: x86.require_root.or(other.x86.require_root),
                pce_flag_check: x86.pce_flag_check.or(other.x86.pce_flag_check),
                supported_vendors: x86.supported_vendors.or(other.x86.supported_vendors),
            },
            steps,
        }
    }
}

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

#[cfg(feature = "yaml")]
fn from_yaml(text: &str) -> Result<Config> {
    yaml::read(text)
}

#[cfg(not(feature = "yaml"))]
fn from_yaml(_: &str) -> Result<Config> {
    Err(Error::new(ErrorKind::EventUnsupported, "this program was built without configuration files")
        .with_recovery(Recovery::fix("build the crate cyclometer with its feature yaml")))
}

/// An error about invalid input.
pub(crate) fn invalid(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(hint))
}
