//! The counters of an event: `0,1,2,3`, or `Fixed counter 1`.

use cyclometer_core::CounterMask;

use super::Form;
use crate::error::ImportResult;
use crate::json::{JsonRecord, shown};

/// One past the greatest number of a general counter.
const GENERAL: u8 = 32;

/// One past the greatest number of a fixed counter.
///
/// # Source
///
/// Intel SDM volume 3, IA32_FIXED_CTR_CTRL: 16 fields of 4 bits.
pub(super) const FIXED: u8 = 16;

/// The counters that the field `Counter` names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NamedCounters {
    /// Numbers of general counters, in the order of the file.
    pub general: Vec<u8>,
    /// The number behind `Fixed counter`, as the file has it.
    pub fixed: Option<u8>,
}

impl NamedCounters {
    /// The general counters.
    pub fn mask(&self) -> CounterMask {
        CounterMask::from_bits(self.general.iter().fold(0, |mask, &n| mask | 1 << n), 0)
    }
}

/// Reads the field.
///
/// # Errors
///
/// A text that is no counter, two fixed ones, and no counter at all unless no event of the file names one.
pub(super) fn named(record: &JsonRecord<'_>, form: Form) -> ImportResult<NamedCounters> {
    let mut named = NamedCounters::default();
    for item in record.text("Counter")?.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (fixed, number) = match item.to_ascii_lowercase().strip_prefix("fixed counter") {
            Some(number) => (true, number.trim().to_owned()),
            None => (false, item.to_owned()),
        };
        let most = if fixed { FIXED } else { GENERAL };
        match number.parse().ok().filter(|&n: &u8| n <= most && (fixed || n < most)) {
            Some(_) if fixed && named.fixed.is_some() => {
                return Err(record.error("Counter", "names two fixed counters"));
            }
            Some(n) if fixed => named.fixed = Some(n),
            Some(n) => named.general.push(n),
            None => return Err(record.error("Counter", format!("'{}' is no counter", shown(item)))),
        }
    }
    if form != Form::LinuxUncounted && named == NamedCounters::default() {
        return Err(record.error("Counter", "is missing"));
    }
    Ok(named)
}
