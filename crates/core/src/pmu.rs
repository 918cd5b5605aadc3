//! The kernel's PMU devices as plain values: formats, named events, terms to config words.

use std::collections::BTreeMap;
use std::fmt;

use crate::cpuset::CpuSet;

/// One device below `/sys/bus/event_source/devices`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KernelPmu {
    /// Its folder name: `cpu`, `cpu_core`, `armv8_cortex_a53`, `msr`, `power`.
    pub name: String,
    /// `perf_event_attr.type` of its events.
    pub pmu_type: u32,
    /// The CPUs on which its task events count (`cpus`); `None` when there is no such file.
    pub cpus: Option<CpuSet>,
    /// The CPUs on which its package- or system-wide events are to be opened (`cpumask`).
    pub cpumask: Option<CpuSet>,
    /// Field name to its bits (`format/`).
    pub formats: BTreeMap<String, FormatField>,
    /// Event name to its definition (`events/`).
    pub events: BTreeMap<String, PmuEvent>,
    /// Capability name to its text (`caps/`).
    pub caps: BTreeMap<String, String>,
    /// `rdpmc`: 0 off, 1 for tasks that have such an event mapped, 2 for all (x86 only).
    pub rdpmc: Option<u32>,
}

impl KernelPmu {
    /// Whether the device is a core PMU: it counts for tasks what CPU cores do. Arm gives them a `cpus` file;
    /// an uncore device has a `cpumask` instead.
    pub fn is_core(&self) -> bool {
        let named = CorePmuName::of(&self.name).is_some();
        self.cpumask.is_none() && (named || self.cpus.is_some())
    }
}

/// The kernel's driver of a core PMU, by the name of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CorePmuName<'a> {
    /// `cpu`: x86 without core types, and RISC-V.
    Cpu,
    /// `cpu_core`, `cpu_atom`, `cpu_lowpower`: the core type of an x86 hybrid.
    CoreType(&'a str),
    /// `armv8_cortex_a53` and the like.
    Arm {
        /// The version of the architecture: 7, 8, 9.
        version: u32,
    },
    /// `apple_firestorm_pmu` and the like.
    Apple,
}

impl<'a> CorePmuName<'a> {
    /// The driver that names a device so; `None` for other devices.
    ///
    /// # Source
    ///
    /// Linux `arch/x86/events/intel/core.c`, `drivers/perf/arm_pmuv3.c`, `drivers/perf/riscv_pmu_sbi.c`,
    /// `drivers/perf/apple_m1_cpu_pmu.c`.
    pub fn of(name: &'a str) -> Option<CorePmuName<'a>> {
        match name.strip_prefix("cpu_") {
            Some(core_type) => Some(CorePmuName::CoreType(core_type)),
            None if name == "cpu" => Some(CorePmuName::Cpu),
            None => of_arm(name).or_else(|| is_of_apple(name).then_some(CorePmuName::Apple)),
        }
    }

    /// Whether the driver shares counters with programs only when `config1` requests it at the time of
    /// opening.
    ///
    /// # Source
    ///
    /// Linux `drivers/perf/arm_pmuv3.c`, format attribute `rdpmc`.
    pub fn shares_counters_on_request(self) -> bool {
        matches!(self, CorePmuName::Arm { version: 8.. })
    }
}

/// The driver for Arm's cores, whose devices are named `armvN_` and the core.
fn of_arm(name: &str) -> Option<CorePmuName<'_>> {
    let (version, _) = name.strip_prefix("armv")?.split_once('_')?;
    Some(CorePmuName::Arm { version: version.parse().ok()? })
}

/// Whether a PMU of this name is driven by the kernel's driver for Apple's cores.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`: `apple_firestorm_pmu` and the like.
pub fn is_of_apple(name: &str) -> bool {
    name.starts_with("apple_")
}

/// Names of PMUs, each once, in a fixed order; at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PmuSet(Vec<String>);

impl PmuSet {
    /// These PMUs; `None` for none.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<PmuSet> {
        let mut set: Vec<String> = Vec::new();
        for name in names {
            if !set.iter().any(|known| known == name) {
                set.push(name.to_owned());
            }
        }
        (!set.is_empty()).then_some(PmuSet(set))
    }

    /// Whether it has this PMU.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// Whether it has this PMU and no other.
    pub fn is_only(&self, name: &str) -> bool {
        self.0.len() == 1 && self.contains(name)
    }
}

impl fmt::Display for PmuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" and "))
    }
}

/// A named event of a device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PmuEvent {
    /// The terms, as in `event=0x3c,umask=0x01`.
    pub terms: String,
    /// The value of one count; 1 unless a `.scale` file specifies another.
    pub scale: Option<f64>,
    /// The unit after scaling (`Joules`), from the `.unit` file.
    pub unit: Option<String>,
}

/// How a family of CPUs lays out its registers for events and counters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Family {
    /// `IA32_PERFEVTSELx`.
    #[default]
    Intel,
    /// `PERF_CTLn`.
    Amd,
    /// `PMEVTYPERn_EL0`.
    Arm,
    /// `mhpmeventN`, behind the SBI.
    RiscV,
    /// `PMESR0`, `PMESR1`.
    Apple,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 5] = [Family::Intel, Family::Amd, Family::Arm, Family::RiscV, Family::Apple];

    /// The word in tables, and the folder of its tables.
    pub const fn word(self) -> &'static str {
        match self {
            Family::Intel => "intel",
            Family::Amd => "amd",
            Family::Arm => "arm",
            Family::RiscV => "riscv",
            Family::Apple => "apple",
        }
    }
}

/// The word of `perf_event_attr` that contains a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConfigWord {
    /// `config`.
    Config,
    /// `config1`.
    Config1,
    /// `config2`.
    Config2,
}

/// The three config words of `perf_event_attr`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ConfigWords {
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
}

impl ConfigWords {
    fn word_mut(&mut self, word: ConfigWord) -> &mut u64 {
        match word {
            ConfigWord::Config => &mut self.config,
            ConfigWord::Config1 => &mut self.config1,
            ConfigWord::Config2 => &mut self.config2,
        }
    }
}

/// The location of a field: a word and bit ranges, filled from the low range up.
///
/// # Source
///
/// `Documentation/ABI/testing/sysfs-bus-event_source-devices-format`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatField {
    /// The word.
    pub word: ConfigWord,
    /// Inclusive bit ranges, in the order of the file: the first range takes the value's low bits.
    pub ranges: Vec<(u32, u32)>,
}

impl FormatField {
    /// Parses `config:0-7`, `config:8-15,40-47`, `config1:0`.
    pub fn parse(text: &str) -> Option<FormatField> {
        let (word, bits) = text.trim().split_once(':')?;
        let word = match word {
            "config" => ConfigWord::Config,
            "config1" => ConfigWord::Config1,
            "config2" => ConfigWord::Config2,
            _ => return None,
        };
        let ranges: Option<Vec<_>> = bits.split(',').map(parse_bits).collect();
        Some(FormatField { word, ranges: ranges? })
    }

    /// How many bits the field holds, at most 64.
    pub fn width(&self) -> u32 {
        self.ranges.iter().map(|(low, high)| high - low + 1).sum::<u32>().min(64)
    }

    /// Puts `value` into the field.
    ///
    /// # Errors
    ///
    /// The greatest value that fits, when `value` does not.
    pub fn deposit(&self, value: u64, words: &mut ConfigWords) -> Result<(), u64> {
        let greatest = mask(self.width());
        if value > greatest {
            return Err(greatest);
        }
        let target = words.word_mut(self.word);
        let mut rest = value;
        for &(low, high) in &self.ranges {
            let width = high - low + 1;
            *target &= !(mask(width) << low);
            *target |= (rest & mask(width)) << low;
            rest = rest.checked_shr(width).unwrap_or(0);
        }
        Ok(())
    }
}

fn parse_bits(range: &str) -> Option<(u32, u32)> {
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high && high < 64).then_some((low, high))
}

fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_pmu_is_known_by_the_name_that_its_driver_gives_it() {
        for (name, expected) in [
            ("cpu", Some(CorePmuName::Cpu)),
            ("cpu_atom", Some(CorePmuName::CoreType("atom"))),
            ("armv8_cortex_a53", Some(CorePmuName::Arm { version: 8 })),
            ("armv7_cortex_a15", Some(CorePmuName::Arm { version: 7 })),
            ("armv_cortex", None),
            ("apple_icestorm_pmu", Some(CorePmuName::Apple)),
            ("cpum_cf", None),
            ("uncore_imc_0", None),
            ("msr", None),
        ] {
            assert_eq!(CorePmuName::of(name), expected, "{name}");
        }
    }

    #[test]
    fn counters_of_pmuv3_are_shared_on_request() {
        let on_request = |name| CorePmuName::of(name).is_some_and(CorePmuName::shares_counters_on_request);
        assert!(on_request("armv8_pmuv3_0") && on_request("armv9_cortex_a710"));
        assert!(!on_request("armv7_cortex_a15") && !on_request("cpu") && !on_request("apple_firestorm_pmu"));
    }

    #[test]
    fn a_set_of_pmus_has_each_once_and_is_never_empty() {
        let set = PmuSet::new(["cpu_core", "cpu_core", "cpu_atom"]).unwrap();
        assert_eq!(set.to_string(), "cpu_core and cpu_atom");
        assert!(set.contains("cpu_atom") && !set.contains("cpu") && !set.is_only("cpu_core"));
        assert!(PmuSet::new(["cpu_core"; 2]).unwrap().is_only("cpu_core"));
        assert_eq!(PmuSet::new([]), None);
    }

    #[test]
    fn the_kernels_driver_for_apples_cores_has_pmus_of_a_common_prefix() {
        assert!(is_of_apple("apple_icestorm_pmu") && is_of_apple("apple_firestorm_pmu"));
        assert!(!is_of_apple("cpu") && !is_of_apple("armv8_cortex_a53"));
    }

    fn deposit(format: &str, value: u64) -> Result<ConfigWords, u64> {
        let mut words = ConfigWords::default();
        FormatField::parse(format).unwrap().deposit(value, &mut words).map(|()| words)
    }

    #[test]
    fn a_field_in_two_ranges_fills_the_low_range_first() {
        assert_eq!(deposit("config:8-15,40-47", 0x01ff).unwrap().config, 0x100_0000_ff00);
        assert_eq!(deposit("config:0-7,32-35", 0x28f).unwrap().config, 0x2_0000_008f);
    }

    #[test]
    fn a_field_lands_in_its_word() {
        assert_eq!(deposit("config1:0-63", u64::MAX).unwrap().config1, u64::MAX);
        assert_eq!(deposit("config2:3", 1).unwrap().config2, 8);
    }

    #[test]
    fn a_value_too_large_is_refused_with_the_greatest_that_fits() {
        assert_eq!(deposit("config:24-31", 256), Err(255));
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for bad in ["config", "config:7-0", "config:64", "configX:1", "config:0-7,"] {
            assert_eq!(FormatField::parse(bad), None, "{bad}");
        }
    }
}
