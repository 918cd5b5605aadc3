//! The caches of the first CPU, for models of them.

use cyclometer_core::cache_geometry::{CacheGeometry, HierarchyGeometry};

use crate::facts::FactSource;
use crate::text;

/// Where the kernel lists the caches of the first CPU.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// The caches of the first CPU, as far as the system has them; the others are usual ones.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`, `cache/index*`.
pub fn cache_geometry(facts: &dyn FactSource) -> HierarchyGeometry {
    let mut geometry = HierarchyGeometry::USUAL;
    let mut last_level: Option<u32> = None;
    for index in 0..8 {
        let word = |name: &str| text::line(facts, &format!("{CACHES}/index{index}/{name}"));
        let found = || {
            let size = cache(&word("size")?, &word("ways_of_associativity")?, &word("coherency_line_size")?)?;
            Some((size, word("level")?.parse::<u32>().ok()?, word("type")?))
        };
        let Some((size, level, kind)) = found() else { continue };
        match (level, kind.as_str()) {
            (1, "Instruction") => geometry.l1i = size,
            (1, "Data") => geometry.l1d = size,
            (2.., "Unified") if last_level.is_none_or(|last| level > last) => {
                (geometry.ll, last_level) = (size, Some(level));
            }
            _ => {}
        }
    }
    geometry
}

/// A cache by the texts of its size (`48K`), its ways and the bytes of a line.
fn cache(size: &str, ways: &str, line: &str) -> Option<CacheGeometry> {
    let kilobytes: u64 = size.strip_suffix('K')?.parse().ok()?;
    format!("{},{ways},{line}", kilobytes.checked_mul(1024)?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    #[test]
    fn the_size_of_a_cache_is_read_and_nonsense_is_not() {
        let found = cache("48K", "12", "64").unwrap();
        assert_eq!((found.bytes, found.ways, found.sets()), (49152, 12, 64));
        for (size, ways, line) in [("", "12", "64"), ("48K", "0", "64"), ("48K", "", ""), ("48M", "12", "64")]
        {
            assert_eq!(cache(size, ways, line), None, "{size} {ways} {line}");
        }
    }

    fn machine(caches: &[(u32, &str, &str, &str)]) -> RecordedFacts {
        let mut text = "note synthetic: x\nos linux\n".to_owned();
        for (index, (level, kind, size, ways)) in caches.iter().enumerate() {
            for (name, value) in [
                ("level", level.to_string().as_str()),
                ("type", kind),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", "64"),
            ] {
                text += &format!("file {CACHES}/index{index}/{name} {value}\n");
            }
        }
        RecordedFacts::parse(&text).unwrap()
    }

    #[test]
    fn the_largest_level_is_the_last_one_and_a_cache_that_is_missing_is_a_usual_one() {
        let facts = machine(&[
            (1, "Data", "48K", "12"),
            (3, "Unified", "32768K", "16"),
            (2, "Unified", "2048K", "16"),
            (4, "Unified", "nonsense", "16"),
        ]);
        let found = cache_geometry(&facts);
        assert_eq!((found.l1d.bytes, found.l1d.ways), (48 << 10, 12));
        assert_eq!(found.ll.bytes, 32 << 20);
        assert_eq!(found.l1i, HierarchyGeometry::USUAL.l1i);
        assert_eq!(cache_geometry(&machine(&[])), HierarchyGeometry::USUAL);
    }
}
