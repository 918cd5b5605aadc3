//! A set of logical CPUs, in the kernel's list notation (`0-3,8`).

use std::fmt;

/// A set of logical CPU numbers, ascending and without duplicates.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CpuSet(Vec<u32>);

/// Limit of CPU numbers: larger ones are refused, so that a hostile list cannot exhaust memory. Linux allows
/// at most 8192 CPUs (`CONFIG_NR_CPUS` on x86), which is far below.
pub const CPU_LIMIT: u32 = 65_536;

impl CpuSet {
    /// Parses a list such as `0-3,8`. Blanks around it are ignored; an empty list is the empty set.
    ///
    /// # Errors
    ///
    /// The part that is not a number or an ascending range below [`CPU_LIMIT`].
    ///
    /// # Source
    ///
    /// `cpuset(7)`, section "List format".
    pub fn parse(text: &str) -> Result<CpuSet, String> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = parse_range(part.trim()).ok_or_else(|| part.trim().to_owned())?;
            cpus.extend(first..=last);
        }
        Ok(cpus.into_iter().collect())
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no CPU in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|cpu| other.contains(*cpu)).collect()
    }

    /// The CPUs in this set but not in `other`.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|cpu| !other.contains(*cpu)).collect()
    }
}

fn parse_range(part: &str) -> Option<(u32, u32)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < CPU_LIMIT).then_some((first, last))
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuSet {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuSet(cpus)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed_as_the_kernel_does() {
        for (text, printed) in [("0-3,8\n", "0-3,8"), ("3,1,2", "1-3"), ("", ""), ("5", "5")] {
            assert_eq!(CpuSet::parse(text).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn what_is_no_list_is_named() {
        for bad in ["x", "3-1", "0-99999999", "-"] {
            assert_eq!(CpuSet::parse(bad), Err(bad.to_owned()));
        }
    }

    #[test]
    fn sets_intersect_and_differ() {
        let (a, b) = (CpuSet::parse("0-3").unwrap(), CpuSet::parse("2-5").unwrap());
        assert_eq!(a.intersection(&b).to_string(), "2-3");
        assert_eq!(a.difference(&b).to_string(), "0-1");
    }
}
