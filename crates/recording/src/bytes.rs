//! Numbers and texts within a frame.

/// A contradiction to the format.
pub(crate) type Contradiction = &'static str;

const ENDS_EARLY: Contradiction = "it ends within a value";

/// Appends a number in groups of seven bits, lowest first; all but the last have the bit 0x80.
///
/// # Source
///
/// LEB128: DWARF 5, section 7.6.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference to an earlier value, modulo 2^64; small ones of either sign are short.
pub(crate) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from) as i64;
    put_number(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// The rest of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameBytes<'a>(pub(crate) &'a [u8]);

impl<'a> FrameBytes<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, Contradiction> {
        let (first, rest) = self.0.split_first().ok_or(ENDS_EARLY)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], Contradiction> {
        let length = usize::try_from(length).map_err(|_| ENDS_EARLY)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ENDS_EARLY)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Contradiction> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    pub(crate) fn number_u32(&mut self) -> Result<u32, Contradiction> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits")
    }

    /// The value that differs from an earlier one by the next number.
    pub(crate) fn differing_from(&mut self, from: u64) -> Result<u64, Contradiction> {
        let coded = self.number()?;
        Ok(from.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg()))
    }
}

/// The longest beginning of a text that has at most so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_differences_are_read_as_they_were_written() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, value);
            put_difference(&mut out, value, 5);
            put_difference(&mut out, 5, value);
            let mut bytes = FrameBytes(&out);
            assert_eq!(bytes.number(), Ok(value));
            assert_eq!(bytes.differing_from(value), Ok(5));
            assert_eq!(bytes.differing_from(5), Ok(value));
            assert!(bytes.0.is_empty());
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        assert_eq!(FrameBytes(&[0xff; 9]).number(), Err(ENDS_EARLY));
        let mut long = [0xff; 10];
        assert!(FrameBytes(&long).number().is_err());
        long[9] = 2;
        assert!(FrameBytes(&long).number().is_err());
        long[9] = 1;
        assert_eq!(FrameBytes(&long).number(), Ok(u64::MAX));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aöb", 2), "a");
        assert_eq!(cut("aöb", 3), "aö");
        assert_eq!(cut("aöb", 9), "aöb");
    }
}
