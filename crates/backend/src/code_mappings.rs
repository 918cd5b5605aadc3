//! The executable memory of a process that exists, as the kernel shows it.

use cyclometer_core::code_memory::CodeMapping;

/// The executable mappings of a process of our PID namespace; none where it has ended, and without `/proc`.
///
/// # Source
///
/// `proc(5)`, `/proc/PID/maps`.
pub fn code_mappings(pid: u32) -> Vec<CodeMapping> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(|line| mapping(pid, line)).collect()
}

/// A line: `start-end protection offset device inode path`, all but the path without blanks.
fn mapping(pid: u32, line: &str) -> Option<CodeMapping> {
    let mut rest = line;
    let mut field = || {
        let (field, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind.trim_start_matches(' ');
        field
    };
    let [range, protection, offset, _device, _inode] = std::array::from_fn(|_| field());
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let len = end.checked_sub(start).filter(|_| protection.contains('x') && !rest.is_empty())?;
    Some(CodeMapping { pid, start, len, offset: hexadecimal(offset)?, file: rest.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_memory_of_files_is_read_with_blanks_in_paths() {
        let line = "7f00-8f00 r-xp 00002000 fd:01 1234                       /opt/a b  (deleted)";
        let expected = CodeMapping {
            pid: 7,
            start: 0x7f00,
            len: 0x1000,
            offset: 0x2000,
            file: "/opt/a b  (deleted)".to_owned(),
        };
        assert_eq!(mapping(7, line), Some(expected));
        for none in [
            "7f00-8f00 rw-p 00002000 fd:01 1234 /opt/data",
            "7f00-8f00 rwxp 00000000 00:00 0",
            "8f00-7f00 r-xp 00002000 fd:01 1234 /opt/a",
            "7f00 r-xp 00002000 fd:01 1234 /opt/a",
            "",
        ] {
            assert_eq!(mapping(7, none), None, "{none:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_program_is_among_its_mappings() {
        let here = std::env::current_exe().unwrap();
        let mappings = code_mappings(std::process::id());
        assert!(mappings.iter().any(|mapping| mapping.file == here.to_str().unwrap()), "{mappings:?}");
        assert_eq!(code_mappings(u32::MAX >> 2), []);
    }
}
