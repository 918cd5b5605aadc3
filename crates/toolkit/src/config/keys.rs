//! The keys: their types, ranges and effects.

use std::fmt;

use cyclometer_backend::Serialisation;

use super::Config;

/// One key of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigKey {
    /// Its path below `performance_monitoring`, with dots (`x86.require_root`).
    pub path: &'static str,
    /// Its type and range, in words.
    pub takes: &'static str,
    /// The effect of the key.
    pub effect: &'static str,
}

impl ConfigKey {
    /// Whether its value is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.path, "apple_silicon.supported_chips" | "x86.supported_vendors")
    }
}

/// Every key, in the order of the documentation.
pub const CONFIG_KEYS: &[ConfigKey] = &[
    ConfigKey {
        path: "sampling_interval_ms",
        takes: "an integer from 1 to 3600000",
        effect: "a thread reads all counters this often, from when the monitor is built until it is dropped",
    },
    ConfigKey {
        path: "buffer_size",
        takes: "an integer from 1 to 1048576",
        effect: "so many samples are kept until they are fetched; of more the oldest are lost, and counted",
    },
    ConfigKey {
        path: "max_counters",
        takes: "an integer from 1 to 1024",
        effect: "a monitor with more events that need a hardware counter is not built",
    },
    ConfigKey {
        path: "serialisation",
        takes: "none, light, memory or full, or x86's instruction for it: lfence, mfence or cpuid",
        effect: "so reads in user space are kept apart from the instructions around them",
    },
    ConfigKey {
        path: "apple_silicon.kernel_patch_required",
        takes: "true or false",
        effect: "on Apple's CPUs: registers are not tried where the kernel gives no access to them, and the ladder warns",
    },
    ConfigKey {
        path: "apple_silicon.max_monitor_duration_us",
        takes: "an integer from 1 to 1000000",
        effect: "regions counted by registers of Apple's CPUs are lost when they last longer; samples are taken in windows of this length at most",
    },
    ConfigKey {
        path: "apple_silicon.supported_chips",
        takes: "a list of names such as M1 or M1 Pro/Max/Ultra",
        effect: "on others of Apple's chips no hardware counter is used",
    },
    ConfigKey {
        path: "x86.require_root",
        takes: "true or false",
        effect: "on x86 a monitor is not built without root's rights",
    },
    ConfigKey {
        path: "x86.pce_flag_check",
        takes: "true or false",
        effect: "on x86 the kernel's setting rdpmc is asked before counters are read in user space; false leaves it to the page",
    },
    ConfigKey {
        path: "x86.supported_vendors",
        takes: "a list of names such as Intel or AMD",
        effect: "on x86 CPUs of others no hardware counter is used",
    },
];

/// A value as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "yaml"), allow(dead_code, reason = "the environment has no mappings"))]
pub(super) enum WrittenValue {
    /// A word; in quotes it is text even where it looks like a number.
    Word {
        text: String,
        quoted: bool,
    },
    List(Vec<String>),
    /// A mapping with keys.
    Mapping,
}

impl WrittenValue {
    fn words(&self) -> String {
        match self {
            WrittenValue::Word { text, quoted: true } => format!("the text \"{}\"", text.escape_debug()),
            WrittenValue::Word { text, .. } if text.is_empty() => "nothing".to_owned(),
            WrittenValue::Word { text, .. } => text.escape_debug().to_string(),
            WrittenValue::List(_) => "a list".to_owned(),
            WrittenValue::Mapping => "a mapping".to_owned(),
        }
    }

    fn integer(&self, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        match self {
            WrittenValue::Word { text, quoted: false } => {
                text.parse().ok().filter(|number| range.contains(number))
            }
            _ => None,
        }
    }

    fn word(&self) -> Option<&str> {
        match self {
            WrittenValue::Word { text, .. } => Some(text),
            _ => None,
        }
    }

    fn boolean(&self) -> Option<bool> {
        match self {
            WrittenValue::Word { text, quoted: false } => text.parse().ok(),
            _ => None,
        }
    }

    fn list(&self) -> Option<Vec<String>> {
        match self {
            WrittenValue::List(list) if list.iter().all(|item| !item.is_empty()) => Some(list.clone()),
            _ => None,
        }
    }
}

/// The longest interval, in ms: an hour.
pub(crate) const LONGEST_INTERVAL_MS: u32 = 3_600_000;
/// The most samples that are kept.
pub(crate) const MOST_SAMPLES: u32 = 1 << 20;

/// Why a key cannot be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SettingError {
    /// There is no key of this path.
    UnknownKey(String),
    /// The key takes other values.
    WrongValue { key: ConfigKey, given: String },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::UnknownKey(path) => f.write_str(&unknown(path)),
            SettingError::WrongValue { key, given } => {
                write!(f, "{} takes {}, and not {given}", key.path, key.takes)
            }
        }
    }
}

/// Sets a key, or returns the error.
pub(super) fn set(config: &mut Config, path: &str, given: &WrittenValue) -> Result<(), SettingError> {
    let Some(key) = CONFIG_KEYS.iter().find(|key| key.path == path) else {
        return Err(SettingError::UnknownKey(path.to_owned()));
    };
    let apple = &mut config.apple_silicon;
    let done = match path {
        "sampling_interval_ms" => {
            put(&mut config.sampling_interval_ms, given.integer(1..=LONGEST_INTERVAL_MS))
        }
        "buffer_size" => put(&mut config.buffer_size, given.integer(1..=MOST_SAMPLES)),
        "max_counters" => put(&mut config.max_counters, given.integer(1..=1024)),
        "serialisation" => put(&mut config.serialisation, given.word().and_then(Serialisation::named)),
        "apple_silicon.kernel_patch_required" => put(&mut apple.kernel_patch_required, given.boolean()),
        "apple_silicon.max_monitor_duration_us" => {
            put(&mut apple.max_monitor_duration_us, given.integer(1..=1_000_000))
        }
        "apple_silicon.supported_chips" => put(&mut apple.supported_chips, given.list()),
        "x86.require_root" => put(&mut config.x86.require_root, given.boolean()),
        "x86.pce_flag_check" => put(&mut config.x86.pce_flag_check, given.boolean()),
        "x86.supported_vendors" => put(&mut config.x86.supported_vendors, given.list()),
        _ => false,
    };
    done.then_some(()).ok_or_else(|| SettingError::WrongValue { key: *key, given: given.words() })
}

fn put<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    *place = value;
    is_some
}

/// The message about an unknown key: it lists the keys of the same section.
fn unknown(path: &str) -> String {
    let (room, key) = path.rsplit_once('.').unwrap_or(("", path));
    let beside = |known: &ConfigKey| {
        let (its_room, name) = known.path.rsplit_once('.').unwrap_or(("", known.path));
        (its_room == room).then(|| name.to_owned())
    };
    let mut names: Vec<String> = CONFIG_KEYS.iter().filter_map(beside).collect();
    if room.is_empty() {
        names.extend(ROOMS.iter().map(|room| (*room).to_owned()));
    }
    format!("there is no key '{}'; there are {}", key.escape_debug(), names.join(", "))
}

/// Keys that have keys below them.
pub(super) const ROOMS: [&str; 2] = ["apple_silicon", "x86"];
