//! Sizes of TLBs, as models of them take them.

use std::fmt;
use std::str::FromStr;

/// The size of a TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlbGeometry {
    /// Its entries: each has a page.
    pub entries: u64,
    /// The entries of a set; all of them where it is fully associative.
    pub ways: u64,
}

/// The TLBs of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlbHierarchy {
    /// The first level's TLB of instructions.
    pub itlb: TlbGeometry,
    /// The first level's TLB of data.
    pub dtlb: TlbGeometry,
    /// The second level, of both.
    pub stlb: TlbGeometry,
    /// Bytes of a page of code, a power of two.
    pub code_page_bytes: u64,
    /// Bytes of a page of data, a power of two.
    pub data_page_bytes: u64,
}

/// A size of [`TlbGeometry`] and, for a first level, that of its pages in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstTlb {
    /// The TLB.
    pub size: TlbGeometry,
    /// Bytes of a page, a power of two.
    pub page_bytes: u64,
}

/// Bytes of the smallest page, which all pages of a program have unless others are requested.
pub const SMALL_PAGE: u64 = 4096;

/// Bytes of the largest page.
const LARGEST_PAGE: u64 = 1 << 30;

/// The most entries of a modelled TLB: a model needs memory for each.
const MOST_ENTRIES: u64 = 1 << 20;

/// The most ways of a modelled TLB: each look-up goes through them.
const MOST_WAYS: u64 = 1024;

impl TlbGeometry {
    /// A size.
    ///
    /// # Errors
    ///
    /// The reason why no TLB has it.
    pub fn new(entries: u64, ways: u64) -> Result<TlbGeometry, String> {
        if entries > MOST_ENTRIES {
            return Err(format!("{entries} entries are more than the largest modelled TLB, {MOST_ENTRIES}"));
        }
        if ways > MOST_WAYS {
            return Err(format!("{ways} ways are more than a modelled TLB has, {MOST_WAYS}"));
        }
        match entries > 0 && ways > 0 && entries.is_multiple_of(ways) {
            true => Ok(TlbGeometry { entries, ways }),
            false => Err(format!("{entries} entries are no multiple of {ways} ways")),
        }
    }

    /// The number of sets.
    pub fn sets(self) -> u64 {
        self.entries / self.ways
    }
}

impl TlbHierarchy {
    /// Sizes of a usual core, where those of the machine are unknown.
    ///
    /// # Source
    ///
    /// Intel 64 and IA-32 Architectures Optimization Reference Manual, "TLB Parameters of the Skylake
    /// Microarchitecture", for pages of 4 KiB.
    pub const USUAL: TlbHierarchy = TlbHierarchy {
        itlb: TlbGeometry { entries: 128, ways: 8 },
        dtlb: TlbGeometry { entries: 64, ways: 4 },
        stlb: TlbGeometry { entries: 1536, ways: 12 },
        code_page_bytes: SMALL_PAGE,
        data_page_bytes: SMALL_PAGE,
    };
}

impl FromStr for TlbGeometry {
    type Err = String;

    /// `ENTRIES,WAYS`, as in `1536,12`.
    fn from_str(text: &str) -> Result<TlbGeometry, String> {
        let form = || format!("'{text}' is no ENTRIES,WAYS, as in 1536,12");
        let (entries, ways) = text.split_once(',').ok_or_else(form)?;
        let number = |text: &str| text.parse().map_err(|_| form());
        TlbGeometry::new(number(entries)?, number(ways)?)
    }
}

impl FromStr for FirstTlb {
    type Err = String;

    /// `ENTRIES,WAYS` or `ENTRIES,WAYS,PAGE` with the bytes of a page, as in `32,4,2097152`.
    fn from_str(text: &str) -> Result<FirstTlb, String> {
        let form = || format!("'{text}' is no ENTRIES,WAYS or ENTRIES,WAYS,PAGE, as in 64,4");
        let numbers: Option<Vec<u64>> = text.split(',').map(|number| number.parse().ok()).collect();
        let (entries, ways, page_bytes) = match numbers.ok_or_else(form)?[..] {
            [entries, ways] => (entries, ways, SMALL_PAGE),
            [entries, ways, page] => (entries, ways, page),
            _ => return Err(form()),
        };
        if !page_bytes.is_power_of_two() || !(SMALL_PAGE..=LARGEST_PAGE).contains(&page_bytes) {
            return Err(format!(
                "a page of {page_bytes} bytes is no power of two from {SMALL_PAGE} to {LARGEST_PAGE}"
            ));
        }
        Ok(FirstTlb { size: TlbGeometry::new(entries, ways)?, page_bytes })
    }
}

impl fmt::Display for TlbGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.entries, self.ways)
    }
}

/// As the text that names it.
impl fmt::Display for TlbHierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TlbHierarchy { itlb, dtlb, stlb, code_page_bytes, data_page_bytes } = self;
        write!(f, "ITLB={itlb},{code_page_bytes}:DTLB={dtlb},{data_page_bytes}:STLB={stlb}")
    }
}
