//! Sizes of caches, as models of them take them.

use std::fmt;
use std::str::FromStr;

/// The size of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheGeometry {
    /// Its bytes.
    pub bytes: u64,
    /// The lines of a set.
    pub ways: u64,
    /// Bytes of a line, a power of two.
    pub line_bytes: u64,
}

/// The caches of a core, and the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HierarchyGeometry {
    /// The first level's cache of instructions.
    pub l1i: CacheGeometry,
    /// The first level's cache of data.
    pub l1d: CacheGeometry,
    /// The last level, of both.
    pub ll: CacheGeometry,
}

/// The largest cache that is modelled: a model needs memory for each line.
const MOST_BYTES: u64 = 1 << 30;

/// The most ways of a modelled cache: each look-up goes through them.
const MOST_WAYS: u64 = 1024;

/// Bytes of the shortest and the longest line.
const LINES: std::ops::RangeInclusive<u64> = 16..=4096;

impl CacheGeometry {
    /// The number of sets.
    pub fn sets(self) -> u64 {
        self.bytes / (self.ways * self.line_bytes)
    }
}

impl HierarchyGeometry {
    /// Sizes of a usual core, where those of the machine are unknown.
    ///
    /// # Source
    ///
    /// AMD Software Optimization Guide for Zen 4, section 2.6: 32 KiB of each kind with eight ways.
    pub const USUAL: HierarchyGeometry = {
        let first = CacheGeometry { bytes: 32 << 10, ways: 8, line_bytes: 64 };
        let last = CacheGeometry { bytes: 8 << 20, ways: 16, line_bytes: 64 };
        HierarchyGeometry { l1i: first, l1d: first, ll: last }
    };

    /// The same with the caches that a text names, as in `D1=32768,8,64:LL=8388608,16,64`.
    ///
    /// # Errors
    ///
    /// The reason why the text names no caches.
    pub fn with(mut self, text: &str) -> Result<HierarchyGeometry, String> {
        for part in text.split(':') {
            let (name, size) =
                part.split_once('=').ok_or_else(|| format!("'{part}' is no NAME=SIZE,WAYS,LINE"))?;
            let cache = match name.to_ascii_uppercase().as_str() {
                "I1" | "L1I" => &mut self.l1i,
                "D1" | "L1D" => &mut self.l1d,
                "LL" => &mut self.ll,
                _ => return Err(format!("'{name}' is no cache of the model: I1, D1 or LL")),
            };
            *cache = size.parse().map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(self)
    }
}

impl FromStr for CacheGeometry {
    type Err = String;

    /// `SIZE,WAYS,LINE` in bytes, as in `32768,8,64`.
    fn from_str(text: &str) -> Result<CacheGeometry, String> {
        let numbers: Vec<Option<u64>> = text.split(',').map(|number| number.parse().ok()).collect();
        let [Some(bytes), Some(ways), Some(line_bytes)] = numbers[..] else {
            return Err(format!("'{text}' is no SIZE,WAYS,LINE, as in 32768,8,64"));
        };
        if !line_bytes.is_power_of_two() || !LINES.contains(&line_bytes) {
            return Err(format!("a line of {line_bytes} bytes is no power of two from 16 to 4096"));
        }
        if bytes > MOST_BYTES {
            return Err(format!("{bytes} bytes are more than the largest modelled cache, {MOST_BYTES}"));
        }
        let set_bytes = ways.checked_mul(line_bytes).filter(|set| *set > 0 && bytes > 0);
        match set_bytes {
            Some(_) if ways > MOST_WAYS => {
                Err(format!("{ways} ways are more than a modelled cache has, {MOST_WAYS}"))
            }
            Some(set) if bytes.is_multiple_of(set) => Ok(CacheGeometry { bytes, ways, line_bytes }),
            _ => {
                Err(format!("{bytes} bytes are no multiple of {ways} ways with lines of {line_bytes} bytes"))
            }
        }
    }
}

impl fmt::Display for CacheGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.bytes, self.ways, self.line_bytes)
    }
}

/// As the text that names it.
impl fmt::Display for HierarchyGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I1={}:D1={}:LL={}", self.l1i, self.l1d, self.ll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_named_and_the_others_stay() {
        let usual = HierarchyGeometry::USUAL;
        let named = usual.with("d1=49152,12,64:LL=2097152,16,64").unwrap();
        assert_eq!((named.l1d.sets(), named.ll.ways, named.l1i), (64, 16, usual.l1i));
        assert_eq!(usual.with(&named.to_string()), Ok(named));
    }

    #[test]
    fn sizes_that_no_cache_has_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "NAME=SIZE"),
            ("L2=32768,8,64", "I1, D1 or LL"),
            ("D1=32768,8", "no SIZE,WAYS,LINE"),
            ("D1=32768,8,64,1", "no SIZE,WAYS,LINE"),
            ("D1=-1,8,64", "no SIZE,WAYS,LINE"),
            ("D1=32768,0,64", "no multiple"),
            ("D1=0,8,64", "no multiple"),
            ("D1=32768,7,64", "no multiple"),
            ("D1=32768,8,48", "no power of two"),
            ("D1=32768,8,8192", "no power of two"),
            ("LL=18446744073709551615,1,64", "largest"),
            ("LL=1048576,16384,64", "ways are more"),
            ("LL=1024,18446744073709551615,64", "no multiple"),
        ] {
            let refused = HierarchyGeometry::USUAL.with(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
