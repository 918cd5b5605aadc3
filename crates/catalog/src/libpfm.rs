//! Generic events of the kernel as libpfm4 spells them: `perf::CYCLES`, `PERF_COUNT_HW_CACHE_L1D:READ:MISS`.

use cyclometer_core::energy::EnergyDomain;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::generic::{CacheEvent, HARDWARE, SOFTWARE, named};
use crate::{energy, suggest};

/// The kernel's name of a generic event as libpfm4 spells it; `None` for a name that is not of that form.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` with the nearest names for a generic event that the kernel does not have.
///
/// # Source
///
/// libpfm4 4.13, `lib/events/perf_events.h`: the events of its PMU `perf`.
pub(crate) fn generic(name: &str) -> Result<Option<String>> {
    let upper = name.to_ascii_uppercase();
    if let Some(domain) = upper.strip_prefix("RAPL::").and_then(energy) {
        return Ok(Some(domain.event().to_owned()));
    }
    let behind = upper.strip_prefix("PERF::");
    let Some(event) = behind.or_else(|| Some(&*upper).filter(|name| name.starts_with("PERF_COUNT_"))) else {
        return Ok(None);
    };
    let generic = match event.strip_prefix("PERF_COUNT_HW_CACHE_").filter(|event| is_cache(event)) {
        Some(event) => cache(event),
        None => {
            let bare =
                ["PERF_COUNT_HW_", "PERF_COUNT_SW_"].iter().find_map(|start| event.strip_prefix(start));
            match bare {
                Some("PAGE_FAULTS_MIN") => "minor-faults".to_owned(),
                Some("PAGE_FAULTS_MAJ") => "major-faults".to_owned(),
                Some("REF_CPU_CYCLES") => "ref-cycles".to_owned(),
                bare => bare.unwrap_or(event).replace('_', "-").to_ascii_lowercase(),
            }
        }
    };
    let hardware = HARDWARE.iter().map(|hardware| hardware.names[0]);
    let software = SOFTWARE.iter().map(|software| software.names[0]);
    let known = HARDWARE.iter().any(|hardware| named(hardware.names, &generic))
        || SOFTWARE.iter().any(|software| named(software.names, &generic))
        || CacheEvent::parse(&generic).is_some();
    if known {
        return Ok(Some(generic));
    }
    let near = suggest::nearest(&generic, hardware.chain(software));
    Err(Error::new(
        ErrorKind::UnknownEvent,
        format!("the kernel has no generic event '{}'", suggest::shown(name)),
    )
    .with_recovery(Recovery::OfferNearest { names: near }))
}

/// The domain of an event of libpfm4's PMU `rapl`.
///
/// # Source
///
/// libpfm4 4.13, `lib/events/intel_rapl_events.h`.
fn energy(event: &str) -> Option<EnergyDomain> {
    let domain = match event.strip_prefix("RAPL_ENERGY_")? {
        "DRAM" => "ram".to_owned(),
        domain => domain.to_ascii_lowercase(),
    };
    energy::named(&format!("energy-{domain}"))
}

/// Whether the text after `PERF_COUNT_HW_CACHE_` begins with a cache, and is not `REFERENCES` or `MISSES`.
fn is_cache(event: &str) -> bool {
    !matches!(event, "REFERENCES" | "MISSES")
}

/// Converts `L1D:READ:MISS` to perf's spelling; the defaults are reads and accesses.
fn cache(event: &str) -> String {
    let mut pieces = event.split(':');
    let cache = match pieces.next().unwrap_or_default() {
        "LL" => "LLC",
        cache => cache,
    };
    let (mut operation, mut is_miss) = ("read", false);
    for piece in pieces {
        match piece {
            "READ" => operation = "read",
            "WRITE" => operation = "write",
            "PREFETCH" => operation = "prefetch",
            "MISS" => is_miss = true,
            _ => {}
        }
    }
    format!("{cache}-{operation}{}", if is_miss { "-miss" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_events_have_the_names_of_libpfm() {
        for (name, expected) in [
            ("perf::cycles", "cycles"),
            ("perf::PERF_COUNT_HW_CPU_CYCLES", "cpu-cycles"),
            ("PERF_COUNT_HW_CACHE_MISSES", "cache-misses"),
            ("PERF_COUNT_HW_REF_CPU_CYCLES", "ref-cycles"),
            ("perf::STALLED-CYCLES-FRONTEND", "stalled-cycles-frontend"),
            ("PERF_COUNT_SW_PAGE_FAULTS_MIN", "minor-faults"),
            ("perf::PERF_COUNT_SW_TASK_CLOCK", "task-clock"),
            ("perf::L1-DCACHE-LOAD-MISSES", "l1-dcache-load-misses"),
            ("perf::PERF_COUNT_HW_CACHE_L1D:READ:MISS", "L1D-read-miss"),
            ("PERF_COUNT_HW_CACHE_LL:WRITE", "LLC-write"),
            ("PERF_COUNT_HW_CACHE_DTLB", "DTLB-read"),
            ("rapl::RAPL_ENERGY_PKG", "energy-pkg"),
            ("rapl::RAPL_ENERGY_DRAM", "energy-ram"),
        ] {
            assert_eq!(generic(name).unwrap().as_deref(), Some(expected), "{name}");
        }
        for name in ["cycles", "skl::INST_RETIRED", "perf", "performance::x", "rapl::RAPL_ENERGY_NONE"] {
            assert_eq!(generic(name).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn a_generic_event_that_the_kernel_lacks_is_named_with_the_nearest() {
        let error = generic("perf::CYCELS").unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no generic event 'perf::CYCELS'");
        assert!(error.recovery().to_string().starts_with("nearest names: cycles"));
        assert!(generic("perf::INST_RETIRED:ANY_P").is_err(), "no generic event is a vendor's");
    }
}
