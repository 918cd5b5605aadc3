//! Disjoint sets of points.

/// Sets that can be joined but not split.
///
/// # Source
///
/// R. E. Tarjan, J. van Leeuwen: Worst-case analysis of set union algorithms, J. ACM 31 (1984): union by
/// size, path halving.
#[derive(Clone, Debug)]
pub(super) struct DisjointSets {
    /// For each point its parent; for a root, the size of its set below zero.
    above: Vec<i32>,
}

impl DisjointSets {
    pub(super) fn new(count: u32) -> DisjointSets {
        DisjointSets { above: vec![-1; count as usize] }
    }

    /// The parent of each point, for [`DisjointSets::with`].
    pub(super) fn as_numbers(&self) -> &[i32] {
        &self.above
    }

    pub(super) fn with(numbers: Vec<i32>) -> DisjointSets {
        DisjointSets { above: numbers }
    }

    pub(super) fn len(&self) -> usize {
        self.above.len()
    }

    /// Adds points, each a set of its own.
    pub(super) fn grow(&mut self, count: u32) {
        self.above.extend(std::iter::repeat_n(-1, count as usize));
    }

    /// The point that stands for the set.
    pub(super) fn find(&mut self, mut point: u32) -> u32 {
        loop {
            let above = self.above[point as usize];
            if above < 0 {
                return point;
            }
            let further = self.above[above as usize];
            if further < 0 {
                return above.cast_unsigned();
            }
            self.above[point as usize] = further;
            point = further.cast_unsigned();
        }
    }

    /// Joins two sets; false where they were one already.
    pub(super) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return false;
        }
        let (size_a, size_b) = (self.above[a as usize], self.above[b as usize]);
        // Sizes are below zero: the smaller set has the greater number.
        let (small, large) = if size_a > size_b { (a, b) } else { (b, a) };
        self.above[large as usize] = size_a + size_b;
        self.above[small as usize] = large.cast_signed();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_points_are_one_set_and_new_ones_are_alone() {
        let mut sets = DisjointSets::new(3);
        assert!(sets.join(0, 1));
        assert!(!sets.join(1, 0));
        sets.grow(1);
        assert_eq!(sets.len(), 4);
        assert_eq!(sets.find(0), sets.find(1));
        assert_ne!(sets.find(3), sets.find(0));
        assert!(sets.join(3, 1) && sets.join(2, 3));
        assert_eq!(sets.find(2), sets.find(0));
    }
}
