//! Generic events of the kernel as libpfm4 spells them: `perf::CYCLES`, `PERF_COUNT_HW_CACHE_L1D:READ:MISS`.

use cyclometer_core::energy::EnergyDomain;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::generic::{CACHES, Cache, CacheEvent, HARDWARE, SOFTWARE, named};
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
    let cache = event.strip_prefix("PERF_COUNT_HW_CACHE_").filter(|event| is_cache(event));
    let known = match cache {
        Some(event) => cache_event(event).map(CacheEvent::name),
        None => Some(spelled(event)).filter(|generic| is_generic(generic)),
    };
    known.map(Some).ok_or_else(|| {
        Error::new(
            ErrorKind::UnknownEvent,
            format!("the kernel has no generic event '{}'", suggest::shown(name)),
        )
        .with_recovery(Recovery::OfferNearest { names: near(cache.unwrap_or(event)) })
    })
}

/// perf's spelling of an event that is no cache event.
fn spelled(event: &str) -> String {
    let bare = ["PERF_COUNT_HW_", "PERF_COUNT_SW_"].iter().find_map(|start| event.strip_prefix(start));
    match bare {
        Some("PAGE_FAULTS_MIN") => "minor-faults".to_owned(),
        Some("PAGE_FAULTS_MAJ") => "major-faults".to_owned(),
        Some("REF_CPU_CYCLES") => "ref-cycles".to_owned(),
        bare => bare.unwrap_or(event).replace('_', "-").to_ascii_lowercase(),
    }
}

fn is_generic(name: &str) -> bool {
    HARDWARE.iter().any(|hardware| named(hardware.names, name))
        || SOFTWARE.iter().any(|software| named(software.names, name))
        || CacheEvent::parse(name).is_some()
}

/// perf's names that are nearest to an unknown event. `L1D:MISSES` is compared as `L1-dcache-MISSES`.
fn near(event: &str) -> Vec<String> {
    let (first, rest) = event.split_once(':').unwrap_or((event, ""));
    let written = match cache_named(first) {
        Some(cache) => format!("{}-{}", cache.names[0], rest.replace(':', "-")),
        None => spelled(event),
    };
    let hardware = HARDWARE.iter().map(|hardware| hardware.names[0]);
    let software = SOFTWARE.iter().map(|software| software.names[0]);
    let caches: Vec<String> = CacheEvent::all().map(CacheEvent::name).collect();
    suggest::nearest(&written, hardware.chain(software).chain(caches.iter().map(String::as_str)))
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

/// The event of `L1D:READ:MISS`; the defaults are reads and accesses. `None` for an attribute that cache
/// events do not have, for a second operation or result, and for an operation that the cache does not have.
fn cache_event(event: &str) -> Option<CacheEvent> {
    let mut pieces = event.split(':');
    let cache = cache_named(pieces.next()?)?.id;
    let (mut op, mut result) = (None, None);
    for piece in pieces {
        let (chosen, value) = match piece {
            "READ" => (&mut op, 0),
            "WRITE" => (&mut op, 1),
            "PREFETCH" => (&mut op, 2),
            "ACCESS" => (&mut result, 0),
            "MISS" => (&mut result, 1),
            _ => return None,
        };
        if chosen.replace(value).is_some() {
            return None;
        }
    }
    let event = CacheEvent { cache, op: op.unwrap_or(0), result: result.unwrap_or(0) };
    CacheEvent::all().find(|known| *known == event)
}

fn cache_named(name: &str) -> Option<&'static Cache> {
    let name = if name == "LL" { "LLC" } else { name };
    CACHES.iter().find(|cache| named(cache.names, name))
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
            ("perf::PERF_COUNT_HW_CACHE_L1D:READ:MISS", "L1-dcache-load-misses"),
            ("perf::PERF_COUNT_HW_CACHE_L1D:MISS", "L1-dcache-load-misses"),
            ("PERF_COUNT_HW_CACHE_L1I:prefetch:access", "L1-icache-prefetches"),
            ("PERF_COUNT_HW_CACHE_LL:WRITE", "LLC-stores"),
            ("PERF_COUNT_HW_CACHE_BPU:MISS:READ", "branch-load-misses"),
            ("PERF_COUNT_HW_CACHE_DTLB", "dTLB-loads"),
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

    #[test]
    fn no_attribute_of_a_cache_event_is_dropped() {
        for name in [
            "PERF_COUNT_HW_CACHE_L1D:MISSES",
            "PERF_COUNT_HW_CACHE_L1D:READ:BOGUS",
            "PERF_COUNT_HW_CACHE_L1D:WRITE:READ",
            "PERF_COUNT_HW_CACHE_L1D:READ:MISS:ACCESS",
            "perf::PERF_COUNT_HW_CACHE_DTLB:",
            "PERF_COUNT_HW_CACHE_L1I:WRITE",
            "perf::PERF_COUNT_HW_CACHE_L9:READ",
        ] {
            let error = generic(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnknownEvent, "{name}");
            assert_eq!(error.to_string(), format!("the kernel has no generic event '{name}'"));
        }
    }

    #[test]
    fn an_unknown_cache_event_is_named_with_the_nearest_of_its_cache() {
        for (name, expected) in [
            ("perf::L1D:MISS", "L1-dcache-load-misses"),
            ("PERF_COUNT_HW_CACHE_L1D:MISSES", "L1-dcache-load-misses"),
            ("perf::PERF_COUNT_HW_CACHE_LL:STORE", "LLC-stores"),
            ("perf::DTLB-LOAD-MISES", "dTLB-load-misses"),
        ] {
            let Recovery::OfferNearest { names } = generic(name).unwrap_err().recovery().clone() else {
                panic!("{name} has no recovery");
            };
            assert!(names.iter().any(|name| name == expected), "{name}: {names:?}");
        }
    }
}
