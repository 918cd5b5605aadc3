//! The beginning and the end of a text that may be endless.

use std::collections::VecDeque;

/// How many bytes of the beginning are kept.
const HEAD_BYTES: usize = 2048;

/// How many bytes of the end are kept.
const TAIL_BYTES: usize = 6144;

/// The beginning and the end of a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
}

impl Excerpt {
    /// Adds bytes; those between the beginning and the end are forgotten.
    pub fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend(head);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.omitted_bytes += surplus as u64;
    }

    /// How many bytes between the beginning and the end are missing.
    pub fn omitted_bytes(&self) -> u64 {
        self.omitted_bytes
    }

    /// The text, with a note where bytes are missing. Control characters other than line breaks and tabs are
    /// escaped, and invalid Unicode is replaced.
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail).into_owned());
        match self.omitted_bytes {
            // A character may have been divided between the two.
            0 => visible(&String::from_utf8_lossy(&[&self.head[..], &Vec::from(self.tail.clone())].concat())),
            omitted => format!("{}\n[… {omitted} bytes left out …]\n{}", visible(&head), visible(&tail)),
        }
    }
}

fn visible(text: &str) -> String {
    let is_shown = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().flat_map(|c| if is_shown(c) { vec![c] } else { c.escape_default().collect() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(pieces: &[&[u8]]) -> Excerpt {
        let mut excerpt = Excerpt::default();
        pieces.iter().for_each(|piece| excerpt.add(piece));
        excerpt
    }

    #[test]
    fn a_short_text_is_whole_however_it_arrives() {
        let text = "ü".repeat(HEAD_BYTES);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
        assert_eq!(excerpt(&pieces).text(), text);
        assert_eq!(excerpt(&[text.as_bytes()]).omitted_bytes(), 0);
    }

    #[test]
    fn a_long_text_has_its_beginning_its_end_and_a_note() {
        let mut all = excerpt(&[b"begin"]);
        for _ in 0..1000 {
            all.add(&[b'x'; 1000]);
        }
        all.add(b"end");
        let text = all.text();
        assert!(text.starts_with("begin") && text.ends_with("end"), "{text}");
        let omitted = 1_000_008 - (HEAD_BYTES + TAIL_BYTES) as u64;
        assert_eq!(all.omitted_bytes(), omitted);
        assert!(text.contains(&format!("[… {omitted} bytes left out …]")), "{text}");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(excerpt(&[b"a\x1b[2J\tb\r\n\xff"]).text(), "a\\u{1b}[2J\tb\\r\n\u{fffd}");
    }
}
