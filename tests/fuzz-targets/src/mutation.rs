//! Changed files: the same seed and number make the same change.

/// Random numbers by xorshift64*, whose sequence depends on the seed alone.
///
/// # Source
///
/// S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016.
#[derive(Clone, Debug)]
pub struct MutationRandom(u64);

impl MutationRandom {
    /// Numbers for a change of a target's file.
    pub fn new(target: &str, seed: u64, number: u64) -> MutationRandom {
        let text = format!("{target} {seed} {number}");
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        MutationRandom(hash | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a limit; 0 where the limit is 0.
    fn below(&mut self, limit: usize) -> usize {
        self.next().checked_rem(limit as u64).unwrap_or(0) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Bytes that parsers treat in a special way.
const PIECES: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b"\"",
    b"\\",
    b"'",
    b"#",
    b":",
    b": ",
    b",",
    b"-",
    b"- ",
    b"=",
    b"&",
    b"*",
    b"<",
    b">",
    b"{",
    b"}",
    b"[",
    b"]",
    b"%s",
    b"0x",
    b"null",
    b"NaN",
    b"1e400",
    b"\x1b[2J",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xff\xff\xff\xff",
];

/// Numbers at which arithmetic overflows.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "0xffffffffffffffff",
    "1e308",
    "0.0000000000000001",
];

/// The greatest length of a changed file, in bytes.
const LONGEST: usize = 1 << 22;

/// A changed copy of a file, by one to eight changes. `others` are files of the same format.
pub fn mutated(file: &[u8], others: &[Vec<u8>], random: &mut MutationRandom) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=random.below(8) {
        change(&mut bytes, others, random);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut MutationRandom) {
    match random.below(12) {
        0 => set(bytes, |byte, random| byte ^ (1 << random.below(8)), random),
        1 => set(bytes, |_, random| random.next() as u8, random),
        2 => set(bytes, |_, random| *random.pick(&[&0, &0x7f, &0x80, &0xff, &b'\n', &b' ']), random),
        3 => drop(bytes.drain(range(bytes, random))),
        4 => repeat(bytes, random),
        5 => insert(bytes, random),
        6 => bytes.truncate(random.below(bytes.len() + 1)),
        7 => splice(bytes, others, random),
        8 => replace_number(bytes, random),
        9 => word(bytes, random),
        10 => nest(bytes, random),
        _ => swap_lines(bytes, random),
    }
}

fn set(bytes: &mut [u8], new: impl Fn(u8, &mut MutationRandom) -> u8, random: &mut MutationRandom) {
    let at = random.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte = new(*byte, random);
    }
}

/// A range of some bytes, seldom of many.
fn range(bytes: &[u8], random: &mut MutationRandom) -> std::ops::Range<usize> {
    let most = if random.below(8) == 0 { bytes.len() } else { 32 };
    let begin = random.below(bytes.len() + 1);
    begin..(begin + random.below(most + 1)).min(bytes.len())
}

/// Copies a range behind itself, once or often.
fn repeat(bytes: &mut Vec<u8>, random: &mut MutationRandom) {
    let range = range(bytes, random);
    let times = [1, 2, 16, 1024][random.below(4)].min((1 << 20) / range.len().max(1));
    let copies = bytes[range.clone()].repeat(times);
    bytes.splice(range.end..range.end, copies);
}

fn insert(bytes: &mut Vec<u8>, random: &mut MutationRandom) {
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, random.pick(PIECES).iter().copied());
}

/// Replaces a range by one of another file.
fn splice(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut MutationRandom) {
    let Some(other) = others.get(random.below(others.len())) else { return };
    let piece = other[range(other, random)].to_vec();
    let range = range(bytes, random);
    bytes.splice(range, piece);
}

/// Replaces a decimal number of the text.
fn replace_number(bytes: &mut Vec<u8>, random: &mut MutationRandom) {
    let from = random.below(bytes.len());
    let Some(begin) = (from..bytes.len()).find(|at| bytes[*at].is_ascii_digit()) else { return };
    let end = (begin..bytes.len()).find(|at| !bytes[*at].is_ascii_digit()).unwrap_or(bytes.len());
    bytes.splice(begin..end, random.pick(NUMBERS).bytes());
}

/// Replaces two, four or eight bytes by a number at which arithmetic overflows.
fn word(bytes: &mut [u8], random: &mut MutationRandom) {
    let word = [0, 1, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX][random.below(8)];
    let at = random.below(bytes.len()) & !1;
    let length = [2, 4, 8][random.below(3)];
    for (byte, new) in bytes.iter_mut().skip(at).take(length).zip(word.to_le_bytes()) {
        *byte = new;
    }
}

/// Inserts many opening brackets, as deep nesting.
fn nest(bytes: &mut Vec<u8>, random: &mut MutationRandom) {
    let opening = random.pick(&["[", "{\"a\":", "(", "<dict>", "- ", "!(", "-"]);
    let depth = [2, 100, 10_000, 100_000][random.below(4)];
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, opening.repeat(depth).into_bytes());
}

fn swap_lines(bytes: &mut Vec<u8>, random: &mut MutationRandom) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.len() > 1 {
        let (one, other) = (random.below(lines.len()), random.below(lines.len()));
        lines.swap(one, other);
        *bytes = lines.concat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_number_make_the_same_change() {
        let file = b"a 1\nb 2\n".to_vec();
        let others = vec![file.clone(), b"[c]".to_vec()];
        let changed = |seed, number| mutated(&file, &others, &mut MutationRandom::new("t", seed, number));
        assert!((0..100).all(|number| changed(1, number) == changed(1, number)));
        let different = (0..100).filter(|number| changed(1, *number) != changed(2, *number)).count();
        assert!(different > 80, "{different}");
    }

    #[test]
    fn every_kind_of_change_takes_any_file_and_stays_below_the_limit() {
        for file in [&b""[..], b"x", b"\n", b"12", &[0xff; 300]] {
            for number in 0..2000 {
                let changed = mutated(file, &[], &mut MutationRandom::new("t", 3, number));
                assert!(changed.len() <= LONGEST);
            }
        }
    }
}
