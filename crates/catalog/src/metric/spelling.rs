//! From names in formulas to requests of events.

/// Intel's pseudo-events for the fields of PERF_METRICS, each with the kernel's name for it.
///
/// # Source
///
/// Intel perfmon metric files; Linux `arch/x86/events/intel/core.c`, `icl_td_events_attrs`,
/// `spr_td_events_attrs`.
pub const PERF_METRICS: &[(&str, &str)] = &[
    ("PERF_METRICS.RETIRING", "topdown-retiring"),
    ("PERF_METRICS.BAD_SPECULATION", "topdown-bad-spec"),
    ("PERF_METRICS.FRONTEND_BOUND", "topdown-fe-bound"),
    ("PERF_METRICS.BACKEND_BOUND", "topdown-be-bound"),
    ("PERF_METRICS.HEAVY_OPERATIONS", "topdown-heavy-ops"),
    ("PERF_METRICS.BRANCH_MISPREDICTS", "topdown-br-mispredict"),
    ("PERF_METRICS.FETCH_LATENCY", "topdown-fetch-lat"),
    ("PERF_METRICS.MEMORY_BOUND", "topdown-mem-bound"),
];

/// The event that leads a group with those of [`PERF_METRICS`], and the kernel's name for it.
const SLOTS: (&str, &str) = ("TOPDOWN.SLOTS:perf_metrics", "slots");

/// Whether a name is no event of the vendor, but one that the kernel derives from the register PERF_METRICS.
pub fn is_pseudo_event(name: &str) -> bool {
    kernels_name(name).is_some()
}

fn kernels_name(name: &str) -> Option<&'static str> {
    let all = PERF_METRICS.iter().chain([&SLOTS]);
    all.clone().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, kernels)| *kernels)
}

/// Converts an event of a formula to the grammar of event lists. The core PMU `pmu` counts it; `only` says
/// that the machine has no other.
///
/// Intel's modifiers become terms (`X:c1:e1` is `cpu/X,cmask=0x1,edge=1/`), and its pseudo-events become the
/// kernel's (`cpu/slots/`). A name that already has a PMU (`power/energy-pkg/`) stays as it is.
pub fn request(name: &str, pmu: &str, only: bool) -> String {
    if let Some(kernels) = kernels_name(name) {
        return format!("{pmu}/{kernels}/");
    }
    if let Some(rest) = name.strip_prefix("cpu/") {
        return format!("{pmu}/{rest}");
    }
    let mut parts = name.split(':');
    let event = parts.next().unwrap_or(name);
    let (mut terms, mut modes) = (String::new(), String::new());
    for modifier in parts {
        match term(modifier) {
            Some(term) => terms += &format!(",{term}"),
            None => modes += &modes_of(modifier),
        }
    }
    let colon = if modes.is_empty() { "" } else { ":" };
    match terms.is_empty() && (only || name.contains('/')) {
        true => format!("{event}{colon}{modes}"),
        false => format!("{pmu}/{event}{terms}/{modes}"),
    }
}

/// Converts one of Intel's modifiers to a term of `pmu/…/`.
///
/// # Source
///
/// Intel perfmon metric files: `c` counter mask, `e` edge, `i` invert, `u` unit mask, `eq` equality.
fn term(modifier: &str) -> Option<String> {
    let digits = modifier.find(|c: char| c.is_ascii_digit())?;
    let (key, number) = modifier.split_at(digits);
    let field = match key {
        "c" => "cmask",
        "e" => "edge",
        "i" => "inv",
        "u" => "umask",
        "eq" => "eq",
        _ => return None,
    };
    let number = cyclometer_core::syntax::parse_number(number)?;
    Some(format!("{field}={number:#x}"))
}

/// Intel's `USER` and `SUP`, and perf's own letters; a modifier that does not concern modes has none.
fn modes_of(modifier: &str) -> String {
    match modifier {
        "USER" => "u".to_owned(),
        "SUP" => "k".to_owned(),
        "percore" | "perf_metrics" | "retire_latency" => String::new(),
        letters => letters.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_for_the_pmu_that_counts_them() {
        for (name, pmu, only, expected) in [
            ("UOPS_ISSUED.ANY", "cpu", true, "UOPS_ISSUED.ANY"),
            ("UOPS_ISSUED.ANY", "cpu_core", false, "cpu_core/UOPS_ISSUED.ANY/"),
            ("UOPS_EXECUTED.CORE:c1", "cpu", true, "cpu/UOPS_EXECUTED.CORE,cmask=0x1/"),
            ("A.B:c0x10:e1:i1:u0x4:USER", "cpu", true, "cpu/A.B,cmask=0x10,edge=0x1,inv=0x1,umask=0x4/u"),
            ("A.B:SUP", "cpu", true, "A.B:k"),
            ("cpu_cycles:uk", "cpu", true, "cpu_cycles:uk"),
            ("TOPDOWN.SLOTS:perf_metrics", "cpu_core", false, "cpu_core/slots/"),
            ("TOPDOWN.SLOTS:percore", "cpu", true, "TOPDOWN.SLOTS"),
            ("PERF_METRICS.MEMORY_BOUND", "cpu", true, "cpu/topdown-mem-bound/"),
            ("cpu/ev,cmask=0x6/", "cpu", true, "cpu/ev,cmask=0x6/"),
            ("power/energy-pkg/", "cpu_core", false, "power/energy-pkg/"),
        ] {
            assert_eq!(request(name, pmu, only), expected, "{name}");
        }
    }

    #[test]
    fn every_request_can_be_read() {
        for (name, kernels) in PERF_METRICS {
            assert!(is_pseudo_event(&name.to_lowercase()));
            let text = request(name, "cpu_core", false);
            assert_eq!(text, format!("cpu_core/{kernels}/"));
            assert!(cyclometer_core::syntax::parse_event(&text).is_ok());
        }
        assert!(cyclometer_core::syntax::parse_event(&request("X:c1:USER", "cpu", true)).is_ok());
        assert!(!is_pseudo_event("TOPDOWN.SLOTS"));
    }
}
