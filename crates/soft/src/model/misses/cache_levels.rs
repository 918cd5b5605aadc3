//! The levels of a modelled cache: a first one, whose hits are fast, and a last one, which takes little
//! memory.

use super::CacheSize;

/// The result of a look-up in a cache or a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Lookup {
    Hit,
    Unknown,
    Miss,
}

/// The size of a cache, for the arithmetic of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheShape {
    pub(super) size: CacheSize,
    pub(super) line_bits: u32,
    /// One less than the number of sets, where that is a power of two.
    mask: Option<u64>,
}

impl CacheShape {
    fn of(size: CacheSize) -> CacheShape {
        let mask = size.sets.is_power_of_two().then(|| size.sets - 1);
        CacheShape { size, line_bits: size.line_bytes.trailing_zeros(), mask }
    }

    /// The number of lines.
    fn lines(&self) -> usize {
        usize::try_from(self.size.sets).unwrap_or(0) * self.size.ways
    }

    /// The set of a line.
    pub(super) fn set_of(&self, line: u64) -> usize {
        let set = match self.mask {
            Some(mask) => line & mask,
            None => line % self.size.sets,
        };
        set as usize
    }

    /// The first and the last line of some bytes.
    #[inline(always)]
    pub(super) fn lines_of(&self, address: u64, bytes: u64) -> (u64, u64) {
        (address >> self.line_bits, address.wrapping_add(bytes - 1) >> self.line_bits)
    }
}

/// Guesses of a first cache: a power of two.
pub(super) const GUESSES: usize = 2048;

/// A first cache. Most of its accesses hit, so a hit is what is fast: a table guesses the place of the line,
/// and the place notes the time.
#[derive(Debug)]
pub(super) struct FirstCache {
    pub(super) shape: CacheShape,
    /// For each set the places of its lines. The least recent one is replaced.
    pub(super) places: Vec<CachePlace>,
    /// The place of the last line with these lower bits; any place may be wrong.
    pub(super) guesses: Box<[u16; GUESSES]>,
    /// The number of accesses so far.
    pub(super) clock: u64,
    /// Whether the cache was empty when the program began.
    is_from_the_start: bool,
}

/// A place for a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachePlace {
    line: u64,
    /// The time of its last access; 0: it has no line.
    accessed: u64,
}

impl CachePlace {
    /// A line has 16 bytes at least, so no line has this number.
    const EMPTY: CachePlace = CachePlace { line: u64::MAX, accessed: 0 };
}

impl FirstCache {
    pub(super) fn new(size: CacheSize) -> FirstCache {
        let shape = CacheShape::of(size);
        FirstCache {
            shape,
            places: vec![CachePlace::EMPTY; shape.lines()],
            guesses: Box::new([0; GUESSES]),
            clock: 0,
            is_from_the_start: true,
        }
    }

    pub(super) fn forget(&mut self) {
        self.places.fill(CachePlace::EMPTY);
        self.is_from_the_start = false;
    }

    /// Accesses bytes that lie in one line or in two.
    #[inline(always)]
    pub(super) fn access(&mut self, address: u64, bytes: u64) -> Lookup {
        let (first, last) = self.shape.lines_of(address, bytes);
        let found = self.access_line(first);
        match first == last {
            true => found,
            false => found.max(self.access_line(last)),
        }
    }

    #[inline(always)]
    pub(super) fn access_line(&mut self, line: u64) -> Lookup {
        if self.is_guessed(line) { Lookup::Hit } else { self.search(line) }
    }

    /// Accesses a line if the table guesses its place.
    #[inline(always)]
    fn is_guessed(&mut self, line: u64) -> bool {
        let is_hit = access_guessed(&self.guesses, &mut self.places, line, self.clock + 1);
        self.clock += u64::from(is_hit);
        is_hit
    }

    /// Accesses a line whose place is not known.
    #[inline(never)]
    fn search(&mut self, line: u64) -> Lookup {
        let start = self.shape.set_of(line) * self.shape.size.ways;
        let set = &mut self.places[start..start + self.shape.size.ways];
        let (mut oldest, mut first, mut found) = (0, u64::MAX, None);
        for (way, place) in set.iter().enumerate() {
            if place.accessed < first {
                (oldest, first) = (way, place.accessed);
            }
            if place.line == line {
                found = Some(way);
            }
        }
        let way = found.unwrap_or(oldest);
        let was_empty = set[way].accessed == 0;
        self.clock += 1;
        set[way] = CachePlace { line, accessed: self.clock };
        // A place beyond 65,535 is never guessed: another one is, which has another line.
        self.guesses[line as usize % GUESSES] = (start + way) as u16;
        match found {
            Some(_) => Lookup::Hit,
            // The first window begins with an empty cache.
            None if was_empty && !self.is_from_the_start => Lookup::Unknown,
            None => Lookup::Miss,
        }
    }
}

/// Accesses a line at a time if the table guesses its place. It may be in the cache otherwise; then nothing
/// changes.
#[inline(always)]
pub(super) fn access_guessed(
    guesses: &[u16; GUESSES],
    places: &mut [CachePlace],
    line: u64,
    clock: u64,
) -> bool {
    let guess = guesses[line as usize % GUESSES];
    let Some(place) = places.get_mut(usize::from(guess)).filter(|place| place.line == line) else {
        return false;
    };
    place.accessed = clock;
    true
}

/// The last level, which is large and accessed rarely: what counts is how much memory of ours an access
/// needs.
#[derive(Debug)]
pub(super) struct LastCache {
    pub(super) shape: CacheShape,
    /// For each set its most recent line plus one; 0: none. Memory that is not written takes no time.
    recent: Vec<u64>,
    /// The other lines of each set in the same form, the most recent first.
    others: Vec<u64>,
    is_from_the_start: bool,
}

impl LastCache {
    pub(super) fn new(size: CacheSize) -> LastCache {
        let shape = CacheShape::of(size);
        let sets = usize::try_from(size.sets).unwrap_or(0);
        LastCache {
            shape,
            recent: vec![0; sets],
            others: vec![0; shape.lines() - sets],
            is_from_the_start: true,
        }
    }

    pub(super) fn forget(&mut self) {
        self.recent.fill(0);
        self.others.fill(0);
        self.is_from_the_start = false;
    }

    pub(super) fn access(&mut self, address: u64, bytes: u64) -> Lookup {
        let (first, last) = self.shape.lines_of(address, bytes);
        let found = self.access_line(first);
        match first == last {
            true => found,
            false => found.max(self.access_line(last)),
        }
    }

    fn access_line(&mut self, line: u64) -> Lookup {
        self.access_tag(self.shape.set_of(line), line + 1)
    }

    /// Accesses an entry of a set. Its tag is not 0.
    pub(super) fn access_tag(&mut self, set: usize, tag: u64) -> Lookup {
        let mut moved = std::mem::replace(&mut self.recent[set], tag);
        if moved == tag {
            return Lookup::Hit;
        }
        let others = self.shape.size.ways - 1;
        for held in &mut self.others[set * others..(set + 1) * others] {
            // Lines are moved up to the one that was accessed, or to the first free place.
            if moved == 0 {
                break;
            }
            std::mem::swap(held, &mut moved);
            if moved == tag {
                return Lookup::Hit;
            }
        }
        // The set was not full if nothing had to leave it. The first window begins with an empty cache.
        if moved == 0 && !self.is_from_the_start { Lookup::Unknown } else { Lookup::Miss }
    }
}
