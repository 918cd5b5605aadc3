//! Sizes of caches, as models of them take them.

use std::fmt;
use std::str::FromStr;

use crate::tlb_geometry::{FirstTlb, TlbGeometry, TlbHierarchy};

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

/// The caches of a core, the last one, and the TLBs if they are modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HierarchyGeometry {
    /// The first level's cache of instructions.
    pub l1i: CacheGeometry,
    /// The first level's cache of data.
    pub l1d: CacheGeometry,
    /// The last level, of both.
    pub ll: CacheGeometry,
    /// The TLBs; `None`: none is modelled.
    pub tlbs: Option<TlbHierarchy>,
}

/// The size of a part of a hierarchy, as a text names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedSize {
    /// `I1`: the first cache of instructions.
    L1i(CacheGeometry),
    /// `D1`: the first cache of data.
    L1d(CacheGeometry),
    /// `LL`: the last level.
    Ll(CacheGeometry),
    /// `TLB`: TLBs of the machine.
    Tlbs,
    /// `ITLB`: the first TLB of instructions.
    Itlb(FirstTlb),
    /// `DTLB`: the first TLB of data.
    Dtlb(FirstTlb),
    /// `STLB`: the second level of both.
    Stlb(TlbGeometry),
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
        HierarchyGeometry { l1i: first, l1d: first, ll: last, tlbs: None }
    };

    /// The same with other sizes. If they have a TLB, those of `machine` that they leave out are modelled
    /// too.
    pub fn with(self, sizes: &[NamedSize], machine: &TlbHierarchy) -> HierarchyGeometry {
        sizes.iter().fold(self, |geometry, size| geometry.with_one(*size, machine))
    }

    fn with_one(mut self, size: NamedSize, machine: &TlbHierarchy) -> HierarchyGeometry {
        let tlbs = || self.tlbs.unwrap_or(*machine);
        match size {
            NamedSize::L1i(size) => self.l1i = size,
            NamedSize::L1d(size) => self.l1d = size,
            NamedSize::Ll(size) => self.ll = size,
            NamedSize::Tlbs => self.tlbs = Some(tlbs()),
            NamedSize::Itlb(FirstTlb { size: itlb, page_bytes: code_page_bytes }) => {
                self.tlbs = Some(TlbHierarchy { itlb, code_page_bytes, ..tlbs() });
            }
            NamedSize::Dtlb(FirstTlb { size: dtlb, page_bytes: data_page_bytes }) => {
                self.tlbs = Some(TlbHierarchy { dtlb, data_page_bytes, ..tlbs() });
            }
            NamedSize::Stlb(stlb) => self.tlbs = Some(TlbHierarchy { stlb, ..tlbs() }),
        }
        self
    }
}

impl NamedSize {
    /// The sizes of a text, as in `D1=32768,8,64:LL=8388608,16,64:DTLB=64,4` or `TLB`.
    ///
    /// # Errors
    ///
    /// The reason why the text names no sizes.
    pub fn list(text: &str) -> Result<Vec<NamedSize>, String> {
        text.split(':').map(str::parse).collect()
    }
}

impl FromStr for NamedSize {
    type Err = String;

    fn from_str(part: &str) -> Result<NamedSize, String> {
        if part.eq_ignore_ascii_case("TLB") {
            return Ok(NamedSize::Tlbs);
        }
        let (name, size) =
            part.split_once('=').ok_or_else(|| format!("'{part}' is no NAME=SIZE,WAYS,LINE, and not TLB"))?;
        let in_name = |why| format!("{name}: {why}");
        let cache = || size.parse().map_err(in_name);
        let first_tlb = || size.parse().map_err(in_name);
        match name.to_ascii_uppercase().as_str() {
            "I1" | "L1I" => cache().map(NamedSize::L1i),
            "D1" | "L1D" => cache().map(NamedSize::L1d),
            "LL" => cache().map(NamedSize::Ll),
            "ITLB" => first_tlb().map(NamedSize::Itlb),
            "DTLB" => first_tlb().map(NamedSize::Dtlb),
            "STLB" if size.split(',').count() == 3 => {
                Err(in_name("its pages are those of ITLB and DTLB; leave the third number out".to_owned()))
            }
            "STLB" => size.parse().map(NamedSize::Stlb).map_err(in_name),
            _ => Err(format!(
                "'{name}' is no cache of the model, I1, D1 or LL, and no TLB, ITLB, DTLB or STLB"
            )),
        }
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
        write!(f, "I1={}:D1={}:LL={}", self.l1i, self.l1d, self.ll)?;
        self.tlbs.map_or(Ok(()), |tlbs| write!(f, ":{tlbs}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A usual core with the sizes of a text; TLBs that it leaves out have 16 entries.
    fn with(text: &str) -> Result<HierarchyGeometry, String> {
        let small = TlbGeometry { entries: 16, ways: 16 };
        let machine = TlbHierarchy { itlb: small, dtlb: small, stlb: small, ..TlbHierarchy::USUAL };
        Ok(HierarchyGeometry::USUAL.with(&NamedSize::list(text)?, &machine))
    }

    #[test]
    fn caches_are_named_and_the_others_stay() {
        let usual = HierarchyGeometry::USUAL;
        let named = with("d1=49152,12,64:LL=2097152,16,64").unwrap();
        assert_eq!((named.l1d.sets(), named.ll.ways, named.l1i), (64, 16, usual.l1i));
        assert_eq!(named.tlbs, None);
        assert_eq!(with(&named.to_string()), Ok(named));
    }

    #[test]
    fn tlbs_are_modelled_once_one_is_named_and_the_others_are_the_machines() {
        let tlbs = |text: &str| with(text).unwrap().tlbs.unwrap();
        assert_eq!(tlbs("tlb").to_string(), "ITLB=16,16,4096:DTLB=16,16,4096:STLB=16,16");
        let named = "DTLB=32,4,2097152:STLB=1536,12";
        assert_eq!(tlbs(named).to_string(), "ITLB=16,16,4096:DTLB=32,4,2097152:STLB=1536,12");
        assert_eq!(tlbs(&format!("{named}:TLB")), tlbs(named));
        assert_eq!((tlbs(named).stlb.sets(), tlbs("itlb=8,1").itlb.sets()), (128, 8));
        let all = with("D1=49152,12,64:DTLB=64,4").unwrap();
        assert_eq!(with(&all.to_string()), Ok(all));
    }

    #[test]
    fn sizes_that_no_cache_and_no_tlb_has_are_refused_with_the_reason() {
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
            ("TLB=64,4", "ITLB, DTLB or STLB"),
            ("L2TLB=64,4", "ITLB, DTLB or STLB"),
            ("DTLB=64", "no ENTRIES,WAYS or"),
            ("DTLB=64,4,4096,1", "no ENTRIES,WAYS or"),
            ("DTLB=64,x", "no ENTRIES,WAYS or"),
            ("ITLB=0,4", "no multiple"),
            ("ITLB=64,0", "no multiple"),
            ("ITLB=64,5", "ITLB: 64 entries are no multiple of 5 ways"),
            ("DTLB=64,4,64", "from 4096"),
            ("DTLB=64,4,4097", "from 4096"),
            ("DTLB=64,4,2147483648", "from 4096"),
            ("STLB=4294967296,4", "largest"),
            ("STLB=4096,4096", "ways are more"),
            ("STLB=1536,12,4096", "leave the third number out"),
            ("STLB=1536", "no ENTRIES,WAYS"),
        ] {
            let refused = with(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
