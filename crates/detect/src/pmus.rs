//! The PMU devices of Linux.

use cyclometer_core::machine::Os;
use cyclometer_core::pmu::{FormatField, KernelPmu, PmuEvent};

use crate::facts::FactSource;
use crate::text;

/// Where the kernel lists its PMU devices.
const DEVICES: &str = "/sys/bus/event_source/devices";

/// Ends of the files that say more about an event and are no events themselves.
const EVENT_ATTRIBUTES: [&str; 4] = [".scale", ".unit", ".snapshot", ".per-pkg"];

/// Every PMU device with a readable type, sorted by name.
///
/// # Source
///
/// `Documentation/ABI/testing/sysfs-bus-event_source-devices`, `…-events`, `…-format`, `…-caps`.
pub(crate) fn detect(facts: &dyn FactSource) -> Vec<KernelPmu> {
    if facts.os() != Os::Linux {
        return Vec::new();
    }
    text::entries(facts, DEVICES).iter().filter_map(|name| device(facts, name)).collect()
}

fn device(facts: &dyn FactSource, name: &str) -> Option<KernelPmu> {
    let dir = format!("{DEVICES}/{name}");
    let file = |leaf: &str| format!("{dir}/{leaf}");
    let entries = |leaf: &str| text::entries(facts, &file(leaf)).into_iter();
    let read = |leaf: &str, entry: &str| text::line(facts, &format!("{dir}/{leaf}/{entry}"));
    let format = |entry: String| Some((FormatField::parse(&read("format", &entry)?)?, entry));
    Some(KernelPmu {
        name: name.to_owned(),
        pmu_type: text::number(facts, &file("type"))?,
        cpus: text::cpu_list(facts, &file("cpus")),
        cpumask: text::cpu_list(facts, &file("cpumask")),
        formats: entries("format").filter_map(format).map(|(field, entry)| (entry, field)).collect(),
        events: entries("events")
            .filter(|entry| !EVENT_ATTRIBUTES.iter().any(|end| entry.ends_with(end)))
            .filter_map(|entry| Some((event(&read, &entry)?, entry)))
            .map(|(event, entry)| (entry, event))
            .collect(),
        caps: entries("caps")
            .filter_map(|entry| Some((read("caps", &entry)?, entry)))
            .map(|(v, k)| (k, v))
            .collect(),
        rdpmc: text::number(facts, &file("rdpmc")),
    })
}

fn event(read: &dyn Fn(&str, &str) -> Option<String>, name: &str) -> Option<PmuEvent> {
    let attribute = |end: &str| read("events", &format!("{name}{end}"));
    let scale = attribute(".scale").and_then(|scale| scale.parse().ok());
    Some(PmuEvent {
        terms: read("events", name)?,
        scale: scale.filter(|scale: &f64| scale.is_finite()),
        unit: attribute(".unit"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    fn devices(body: &str) -> Vec<KernelPmu> {
        let text = format!("note synthetic: x\nos linux\n{}", body.replace("@", DEVICES));
        detect(&RecordedFacts::parse(&text).unwrap())
    }

    #[test]
    fn events_carry_scale_and_unit_and_their_attributes_are_no_events() {
        let pmus = devices(
            "list @ power\nfile @/power/type 9\nfile @/power/cpumask 0\n\
             list @/power/events energy-psys energy-psys.scale energy-psys.unit energy-psys.snapshot\n\
             file @/power/events/energy-psys event=0x05\n\
             file @/power/events/energy-psys.scale 2.3283064365386962890625e-10\n\
             file @/power/events/energy-psys.unit Joules\n",
        );
        let events: Vec<_> = pmus[0].events.iter().collect();
        let (name, event) = events[0];
        assert_eq!((events.len(), name.as_str(), event.terms.as_str()), (1, "energy-psys", "event=0x05"));
        assert_eq!((event.scale, event.unit.as_deref()), (Some(2.0f64.powi(-32)), Some("Joules")));
        assert!(!pmus[0].is_core());
    }

    #[test]
    fn a_device_without_a_type_is_left_out_and_a_bad_format_ignored() {
        let pmus = devices(
            "list @ a b\nfile @/b/type 4\nlist @/b/format event odd\n\
             file @/b/format/event config:0-7,32-35\nfile @/b/format/odd nonsense\nfile @/b/rdpmc 1\n",
        );
        assert_eq!(pmus.len(), 1);
        assert_eq!(pmus[0].formats.keys().collect::<Vec<_>>(), ["event"]);
        assert_eq!(pmus[0].rdpmc, Some(1));
    }
}
