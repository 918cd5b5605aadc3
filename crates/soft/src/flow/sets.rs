//! Disjoint sets of points.

/// Sets that can be joined but not split.
///
/// # Source
///
/// R. E. Tarjan, J. van Leeuwen: Worst-case analysis of set union algorithms, J. ACM 31 (1984): union by size, path
/// halving.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    parent: Vec<u32>,
    size: Vec<u32>,
}

impl Sets {
    pub(super) fn new(count: u32) -> Sets {
        Sets { parent: (0..count).collect(), size: vec![1; count as usize] }
    }

    pub(super) fn len(&self) -> usize {
        self.parent.len()
    }

    /// Adds points, each a set of its own.
    pub(super) fn grow(&mut self, count: u32) {
        let first = self.parent.len() as u32;
        self.parent.extend(first..first + count);
        self.size.resize(self.parent.len(), 1);
    }

    /// The point that stands for the set.
    pub(super) fn find(&mut self, mut point: u32) -> u32 {
        while self.parent[point as usize] != point {
            let above = self.parent[point as usize];
            self.parent[point as usize] = self.parent[above as usize];
            point = above;
        }
        point
    }

    /// Joins two sets; false where they were one already.
    pub(super) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return false;
        }
        let (small, large) = if self.size[a as usize] < self.size[b as usize] { (a, b) } else { (b, a) };
        self.parent[small as usize] = large;
        self.size[large as usize] += self.size[small as usize];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_points_are_one_set_and_new_ones_are_alone() {
        let mut sets = Sets::new(3);
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
