//! Small readers on top of a fact source.

use cyclometer_core::CpuSet;

use crate::facts::FactSource;

/// A file as one trimmed word or line; `None` when it is missing or empty.
pub(crate) fn line(facts: &dyn FactSource, path: &str) -> Option<String> {
    let text = facts.read(path)?;
    let line = clean(text.lines().next().unwrap_or(""));
    (!line.is_empty()).then_some(line)
}

/// A file that holds a decimal number.
pub(crate) fn number<T: std::str::FromStr>(facts: &dyn FactSource, path: &str) -> Option<T> {
    line(facts, path)?.parse().ok()
}

/// A file that holds a CPU list.
pub(crate) fn cpu_list(facts: &dyn FactSource, path: &str) -> Option<CpuSet> {
    CpuSet::parse(&facts.read(path)?).ok()
}

/// The names in a directory that are fit to be shown.
pub(crate) fn entries(facts: &dyn FactSource, dir: &str) -> Vec<String> {
    let mut names = facts.list(dir);
    names.retain(|name| !name.is_empty() && !name.chars().any(char::is_control));
    names
}

/// A `sysctl` that is a number.
pub(crate) fn sysctl_number(facts: &dyn FactSource, name: &str) -> Option<u64> {
    integer(&facts.sysctl(name)?)
}

/// A decimal number, or a hexadecimal one behind `0x`.
pub(crate) fn integer(text: &str) -> Option<u64> {
    cyclometer_core::syntax::parse_number(text)
}

/// Text without control characters, with single blanks, at most 200 characters: fit to be shown.
pub(crate) fn clean(text: &str) -> String {
    let visible: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let joined = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    joined.chars().take(200).collect()
}

/// The value behind `key` and a colon in `/proc/cpuinfo` or `/proc/self/status` style text.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// The blocks of `/proc/cpuinfo`, one for each CPU, with the CPU's number.
pub(crate) fn cpuinfo_blocks(cpuinfo: &str) -> impl Iterator<Item = (u32, &str)> {
    cpuinfo.split("\n\n").filter_map(|block| Some((field(block, "processor")?.parse().ok()?, block)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_exact_name() {
        let text = "model name\t: Some CPU\nmodel\t\t: 94\n";
        assert_eq!(field(text, "model"), Some("94"));
        assert_eq!(field(text, "stepping"), None);
    }

    #[test]
    fn shown_text_has_no_control_characters_and_an_end() {
        assert_eq!(clean("a\x1b[31mb\0\n c"), "a [31mb c");
        assert_eq!(clean(&"x".repeat(900)).len(), 200);
    }

    #[test]
    fn blocks_of_cpuinfo_carry_their_cpu() {
        let text =
            "processor\t: 0\nCPU part\t: 0xd03\n\nprocessor\t: 4\nCPU part\t: 0xd08\n\nHardware\t: board\n";
        let parts: Vec<_> =
            cpuinfo_blocks(text).map(|(cpu, block)| (cpu, field(block, "CPU part"))).collect();
        assert_eq!(parts, [(0, Some("0xd03")), (4, Some("0xd08"))]);
    }
}
