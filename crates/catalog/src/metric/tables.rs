//! The embedded tables of metrics; `cargo xtask catalog` writes this list.

pub(super) const ALL: &[&str] = &[
    include_str!("../../data/metrics/portable"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/haswell"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/haswellx"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/broadwell"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/broadwellx"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/skylake"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/skylakex"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/cascadelakex"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/icelake"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/icelakex"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/tigerlake"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/rocketlake"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/sapphirerapids"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/emeraldrapids"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/graniterapids"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/alderlake/core"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/meteorlake/core"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/arrowlake/core"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/lunarlake/core"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/sierraforest"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/grandridge"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/pantherlake/core"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/ivybridge"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/sandybridge"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/snowridgex"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/alderlake/atom"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/meteorlake/atom"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/lunarlake/atom"),
    #[cfg(feature = "intel")]
    include_str!("../../data/metrics/intel/pantherlake/atom"),
    #[cfg(feature = "amd")]
    include_str!("../../data/metrics/amd/amdzen4"),
    #[cfg(feature = "amd")]
    include_str!("../../data/metrics/amd/amdzen5"),
    #[cfg(feature = "amd")]
    include_str!("../../data/metrics/amd/amdzen6"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/neoverse-n1"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/neoverse-n2"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/neoverse-n3"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/neoverse-v1"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/neoverse-v2"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/neoverse-v3"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/c1-nano"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/c1-pro"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/c1-premium"),
    #[cfg(feature = "arm")]
    include_str!("../../data/metrics/arm/c1-ultra"),
];
