//! Paths as text, for reports and for people, from which the path comes back.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A path as text: `\\xHH` for each byte of a control character and each byte that is no UTF-8, other bytes
/// as they are. A backslash that could be taken for such an escape is escaped too: [`unescaped_path`] gives
/// the path back.
pub fn escaped_path(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| {
            let _ = write!(text, "\\x{byte:02x}");
        });
    };
    for chunk in path.utf8_chunks() {
        let mut rest = chunk.valid().chars().peekable();
        while let Some(c) = rest.next() {
            let is_escape = c == '\\' && rest.peek() == Some(&'x');
            match is_escape || c.is_control() {
                true => escape(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(c),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// A path as the list of mappings has it, as text of [`escaped_path`]. The kernel writes a line feed as
/// `\012`.
pub(super) fn escaped_of_maps(line: &[u8]) -> String {
    let mut path = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((first, behind)) = rest.split_first() {
        let line_feed = rest.strip_prefix(br"\012").map(|behind| (b'\n', behind));
        let (byte, behind) = line_feed.unwrap_or((*first, behind));
        path.push(byte);
        rest = behind;
    }
    escaped_path(&path)
}

/// The path that a text of [`escaped_path`] is of.
pub fn unescaped_path(text: &str) -> PathBuf {
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (mut path, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let escaped =
            rest.strip_prefix(b"\\x").and_then(|digits| Some((byte(digits.get(..2)?)?, &digits[2..])));
        let (byte, behind) = escaped.unwrap_or((*first, behind));
        path.push(byte);
        rest = behind;
    }
    OsString::from_vec(path).into()
}

/// Where a path of a process, as text of [`escaped_path`], leads to.
pub(super) fn path_in_root(pid: u32, text: &str) -> PathBuf {
    let mut path = OsString::from(format!("/proc/{pid}/root"));
    path.push(unescaped_path(text));
    path.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn path_bytes(text: &str) -> Vec<u8> {
        unescaped_path(text).as_os_str().as_bytes().to_vec()
    }

    #[test]
    fn a_path_is_readable_as_text_and_comes_back() {
        for (path, text) in [
            (&b"/usr/bin/true"[..], "/usr/bin/true"),
            ("/tmp/ä b".as_bytes(), "/tmp/ä b"),
            (b"/tmp/\xff\x1b[31m", "/tmp/\\xff\\x1b[31m"),
            (b"/a\nb", "/a\\x0ab"),
            (b"/a\\x41", "/a\\x5cx41"),
            (b"/a\\b\\", "/a\\b\\"),
            (b"", ""),
        ] {
            assert_eq!(escaped_path(path), text);
            assert_eq!(path_bytes(text), path);
        }
        assert_eq!(escaped_of_maps(br"/a\012b\x"), r"/a\x0ab\x5cx");
        assert_eq!(path_bytes("\\x\\xg0\\x1"), b"\\x\\xg0\\x1", "no escape of ours");
        for first in 0..=u8::MAX {
            for second in [0, b'x', b'\\', 0x80, 0xc3, 0xff] {
                let path = [b'/', first, second, b'x'];
                let text = escaped_path(&path);
                assert_eq!(path_bytes(&text), path, "{text}");
                assert!(!text.chars().any(char::is_control), "{text}");
            }
        }
    }
}
