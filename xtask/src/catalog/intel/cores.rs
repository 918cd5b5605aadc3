//! The cores of Intel's files: ids, and what the files do not say about them.

use cyclometer_import::intel::map::MapRow;

/// One table to be.
pub(super) struct CoreTable {
    /// The CPU's id as detection gives it; a core type of a hybrid stands behind a slash.
    pub id: &'static str,
    /// The name that people use.
    pub title: &'static str,
    /// Its event file.
    pub file: &'static str,
    /// Its counters.
    pub pmu: ThreadPmu,
    /// Its name in the files of generic events.
    pub generic: &'static str,
}

impl CoreTable {
    /// Whether a row of the map file names this core: the same file can be that of a hybrid's core type and
    /// of a CPU with one core type.
    pub fn has(&self, row: &MapRow) -> bool {
        row.file == self.file && row.core.is_some() == self.id.contains('/')
    }
}

/// The counters of one hardware thread, with Hyper-Threading on where there is any.
#[derive(Clone, Copy)]
pub(super) struct ThreadPmu {
    /// General counters as a bit mask.
    pub general: u64,
    /// Fixed counters as a bit mask.
    pub fixed: u64,
    /// Their width in bits.
    pub width_bits: u32,
    /// Version of architectural performance monitoring.
    pub version: u32,
}

const fn pmu(general: u64, fixed: u64, version: u32) -> ThreadPmu {
    ThreadPmu { general, fixed, width_bits: 48, version }
}

// Counts, widths and versions: Intel SDM volume 3, "Performance Monitoring" of each generation, and Linux
// `arch/x86/events/intel/core.c`, `intel_pmu_init`. A machine's own CPUID leaves 0xA and 0x23 are always
// right; these are for planning without it.

/// Bonnell to Airmont: leaf 0xA, EAX, reads 0x07280203.
const BONNELL: ThreadPmu = ThreadPmu { general: 0x3, fixed: 0x7, width_bits: 40, version: 3 };
const NEHALEM: ThreadPmu = pmu(0xf, 0x7, 3);
const SKYLAKE: ThreadPmu = pmu(0xf, 0x7, 4);
/// Also Golden, Raptor and Redwood Cove.
const ICE_LAKE: ThreadPmu = pmu(0xff, 0xf, 5);
const LION_COVE: ThreadPmu = pmu(0x3ff, 0xf, 6);
const COYOTE_COVE: ThreadPmu = pmu(0xff, 0xf, 6);
const KNIGHTS_LANDING: ThreadPmu = pmu(0x3, 0x7, 3);
const GOLDMONT: ThreadPmu = pmu(0xf, 0x7, 4);
const TREMONT: ThreadPmu = pmu(0xf, 0x7, 5);
const GRACEMONT: ThreadPmu = pmu(0x3f, 0x7, 5);
const CRESTMONT: ThreadPmu = pmu(0xff, 0x7, 5);
/// Also Darkmont and Arctic Wolf. There is no fixed counter 3.
const SKYMONT: ThreadPmu = pmu(0xff, 0x77, 6);

const fn core(
    id: &'static str,
    title: &'static str,
    file: &'static str,
    pmu: ThreadPmu,
    generic: &'static str,
) -> CoreTable {
    CoreTable { id, title, file, pmu, generic }
}

/// Every core.
///
/// # Source
///
/// Files: intel/perfmon `mapfile.csv`. Ids: folders of Linux `tools/perf/pmu-events/arch/x86`. Names of
/// generic events: the functions that Linux `arch/x86/events/intel/core.c`, `intel_pmu_init`, calls for each
/// model (Panther Lake goes the way of Lunar Lake there, Granite Rapids that of Sapphire Rapids).
pub(super) const CORES: &[CoreTable] = &[
    core("bonnell", "Bonnell, Saltwell", "BNL/events/bonnell_core.json", BONNELL, "bonnell"),
    core("nehalemep", "Nehalem-EP", "NHM-EP/events/NehalemEP_core.json", NEHALEM, "nehalem"),
    core("nehalemex", "Nehalem-EX", "NHM-EX/events/NehalemEX_core.json", NEHALEM, "nehalem"),
    core(
        "westmereep-sp",
        "Westmere-EP (single socket)",
        "WSM-EP-SP/events/WestmereEP-SP_core.json",
        NEHALEM,
        "westmere",
    ),
    core(
        "westmereep-dp",
        "Westmere-EP (two sockets)",
        "WSM-EP-DP/events/WestmereEP-DP_core.json",
        NEHALEM,
        "westmere",
    ),
    core("westmereex", "Westmere-EX", "WSM-EX/events/WestmereEX_core.json", NEHALEM, "westmere"),
    core("sandybridge", "Sandy Bridge", "SNB/events/sandybridge_core.json", NEHALEM, "sandybridge"),
    core(
        "jaketown",
        "Sandy Bridge-E/EN/EP (Jaketown)",
        "JKT/events/Jaketown_core.json",
        NEHALEM,
        "sandybridge",
    ),
    core("ivybridge", "Ivy Bridge", "IVB/events/ivybridge_core.json", NEHALEM, "ivybridge"),
    core("ivytown", "Ivy Bridge-E/EN/EP/EX (Ivytown)", "IVT/events/ivytown_core.json", NEHALEM, "ivybridge"),
    core("haswell", "Haswell", "HSW/events/haswell_core.json", NEHALEM, "haswell"),
    core("haswellx", "Haswell-E/EP/EX", "HSX/events/haswellx_core.json", NEHALEM, "haswell"),
    core("broadwell", "Broadwell", "BDW/events/broadwell_core.json", NEHALEM, "broadwell"),
    core("broadwellde", "Broadwell-DE", "BDW-DE/events/broadwellde_core.json", NEHALEM, "broadwell"),
    core("broadwellx", "Broadwell-E/EP/EX", "BDX/events/broadwellx_core.json", NEHALEM, "broadwell"),
    core("silvermont", "Silvermont, Airmont", "SLM/events/Silvermont_core.json", BONNELL, "silvermont"),
    core(
        "knightslanding",
        "Knights Landing, Knights Mill",
        "KNL/events/knightslanding_core.json",
        KNIGHTS_LANDING,
        "knightslanding",
    ),
    core("goldmont", "Goldmont", "GLM/events/goldmont_core.json", GOLDMONT, "goldmont"),
    core("goldmontplus", "Goldmont Plus", "GLP/events/goldmontplus_core.json", GOLDMONT, "goldmontplus"),
    core("snowridgex", "Snow Ridge (Tremont)", "SNR/events/snowridgex_core.json", TREMONT, "tremont"),
    core(
        "elkhartlake",
        "Elkhart Lake, Jasper Lake (Tremont)",
        "EHL/events/elkhartlake_core.json",
        TREMONT,
        "tremont",
    ),
    core(
        "skylake",
        "Skylake, Kaby Lake, Coffee Lake, Comet Lake",
        "SKL/events/skylake_core.json",
        SKYLAKE,
        "skylake",
    ),
    core("skylakex", "Skylake-SP", "SKX/events/skylakex_core.json", SKYLAKE, "skylake"),
    core(
        "cascadelakex",
        "Cascade Lake-SP, Cooper Lake",
        "CLX/events/cascadelakex_core.json",
        SKYLAKE,
        "skylake",
    ),
    core("icelake", "Ice Lake", "ICL/events/icelake_core.json", ICE_LAKE, "icelake"),
    core("icelakex", "Ice Lake-SP", "ICX/events/icelakex_core.json", ICE_LAKE, "icelake-server"),
    core("rocketlake", "Rocket Lake", "RKL/events/rocketlake_core.json", ICE_LAKE, "icelake"),
    core("tigerlake", "Tiger Lake", "TGL/events/tigerlake_core.json", ICE_LAKE, "icelake"),
    core(
        "sapphirerapids",
        "Sapphire Rapids",
        "SPR/events/sapphirerapids_core.json",
        ICE_LAKE,
        "sapphirerapids",
    ),
    core("emeraldrapids", "Emerald Rapids", "EMR/events/emeraldrapids_core.json", ICE_LAKE, "sapphirerapids"),
    core("graniterapids", "Granite Rapids", "GNR/events/graniterapids_core.json", ICE_LAKE, "sapphirerapids"),
    core(
        "sierraforest",
        "Sierra Forest (Crestmont)",
        "SRF/events/sierraforest_core.json",
        CRESTMONT,
        "crestmont",
    ),
    core("grandridge", "Grand Ridge (Crestmont)", "GRR/events/grandridge_core.json", CRESTMONT, "crestmont"),
    core(
        "clearwaterforest",
        "Clearwater Forest (Darkmont)",
        "CWF/events/clearwaterforest_core.json",
        SKYMONT,
        "darkmont",
    ),
    core(
        "alderlaken",
        "Alder Lake-N, Twin Lake (Gracemont)",
        "ADL/events/alderlake_gracemont_core.json",
        GRACEMONT,
        "gracemont",
    ),
    core(
        "alderlake/core",
        "Alder Lake, Raptor Lake P-core (Golden Cove, Raptor Cove)",
        "ADL/events/alderlake_goldencove_core.json",
        ICE_LAKE,
        "alderlake-goldencove",
    ),
    core(
        "alderlake/atom",
        "Alder Lake, Raptor Lake E-core (Gracemont)",
        "ADL/events/alderlake_gracemont_core.json",
        GRACEMONT,
        "gracemont",
    ),
    core(
        "meteorlake/core",
        "Meteor Lake P-core (Redwood Cove)",
        "MTL/events/meteorlake_redwoodcove_core.json",
        ICE_LAKE,
        "meteorlake-redwoodcove",
    ),
    core(
        "meteorlake/atom",
        "Meteor Lake E-core (Crestmont)",
        "MTL/events/meteorlake_crestmont_core.json",
        CRESTMONT,
        "crestmont",
    ),
    core(
        "lunarlake/core",
        "Lunar Lake P-core (Lion Cove)",
        "LNL/events/lunarlake_lioncove_core.json",
        LION_COVE,
        "lunarlake-lioncove",
    ),
    core(
        "lunarlake/atom",
        "Lunar Lake E-core (Skymont)",
        "LNL/events/lunarlake_skymont_core.json",
        SKYMONT,
        "skymont",
    ),
    core(
        "arrowlake/core",
        "Arrow Lake P-core (Lion Cove)",
        "ARL/events/arrowlake_lioncove_core.json",
        LION_COVE,
        "arrowlake-lioncove",
    ),
    core(
        "arrowlake/atom",
        "Arrow Lake E-core (Skymont)",
        "ARL/events/arrowlake_skymont_core.json",
        SKYMONT,
        "skymont",
    ),
    core(
        "arrowlake/lowpower",
        "Arrow Lake-H low-power E-core (Crestmont)",
        "ARL/events/arrowlake_crestmont_core.json",
        CRESTMONT,
        "crestmont",
    ),
    core(
        "pantherlake/core",
        "Panther Lake P-core (Cougar Cove)",
        "PTL/events/pantherlake_cougarcove_core.json",
        LION_COVE,
        "lunarlake-lioncove",
    ),
    core(
        "pantherlake/atom",
        "Panther Lake E-core (Darkmont)",
        "PTL/events/pantherlake_darkmont_core.json",
        SKYMONT,
        "skymont",
    ),
    core(
        "novalake/core",
        "Nova Lake P-core (Coyote Cove)",
        "NVL/events/novalake_coyotecove_core.json",
        COYOTE_COVE,
        "novalake-coyotecove",
    ),
    core(
        "novalake/atom",
        "Nova Lake E-core (Arctic Wolf)",
        "NVL/events/novalake_arcticwolf_core.json",
        SKYMONT,
        "arcticwolf",
    ),
];
