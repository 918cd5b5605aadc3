//! Precision and recall.

/// Things that were wanted and things that were found.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) wanted: usize,
    pub(crate) found: usize,
    /// Found ones that were wanted.
    pub(crate) right: usize,
}

impl Found {
    pub(crate) fn count(&mut self, is_wanted: bool, is_found: bool) {
        self.add(Found {
            wanted: is_wanted.into(),
            found: is_found.into(),
            right: (is_wanted && is_found).into(),
        });
    }

    pub(crate) fn add(&mut self, other: Found) {
        self.wanted += other.wanted;
        self.found += other.found;
        self.right += other.right;
    }

    /// The share of what was wanted that was found, 1 if nothing was wanted.
    pub(crate) fn recall(self) -> f64 {
        if self.wanted == 0 { 1.0 } else { self.right as f64 / self.wanted as f64 }
    }

    /// The share of what was found that was wanted, 1 if nothing was found.
    pub(crate) fn precision(self) -> f64 {
        if self.found == 0 { 1.0 } else { self.right as f64 / self.found as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_and_recall_are_shares_of_what_was_found_and_wanted() {
        let mut found = Found::default();
        for (wanted, is_found) in [(true, true), (true, false), (false, true), (false, false), (false, true)]
        {
            found.count(wanted, is_found);
        }
        assert_eq!(found, Found { wanted: 2, found: 3, right: 1 });
        assert_eq!((found.recall(), found.precision()), (0.5, 1.0 / 3.0));
        assert_eq!((Found::default().recall(), Found::default().precision()), (1.0, 1.0));
    }
}
